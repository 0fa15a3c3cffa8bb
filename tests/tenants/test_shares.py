"""Limits cut the surplus of the tenant that has it."""

from __future__ import annotations

import pytest

from collector.sources.nccl.source import MAX_JOBS
from pipeline.catalog import agent
from tests.tenants.node import ALICE, MALLORY, Node, job_of, reply, reports

pytestmark = pytest.mark.root

PORT = 28_061


def test_many_jobs_of_one_user_hide_no_other_users_job(node: Node) -> None:
    """64 fake jobs were there first; the real one is shown and asked, and one of theirs is cut."""
    for number in range(MAX_JOBS):
        node.start(MALLORY, SLURM_JOB_ID=str(600 + number), RANK="0")
    node.read()
    rank = node.start_ras(ALICE, "71", PORT)
    node.answer("71", reply(job_of(rank.pid)))
    node.suspect()
    reading = node.read(15)
    (frame,) = reading.frames
    assert len(frame.devices) == MAX_JOBS
    assert "71" in {device.id for device in frame.devices}
    assert {report.job for report in reports(reading)} == {"71"}
    last = str(600 + MAX_JOBS - 1)
    assert node.metrics.value(agent.TENANT_CUT, last, f"user{MALLORY}", "jobs") == 1
