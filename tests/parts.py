"""Real programs that tests run against: found, or missed loudly."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from functools import cache
from typing import NoReturn

import pytest

from tests.sources import ROOT

NEWER = ROOT / ".parts"  # what tools/newer_parts.sh fetches, one folder per package
PROGRAMS = ("usr/bin", "usr/sbin", "usr/libexec/docker/cli-plugins")
ESSENTIAL = {"util-linux"}  # Debian's own word for what every machine has


@cache
def listed(script: str) -> set[str]:
    """Debian packages that a script of tools/ brings; `make test` runs it."""
    said = re.search(
        r'^packages="([^"]+)"$', (ROOT / "tools" / script).read_text(encoding="utf-8"), re.MULTILINE
    )
    assert said, f"tools/{script} names no packages"
    return set(said[1].split())


def missing(message: str) -> NoReturn:
    """Fail in CI and skip elsewhere: this machine lacks what a test runs against."""
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


def need(program: str, package: str) -> str:
    """Path of a program; without it the test fails in CI and is skipped with the
    package's name elsewhere.
    """
    assert package in listed("parts.sh") | ESSENTIAL, (
        f"tools/parts.sh does not install {package}, which brings {program}"
    )
    path = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if path is None:
        missing(f"{program} is missing: install the Debian package {package}")
    return path


def newer(program: str, package: str) -> str:
    """The same as Debian's development release has it; without it the test is skipped, even in CI:
    no mirror owes us that release.
    """
    assert package in listed("newer_parts.sh"), (
        f"tools/newer_parts.sh does not fetch {package}, which brings {program}"
    )
    found = [path for folder in PROGRAMS for path in NEWER.glob(f"*/{folder}/{program}")]
    if not found:
        pytest.skip(
            f"no newer {program}: sh tools/newer_parts.sh fetches {package} where the mirror has it"
        )
    return str(found[0])


def fetched(program: str, folder: str) -> str:
    """A program that tools/helm_parts.sh takes from a wheel of PyPI, checked by hash; without it
    the test fails in CI and is skipped elsewhere.
    """
    path = NEWER / folder / "usr/bin" / program
    if not path.exists():
        missing(f"no {folder}: sh tools/helm_parts.sh fetches it from PyPI")
    return str(path)


def built(program: str, script: str) -> str:
    """A program that a script of tools/ compiles, which takes minutes: without it the test is
    skipped, even in CI.
    """
    path = NEWER / program / "usr/bin" / program
    if not path.exists():
        pytest.skip(f"no {program}: sh tools/{script} builds it in four minutes")
    return str(path)


Part = Callable[[str, str], str]
# what we support: from the one to the other
VERSIONS: dict[str, Part] = {"oldest": need, "newer": newer}
