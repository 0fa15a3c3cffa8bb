"""Numbers that no counter holds, in a reply, a log or a dump: they cost their writer that entry."""

from __future__ import annotations

import json
from typing import Any

import pytest

from collector.sources.joblog.source import JobLogSource
from pipeline.nccl.wire import hit_of
from pipeline.selfmetrics import SelfMetrics
from tests.collector.sources.nccl.inspector.lines import line
from tests.collector.sources.nccl.recordings import DUMPS
from tests.tenants.node import ALICE, HOST, MALLORY, Node, Tenant, job_of, reply, reports

pytestmark = pytest.mark.root

HUGE = ("9" * 400, str(1 << 64), str(1 << 63))


def inspected(node: Node, user: int, job: str, *lines: bytes) -> Tenant:
    """A tenant whose Inspector log has these lines."""
    folder = node.folder / f"inspector{job}"
    tenant = node.start(
        user,
        SLURM_JOB_ID=job,
        RANK="0",
        NCCL_INSPECTOR_ENABLE="1",
        NCCL_INSPECTOR_DUMP_DIR=str(folder),
    )
    node.file(f"{folder.name}/n1-pid{tenant.pid}.log", b"\n".join(lines) + b"\n", user)
    return tenant


@pytest.mark.parametrize("number", HUGE)
def test_a_huge_number_in_an_inspector_log_costs_that_line(node: Node, number: str) -> None:
    """The tenant's other lines count, and so does the neighbour."""
    forged = [
        line(7).replace(b'"coll_sn":7', b'"coll_sn":' + number.encode()),
        line(8).replace(b":4194304", b":" + number.encode()),
        line(9).replace(b":1795151188000000", b":" + number.encode()),
        line(10).replace(b":1.75", b":1e308"),
        line(11).replace(b'"n_ranks":8', b'"n_ranks":' + number.encode()),
        line(12, pid=1).replace(b'"pid":1', b'"pid":' + number.encode()),
    ]
    inspected(node, MALLORY, "666", *forged, line(2))
    inspected(node, ALICE, "71", line(4))
    for _ in range(3):
        reading = node.read(61)
        node.observation(reading)
    (frame,) = reading.frames
    by_job = {d.id: frame.value("operations_completed", i) for i, d in enumerate(frame.devices)}
    assert by_job == {"71": 5, "666": 11}


@pytest.mark.parametrize("number", HUGE)
def test_a_huge_number_in_a_reply_costs_the_tenant_that_reply(node: Node, number: str) -> None:
    """The neighbour is asked in the same read, and the observation is stored."""
    node.suspect()
    forger = node.start_ras(MALLORY, "666", 28_031)
    text = reply(job_of(forger.pid)).decode()
    for old in (": 100", f'"pid": {forger.pid}', '"timeouts_count": 0', "2026-11-23"):
        assert old in text
    forged = text.replace(": 100", f": {number}")
    honest = node.start_ras(ALICE, "71", 28_032)
    node.answer("71", reply(job_of(honest.pid)))
    for content in (
        forged,
        text.replace(f'"pid": {forger.pid}', f'"pid": {number}'),
        text.replace('"timeouts_count": 0', f'"timeouts_count": {number}'),
        text.replace("2026-11-23", "9999-12-31"),
    ):
        node.answer("666", content.encode())
        reading = node.read(61)
        node.observation(reading)
        assert "71" in {report.job for report in reports(reading)}


@pytest.mark.parametrize("number", HUGE)
def test_a_huge_number_in_a_dump_costs_that_entry(node: Node, number: str) -> None:
    """The dump's other entries count, and the observation is stored."""
    document: dict[str, Any] = json.loads((DUMPS / "fr_gloo_missing_rank2.json").read_bytes())
    first, second = document["entries"][:2]
    first["collective_seq_id"] = int(number)
    second["time_created_ns"] = int(number)
    for config in document["pg_config"].values():
        config["ranks"] = [0, 1, int(number)]
    node.start(
        MALLORY,
        SLURM_JOB_ID="666",
        RANK="0",
        TORCH_FR_DUMP_TEMP_FILE=str(node.folder / "dump_"),
    )
    node.file("dump_0", json.dumps(document).encode(), MALLORY)
    reading = node.read()
    node.observation(reading)
    (report,) = reports(reading)
    assert dict(report.parsed)["entry"] == len(document["entries"]) - 1
    assert all(rank < 1 << 31 for c in report.communicators for rank in c.ranks)
    created = [o.created_ns for c in report.communicators for m in c.members for o in m.operations]
    assert max(created) < 1 << 62


@pytest.mark.parametrize("stamp", ["9999-12-31 23:59:59", "2300-01-01 00:00:00"])
def test_a_line_of_the_year_9999_is_of_now(node: Node, stamp: str) -> None:
    """Its numbers that no process id can be are none; the observation is stored."""
    text = f"[{stamp}] n1:{'9' * 19}:9 [{'9' * 19}] net.cc:1 NCCL WARN Cuda failure 'unknown error'"
    log = node.file("logs/job.log", b"", MALLORY)
    source = JobLogSource([str(log.parent / "*")], HOST, node.clock, SelfMetrics())
    source.read()
    log.write_text(f"{text}\n" * 2, encoding="ascii")
    node.clock.advance(31)
    reading = source.read()
    source.close()
    node.observation(reading)
    assert reading.events
    for event in reading.events:
        assert event.time_ns <= node.clock.time_ns()
        assert hit_of(event).pid == -1
