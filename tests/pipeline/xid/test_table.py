"""The table of XID codes."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.xid import table as xid
from pipeline.xid.table import (
    CATEGORIES,
    HEADER,
    TABLE,
    XidTableError,
    critical_codes,
    read_rows,
    read_table,
    xid_entry,
    xid_table,
)


@pytest.fixture
def metrics(tmp_path: Path) -> Iterator[Path]:
    """A site's table that makes 31 a page, and knows a code of tomorrow; the built-in table is
    in force again afterwards.
    """
    file = tmp_path / "mine.csv"
    file.write_text(
        f"{HEADER}\n"
        "31,MMU,our own words,RESET_GPU,hw-reset,page,call Ann,\n"
        "999,NEW,new,NONE,review,record,none,\n"
    )
    yield file
    xid.use(None)


def test_every_published_code_is_there() -> None:
    """The table holds the codes 1 to 176, each once: those of driver 595 are the last four."""
    assert sorted(xid_table()) == list(range(1, 177))
    assert [xid_entry(code).level for code in (173, 174, 175, 176)] == [
        "page",
        "record",
        "ticket",
        "ticket",
    ]


def test_descriptions_fit_err_msg() -> None:
    """A description is a short text that needs no escaping as a label value."""
    for entry in xid_table().values():
        assert 0 < len(entry.description) <= 60
        assert not set(entry.description) & set('"\\\n')


def test_table_has_only_known_classes_and_columns() -> None:
    """No typing error makes a class of its own."""
    assert {entry.category for entry in xid_table().values()} == CATEGORIES
    with TABLE.open(newline="", encoding="utf-8") as file:
        assert all(len(row) == 8 for row in csv.reader(file))


@pytest.mark.parametrize(
    ("code", "level"),
    [
        (79, "page"),
        (109, "page"),
        (94, "ticket"),
        (121, "record"),
        (137, "record"),
        (45, "record"),
        (31, "ticket"),
    ],
)
def test_levels_that_other_tools_get_wrong(code: int, level: str) -> None:
    """GCM pages 94, 121 and 137 and misses 109; NVSentinel escalated 45: ours
    follow NVIDIA's buckets.
    """
    assert xid_entry(code).level == level


def test_descriptions_that_dcgm_gets_wrong() -> None:
    """DCGM calls 61 a bus error or power brake and 38 a PCIe error: 61 is a controller
    breakpoint, 38 a firmware watchdog.
    """
    assert "breakpoint" in xid_entry(61).description
    assert "watchdog" in xid_entry(38).description
    assert "MMU" not in xid_entry(8).description


def test_unknown_code_is_reviewed_not_dropped() -> None:
    """A code of tomorrow's driver becomes a ticket of class review."""
    entry = xid_entry(4242)
    assert (entry.code, entry.category, entry.level) == (4242, "review", "ticket")
    assert entry.description == "not in the catalogue"


def test_critical_codes_are_those_that_page() -> None:
    """Counters are born at 0 exactly for the codes whose level is page."""
    assert set(critical_codes()) == {
        code for code, entry in xid_table().items() if entry.level == "page"
    }
    assert 79 in critical_codes()


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("x,A,a,B,app,page,,", "invalid literal"),
        ("1,A,a,B,c,loud,,", "level is 'loud'"),
        ("1,A,,B,app,page,,", "description is empty"),
        ("1,A,a,B,app,page,,\n1,A,a,B,app,page,,", "code 1 occurs twice"),
        ("1", "wanted the 8 columns"),
        ("1,A,a,B,fatal,page,,", "class is 'fatal', wanted one of app, "),
        ("0,A,a,B,app,page,,", "code is 0"),
        ("1,A,a,B,c,page,,,", "wanted the 8 columns"),
    ],
)
def test_bad_table_names_file_line_and_fault(tmp_path: Path, row: str, complaint: str) -> None:
    """An override file with a mistake is refused with its place."""
    file = tmp_path / "mine.csv"
    file.write_text(f"{HEADER}\n{row}\n")
    with pytest.raises(XidTableError, match=r"mine\.csv, line [23]: .*" + complaint):
        read_table(file)


def test_a_sites_rows_replace_those_of_the_built_in_table(metrics: Path) -> None:
    """What the file does not name stays as it was, and a new code is known; counters of codes that
    page now are born with them.
    """
    xid.use(metrics)
    assert (xid_entry(31).level, xid_entry(31).description, xid_entry(999).level) == (
        "page",
        "our own words",
        "record",
    )
    assert xid_entry(79).action.startswith("drain")
    assert 31 in critical_codes()


def test_no_file_is_the_built_in_table_again(metrics: Path) -> None:
    """A reload may take the setting away."""
    before = dict(xid_table())
    xid.use(metrics)
    xid.use(None)
    assert xid_table() == before


def test_a_bad_file_leaves_the_table_as_it_was(metrics: Path) -> None:
    """All of it or nothing."""
    xid.use(metrics)
    metrics.write_text(f"{HEADER}\n79,A,a,IGNORE,info,record,,\n80,A,a,IGNORE,info,loud,,\n")
    with pytest.raises(XidTableError):
        xid.use(metrics)
    assert (xid_entry(79).level, xid_entry(31).level) == ("page", "page")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "line 1: wanted the header code,mnemonic"),
        (b"code,level\n79,record\n", "line 1: wanted the header code,mnemonic"),
        (HEADER.encode() + b"\n79,\xff,a,IGNORE,info,record,,\n", "no CSV file in UTF-8"),
        (
            HEADER.encode() + b"\n79,A,a,REBOOT,info,record,,\n",
            "bucket of code 79 is 'REBOOT', wanted one of CHECK_MECHANICALS, ",
        ),
    ],
)
def test_what_is_no_table_is_refused_with_what_was_wanted(
    tmp_path: Path, content: bytes, complaint: str
) -> None:
    """Empty, other columns, other bytes, a resolution that NVIDIA does not know."""
    file = tmp_path / "mine.csv"
    file.write_bytes(content)
    with pytest.raises(XidTableError, match=r"mine\.csv.*" + complaint):
        read_rows(file)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """With the reason of the operating system."""
    with pytest.raises(XidTableError, match=r"nowhere\.csv: No such file"):
        read_rows(tmp_path / "nowhere.csv")
