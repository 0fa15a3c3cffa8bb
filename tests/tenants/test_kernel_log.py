"""Lines that tenants bring into the kernel log, or into a copy of it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.agent.environment import boot_id
from collector.node.inventory import Inventory
from collector.node.state import State
from collector.sources.kmsg import KernelLogSource
from detectors.paging import judge_in_service
from pipeline.catalog import agent
from pipeline.finding import Finding
from pipeline.observation import Event, Observation
from pipeline.selfmetrics import SelfMetrics
from tests.tenants.node import HOST, MALLORY, Node
from tests.wait import until

pytestmark = pytest.mark.root

XID = "NVRM: Xid (PCI:0000:1b:00): 79, pid=42, name=python3, GPU has fallen off the bus."
DAEMON_LINE = f"Nov 23 06:00:00 {HOST} kernel: "
CRASH = "import ctypes, os; os.setresuid({user}, {user}, {user}); ctypes.string_at(0)"


def syslog_source(node: Node, log: Path) -> KernelLogSource:
    """The source of a machine where only the syslog daemon's file can be read."""
    state = State(node.folder / "state.json")
    inventory = Inventory(HOST, state)
    return KernelLogSource(
        HOST,
        node.clock,
        "b",
        inventory,
        state,
        node.metrics,
        path=Path("/nonexistent/kmsg"),
        real=True,
        journalctl="/nonexistent/journalctl",
        files=(log,),
        pstore=(),
    )


def judged(node: Node, events: tuple[Event, ...]) -> list[Finding]:
    """What all detectors say of events."""
    judge = judge_in_service(SelfMetrics(), node.clock, {"kmsg": 1.0})
    now = (node.clock.time_ns(), node.clock.monotonic_ns())
    return list(judge.judge(Observation("kmsg", HOST, "b", 1, *now, 0, events=events)).findings)


def test_a_forged_line_in_a_syslog_file_raises_no_finding(node: Node) -> None:
    """``logger -t kernel``, and a record of the kernel that was split at a newline, are claims."""
    log = node.file("kern.log", b"")
    source = syslog_source(node, log)
    source.read()
    log.write_text(
        f"{DAEMON_LINE}{XID}\n"
        f"{DAEMON_LINE}[ 7366.953338] {XID}\n"
        f"{DAEMON_LINE}mce: [Hardware Error]: CPU 1: Machine Check: 0 Bank 4: be00000000800400\n",
        encoding="ascii",
    )
    events = [event for _ in range(4) for event in source.read().events]
    source.close()
    assert {event.kind for event in events} == {"kernel_log_untrusted"}
    assert {event.attributes["origin"] for event in events} == {"syslog"}
    assert [event.attributes.get("code") for event in events][:1] == [79]
    assert judged(node, tuple(events)) == []


@pytest.fixture
def program() -> Iterator[Path]:
    """A program whose file name is a complete line of the driver."""
    folder = Path("/tmp") / f"tenants-{os.getpid()}"
    folder.mkdir()
    path = folder / f"q\n{XID}"
    shutil.copy(sys.executable, path)
    yield path
    shutil.rmtree(folder)


def test_a_crashing_program_with_a_newline_in_its_name_is_no_xid(node: Node, program: Path) -> None:
    """The kernel prints the name into its own log; the record is one, and begins otherwise."""
    state = State(node.folder / "state.json")
    boot, inventory = boot_id(Path("/proc")), Inventory(HOST, state)
    source = KernelLogSource(HOST, node.clock, boot, inventory, state, node.metrics, pstore=())
    source.read()
    before = node.metrics.value(agent.KERNEL_LOG_RECORDS) or 0
    done = subprocess.run(
        [program, "-I", "-S", "-c", CRASH.format(user=MALLORY)],
        check=False,
        env={"LD_LIBRARY_PATH": f"{sys.base_prefix}/lib", "PYTHONHOME": sys.base_prefix},
    )
    assert done.returncode == -signal.SIGSEGV
    events: list[Event] = []

    def printed() -> bool:
        events.extend(source.read().events)
        return (node.metrics.value(agent.KERNEL_LOG_RECORDS) or 0) > before

    until(printed, "the kernel's line")
    source.close()
    assert not [event for event in events if event.kind == "xid"]
