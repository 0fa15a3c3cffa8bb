"""Real programs that tests run against: found, or missed loudly."""

from __future__ import annotations

import os
import re
import shutil
from functools import cache

import pytest

from tests.sources import ROOT

ESSENTIAL = {"util-linux"}  # Debian's own word for what every machine has


@cache
def installed() -> set[str]:
    """Debian packages that `make test` installs as root."""
    listed = re.search(r'^packages="([^"]+)"$', (ROOT / "tools" / "parts.sh").read_text(encoding="utf-8"), re.MULTILINE)
    assert listed, "tools/parts.sh names no packages"
    return set(listed[1].split())


def need(program: str, package: str) -> str:
    """Path of a program; without it the test fails in CI and is skipped with the package's name elsewhere."""
    assert package in installed() | ESSENTIAL, f"tools/parts.sh does not install {package}, which brings {program}"
    path = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if path is None:
        message = f"{program} is missing: install the Debian package {package}"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return path
