"""One record of the kernel log in each spelling."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.sources.kmsg.lines import Lines
from collector.sources.kmsg.records import (
    MAX_TEXT,
    Record,
    parse_journal,
    parse_record,
)
from tests.collector.sources.kmsg.logs import DATA

NOW_NS = 1_795_156_800_000_000_000  # 2026-11-20


def parse_line(line: bytes, now_ns: int) -> Record | None:
    """The record of a file with this one line."""
    lines = Lines()
    return next(iter([*lines.feed(line, now_ns), *lines.finish()]), None)


def test_continuation_lines_are_no_text() -> None:
    """What follows the first line names the device; the text ends with the line."""
    record = parse_record(
        b"6,204,289656,-;pci 0000:00:00.0: [8086:0d57]\n SUBSYSTEM=pci\n DEVICE=+pci:0000:00:00.0\n"
    )
    assert record == Record("pci 0000:00:00.0: [8086:0d57]", 204, 289656, 0)


def test_priority_holds_level_and_facility() -> None:
    """11 is level 3 of facility 1: a line of user space; 3 is level 3 of the kernel."""
    assert [
        r.facility for r in map(parse_record, (b"11,1,1,-;x", b"3,1,1,-;x", b"30,1,1,c;x")) if r
    ] == [1, 0, 3]


def test_flags_may_grow() -> None:
    """The kernel documents that fields may be added before the semicolon; the
    caller id is one such field.
    """
    record = parse_record(b"6,339,5140900,-,caller=T1;NET: Registered\n")
    assert record is not None
    assert record.text == "NET: Registered"


def test_escapes_and_control_characters() -> None:
    r"""\xNN becomes its byte; bad UTF-8 and control characters cannot reach a log or a page."""
    record = parse_record(b"3,1,1,-;caf\\xc3\\xa9 \\xff\\x1b[31m\\x00 a\\x0ab")
    assert record is not None
    assert record.text == "café \ufffd [31m  a\nb"


@pytest.mark.parametrize(
    "raw",
    [b"", b"nonsense", b"3,1;x", b"3,x,1,-;t", b"3,99999999999999999999999,1,-;t", b"-3,1,1,-;t"],
)
def test_what_is_no_record_is_none(raw: bytes) -> None:
    """A record that cannot be understood is none, and numbers that no
    kernel gives are not believed.
    """
    assert parse_record(raw) is None


@pytest.mark.parametrize(
    ("line", "text", "usec", "facility"),
    [
        (b"user  :err   : [ 6916.917915] NVRM: x", "NVRM: x", 6916917915, 1),
        (b"kern  :err   : [ 6916.917915] NVRM: x", "NVRM: x", 6916917915, 0),
        (b"[    0.000001] NVRM: x", "NVRM: x", 1, 0),
        (b"<11>[ 1.500000] NVRM: x", "NVRM: x", 1500000, 1),
        (b"<3>[ 1.500000] NVRM: x", "NVRM: x", 1500000, 0),
        (b"[ 1.500000] [ T1234] NVRM: x", "NVRM: x", 1500000, 0),
        (b"NVRM: x", "NVRM: x", -1, 0),
        (b"3,7,99,-;NVRM: x", "NVRM: x", 99, 0),
        (b"Nov 19 22:34:01 n1 kernel: [  12.000000] NVRM: x", "NVRM: x", -1, 0),
        (b"2026-11-19T22:34:01.5+00:00 n1 kernel: NVRM: x", "NVRM: x", -1, 0),
        (b"2026-11-19T22:34:01.5+00:00 n1 cron[1]: NVRM: x", "NVRM: x", -1, 1),
    ],
)
def test_lines_of_files(line: bytes, text: str, usec: int, facility: int) -> None:
    """Each common spelling of a saved log is understood, and a program's line in
    syslog is not the kernel's.
    """
    record = parse_line(line, NOW_NS)
    assert record is not None
    assert (record.text, record.usec, record.facility) == (text, usec, facility)


@pytest.mark.parametrize("line", [b"", b"  ", b" SUBSYSTEM=pci", b" DEVICE=+pci:0000:00:00.0"])
def test_lines_that_are_no_record(line: bytes) -> None:
    """Empty lines and the continuation lines of /dev/kmsg are no records of their own."""
    assert parse_line(line, NOW_NS) is None


def test_syslog_time_with_zone() -> None:
    """RFC 3339 time stamps say when it happened."""
    record = parse_line(b"2026-11-19T22:34:01.500000+02:00 n1 kernel: x", NOW_NS)
    assert record is not None
    assert record.time_ns == 1_795_120_441_500_000_000


def test_syslog_without_year_is_never_in_the_future() -> None:
    """In January a line of December is of last year."""
    record = parse_line(b"Dec 30 00:00:00 n1 kernel: x", 1_798_848_000_000_000_000)  # 2027-01-02
    assert record is not None
    assert 0 < 1_798_848_000_000_000_000 - record.time_ns < 5 * 86_400_000_000_000


def test_journal_puts_the_prefix_back() -> None:
    """The prefix NVRM, which journald takes from the text of user-facility lines, is put
    back; kernel lines are whole.
    """
    entries = [json.loads(line) for line in (DATA / "journal-k.jsonl").read_text().splitlines()]
    records = [record for entry in entries if (record := parse_journal(entry))]
    assert records[3].text.startswith("NVRM: Xid (PCI:0000:1b:00): 79,")
    assert (records[3].facility, records[3].usec) == (1, 6939367331)
    assert records[5].text.startswith("NVRM: Xid (PCI:0000:43:00): 69, pid=43, name=café,")
    assert records[0].text.startswith("python[21644]: segfault")
    assert (records[0].usec, records[0].text) == (records[2].usec, records[2].text)


def test_journal_time_is_the_kernels_not_that_of_import() -> None:
    """A record that journald imported 770 s late happened when the kernel printed it."""
    entry = json.loads((DATA / "journal-k.jsonl").read_text().splitlines()[0])
    record = parse_journal(entry)
    assert record is not None
    late_usec = int(entry["__MONOTONIC_TIMESTAMP"]) - int(entry["_SOURCE_MONOTONIC_TIMESTAMP"])
    assert record.time_ns == (int(entry["__REALTIME_TIMESTAMP"]) - late_usec) * 1000


def test_journal_message_as_bytes() -> None:
    """A message that is not UTF-8 comes from journalctl as a list of numbers."""
    record = parse_journal(
        {"MESSAGE": [78, 86, 255], "_TRANSPORT": "kernel", "SYSLOG_FACILITY": "0"}
    )
    assert record is not None
    assert record.text == "NV\ufffd"


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"MESSAGE": None},
        {"MESSAGE": 7},
        {"MESSAGE": "x", "_TRANSPORT": "stdout"},
        {"MESSAGE": {}},
    ],
)
def test_journal_entries_that_are_no_kernel_record(entry: dict[str, object]) -> None:
    """Other transports and broken entries are none."""
    assert parse_journal(entry) is None


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    """No line can break the reader."""
    for record in (parse_record(raw), parse_line(raw, NOW_NS)):
        assert record is None or (len(record.text) <= MAX_TEXT and "\x00" not in record.text)


@pytest.mark.slow
@given(
    st.dictionaries(
        st.sampled_from(
            ["MESSAGE", "_TRANSPORT", "SYSLOG_FACILITY", "_BOOT_ID", "__REALTIME_TIMESTAMP"]
        ),
        st.one_of(st.text(), st.integers(), st.lists(st.integers()), st.none()),
    )
)
def test_any_journal_entry_is_read_or_refused(entry: dict[str, object]) -> None:
    """No entry can break the reader."""
    record = parse_journal(entry)
    assert record is None or isinstance(record.text, str)
