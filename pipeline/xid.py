"""The table of XID codes: what each means and how serious it is on its own.

Codes, mnemonics and buckets: NVIDIA's XID catalogue (docs.nvidia.com/deploy/xid-errors). Descriptions, classes, levels and actions
are ours. One table for the parser, the DCGM dialect (``err_msg``) and the detector.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

from pipeline.finding import SEVERITIES, Severity

TABLE = Path(__file__).with_name("xid.csv")


@dataclass(frozen=True, slots=True)
class XidEntry:
    """One code. ``level`` is its severity when it comes alone; ``bucket`` is NVIDIA's immediate resolution.

    ``category`` (column ``class``): hw-fatal, hw-reset, ecc, mechanical, app, info, decode (sub-code or registers decide),
    companion and arbiter (the codes beside it decide), config, test, unused, review.
    """

    code: int
    mnemonic: str
    description: str
    bucket: str
    category: str
    level: Severity
    action: str
    notes: str = ""


def read_table(path: Path) -> dict[int, XidEntry]:
    """A table from a CSV file with the columns of xid.csv. ValueError names file, line and what is wrong."""
    entries: dict[int, XidEntry] = {}
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        for row in rows:
            try:
                entry = _entry(row)
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{path}, line {rows.line_num}: {error}") from error
            if entry.code in entries:
                raise ValueError(f"{path}, line {rows.line_num}: code {entry.code} stands twice")
            entries[entry.code] = entry
    return entries


def _entry(row: Mapping[str | None, str]) -> XidEntry:
    if None in row or None in row.values():
        raise ValueError(f"wanted the {len(fields(XidEntry))} columns of {TABLE.name}")
    level = next((s for s in SEVERITIES if s == row["level"]), None)
    if level is None:
        raise ValueError(f"level is {row['level']!r}, wanted one of {', '.join(SEVERITIES)}")
    if not row["description"]:
        raise ValueError("description is empty")
    return XidEntry(
        int(row["code"]), row["mnemonic"], row["description"], row["bucket"], row["class"], level, row["action"], row["notes"]
    )


@cache
def xid_table() -> dict[int, XidEntry]:
    """All known codes."""
    return read_table(TABLE)


def xid_entry(code: int) -> XidEntry:
    """What a code means. A code that the table does not know is one to review, never one to ignore.

    >>> xid_entry(79).level, xid_entry(79).description
    ('page', 'GPU no longer answers on the PCIe bus')
    >>> xid_entry(9999).category, xid_entry(9999).level
    ('review', 'ticket')
    """
    known = xid_table().get(code)
    return known or XidEntry(code, "", "Unknown Error", "NONE", "review", "ticket", "look the code up in NVIDIA's XID catalogue")


CRITICAL_CODES: tuple[int, ...] = tuple(sorted(c for c, e in xid_table().items() if e.level == "page"))
"""Codes that page on their own: their counters are born at 0, so that the first one is seen as an increase."""
