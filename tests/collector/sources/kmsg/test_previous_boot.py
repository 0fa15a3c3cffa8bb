"""The end of the boot before: found at start, told once, with its own time."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from collector.sources.kmsg import KernelLogSource
from collector.sources.kmsg.previous_records import MAX_AGE_NS
from pipeline.clock import SECOND_NS
from pipeline.observation import Event
from tests.collector.sources.kmsg.logs import (
    BOOT,
    GPUS,
    XID_31,
    XID_79,
    Node,
    attributes_of,
    events,
)
from tests.fakes import START_NS
from tests.wait import until

BEFORE = "e" * 32
BOOTED_NS = START_NS - 4000 * SECOND_NS  # when the boot before began
UUID = "GPU-b6c3b2be-c55b-d076-fa0e-d464e4c7e08b"
Start = Callable[..., KernelLogSource]


def entry(text: str, seconds: int, boot: str = BEFORE, facility: int = 0) -> str:
    """A line of journalctl for a record printed so long after boot."""
    usec = seconds * 1_000_000
    return json.dumps(
        {
            "MESSAGE": text,
            "_BOOT_ID": boot,
            "_TRANSPORT": "kernel",
            "SYSLOG_FACILITY": str(facility),
            "SYSLOG_IDENTIFIER": "kernel",
            "_SOURCE_MONOTONIC_TIMESTAMP": str(usec),
            "__MONOTONIC_TIMESTAMP": str(usec + 300),
            "__REALTIME_TIMESTAMP": str(BOOTED_NS // 1000 + usec + 300),
            "__CURSOR": f"s=x;i={seconds}",
        }
    )


@pytest.fixture
def start(node: Node, tmp_path: Path) -> Start:
    """Start an agent's source on a machine whose journal holds these lines of the boot before,
    and that has such a pstore.
    """

    def started(*lines: str, boot_id: str = BOOT) -> KernelLogSource:
        (tmp_path / "journal").write_text("".join(line + "\n" for line in lines))
        script = tmp_path / "journalctl"
        script.write_text(
            f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\nexec cat {tmp_path}/journal\n'
        )
        script.chmod(0o755)
        return node.source(
            real=True, journalctl=str(script), pstore=(tmp_path / "pstore",), boot_id=boot_id
        )

    return started


def all_of(source: KernelLogSource) -> list[Event]:
    """Events until the boot before is told."""
    found: list[Event] = []

    def over() -> bool:
        found.extend(events(source))
        return source._previous is None

    until(over, "the end of the boot before")
    return found


def dump(folder: Path, name: str, text: str, age_s: int = 600) -> None:
    """A crash record as pstore keeps it, written so long ago."""
    file = folder / "pstore" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    written = (START_NS - age_s * SECOND_NS) / 1e9
    os.utime(file, (written, written))


@pytest.mark.slow
def test_xid_79_before_a_cold_reboot(start: Start) -> None:
    """It is told at the next start, with the time of then, the boot of then, and the mark."""
    (event,) = all_of(start(entry("something", 3000), entry(XID_79, 3100)))
    assert event.device == GPUS["0000:1b:00"]
    assert event.time_ns == BOOTED_NS + 3100 * SECOND_NS
    assert (
        event.attributes["previous_boot"],
        event.attributes["stream"],
        event.attributes["code"],
    ) == (True, BEFORE, 79)
    assert event.mono_ns == 0


@pytest.mark.slow
def test_it_is_told_once(start: Start, tmp_path: Path) -> None:
    """A restart of the agent in the same boot does not ask again."""
    first = start(entry(XID_79, 3100))
    assert len(all_of(first)) == 1
    first.close()
    assert all_of(start(entry(XID_79, 3100))) == []
    assert len((tmp_path / "calls").read_text().splitlines()) == 1


@pytest.mark.slow
def test_what_was_told_while_it_happened_is_not_told_again(node: Node, start: Start) -> None:
    """The place that the agent kept in the boot before says how far it had come."""
    watched = node.source(boot_id=BEFORE)
    node.ring.print(XID_31)
    assert attributes_of(events(watched), "xid", "code") == [(31,)]
    watched.close()
    seen_s = node.clock.monotonic_ns() // SECOND_NS
    node.ring.records.clear()
    found = all_of(start(entry(XID_31, seen_s), entry(XID_79, seen_s + 50)))
    assert attributes_of(found, "xid", "code") == [(79,)]


@pytest.mark.slow
def test_swapped_gpu_is_not_blamed_for_the_one_before(node: Node, start: Start) -> None:
    """The GPU was replaced in the reboot: the XID belongs to the UUID that the log of then names,
    or to the inventory of then.
    """
    source = start(
        entry(f"NVRM: GPU at PCI:0000:5d:00: {UUID}", 3000),
        entry("NVRM: Xid (PCI:0000:5d:00): 79, GPU has fallen off the bus.", 3001),
        entry(XID_79, 3002),
    )
    new = type(GPUS["0000:1b:00"])("n1", "gpu", "GPU-new", {"pci_bus_id": "00000000:1B:00.0"})
    node.inventory.learn("gpu", [new])
    assert [event.device.id for event in all_of(source)] == [UUID, GPUS["0000:1b:00"].id]


@pytest.mark.slow
def test_a_pcie_error_of_then_that_has_no_second_line(start: Start) -> None:
    """The device was gone: the port's line alone is the event."""
    port = "pcieport 0000:b7:01.0: AER: "
    line = f"{port}Uncorrectable (Fatal) error message received from 0000:b8:00.0"
    found = all_of(start(entry(line, 3000), entry("x", 3001)))
    assert attributes_of(found, "pcie_error", "severity", "previous_boot") == [("fatal", True)]


@pytest.mark.slow
def test_user_lines_of_then_are_not_believed(start: Start) -> None:
    """A forged line stays forged over a reboot."""
    assert all_of(start(entry(XID_79, 3100, facility=1))) == []


@pytest.mark.slow
def test_pstore(start: Start, tmp_path: Path) -> None:
    """A machine that died without writing its journal has left the end in its firmware's memory."""
    text = (
        "Panic#1 Part1\n"
        "<6>[ 3099.000000] usb 1-1: x\n"
        f"<3>[ 3100.000000] {XID_79}\n"
        "<0>[ 3110.000000] Kernel panic - not syncing\n"
    )
    dump(tmp_path, "dmesg-efi_pstore-1", text)
    (event,) = all_of(start())
    assert event.time_ns == START_NS - 610 * SECOND_NS
    assert (event.attributes["origin"], event.attributes["previous_boot"]) == ("pstore", True)


@pytest.mark.slow
def test_pstore_and_journal_tell_the_same_once(start: Start, tmp_path: Path) -> None:
    """A line that both have kept is one event; a part archived again in one file too."""
    line = f"<3>[ 3100.000000] {XID_79}\n"
    dump(tmp_path, "dmesg-erst-1", line)
    dump(tmp_path, "archive/dmesg.txt", "Oops#1 Part1\n" + line)
    found = all_of(start(entry(XID_79, 3100)))
    assert attributes_of(found, "xid", "origin") == [("journal",)]


@pytest.mark.slow
def test_pstore_is_told_once_over_restarts(start: Start, tmp_path: Path) -> None:
    """A dump stays in the firmware for months: it is told at the first start that sees it."""
    dump(tmp_path, "dmesg-efi_pstore-1", f"<3>[ 3100.000000] {XID_79}\n")
    first = start()
    assert len(all_of(first)) == 1
    first.close()
    assert all_of(start()) == []
    assert all_of(start(boot_id="d" * 32)) == []


@pytest.mark.slow
def test_pstore_of_long_ago_is_left(start: Start, tmp_path: Path) -> None:
    """A crash of weeks ago is another story."""
    dump(
        tmp_path,
        "dmesg-efi_pstore-1",
        f"<3>[ 3100.000000] {XID_79}\n",
        age_s=MAX_AGE_NS // SECOND_NS + 60,
    )
    assert all_of(start()) == []


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"", b"\x00\xff" * 4000, b"<3>[ 99", b"Panic#1 Part1\n"])
def test_broken_pstore(start: Start, tmp_path: Path, content: bytes) -> None:
    """Half a dump, or junk, is no event and no error."""
    folder = tmp_path / "pstore"
    folder.mkdir()
    (folder / "dmesg-efi_pstore-1").write_bytes(content)
    assert all_of(start()) == []


@pytest.mark.slow
def test_journal_that_hangs_is_given_up(node: Node, tmp_path: Path) -> None:
    """A journalctl that never ends holds up nothing and is ended after a minute."""
    script = tmp_path / "journalctl"
    script.write_text("#!/bin/sh\nexec sleep 600\n")
    script.chmod(0o755)
    source = node.source(real=True, journalctl=str(script), pstore=())
    node.ring.print(XID_31)
    assert attributes_of(events(source), "xid", "code") == [(31,)]
    node.clock.advance(61)
    all_of(source)


@pytest.mark.slow
def test_no_journal_at_all(node: Node) -> None:
    """A machine without systemd has no boot before to tell of."""
    source = node.source(real=True, journalctl="/nonexistent/journalctl", pstore=())
    assert all_of(source) == []


def test_simulated_or_saved_log_has_no_boot_before(node: Node, tmp_path: Path) -> None:
    """Who reads another log than the machine's own must not be told of the machine's last boot."""
    log = tmp_path / "kmsg"
    log.write_text("")
    assert node.source(path=log)._previous is None
