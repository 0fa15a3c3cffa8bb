"""A job of a simulated fleet before it has a scheduler, and the parts that both share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from collector.node.trainings import Trainings
from collector.sources.joblog.lines import Line
from collector.sources.joblog.match import hits
from collector.sources.jobs.allocation import Allocation
from collector.sources.jobs.job_tracker import JobTracker
from collector.sources.nccl.discovery.found import Found
from collector.sources.nccl.discovery.procfs import Library
from collector.sources.nccl.jobs import Jobs
from pipeline.clock import SECOND_NS, Instant
from pipeline.frame import Device
from pipeline.nccl.wire import line_event
from pipeline.observation import Event

USER, NAME = 1000, "llm"
AGAIN = 4  # remainder by 5 of the number of a job that is queued again when it ended
RESTART_NS = 1800 * SECOND_NS  # after which a program of several steps starts again
LIBRARY = Library("/usr/lib/libnccl.so.2", "08:01", 1234)


@dataclass(slots=True)
class Placed:
    """``number`` counts identities: a job that is queued again has the number of its first run and
    another ``attempt``. ``gpus`` are UUIDs by host, in the order of ranks.
    """

    number: int
    attempt: int
    begin_ns: int
    gpus: Mapping[str, Sequence[str]]
    pids: dict[str, int] = field(default_factory=dict)  # by UUID

    @property
    def ranks(self) -> dict[str, int]:
        """By UUID."""
        order = (uuid for host in self.gpus for uuid in self.gpus[host])
        return {uuid: rank for rank, uuid in enumerate(order)}


class Scheduler(Protocol):
    """How jobs are called and reported. ``owner`` is that of all its jobs."""

    owner: str

    def started(self, job: Placed) -> None:
        """It gets its GPUs."""

    def ended(self, job: Placed, death: str, at: Instant) -> Iterator[Event]:
        """It gives them back: what logs and the API server have about its end."""

    def read(self, host: str, jobs: Collection[Placed], at: Instant) -> Iterator[Event]:
        """What the sources of a host report that only this scheduler has."""

    def allocations(self, host: str, job: Placed) -> Iterator[Allocation]:
        """Its GPUs on a host."""

    def process(self, host: str, job: Placed, uuid: str, step: int) -> Found:
        """Its process on a GPU."""

    def trainings(self, host: str) -> Trainings:
        """What a host knows of pods."""

    def neutral(self, text: str) -> str:
        """A text in which jobs have numbers in place of names."""

    def id_of(self, job: Placed) -> str:
        """As its page is asked for."""


class Host:
    """The sources of jobs and of NCCL's processes of one host."""

    def __init__(
        self,
        name: str,
        scheduler: Scheduler,
        publish: Callable[[Iterable[Allocation], Instant], None],
    ) -> None:
        """``publish`` gets what the node's page says of its GPUs' jobs, at each read."""
        self._name, self._scheduler, self._publish = name, scheduler, publish
        self._tracker = JobTracker(name)
        self._processes = Jobs(name, trainings=scheduler.trainings(name))

    def read(self, jobs: Collection[Placed], present: Collection[str], at: Instant) -> list[Event]:
        """Events since the last read; ``present`` are UUIDs of the GPUs that a process holds."""
        own = list(self._scheduler.read(self._name, jobs, at))
        found = [
            self._scheduler.process(self._name, job, uuid, _step(job, at))
            for job in jobs
            for uuid in job.gpus[self._name]
            if uuid in present
        ]
        processes = self._processes.update(found, at.mono_ns / SECOND_NS, at)
        listed = [one for job in jobs for one in self._scheduler.allocations(self._name, job)]
        self._publish(listed, at)
        return [*own, *processes, *self._tracker.update(listed, at)]


def found(job: Placed, uuid: str, step: int, name: str, group: str) -> Found:
    """A process of PyTorch on a GPU."""
    environment = {"WORLD_SIZE": str(len(job.ranks)), "SLURM_JOB_NAME": NAME}
    pid = job.pids[uuid] + step * 50_000
    return Found(
        pid,
        pid,
        USER,
        "python3",
        float(job.begin_ns // SECOND_NS + step),
        name,
        job.ranks[uuid],
        (uuid,),
        LIBRARY,
        environment=environment,
        group=group,
        sure=True,
    )


def logged(lines: Iterable[str], job: Placed, name: str, at: Instant) -> Iterator[Event]:
    """Lines of a job's log, as the first of its hosts reads them."""
    host = next(iter(job.gpus))
    pid = job.pids[job.gpus[host][0]]
    for line in lines:
        for hit in hits(Line(line.format(job=name, host=host, pid=pid))):
            yield line_event(hit, Device(host, "node", host), at.time_ns, at.mono_ns, name)


def restarts(number: int) -> bool:
    """Whether the program of a job starts again after a while: as another step, or in its pods."""
    return number % 5 == 1


def _step(job: Placed, at: Instant) -> int:
    return int(restarts(job.number) and at.time_ns - job.begin_ns >= RESTART_NS)
