"""Memory that tenants can make the agent use."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from collector.sources.nccl.inspector.watch import NODE_RANKS, RANKS
from collector.sources.tenants.limits import (
    LOGS_BYTES,
    NCCL_BYTES,
    SETTINGS_BYTES,
    TASKS_BYTES,
)
from tests.collector.sources.nccl.inspector.lines import line
from tests.tenants.node import ALICE, MALLORY, Node, reports
from tests.wait import PATIENCE_S

pytestmark = pytest.mark.root

PROCESSES = 48
AGENT_BYTES = 64 << 20
LOOK = """
import json, resource, sys
from collector.sources.nccl.flight_recorder.read import DumpRequest
from collector.sources.nccl.reader import NcclReader
from collector.sources.tenants.child_desk import ChildDesk, ReaderOf
from collector.sources.tenants.cuts import Cuts
from collector.sources.tenants.desk import Who
from collector.sources.tenants.limits import NCCL_BYTES
from pipeline.selfmetrics import SelfMetrics
metrics = SelfMetrics()
desk = ChildDesk(
    "nccl",
    ReaderOf("collector.sources.nccl.reader", NCCL_BYTES, ("/proc",)),
    metrics,
    Cuts(metrics),
)
requests = [
    DumpRequest(sys.argv[1], name, None, False, 0, "666", "n1", 5, 10**18) for name in sys.argv[2:]
]
who = Who("666", "user65534")
refused = [bool(desk.ask(NcclReader.dump, who, 60.0, request).refused) for request in requests]
desk.close()
print(json.dumps([refused, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024]))
"""
UNIT = Path(__file__).parents[2] / "deploy/systemd/tocsin.service"


def test_large_inspector_logs_of_many_processes_are_bounded(node: Node) -> None:
    """48 processes with hundreds of communicators each; the neighbour's is read as before."""
    logs = {}
    for number in range(PROCESSES + 1):
        user, job = (MALLORY, "666") if number else (ALICE, "71")
        folder = node.folder / f"inspector{number}"
        tenant = node.start(
            user,
            SLURM_JOB_ID=job,
            RANK=str(number),
            NCCL_INSPECTOR_ENABLE="1",
            NCCL_INSPECTOR_DUMP_DIR=str(folder),
        )
        logs[number] = (f"{folder.name}/n1-pid{tenant.pid}.log", user)
    many = b"".join(
        line(step * 1000, head=f"0x{comm + 1:x}") + b"\n"
        for comm in range(400)
        for step in range(4)
    )
    for number, (name, user) in logs.items():
        node.file(name, many if number else line(4) + b"\n", user)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    found = [report for _ in range(12) for report in reports(node.read(61))]
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < AGENT_BYTES // 2
    assert "71" in {report.job for report in found}
    sizes = [len(report.communicators) for report in found if report.job == "666"]
    assert 0 < max(sizes) <= min(RANKS, NODE_RANKS // (2 * PROCESSES))


def test_a_large_dump_is_refused_unread(tmp_path: Path) -> None:
    """250 MiB of them; the child that looks is never larger than the unit allows."""
    with (tmp_path / "dump").open("wb") as file:
        file.write(b"\x80\x02")
        file.truncate(250 << 20)
    with (tmp_path / "wide").open("wb") as file:  # as many numbers as a pickle may have opcodes
        file.write(b"\x80\x02")
        for _ in range(79):
            file.write(b"Jabcd" * 100_000)
    # In a process of its own: the largest of its children is the one that looks.
    looked = subprocess.run(
        [sys.executable, "-c", LOOK, str(tmp_path), "/dump", "/wide"],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    refused, largest = json.loads(looked.stdout)
    assert refused == [True, True]
    assert largest < NCCL_BYTES + AGENT_BYTES
    assert (tmp_path / "dump").stat().st_size == 250 << 20


def test_the_units_limits_hold_agent_and_children() -> None:
    """The children that read what tenants wrote, the agent, the driver's child and sealing are
    below MemoryHigh; a killed child does not stop the agent.
    """
    unit = dict(
        row.split("=", 1)
        for row in UNIT.read_text(encoding="utf-8").splitlines()
        if row.startswith(("Memory", "OOMPolicy"))
    )
    agent, driver, sealing = 72, 20, 160  # MiB: docs/operating.md
    children = (NCCL_BYTES + LOGS_BYTES + TASKS_BYTES + SETTINGS_BYTES) >> 20
    needed = children + agent + driver + sealing
    assert needed < int(unit["MemoryHigh"].removesuffix("M")) < int(unit["MemoryMax"][:-1])
    assert unit["OOMPolicy"] == "continue"
