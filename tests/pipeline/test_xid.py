"""The table of XID codes."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from pipeline.xid import CRITICAL_CODES, TABLE, read_table, xid_entry, xid_table

HEADER = "code,mnemonic,description,bucket,class,level,action,notes\n"


def test_every_published_code_is_there() -> None:
    """The table holds the codes 1 to 172, each once."""
    assert sorted(xid_table()) == list(range(1, 173))


def test_descriptions_fit_err_msg() -> None:
    """A description is a short text that needs no escaping as a label value."""
    for entry in xid_table().values():
        assert 0 < len(entry.description) <= 60
        assert not set(entry.description) & set('"\\\n')


def test_table_has_only_known_classes_and_columns() -> None:
    """No typing error makes a class of its own."""
    words = "hw-fatal hw-reset ecc mechanical app info decode companion arbiter config test unused review"
    assert {entry.category for entry in xid_table().values()} == set(words.split())
    with TABLE.open(newline="", encoding="utf-8") as file:
        assert all(len(row) == 8 for row in csv.reader(file))


@pytest.mark.parametrize(
    ("code", "level"),
    [(79, "page"), (109, "page"), (94, "ticket"), (121, "record"), (137, "record"), (45, "record"), (31, "ticket")],
)
def test_levels_that_other_tools_get_wrong(code: int, level: str) -> None:
    """GCM pages 94, 121 and 137 and misses 109; NVSentinel escalated 45: ours follow NVIDIA's buckets."""
    assert xid_entry(code).level == level


def test_descriptions_that_dcgm_gets_wrong() -> None:
    """DCGM calls 61 a bus error or power brake and 38 a PCIe error: 61 is a controller breakpoint, 38 a firmware watchdog."""
    assert "breakpoint" in xid_entry(61).description
    assert "watchdog" in xid_entry(38).description
    assert "MMU" not in xid_entry(8).description


def test_unknown_code_is_reviewed_not_dropped() -> None:
    """A code of tomorrow's driver becomes a ticket of class review."""
    entry = xid_entry(4242)
    assert (entry.code, entry.category, entry.level) == (4242, "review", "ticket")


def test_critical_codes_are_those_that_page() -> None:
    """Counters are born at 0 exactly for the codes whose level is page."""
    assert set(CRITICAL_CODES) == {code for code, entry in xid_table().items() if entry.level == "page"}
    assert 79 in CRITICAL_CODES


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("x,A,a,B,c,page,,", "invalid literal"),
        ("1,A,a,B,c,loud,,", "level is 'loud'"),
        ("1,A,,B,c,page,,", "description is empty"),
        ("1,A,a,B,c,page,,\n1,A,a,B,c,page,,", "code 1 stands twice"),
        ("1", "wanted the 8 columns"),
        ("1,A,a,B,c,page,,,", "wanted the 8 columns"),
    ],
)
def test_bad_table_names_file_line_and_fault(tmp_path: Path, row: str, complaint: str) -> None:
    """An override file with a mistake is refused with its place."""
    file = tmp_path / "mine.csv"
    file.write_text(HEADER + row + "\n")
    with pytest.raises(ValueError, match=r"mine\.csv, line [23]: .*" + complaint):
        read_table(file)
