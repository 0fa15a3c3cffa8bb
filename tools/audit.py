"""Known vulnerabilities of the locked packages, by pip-audit from the Python Packaging Advisory
Database.

A report: exit code 0 where none is known, 1 where one is, 3 where nothing, or not everything, could
be audited (no network, no answer, a package that the database does not know), with the reason.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

KNOWN, NOT_AUDITED = 1, 3
TOOL_LOCK, LOCK = "requirements-audit.txt", "requirements.txt"


class Result(NamedTuple):
    """Lines of a report and the exit code."""

    lines: tuple[str, ...]
    code: int


def nothing(reason: str) -> Result:
    """The report of an audit that did not take place."""
    return Result((f"nothing was audited: {' '.join(reason.split())}",), NOT_AUDITED)


def report(text: str, wanted: int, trouble: str) -> Result:
    """Of pip-audit's JSON about ``wanted`` packages; ``trouble``: its standard error."""
    packages = _packages(text)
    if packages is None:
        return nothing((trouble.strip().splitlines() or ["pip-audit wrote nothing"])[-1])
    audited = [package for package in packages if "skip_reason" not in package]
    if not audited:
        return nothing(f"pip-audit looked at none of {wanted} packages")
    lines = [
        f"{package['name']} {package['version']}: {found['id']}: "
        f"fixed in {', '.join(found['fix_versions']) or 'no version'}"
        for package in audited
        for found in package["vulns"]
    ]
    skipped = [
        f"not audited: {p['name']}: {p['skip_reason']}" for p in packages if p not in audited
    ]
    missing = wanted - len(audited)
    summary = f"{len(audited)} of {wanted} packages audited, {len(lines)} known vulnerabilities"
    code = KNOWN if lines else NOT_AUDITED if missing > 0 else 0
    return Result((*lines, *skipped, summary), code)


def _packages(text: str) -> list[dict[str, Any]] | None:
    """The packages in pip-audit's JSON; None where it is none."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        packages = json.loads(text)["dependencies"]
        return packages if isinstance(packages, list) else None
    return None


def packages_of(lock: Path) -> int:
    """Number of packages that a lock file pins."""
    text = lock.read_text(encoding="utf-8")
    return sum("==" in line and not line.startswith((" ", "#")) for line in text.splitlines())


def audit(root: Path, folder: Path) -> Result:
    """Install pip-audit below ``folder`` where it is not there yet, and run it."""
    tool, made = folder / "bin/pip-audit", folder / ".made"
    if not made.exists():
        venv.create(folder, with_pip=True)
        pip = [str(folder / "bin/python"), "-m", "pip", "--disable-pip-version-check", "--quiet"]
        lock = ["install", "--require-hashes", "--requirement", str(root / TOOL_LOCK)]
        done = subprocess.run([*pip, *lock], capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            return nothing(f"pip-audit could not be installed: {last}")
        made.touch()
    options = ["--disable-pip", "--require-hashes", "--progress-spinner", "off", "--format", "json"]
    argv = [str(tool), "--requirement", str(root / LOCK), *options]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return report(done.stdout, packages_of(root / LOCK), done.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """Audit and print; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--venv", type=Path, default=Path(".venv-audit"))
    result = audit(Path(__file__).resolve().parents[1], parser.parse_args(arguments).venv)
    sys.stdout.write("".join(f"{line}\n" for line in result.lines))
    return result.code


if __name__ == "__main__":
    sys.exit(main())
