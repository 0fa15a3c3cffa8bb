"""Makes one of many equal happenings of one read, so that a flood costs bounded memory
and says how big it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from collector.sources.kmsg.parsed_line import ParsedLine
from collector.sources.kmsg.records import Record

# a flood of one fault is one group; so many kinds and devices at once is no fault but noise
MAX_GROUPS = 512
MAX_RUNS = 16  # different details of one group, such as the processes that an XID 31 names
# What else names the part that an event is about.
PARTS = ("interface", "server", "block_device", "array", "resource")


@dataclass(slots=True)
class Run:
    """Happenings with equal facts, one after the other."""

    parsed: ParsedLine
    first: Record
    last: Record
    count: int = 1


class Collapse:
    """Groups by device, code and sub-code (what is no XID: by kind, device and part), and in a
    group by runs of equal facts.

    Beyond ``MAX_RUNS`` the last run takes the rest with its own details, so runs of one group never
    overlap and counts stay exact. Beyond ``MAX_GROUPS`` new groups are dropped and counted by kind:
    ``dropped``.
    """

    def __init__(self) -> None:
        self._groups: dict[tuple[object, ...], list[Run]] = {}
        self._latest: Run | None = None
        self.dropped: dict[str, int] = {}

    def add(self, record: Record, parsed: ParsedLine) -> None:
        """Take one parsed, in the order of the log."""
        if (
            self._latest is not None and self._latest.parsed is parsed
        ):  # a flood is one parsed line many times
            self._latest.last = record
            self._latest.count += 1
            return
        key = _key(parsed)
        runs = self._groups.get(key)
        if runs is None:
            if len(self._groups) >= MAX_GROUPS:
                self.dropped[parsed.kind] = self.dropped.get(parsed.kind, 0) + 1
                return
            runs = self._groups[key] = []
        if runs and (runs[-1].parsed == parsed or len(runs) >= MAX_RUNS):
            runs[-1].last = record
            runs[-1].count += 1
        else:
            runs.append(Run(parsed, record, record))
        self._latest = runs[-1]

    def runs(self) -> Iterator[Run]:
        """All runs in the order in which their first happened."""
        yield from sorted(
            (run for runs in self._groups.values() for run in runs),
            key=lambda run: (run.first.usec, run.first.seq),
        )


def _key(parsed: ParsedLine) -> tuple[object, ...]:
    facts = parsed.facts
    if parsed.kind == "xid":
        return ("xid", parsed.pci, facts["code"], facts.get("sub_code"), facts.get("inferred"))
    part = next((facts[name] for name in PARTS if name in facts), None)
    return (parsed.kind, parsed.pci, facts.get("code"), part)
