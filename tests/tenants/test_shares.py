"""Limits cut the surplus of the tenant that has it."""

from __future__ import annotations

import pytest

from collector.sources.nccl import source
from collector.sources.nccl.inspector.watch import READ_BYTES
from pipeline.catalog import agent
from tests.tenants.node import ALICE, MALLORY, Node, job_of, reply, reports

pytestmark = pytest.mark.root

PORT, PLACES = 28_061, 16


def test_many_jobs_of_one_user_hide_no_other_users_job(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many fake jobs as there are places were there first; the real one is shown and asked, and
    one of theirs is cut.
    """
    monkeypatch.setattr(source, "MAX_JOBS", PLACES)
    for number in range(PLACES):
        node.start(MALLORY, SLURM_JOB_ID=str(600 + number), RANK="0")
    node.read()
    rank = node.start_ras(ALICE, "71", PORT)
    node.answer("71", reply(job_of(rank.pid)))
    node.suspect()
    reading = node.read(15)
    (frame,) = reading.frames
    assert len(frame.devices) == PLACES
    assert "71" in {device.id for device in frame.devices}
    assert {report.job for report in reports(reading)} == {"71"}
    last = str(600 + PLACES - 1)
    assert node.metrics.value(agent.TENANT_CUT, last, f"user{MALLORY}", "jobs") == 1


def test_new_libraries_of_one_user_leave_no_other_users_version_unknown(node: Node) -> None:
    """One library is searched in a scan: each user has its turn, however many one brings."""
    for number in range(4):
        library(node, MALLORY, 600 + number)
    library(node, ALICE, 71)
    for number in range(2):
        reading = node.read(15)
        library(node, MALLORY, 700 + number)
    versions = {d.id: d.attributes.get("nccl") for d in reading.frames[0].devices}
    assert versions["71"] == "2.30.7"


def library(node: Node, user: int, job: int) -> None:
    """A job with a library of its own, whose name has no version."""
    path = node.file(f"lib{job}/libnccl.so.2", b"NCCL version 2.30.7+cuda13.0" * 200, user)
    node.start(user, maps=(node.device, path), SLURM_JOB_ID=str(job), RANK="0")


def test_bytes_and_dumps_that_are_not_read_are_shown(node: Node) -> None:
    """An Inspector log that grows faster than its share, and a dump that is refused, by their
    owner; no longer when they are read.
    """
    folder = node.folder / "job666"
    tenant = node.start(
        MALLORY,
        SLURM_JOB_ID="666",
        RANK="0",
        NCCL_INSPECTOR_ENABLE="1",
        NCCL_INSPECTOR_DUMP_DIR=str(folder),
        TORCH_FR_DUMP_TEMP_FILE=f"{folder}/dump_",
    )
    name = f"job666/n1-pid{tenant.pid}.log"
    path = node.file(name, b"", MALLORY)
    node.file("job666/dump_0", b"\x80\x02cos\nsystem\n.", MALLORY)

    def cut(limit: str) -> float | None:
        return node.metrics.value(agent.TENANT_CUT, "666", f"user{MALLORY}", limit)

    node.read(61)
    path.write_bytes(b"no line of the Inspector\n" * 100_000)
    node.read(61)
    assert cut("bytes") == 2_500_000 - READ_BYTES
    assert cut("dumps") == 1
    for _ in range(3):
        node.read(61)
    assert cut("bytes") is None
    node.stop(tenant)
    node.read(61)
    assert cut("dumps") is None
