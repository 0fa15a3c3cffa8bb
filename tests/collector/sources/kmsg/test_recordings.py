"""The recordings in tests/data/kmsg, and what a correct reader concludes from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.catalog import agent
from pipeline.observation import Event
from tests.collector.sources.kmsg.logs import DATA, Node, attributes_of, events, read_all
from tests.wait import until

XIDS = [
    ("0000:1b:00", 79),
    ("0000:43:00", 31),
    ("0000:43:00", 13),
    ("0000:43:00", 45),
    ("0000:9b:00", 48),
    ("0000:9b:00", 63),
    ("0000:9b:00", 94),
    ("0000:5d:00", 74),
    ("0000:5d:00", 119),
    ("0000:5d:00", 43),
]


def recorded(node: Node, name: str, *, user_lines: bool = True) -> list[Event]:
    """Events of a recording of records, given one by one."""
    records: list[bytes] = []
    for line in (DATA / name).read_bytes().splitlines(keepends=True):
        if line.startswith(b" "):
            records[-1] += line
        else:
            records.append(line)
    for record in records:
        node.ring.add(record)
    return read_all(node.source(user_lines=user_lines))


def test_records(node: Node) -> None:
    """All XIDs, the segfault, the link, the sick HCA, one AER error of two lines; nothing
    that only looks like an XID.
    """
    found = recorded(node, "kmsg-records.txt")
    assert attributes_of(found, "xid", "pci", "code") == XIDS
    assert attributes_of(found, "segfault", "library", "pid") == [("libnvidia-ml.so.1", 21644)]
    assert [e.kind for e in found if e.attributes.get("pci") == "0000:5e:00.0"] == [
        "link_down",
        "link_up",
        "hca_health",
    ]
    assert attributes_of(found, "pcie_error", "pci", "severity", "layer") == [
        ("0000:b8:00.0", "corrected", "physical")
    ]
    assert attributes_of(found, "module_loaded", "version") == [("580.95.05",)]
    assert attributes_of(found, "kernel_log_lost", "records") == []
    assert len(found) == len(XIDS) + 6


def test_details_of_records(node: Node) -> None:
    """Process with blanks, place on the chip, registers; <unknown> is no pid."""
    found = recorded(node, "kmsg-records.txt")
    by_code = {event.attributes["code"]: event.attributes for event in found if event.kind == "xid"}
    assert {by_code[code]["pid"] for code in (31, 13, 45)} == {184513}
    assert (by_code[13]["gpc"], by_code[13]["tpc"], by_code[13]["sm"]) == (2, 4, 1)
    assert by_code[94]["process"] == "my train job"
    assert (by_code[74]["link"], str(by_code[74]["registers"]).split()[0]) == (6, "0x10000")
    assert "pid" not in by_code[79]
    assert "process" not in by_code[79]


def test_user_lines_are_no_xid_without_the_switch(node: Node) -> None:
    """Any root process can write into the log: lines that are not of the kernel's own
    facility are not believed.
    """
    assert [event.kind for event in recorded(node, "kmsg-records.txt", user_lines=False)] == [
        "segfault"
    ]
    assert node.metrics.value(agent.KERNEL_LOG_PROGRAM_RECORDS) == 17


def test_ratelimited(node: Node) -> None:
    """Ten XIDs came through, and the kernel says that 15 lines did not."""
    found = recorded(node, "kmsg-ratelimited.txt")
    xids = [event.attributes for event in found if event.kind == "xid"]
    assert sum(int(facts.get("count", 1)) for facts in xids) == 10
    assert [facts["pid"] for facts in xids] == list(range(500, 510))
    assert attributes_of(found, "kernel_log_suppressed", "records", "by") == [(15, "python3")]
    assert node.metrics.value(agent.KERNEL_LOG_LOST, "suppressed") == 15


def test_flood_of_one_xid_with_many_processes_is_bounded(node: Node) -> None:
    """Beyond 16 different processes the last event stands for the rest:
    none is lost from the count.
    """
    for pid in range(500):
        node.ring.print(f"NVRM: Xid (PCI:0000:43:00): 31, pid={pid}, name=python3, Ch 00000010")
    found = read_all(node.source())
    assert len(found) == 16
    assert sum(int(event.attributes.get("count", 1)) for event in found) == 500
    assert [event.attributes.get("last_seq", event.attributes["seq"]) for event in found][-1] == 499


@pytest.mark.parametrize("saved", [True, False])
def test_dmesg_file(node: Node, saved: bool) -> None:
    """The same lines as dmesg prints them give the same events."""
    source = node.source(path=DATA / "dmesg-x.txt", user_lines=True, saved=saved)
    found = read_all(source, reads=3)
    assert attributes_of(found, "xid", "pci", "code") == XIDS
    assert [event.kind for event in found if event.kind != "xid"] == [
        "link_down",
        "link_up",
        "hca_health",
        "pcie_error",
        "module_loaded",
    ]
    assert {event.attributes["origin"] for event in found} == {"file"}


def test_times_of_a_saved_log(node: Node) -> None:
    """The newest line of a saved log was printed when the file was written; the
    others keep their distance.
    """
    found = read_all(node.source(path=DATA / "dmesg-x.txt", user_lines=True, saved=True), reads=1)
    assert found[1].time_ns - found[0].time_ns == 3_250_000
    assert found[-1].time_ns <= (DATA / "dmesg-x.txt").stat().st_mtime_ns
    assert not any(event.attributes.get("before_start") for event in found)


def journalctl(folder: Path, recording: Path, code: str = "sleep 60") -> str:
    """A stand-in for journalctl that prints a recording of the real one, then does ``code``."""
    script = folder / "journalctl"
    script.write_text(
        "#!/bin/sh\n"
        f'echo "$@" >> {folder}/calls\n'
        'case "$*" in *"-b -1"*) exit 1;; esac\n'
        f"cat {recording}\n"
        f"{code}\n"
    )
    script.chmod(0o755)
    return str(script)


@pytest.mark.slow
def test_journal(node: Node, tmp_path: Path) -> None:
    """The record that journald imported twice is one event; prefixes are whole; UTF-8 is read."""
    source = node.source(
        path=Path("/nonexistent/kmsg"),
        real=True,
        journalctl=journalctl(tmp_path, DATA / "journal-k.jsonl"),
        files=(),
        pstore=(),
        boot_id="b" * 32,
        user_lines=True,
    )
    found: list[Event] = []

    def told_all() -> bool:
        found.extend(events(source))
        return len(found) >= 4

    until(told_all, "the journal")
    assert attributes_of(found, "xid", "pci", "code", "process") == [
        ("0000:1b:00", 79, None),
        ("0000:43:00", 69, "café"),
    ]
    assert attributes_of(found, "segfault", "pid") == [(21644,)]
    assert attributes_of(found, "link_down", "interface") == [("ibp94s0",)]
    assert {event.attributes["origin"] for event in found} == {"journal"}
    assert node.metrics.value(agent.KERNEL_LOG_MODE, "journal") == 1
