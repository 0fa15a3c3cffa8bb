"""Continuity: a loss that nothing announced is accepted when two reports have it."""

from __future__ import annotations

from collector.sources.nccl.ras.continuity import Continuity
from collector.sources.nccl.ras.json_report import parse_json
from pipeline.nccl.report import Report
from simulator.nccl.job import Comm, Job, Seat, build
from simulator.nccl.json_reply import render_json


def report(job: Job) -> Report:
    """A report of the job."""
    return parse_json(render_json(job, "").encode())


def test_a_job_at_work_is_believed() -> None:
    """Counts move, and communicators come."""
    job, checks = build(8), Continuity()
    assert checks.check(report(job)).trusted
    job.launch("AllReduce")
    job.comms.append(Comm(99, (1, 1), [Seat(p, 0) for p in job.peers[:2]]))
    assert checks.check(report(job)).trusted


def test_ranks_that_vanish_without_a_teardown_are_believed_the_second_time() -> None:
    """The processes run, and none finalised."""
    job, checks = build(8), Continuity()
    checks.check(report(job))
    job.comms[0].seats[3].left = True
    assert "second report" in checks.check(report(job)).distrust
    assert checks.check(report(job)).trusted


def test_a_communicator_that_vanishes_is_believed_the_second_time() -> None:
    """As the world communicator does in NVIDIA/nccl#2346."""
    job, checks = build(8, tensor=4), Continuity()
    checks.check(report(job))
    del job.comms[0]
    assert not checks.check(report(job)).trusted
    assert checks.check(report(job)).trusted


def test_another_loss_is_not_a_confirmation() -> None:
    """The second report must agree with the first."""
    job, checks = build(8), Continuity()
    checks.check(report(job))
    job.comms[0].seats[3].left = True
    checks.check(report(job))
    job.comms[0].seats[3].left, job.comms[0].seats[4].left = False, True
    assert not checks.check(report(job)).trusted


def test_a_loss_that_passes_is_forgotten() -> None:
    """The next report is complete again."""
    job, checks = build(8), Continuity()
    checks.check(report(job))
    job.comms[0].seats[3].left = True
    checks.check(report(job))
    job.comms[0].seats[3].left = False
    assert checks.check(report(job)).trusted


def test_a_teardown_is_believed_at_once() -> None:
    """Ranks that finalise leave."""
    job, checks = build(8), Continuity()
    job.comms[0].seats[0].finalize = True
    checks.check(report(job))
    job.comms[0].seats[3].left = True
    assert checks.check(report(job)).trusted


def test_a_process_that_is_gone_is_believed_at_once() -> None:
    """Missing is not left."""
    job, checks = build(8), Continuity()
    checks.check(report(job))
    job.peers[3].life = "unresponsive"
    assert checks.check(report(job)).trusted


def test_a_report_that_is_not_trusted_changes_nothing() -> None:
    """Its communicators are no yardstick."""
    job, checks = build(8), Continuity()
    checks.check(report(job))
    checks.check(parse_json(render_json(job, "").replace('"size": 8', '"size": 9').encode()))
    job.comms[0].seats[3].left = True
    assert not checks.check(report(job)).trusted
