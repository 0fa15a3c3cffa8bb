"""Jobs of Slurm: plain ones, several steps, tasks of an array, a component of a heterogeneous job,
and jobs that are queued again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from collector.node.trainings import Trainings
from collector.sources.jobs.allocation import Allocation
from collector.sources.kmsg.victim import about_victim
from collector.sources.nccl.discovery.found import Found
from evaluation.schedulers.deaths import DEATHS
from evaluation.schedulers.placed import NAME, USER, Placed, found, logged
from pipeline.clock import Instant
from pipeline.frame import Device
from pipeline.observation import Event

FIRST = 714_000
HETEROGENEOUS, ARRAY = 3, 2  # remainders of the number by 5
_NAMES = re.compile(rf"\b{FIRST // 1000}(\d{{3}})(?:\.\d+)?\b")


class Slurm:
    """See placed.Scheduler."""

    owner = "user:ada"

    def started(self, job: Placed) -> None:
        """Slurm says nothing."""

    def ended(self, job: Placed, death: str, at: Instant) -> Iterator[Event]:
        """Lines of torchrun and slurmstepd in the job's log."""
        host = next(iter(job.gpus))
        node = Device(host, "node", host)
        if DEATHS[death].kernel:
            group = f"/system.slice/slurmstepd.scope/job_{_id(job)}/step_0"
            facts = about_victim(group, group)
            pid = job.pids[job.gpus[host][0]]
            yield Event(*at, node, "oom_kill", {"pid": pid, "process": "python3", **facts})
        lines = (*DEATHS[death].log, *DEATHS[death].slurm)
        yield from logged(lines, job, _id(job), at)

    def read(self, host: str, jobs: Collection[Placed], at: Instant) -> Iterator[Event]:  # noqa: ARG002 - one protocol
        """Nothing of its own."""
        yield from ()

    def allocations(self, host: str, job: Placed) -> Iterator[Allocation]:
        """As the prolog writes them."""
        facts = {"job": _id(job), "user": "ada", "job_name": NAME}
        if job.number % 5 == ARRAY:
            facts |= {"array_job": str(FIRST), "array_task": str(job.number)}
        hosts = 0 if job.number % 5 == HETEROGENEOUS else len(job.gpus)
        for uuid in job.gpus[host]:
            yield Allocation(uuid, "", "slurm", "mapping", facts, hosts=hosts, owner=USER)

    def process(self, host: str, job: Placed, uuid: str, step: int) -> Found:  # noqa: ARG002 - one protocol
        """In the control group of its step."""
        return found(job, uuid, step, f"{_id(job)}.{step}", f"job {_id(job)}")

    def trainings(self, host: str) -> Trainings:  # noqa: ARG002 - one protocol
        """None."""
        return Trainings()

    def neutral(self, text: str) -> str:
        """Ids, with or without a step."""
        return _NAMES.sub(lambda match: f"<job {int(match[1])}>", text)

    def id_of(self, job: Placed) -> str:
        """As its page is asked for."""
        return _id(job)


def _id(job: Placed) -> str:
    return str(FIRST + job.number)
