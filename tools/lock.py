"""Writes the hash-locked requirements from pyproject.toml: `make lock`.

requirements.txt is what the agent runs on and what installs the project itself;
requirements-dev.txt adds what tests and checks need; requirements-audit.txt is what looks for known
vulnerabilities in the first. Every file of a release is hashed, so one lock serves all Python
versions and machines. The lock names no index: it is the installing machine's business where files
come from.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
HEADER = """\
# Written by `make lock` from pyproject.toml: edit that, not this.
# Every file of each release is hashed (all platforms); pip refuses anything else.
"""


def wanted(pyproject: dict[str, Any], groups: tuple[str, ...]) -> list[str]:
    """Requirement lines of the named dependency groups."""
    return [
        line
        for group in groups
        for line in pyproject["dependency-groups"][group]
        if isinstance(line, str)
    ]


def compile_lock(lines: list[str], output: Path, *, constraint: Path | None, upgrade: bool) -> None:
    """Pin and hash the lines into a file; what is pinned there already stays, unless
    an upgrade is asked for.
    """
    # pip-compile names its input in comments and in relative paths: give both a plain name.
    source = output.with_suffix(".in")
    source.write_text(
        "\n".join([*lines, *([f"-c {constraint.name}"] if constraint else [])]) + "\n"
    )
    command = [
        sys.executable,
        "-m",
        "piptools",
        "compile",
        "--quiet",
        "--generate-hashes",
        "--allow-unsafe",
        "--strip-extras",
    ]
    command += [
        "--no-header",
        "--no-emit-index-url",
        "--no-emit-find-links",
        "--no-emit-trusted-host",
        "--no-annotate",
    ]
    command += [
        "--resolver=backtracking",
        *(["--upgrade"] if upgrade else []),
        "--output-file",
        output.name,
        source.name,
    ]
    try:
        subprocess.run(command, cwd=ROOT, check=True)
    finally:
        source.unlink()
    output.write_text(HEADER + output.read_text())


def main() -> None:
    """Write the files."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    upgrade = "--upgrade" in sys.argv[1:]
    base, dev, audit = (ROOT / f"requirements{name}.txt" for name in ("", "-dev", "-audit"))
    runs = list(pyproject["project"]["dependencies"])
    compile_lock(runs + wanted(pyproject, ("build",)), base, constraint=None, upgrade=upgrade)
    compile_lock(runs + wanted(pyproject, ("build", "dev")), dev, constraint=base, upgrade=upgrade)
    compile_lock(wanted(pyproject, ("audit",)), audit, constraint=None, upgrade=upgrade)


if __name__ == "__main__":
    main()
