"""tools/stack.sh: Docker Compose is checked before docker-compose.yml is run with it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from pipeline import child
from tests.parts import need
from tests.sources import ROOT
from tests.wait import PATIENCE_S

SCRIPT = ROOT / "tools" / "stack.sh"
COMPOSE_FILE = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
OLDEST = re.findall(r"^x-compose-min-version: (.+)$", COMPOSE_FILE, re.MULTILINE)[0]


def stack(folder: Path, version: str, *arguments: str, **environ: str) -> child.Finished:
    """Run the script with a `docker` that prints a version and, of other calls, its arguments.

    An empty version is a Docker without Compose.
    """
    docker = folder / "docker"
    docker.write_text(
        f'#!/bin/sh\n[ -n "{version}" ] || exit 125\n'
        f'[ "$2" = version ] && echo "{version}" || echo "$@ in $PWD"\n',
        encoding="utf-8",
    )
    docker.chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    return child.run([str(SCRIPT), *arguments], timeout_s=PATIENCE_S, env={"PATH": path, **environ})


@pytest.mark.slow
@pytest.mark.parametrize(
    "version", [OLDEST, f"v{OLDEST}", "2.40.3-3", "2.100.0-desktop.1", "5.0.1"]
)
def test_a_version_that_is_new_enough_runs_the_stack(tmp_path: Path, version: str) -> None:
    """`up --build`, in the repository, whatever suffix a distribution gives the version."""
    ended = stack(tmp_path, version)
    assert (ended.returncode, ended.stdout.decode()) == (0, f"compose up --build in {ROOT}\n")


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.29.2", "2.9.0", "v2.26.0-desktop.2"])
def test_an_older_version_is_refused(tmp_path: Path, version: str) -> None:
    """One line names the version found, the one needed and the page; nothing is started."""
    ended = stack(tmp_path, version)
    assert (ended.returncode, ended.stdout) == (1, b"")
    assert ended.stderr.decode() == (
        f"'docker compose' is version {version.removeprefix('v')}: "
        f"docker-compose.yml needs Docker Compose {OLDEST} or newer (docs/compose.md)\n"
    )


@pytest.mark.slow
def test_a_missing_compose_is_reported(tmp_path: Path) -> None:
    """Docker without its plugin, or another command that does not exist, is named."""
    for environ in ({}, {"COMPOSE": "no-such-compose"}):
        ended = stack(tmp_path, "", **environ)
        assert ended.returncode == 1
        named = environ.get("COMPOSE", "docker compose")
        assert ended.stderr.decode().startswith(f"'{named}' is not installed: ")


@pytest.mark.slow
def test_other_compose_commands_are_passed_on(tmp_path: Path) -> None:
    """`stack.sh down --volumes` is Compose's own."""
    ended = stack(tmp_path, OLDEST, "down", "--volumes")
    assert ended.stdout.decode() == f"compose down --volumes in {ROOT}\n"


@pytest.mark.integration
def test_shellcheck_finds_nothing() -> None:
    """The script is POSIX sh."""
    found = child.run([need("shellcheck", "shellcheck"), str(SCRIPT)], timeout_s=PATIENCE_S)
    assert (found.returncode, found.stdout.decode()) == (0, "")
