"""How long the tasks of a job wait: pressure of its control group (cgroup-v2.rst and psi.rst of
Linux). Groups of version 1 have none; the job's own groups below are never listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from collector.sources.control_group import folder_of
from collector.sources.waits.bounded import count, text
from pipeline.catalog import fields_of
from pipeline.catalog.job_group import KIND

# The unified hierarchy alone, and beside version 1.
ROOTS = ("fs/cgroup", "fs/cgroup/unified")
_TOTAL = re.compile(r"^(some|full) .*?\btotal=(\d{1,19})\b", re.MULTILINE)


def group_of(proc: Path, sysfs: Path, pids: Iterable[int]) -> Path | None:
    """The control group of the job that a process belongs to, by the first that is there."""
    for pid in pids:
        try:
            folder = folder_of(text(proc / str(pid) / "cgroup"))
        except OSError:  # it has ended
            continue
        for root in ROOTS if folder else ():
            if (group := sysfs / root / folder).is_dir():
                return group
    return None


def waits(group: Path) -> dict[str, int]:
    """The catalogue's fields of a control group; nothing of files that it has not.

    OSError where one is there and cannot be read: EOPNOTSUPP with psi=0 (kernel/sched/psi.c).
    """
    values: dict[str, int] = {}
    for field in fields_of(KIND):
        file, *which = field.read.split(" ")
        try:
            found = text(group / file)
        except FileNotFoundError:
            continue
        number = _pressure(found, which[0]) if len(which) > 1 else _number(found, which[0])
        if number is not None:
            values[field.name] = number
    return values


def _pressure(found: str, which: str) -> int | None:
    r"""``total`` of a line, us.

    >>> _pressure("some avg10=0.00 avg60=0.76 avg300=1.99 total=912\n", "some")
    912
    """
    return next((count(m[2]) for m in _TOTAL.finditer(found) if m[1] == which), None)


def _number(found: str, word: str) -> int | None:
    for line in found.splitlines():
        key, _, value = line.partition(" ")
        if key == word:
            return count(value)
    return None
