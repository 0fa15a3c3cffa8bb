"""What continuous integration runs: the tests decide, the audit of dependencies only reports."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.sources import ROOT
from tests.wait import PATIENCE_S


@pytest.fixture
def make(tmp_path: Path) -> Path:
    """A checkout with .ci/run alone, and a `make` that does what the lines of a
    file say for each target.
    """
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci")
    program = tmp_path / "make"
    program.write_text('#!/bin/sh\necho "made $1" >>made\n. "./$1"\n')
    program.chmod(0o755)
    return tmp_path


def ci(folder: Path, *, test: str, audit: str, seconds: str = "60") -> tuple[int, list[str]]:
    """Exit code, and which targets were made, when `make test` and `make audit`
    run these lines of shell.
    """
    (folder / "test").write_text(test)
    (folder / "audit").write_text(audit)
    environ = {"PATH": f"{folder}:/usr/bin:/bin", "AUDIT_SECONDS": seconds}
    ran = subprocess.run(
        [folder / ".ci" / "run"], env=environ, capture_output=True, timeout=PATIENCE_S, check=False
    )
    return ran.returncode, (folder / "made").read_text().splitlines()


@pytest.mark.slow
def test_tests_that_fail_fail_the_run(make: Path) -> None:
    """Whatever the code."""
    assert ci(make, test="exit 2", audit="exit 0")[0] == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("audit", "seconds"), [("exit 1", "60"), ("sleep 60", "0.1")], ids=["fails", "hangs"]
)
def test_an_audit_that_fails_or_hangs_does_not(make: Path, audit: str, seconds: str) -> None:
    """It is made after the tests, without a network or with one that never answers."""
    assert ci(make, test="exit 0", audit=audit, seconds=seconds) == (0, ["made test", "made audit"])
