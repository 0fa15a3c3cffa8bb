"""Membership of jobs where processes claim the jobs of others: the scheduler's word decides which
hosts take part in a job that it knows.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations

import pytest

from detectors.kit.allocations import MigSlot
from detectors.kit.jobs import JobTracker
from pipeline.frame import Device
from pipeline.observation import Event, Value

TRAINING = "ml/llm.1a2b3c4d"
HONEST, HOSTILE = MigSlot("n1", "GPU-a"), MigSlot("n9", "GPU-eve")


def event(host: str, job: str, gpus: str = "", **more: Value) -> Event:
    """Of processes that use NCCL; of a scheduler where ``more`` names it; without GPUs an end."""
    kind = "job_started" if gpus else "job_ended"
    facts = {"job": job, **({"gpus": gpus} if gpus else {}), **more}
    return Event(0, 0, Device(host, "node", host), kind, facts)


def tracker(events: Iterable[Event]) -> JobTracker:
    """One that has seen these, one after the other."""
    jobs = JobTracker()
    for each in events:
        jobs.take([each], now_ns=0)
    return jobs


def restored(jobs: JobTracker) -> JobTracker:
    """Another one with its memory."""
    other = JobTracker()
    other.prepare(jobs.state())()
    return other


@pytest.mark.parametrize("job", ["71", TRAINING])
@pytest.mark.parametrize("step", ["", ".0", ".batch"])
def test_a_claim_joins_no_job_that_the_scheduler_placed_elsewhere(job: str, step: str) -> None:
    """In whatever order events come, the process's GPU is no member of the job, nor is its number
    of hosts the job's, and a restart changes neither.
    """
    name = job + (step if job == "71" else "")
    events = (
        event("n1", job, HONEST.gpu, scheduler="slurm"),
        event("n1", name, HONEST.gpu, hosts=2),
        event("n9", name, HOSTILE.gpu, hosts=4096),
    )
    for order in permutations(events):
        if order.index(events[0]) > order.index(events[1]):
            continue  # the scheduler's word of a host comes before that of its processes
        for jobs in (first := tracker(order), restored(first)):
            assert jobs.of(*HONEST) == name
            assert jobs.of(*HOSTILE) == f"{job} claimed on n9"
            assert (*jobs.members(name), *jobs.with_steps(job)) == (HONEST, HONEST)
            assert jobs.members(f"{job} claimed on n9") == (HOSTILE,)
            assert (jobs.reach(name), jobs.hosts_of_processes(job)) == (2, {"n1"})
            assert jobs.of_host("n9") == [f"{job} claimed on n9"]
            assert jobs.busy("n9")


def test_a_claim_leaves_a_gpu_to_the_job_that_the_scheduler_gave_it() -> None:
    """A pod's training keeps its GPU when a process in it calls itself another job."""
    jobs = tracker(
        [
            event("n1", "71", HONEST.gpu, scheduler="slurm"),
            event("n9", "eve/x.99999999", HOSTILE.gpu, scheduler="kubernetes"),
            event("n9", "71.0", HOSTILE.gpu),
        ]
    )
    assert jobs.of(*HOSTILE) == "eve/x.99999999"
    assert jobs.members("eve/x.99999999") == (HOSTILE,)


def test_processes_seen_before_their_scheduler_s_word_join_their_job_with_it() -> None:
    """A node whose jobs are read late loses neither its part of the job nor how many hosts it
    has; a step ends under its own name.
    """
    late = MigSlot("n2", "GPU-b")
    jobs = tracker(
        [
            event("n2", "71.0", late.gpu, hosts=2),
            event("n1", "71", HONEST.gpu, scheduler="slurm"),
        ]
    )
    assert (jobs.of(*late), jobs.reach("71.0")) == ("71 claimed on n2", None)
    jobs = restored(jobs)
    jobs.take([event("n2", "71", late.gpu, scheduler="slurm")])
    assert (jobs.of(*late), jobs.reach("71.0")) == ("71.0", 2)
    assert jobs.members("71 claimed on n2") == ()
    jobs.take([event("n2", "71.0")])
    assert jobs.of(*late) == "71"


def test_a_claim_ends_with_its_processes() -> None:
    """Steps of a claimed job are kept apart until each of them has ended."""
    jobs = tracker(
        [
            event("n1", "71", HONEST.gpu, scheduler="slurm"),
            event("n9", "71.0", "GPU-x"),
            event("n9", "71.1", "GPU-y"),
        ]
    )
    assert len(jobs.members("71 claimed on n9")) == 2
    jobs.take([event("n9", "71.0")])
    assert jobs.members("71 claimed on n9") == (MigSlot("n9", "GPU-y"),)
    jobs.take([event("n9", "71.1")])
    assert not jobs.busy("n9")


def test_a_name_that_no_scheduler_knows_is_believed_across_hosts() -> None:
    """Jobs of torchrun, and of sites whose scheduler is not read, are one job as before."""
    for name in ("torchrun:x", "71.0"):
        jobs = tracker([event("n1", name, "GPU-a", hosts=2), event("n2", name, "GPU-b", hosts=2)])
        assert jobs.members(name) == (MigSlot("n1", "GPU-a"), MigSlot("n2", "GPU-b"))
        assert jobs.reach(name) == 2
