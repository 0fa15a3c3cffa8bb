"""Lustre as its client counts it: ``stats`` of llite, osc and mdc, below /proc/fs/lustre or, since
2.12, /sys/kernel/debug/lustre, which is root's.

A line is a name, a count, a unit and, where it has them, least, most, sum and sum of squares
(lprocfs_stats_seq_show in lustre/obdclass/lprocfs_status.c). llite counts what programs ask, with
times since 2.13; osc and mdc count requests to the servers, with times in every version.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from collector.sources.waits.bounded import MAX_COUNT, count, names, text
from collector.sources.waits.mountstats import Mount

MAX_TARGETS, MAX_SYSTEMS, MAX_STATS = 512, 16, 1 << 15
_LINE = re.compile(
    r"^(?P<name>\w{1,64})\s+(?P<count>\d+) samples \[(?P<unit>\w{1,16})\]"
    r"(?: \d+ \d+ (?P<sum>\d+)(?: -?\d+)?)?\s*$",
    re.MULTILINE,
)
_TIMES = ("usec", "usecs")
# Calls that wait for nothing of the servers' making, or for as long as a program likes.
_NOT_WAITED = frozenset({"seek", "mmap", "page_fault", "page_mkwrite", "flock", "close"})


def mounts(roots: Iterable[Path], mounted: Iterable[Mount]) -> Iterator[Mount]:
    """The mounts of Lustre with their counts; ``mounted`` are those that the kernel lists, for
    their mount points. OSError where a folder is there and may not be read.
    """
    points: dict[str, list[Mount]] = {}
    for one in mounted:
        name = one.device.rpartition(":/")[2].partition("/")[0]
        points.setdefault(name, []).append(one)
    for root in roots:
        for entry in names(root / "llite", MAX_SYSTEMS):
            system, _, instance = entry.rpartition("-")
            known = points.get(system, [])
            where = known[0].mountpoint if len(known) == 1 else entry
            device = known[0].device if len(known) == 1 else system
            yield Mount(device, where, "lustre", _values(root, entry, instance))


def _values(root: Path, entry: str, instance: str) -> Counter[str]:
    values: Counter[str] = Counter()
    client = _stats(root / "llite" / entry / "stats")
    for name, (_, _, total) in client.items():
        if name in ("read_bytes", "write_bytes"):
            values["read_bytes" if name == "read_bytes" else "written_bytes"] = total
        elif client[name][1] in _TIMES and name not in _NOT_WAITED:
            _add(values, name if name in ("read", "write") else "other", *client[name])
    if "read_operations" not in values and "write_operations" not in values:
        values -= Counter({name: values[name] for name in values if name.startswith("other")})
        for folder, kinds in (
            ("osc", {"ost_read": "read", "ost_write": "write"}),
            ("mdc", {"req_waittime": "other"}),
        ):
            for target in names(root / folder, MAX_TARGETS):
                if target.endswith(f"-{instance}"):
                    stats = _stats(root / folder / target / "stats")
                    for name, kind in kinds.items():
                        if name in stats and stats[name][1] in _TIMES:
                            _add(values, kind, *stats[name])
    return values


def _add(values: Counter[str], kind: str, samples: int, _: str, total: int) -> None:
    for name, more in ((f"{kind}_operations", samples), (f"{kind}_microseconds", total)):
        values[name] = min(values[name] + more, MAX_COUNT)


def _stats(path: Path) -> dict[str, tuple[int, str, int]]:
    """Count, unit and sum by name; nothing where there is no such file."""
    try:
        found = text(path, MAX_STATS)
    except FileNotFoundError:
        return {}
    return stats(found)


def stats(text: str) -> dict[str, tuple[int, str, int]]:
    r"""Count, unit and sum by name.

    >>> stats("ost_read    1029 samples [usec] 1391 595570 347839127 120942246579015\n")
    {'ost_read': (1029, 'usec', 347839127)}
    """
    found = {}
    for line in _LINE.finditer(text):
        samples, total = count(line["count"]), count(line["sum"] or "0")
        if samples is not None and total is not None:
            found[line["name"]] = (samples, line["unit"], total)
    return found
