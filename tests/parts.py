"""Real programs that tests run against: found, or missed loudly."""

from __future__ import annotations

import os
import shutil

import pytest


def need(program: str, package: str) -> str:
    """Path of a program; without it the test fails in CI and is skipped with the package's name elsewhere."""
    path = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if path is None:
        message = f"{program} is missing: install the Debian package {package}"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return path
