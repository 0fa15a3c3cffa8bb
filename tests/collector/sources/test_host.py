"""Slow facts of the host from a /proc and /sys of the test."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from collector.sources import adjtimex
from collector.sources.adjtimex import Discipline
from collector.sources.host import HostSource
from pipeline.catalog import facts_of, field, fields_of
from pipeline.frame import Frame
from pipeline.observation import Unread
from tests.fakes import FakeClock

SYNCHRONISED = Discipline(offset_ns=-1500, maximum_error_us=250, synchronised=True)

STAT = "cpu  1 2 3 4\nintr 5 0 0\nctxt 9\nbtime 1795157745\nprocesses 7\n"
MEMINFO = "MemTotal:       2113478656 kB\nMemFree:         1000 kB\nMemAvailable:   2000000000 kB\n"

# Documentation/accounting/psi.rst
PSI = (
    "some avg10=1.50 avg60=0.00 avg300=0.00 total={}\n"
    "full avg10=0.00 avg60=0.00 avg300=0.00 total={}\n"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A host with every file the catalogue names, each fact holding its own name."""
    for fact in facts_of("node"):
        write(tmp_path, fact.read, f"the {fact.name}\nsecond line\n")
    write(tmp_path, "/proc/stat", STAT)
    write(tmp_path, "/proc/meminfo", MEMINFO)
    for what, us in (("cpu", 11), ("io", 12), ("memory", 14)):
        write(tmp_path, f"/proc/pressure/{what}", PSI.format(us, us - 1))
    write(tmp_path, "/proc/vmstat", "pgfault 99\npgmajfault 7\npgmajfault_other 3\n")
    write(tmp_path, "/sys/fs/cgroup/system.slice/nvidia-fabricmanager.service/cgroup.procs", "7\n")
    return tmp_path


def write(root: Path, path: str, text: str) -> None:
    """A file of the host."""
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def host(root: Path, discipline: Callable[[], Discipline] = lambda: SYNCHRONISED) -> HostSource:
    """The source over that host."""
    return HostSource(root / "proc", root / "sys", "n1", FakeClock(), discipline=discipline)


def node(source: HostSource) -> Frame:
    """Its frame."""
    (frame,) = source.read().frames
    return frame


def test_every_field_that_the_catalogue_reads_here(root: Path) -> None:
    """Each has its value, in the catalogue's unit."""
    frame = node(host(root))
    mine = {row.name for row in fields_of("node") if row.read != "source"}
    assert {name: frame.value(name, 0) for name in mine} == {
        "boot_time_seconds": 1795157745,
        "pressure_cpu_some_microseconds": 11,
        "pressure_io_some_microseconds": 12,
        "pressure_memory_full_microseconds": 13,
        "major_page_faults": 7,
        "memory_total_kibibytes": 2113478656,
        "memory_available_kibibytes": 2000000000,
        "clock_offset_nanoseconds": -1500,
        "clock_maximum_error_microseconds": 250,
        "clock_synchronised": 1,
        "fabric_manager_running": 1,
    }
    assert field("node", "memory_total_kibibytes").base(2113478656) == 2113478656 * 1024


def test_every_fact_of_the_catalogue(root: Path) -> None:
    """Each is the first line of its file."""
    (device,) = node(host(root)).devices
    assert dict(device.attributes) == {fact.name: f"the {fact.name}" for fact in facts_of("node")}
    assert (device.kind, device.id) == ("node", "n1")


def test_a_bare_machine(tmp_path: Path) -> None:
    """Files that are not there are facts this machine does not have: nothing unread, and
    the clock is still told.
    """
    reading = host(tmp_path).read()
    assert reading.unread == ()
    assert dict(reading.frames[0].devices[0].attributes) == {}
    assert reading.frames[0].value("clock_synchronised", 0) == 1
    assert reading.frames[0].value("memory_total_kibibytes", 0) is None


def test_files_that_hold_something_else(root: Path) -> None:
    """What has no such line is missing with a reason; a fact is one printable, bounded line
    whatever its file holds.
    """
    write(root, "/proc/stat", "btime soon\n")
    write(root, "/proc/sys/kernel/osrelease", "6.1\x1b[31m" + "x" * 1000)
    reading = host(root).read()
    assert reading.unread == (Unread("garbage", "n1", "boot_time_seconds"),)
    kernel = reading.frames[0].devices[0].attributes["kernel"]
    assert kernel.isprintable()
    assert len(kernel) == 128


def test_a_fifo_or_a_folder_instead_of_a_file(root: Path) -> None:
    """A saved tree with traps in it holds nobody."""
    (root / "proc" / "stat").unlink()
    os.mkfifo(root / "proc" / "stat")
    (root / "proc" / "meminfo").unlink()
    (root / "proc" / "meminfo").mkdir()
    reasons = {(u.reason, u.field) for u in host(root).read().unread}
    assert reasons >= {
        ("EISDIR", "memory_total_kibibytes"),
        ("EISDIR", "memory_available_kibibytes"),
    }


def test_a_clock_that_is_not_synchronised_is_said_once(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One line when it is lost, one when it is back, none in between."""
    now = [SYNCHRONISED]
    source = host(root, lambda: now[0])
    with caplog.at_level(logging.INFO):
        node(source)
        assert caplog.records == []
        now[0] = Discipline(0, 16_000_000, synchronised=False)
        assert [node(source).value("clock_synchronised", 0) for _ in range(3)] == [0, 0, 0]
        now[0] = SYNCHRONISED
        node(source)
    assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.INFO]


def test_a_kernel_without_clock_discipline(root: Path) -> None:
    """A sandbox that refuses the call costs the three clock fields."""

    def refuse() -> Discipline:
        raise PermissionError(1, "Operation not permitted")

    reading = host(root, refuse).read()
    assert reading.unread == (Unread("EPERM", "n1", "clock_synchronised"),)
    assert reading.frames[0].value("boot_time_seconds", 0) == 1795157745


def test_the_kernel_of_this_machine() -> None:
    """The real call on the real struct: a bound on the error, within what NTP allows
    (NTP_PHASE_LIMIT, 16 s, linux/timex.h).
    """
    try:
        found = adjtimex.read()
    except OSError as error:
        pytest.skip(f"this kernel has no adjtimex: {error}")
    assert 0 <= found.maximum_error_us <= 16_000_000
    assert abs(found.offset_ns) <= 500_000_000  # MAXPHASE
