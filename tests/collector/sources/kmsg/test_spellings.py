"""Files of kernel logs in every spelling, and files that are none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.sources.kmsg.lines import MAX_REPEATS, Lines
from collector.sources.kmsg.records import KERNEL, USER, Record
from tests.collector.sources.kmsg.spellings import (
    MICROSECOND,
    NOT_AT_ALL,
    SPELLINGS,
    unix_ns,
)

XID = "NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
LOST = (
    "NVRM: The NVIDIA GPU 0000:18:00.0\n"
    "NVRM: (PCI ID: 10de:2330) installed in this system has\n"
    "NVRM: fallen off the bus and is not responding to commands."
)
RECORDS = [("usb 1-1: new device", 280_285_060), (XID, 280_285_064), (LOST, 281_000_001)]
NOW_NS = unix_ns(3_600_000_000)


def read(text: str) -> tuple[list[Record], Lines]:
    """The records of a finished file, and what is known of its lines."""
    lines = Lines()
    records = [
        record
        for number, line in enumerate(text.encode("utf-8", "surrogateescape").split(b"\n"))
        for record in lines.feed(line, NOW_NS, number)
    ]
    return records + lines.finish(), lines


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_record_in_each_spelling(name: str) -> None:
    """Text, time and facility come back from each; a record of three lines is one."""
    spell, exactly = SPELLINGS[name]
    records, lines = read(spell(RECORDS))
    assert [" ".join(r.text.split()) for r in records] == [" ".join(t.split()) for t, _ in RECORDS]
    assert {record.facility for record in records} == {KERNEL}
    assert lines.unread == 0
    for record, (_, usec) in zip(records, RECORDS, strict=True):
        if exactly == NOT_AT_ALL:
            assert (record.usec, record.time_ns) == (-1, 0)
        elif record.time_ns:
            assert 0 <= unix_ns(usec) - record.time_ns < exactly * 1000
        else:
            assert record.usec == usec
            assert exactly == MICROSECOND


OPTIONS = (
    ("",),
    ("-T",),
    ("-x",),
    ("-x", "-T"),
    ("-t",),
    ("-x", "-t"),
    ("-r",),
    ("-d",),
    ("-d", "-T"),
    ("-e",),
    ("-x", "-e"),
    ("--time-format", "iso"),
    ("-x", "--time-format", "iso"),
    ("--time-format", "delta"),
    ("--color=always",),
)


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
def test_the_real_dmesg(options: tuple[str, ...], tmp_path: Path) -> None:
    """What the machine's dmesg prints with each of its options is understood."""
    saved = tmp_path / "ring"
    saved.write_text(f"<6>[  280.285060] usb 1-1: new device\n<3>[  280.285064] {XID}\n")
    command = ["dmesg", "-F", str(saved), *(option for option in options if option)]
    printed = subprocess.run(command, capture_output=True, check=True, text=True)
    records, lines = read(printed.stdout)
    assert [record.text for record in records] == ["usb 1-1: new device", XID]
    assert lines.unread == 0
    timed = [record.usec >= 0 or record.time_ns > 0 for record in records]
    assert all(timed) or not {"-t", "delta", "-e"}.isdisjoint(options)


FOREIGN = {
    "another date": f"01/21/2025 04:41:44 n1 kernel: {XID}",
    "container log": f"2025-01-21T04:41:44.285060Z stdout F {XID}",
    "date without a host": f"2025/01/21 04:41:44 {XID}",
    "host alone": f"n1 kernel: {XID}",
    "a word before": f"n1 {XID}",
    "other JSON": '{"log":"' + XID + '","time":"2025-01-21T04:41:44Z"}',
    "broken JSON": '{"MESSAGE":"' + XID,
    "table": f'"{XID}","2025"',
    "binary": "\x1f\x8b\x08\udcff\udcfe",
}


@pytest.mark.parametrize("name", FOREIGN)
def test_another_format_is_counted_and_shown(name: str) -> None:
    """What is not understood is no event, nor is it passed over in silence."""
    records, lines = read(f"{FOREIGN[name]}\n{FOREIGN[name]}\n")
    assert not [record for record in records if record.text.startswith("NVRM")]
    assert lines.unread == 2
    assert lines.example.startswith("line 1: ")


def test_a_file_that_is_no_log_is_not_understood() -> None:
    """Lines without any head, of which none is like the kernel's."""
    assert read("hello world\nthis is a letter\n")[1].unread == 2
    assert read("usb 1-1: new device\n nvme0n1: p1 p2\n")[1].unread == 0


@pytest.mark.parametrize(
    "line",
    [
        f"<11>[  280.285064] {XID}",
        f"user  :err   : [  280.285064] {XID}",
        f"user: warning: [2024-12-01T14:54:40.285064Z]: {XID}",
        f"Dec  1 14:54:40 n1 python[7]: {XID}",
        f"<11>Dec  1 14:54:40 n1 kernel: {XID}",
        f"<14>1 2024-12-01T14:54:40.285064+00:00 n1 kernel - - - {XID}",
        f"<3>1 2024-12-01T14:54:40.285064+00:00 n1 trainer 7 - - {XID}",
        '{"pri": 11, "time": 280.285064, "msg": "' + XID + '"}',
        '{"fac": "user", "pri": "err", "time": 280.285064, "msg": "' + XID + '"}',
    ],
)
def test_the_words_of_a_program_are_known_as_such(line: str) -> None:
    """Whatever it claims: facility or program are not the kernel."""
    ((record,), lines) = read(line)
    assert record.facility != KERNEL
    assert lines.unread == 0


def test_a_line_below_a_programs_line_is_its_own() -> None:
    """A program cannot end its record and begin one of the kernel."""
    records, lines = read(f"Dec  1 14:54:40 n1 python[7]: a\n  {XID}\n{XID}\n")
    assert [record.facility for record in records] == [USER]
    assert lines.unread == 1


def test_repeats_that_a_syslog_daemon_counted() -> None:
    """They are as many records, and never more than a bounded number."""
    head = "Dec  1 14:54:40 n1 kernel: message repeated"
    assert [r.text for r in read(f"{head} 3 times: [ {XID}]\n")[0]] == [XID] * 3
    assert len(read(f"{head} 999999999 times: [ {XID}]\n")[0]) == MAX_REPEATS


def test_remarks_of_the_writing_program_are_no_lines() -> None:
    """Marks of syslog daemons, heads of journalctl."""
    remarks = (
        "-- Boot 0123456789abcdef0123456789abcdef --\n"
        "-- Logs begin at Sun 2024-12-01 14:54:40 UTC. --\n"
        "Dec  1 14:54:40 n1 -- MARK --\n"
        "Dec  1 14:54:40 n1 last message repeated 2 times\n"
    )
    records, lines = read(f"{remarks}Dec  1 14:54:40 n1 kernel: x\n")
    assert [record.text for record in records] == ["x"]
    assert lines.unread == 0


@pytest.mark.slow
def test_an_endless_block_costs_bounded_memory() -> None:
    """JSON that never ends, and a field that claims to be huge, are given up and counted."""
    _, lines = read("{\n" + '"a": 1,\n' * 100_000 + "[    1.000000] x\n")
    assert lines.unread > 30_000
    records, lines = read(f"__CURSOR=1\nMESSAGE\n{chr(255) * 8}\n\n[    1.000000] x\n")
    assert [record.text for record in records] == ["x"]
    assert lines.unread > 0


@pytest.mark.slow
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=60),
            st.sampled_from(
                [b"{", b"},{", b"}", b"[", b"__CURSOR=1", b"MESSAGE", b"MESSAGE=x", b"", b" x"]
            ),
            st.sampled_from([line.encode() for line in FOREIGN.values() if line.isascii()]),
        ),
        max_size=30,
    )
)
def test_no_file_breaks_the_reader(raw: list[bytes]) -> None:
    """Any lines in any order give records and a count, no error."""
    lines = Lines()
    found = [record for line in raw for record in lines.feed(line, NOW_NS)] + lines.finish()
    assert len(found) <= len(raw) * MAX_REPEATS
    assert 0 <= lines.unread <= len(raw) + 1
