"""The table of XID codes: what each means and how serious it is on its own.

Codes, mnemonics and buckets: NVIDIA's XID catalogue (docs.nvidia.com/deploy/xid-errors).
Descriptions, classes, levels and actions are ours. One table in a process, for the counts, the DCGM
dialect (``err_msg``) and the detector; a site may replace rows of it.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from pipeline.finding import SEVERITIES, Severity

TABLE = Path(__file__).with_name("xid.csv")
NOT_IN_CATALOGUE = "not in the catalogue"  # the description of a code that the table does not know
HEADER = "code,mnemonic,description,bucket,class,level,action,notes"
CATEGORIES = frozenset(
    (
        "hw-fatal",
        "hw-reset",
        "ecc",
        "mechanical",
        "app",
        "info",
        "decode",
        "companion",
        "arbiter",
        "config",
        "test",
        "unused",
        "review",
    )
)


@dataclass(frozen=True, slots=True)
class XidEntry:
    """One code.

    ``level`` is its severity when it comes alone; ``bucket`` is NVIDIA's immediate resolution.

    ``category`` (column ``class``) is one of ``CATEGORIES``; decode: its sub-code or registers
    decide; companion and arbiter: the codes beside it do.
    """

    code: int
    mnemonic: str
    description: str
    bucket: str
    category: str
    level: Severity
    action: str
    notes: str = ""


class XidTableError(ValueError):
    """A table that cannot be used; the text names file, line and what is wrong."""


def read_table(path: Path) -> dict[int, XidEntry]:
    """A table from a CSV file with the columns of xid.csv. XidTableError where it is none."""
    entries: dict[int, XidEntry] = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for line, entry in _entries(csv.DictReader(file), path):
                if entry.code in entries:
                    raise XidTableError(f"{path}, line {line}: code {entry.code} occurs twice")
                entries[entry.code] = entry
    except OSError as error:
        raise XidTableError(f"{path}: {error.strerror}") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise XidTableError(f"{path}: no CSV file in UTF-8: {error}") from error
    return entries


def _entries(rows: csv.DictReader[str], path: Path) -> Iterator[tuple[int, XidEntry]]:
    wanted = HEADER.split(",")
    if list(rows.fieldnames or ()) != wanted:
        raise XidTableError(f"{path}, line 1: wanted the header {HEADER}")
    for row in rows:
        try:
            yield rows.line_num, _entry(row)
        except ValueError as error:
            raise XidTableError(f"{path}, line {rows.line_num}: {error}") from error


def _entry(row: Mapping[str | None, str | None]) -> XidEntry:
    cells = {name: value for name, value in row.items() if name is not None and value is not None}
    if len(cells) != len(fields(XidEntry)) or None in row:
        raise ValueError(f"wanted the {len(fields(XidEntry))} columns of {TABLE.name}")
    level = next((s for s in SEVERITIES if s == cells["level"]), None)
    if level is None:
        raise ValueError(f"level is {cells['level']!r}, wanted one of {', '.join(SEVERITIES)}")
    if cells["class"] not in CATEGORIES:
        raise ValueError(
            f"class is {cells['class']!r}, wanted one of {', '.join(sorted(CATEGORIES))}"
        )
    if not cells["description"]:
        raise ValueError("description is empty")
    code = int(cells["code"])
    if code < 1:
        raise ValueError(f"code is {code}, XIDs begin at 1")
    return XidEntry(
        code,
        cells["mnemonic"],
        cells["description"],
        cells["bucket"],
        cells["class"],
        level,
        cells["action"],
        cells["notes"],
    )


class _InForce:
    """The table that this process goes by."""

    def __init__(self) -> None:
        self.built_in = read_table(TABLE)
        self.take({})

    def take(self, rows: Mapping[int, XidEntry]) -> None:
        """The built-in table with these rows in place of its own."""
        self.entries: Mapping[int, XidEntry] = {**self.built_in, **rows}
        self.critical = tuple(
            sorted(code for code, entry in self.entries.items() if entry.level == "page")
        )


_IN_FORCE = _InForce()
BUCKETS: Collection[str] = frozenset(entry.bucket for entry in _IN_FORCE.built_in.values())


def read_rows(path: Path) -> dict[int, XidEntry]:
    """A site's own rows, each of which replaces or adds a code.

    XidTableError as ``read_table``, and for a bucket that is none of NVIDIA's.
    """
    rows = read_table(path)
    for entry in rows.values():
        if entry.bucket not in BUCKETS:
            raise XidTableError(
                f"{path}: bucket of code {entry.code} is {entry.bucket!r}, wanted one of "
                f"{', '.join(sorted(BUCKETS))}"
            )
    return rows


def use(path: Path | None) -> None:
    """From now on this process goes by the built-in table with the rows of a file in place of its
    own; None: by the built-in one.

    Called once at start and at each reload, before anything is judged. XidTableError
    leaves everything as it was.
    """
    _IN_FORCE.take(read_rows(path) if path else {})


def xid_table() -> Mapping[int, XidEntry]:
    """All known codes, as the table in force has them."""
    return _IN_FORCE.entries


def critical_codes() -> tuple[int, ...]:
    """Codes that page on their own: their counters are born at 0, so that the first
    one is seen as an increase.
    """
    return _IN_FORCE.critical


def xid_entry(code: int) -> XidEntry:
    """What a code means. A code that the table does not know is one to review, never one to ignore.

    >>> xid_entry(79).level, xid_entry(79).description
    ('page', 'GPU no longer answers on the PCIe bus')
    >>> xid_entry(9999).category, xid_entry(9999).level
    ('review', 'ticket')
    """
    known = _IN_FORCE.entries.get(code)
    return known or XidEntry(
        code,
        "",
        NOT_IN_CATALOGUE,
        "NONE",
        "review",
        "ticket",
        "look the code up in NVIDIA's XID catalogue",
    )


def xid_words(code: int) -> str:
    """A code with what it means, for people.

    >>> xid_words(79), xid_words(999)
    ('XID 79: GPU no longer answers on the PCIe bus', 'XID 999 (not in the catalogue)')
    """
    description = xid_entry(code).description
    known = description != NOT_IN_CATALOGUE
    return f"XID {code}: {description}" if known else f"XID {code} ({description})"
