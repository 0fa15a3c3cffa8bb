"""Tenants' bytes are opened, read and decoded in a child; the agent goes on without one look."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from collector.sources.tenants.child_desk import ChildDesk
from collector.sources.tenants.limits import NCCL_BYTES
from pipeline.catalog import agent
from tests.collector.sources.nccl.inspector.lines import line
from tests.collector.sources.nccl.recordings import DUMPS
from tests.tenants.node import ALICE, BOB, MALLORY, Node, Tenant, job_of, reply, reports

pytestmark = pytest.mark.root

PORT = 28_071
DUMP = (DUMPS / "fr_gloo_missing_rank2.json").read_bytes()
# Below /proc/PID the kernel's own account of a process; all else is the tenant's text.
OF_THE_KERNEL = {"stat", "fd"}


def job(node: Node, user: int, name: str, port: int) -> Tenant:
    """A job with everything that is read: RAS, an Inspector log, a dump."""
    folder = node.folder / f"job{name}"
    tenant = node.start(
        user,
        ras={"port": port, "reply": str(node.folder / f"reply{name}")},
        SLURM_JOB_ID=name,
        RANK="0",
        NCCL_RAS_ADDR=f"localhost:{port}",
        NCCL_INSPECTOR_ENABLE="1",
        NCCL_INSPECTOR_DUMP_DIR=str(folder),
        TORCH_FR_DUMP_TEMP_FILE=f"{folder}/dump_",
    )
    node.answer(name, reply(job_of(tenant.pid, number=int(name))))
    node.file(f"job{name}/n1-pid{tenant.pid}.log", line(4) + b"\n", user)
    node.file(f"job{name}/dump_0", DUMP, user)
    return tenant


@contextmanager
def noting_opened() -> Iterator[list[str]]:
    """The paths that this process opens meanwhile."""
    paths: list[str] = []
    active = True

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if active and event in {"open", "socket.connect"}:
            paths.append(os.fsdecode(str(arguments[0])))

    sys.addaudithook(hook)
    try:
        yield paths
    finally:
        active = False


def test_the_agent_itself_opens_nothing_that_a_tenant_wrote(node: Node) -> None:
    """Neither files, nor maps, environment or control groups, nor sockets; all is read even so."""
    tenant = job(node, ALICE, "71", PORT)
    node.suspect()
    with noting_opened() as paths:
        tellers = {report.teller for report in reports(node.read(61))}
    assert tellers == {"ras", "inspector", "flight_recorder"}
    own = [Path(path).relative_to(node.proc).parts for path in paths if str(node.proc) in path]
    assert {parts[1] for parts in own if parts[0] == str(tenant.pid)} <= OF_THE_KERNEL
    assert not [path for path in paths if "job71" in path or str(PORT) in path]


def test_a_child_that_is_killed_between_looks_costs_none(node: Node) -> None:
    """It dies between two looks, and the next look starts another; no dump is reported twice."""
    assert isinstance(node.desk, ChildDesk)
    for user, name, port in ((ALICE, "71", PORT), (BOB, "72", PORT + 1)):
        job(node, user, name, port)
    node.suspect()
    first = {(report.job, report.teller) for report in reports(node.read(61))}
    assert len(first) == 6
    assert node.desk.pid is not None
    os.kill(node.desk.pid, signal.SIGKILL)
    reading = node.read(61)
    again = {(report.job, report.teller) for report in reports(reading)}
    assert {(name, "ras") for name in ("71", "72")} <= again
    assert not {teller for _, teller in again} & {"flight_recorder"}
    assert node.desk.starts == 2


def test_the_largest_reply_costs_no_other_job_anything(node: Node) -> None:
    """31 MiB of ranks with long names, read after read: refused in the child, within its limit; the
    neighbour's report is there each time.
    """
    node.suspect()
    honest = node.start_ras(ALICE, "71", PORT + 2)
    node.answer("71", reply(job_of(honest.pid)))
    forger = node.start_ras(MALLORY, "666", PORT + 3)
    before, brace, text = reply(job_of(forger.pid)).decode().partition("{")
    document = json.loads(brace + text)
    ranks = document["communicators"][0]["ranks"]
    ranks[0]["host"] = "h" * 200
    ranks *= (31 << 20) // len(json.dumps(ranks[0]))
    node.answer("666", (before + json.dumps(document)).encode())
    for _ in range(3):
        reading = node.read(61)
        node.observation(reading)
        assert {report.job for report in reports(reading)} == {"71"}
    assert node.metrics.value(agent.NCCL_POLLS, "trusted") == 3
    assert isinstance(node.desk, ChildDesk)
    status = Path(f"/proc/{node.desk.pid}/status").read_text(encoding="utf-8")
    (largest,) = re.findall(r"VmHWM:\s+(\d+) kB", status)
    assert int(largest) << 10 < NCCL_BYTES


def test_a_reply_of_more_ranks_than_the_share_is_cut_and_shown(node: Node) -> None:
    """A node reads so many ranks at once; who has more is named in tocsin_tenant_cut."""
    node.suspect()
    honest = node.start_ras(ALICE, "71", PORT + 4)
    node.answer("71", reply(job_of(honest.pid)))
    forger = node.start_ras(MALLORY, "666", PORT + 5)
    before, brace, text = reply(job_of(forger.pid)).decode().partition("{")
    document = json.loads(brace + text)
    document["communicators"][0]["ranks"] *= 40_000
    node.answer("666", (before + json.dumps(document)).encode())
    reading = node.read(61)
    assert {report.job for report in reports(reading)} == {"71"}
    assert node.metrics.value(agent.TENANT_CUT, "666", f"user{MALLORY}", "ranks") == 1
