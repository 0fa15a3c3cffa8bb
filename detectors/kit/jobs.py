"""Which job has which GPU, from the events of the job source: which GPUs are peers, and which job a
fault affects.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.clock import SECOND_NS
from pipeline.frame import Device
from pipeline.job_names import base
from pipeline.observation import Event

# A job's end may be read before what the driver or the kernel reported of its GPUs: the processes
# of a GPU that is lost end before anybody sees that it is lost.
RECENT_NS = 120 * SECOND_NS


class MigSlot(NamedTuple):
    """A GPU: its host and UUID."""

    host: str
    gpu: str


def in_job(device: Device, job: str) -> Device:
    """The device as one of a job: a finding about it is a finding about the job
    (pipeline/exposition/stalls.py).

    >>> in_job(Device("n1", "gpu", "G", {"index": "0"}), "7").attributes["job"]
    '7'
    """
    return replace(device, attributes={**device.attributes, "job": job})


class _Allocations:
    """Allocations according to one kind of source.

    A GPU that a job takes belongs to no other any more; what a host gives back is free.
    """

    def __init__(self) -> None:
        self.job: dict[MigSlot, str] = {}
        self.members: dict[str, dict[MigSlot, None]] = {}
        self.at: dict[str, dict[MigSlot, str]] = {}  # by host: a cluster has thousands

    def assign(self, job: str, host: str, gpus: Iterable[str]) -> None:
        """Set the GPUs that a job has on a host, and no others there."""
        for place in [p for p, name in self.at.get(host, {}).items() if name == job]:
            self.free(place)
        for gpu in gpus:
            self.give(MigSlot(host, gpu), job)

    def give(self, place: MigSlot, job: str) -> None:
        """It is this job's, and no other's."""
        self.free(place)
        self.job[place] = self.at.setdefault(place.host, {})[place] = job
        self.members.setdefault(job, {})[place] = None

    def free(self, place: MigSlot) -> None:
        """No job has it any more."""
        job = self.job.pop(place, None)
        if job is not None:
            del self.at[place.host][place]
            del self.members[job][place]
            if not self.members[job]:
                del self.members[job]


class JobTracker:
    """The current jobs, from NCCL processes and from the scheduler.

    Processes that use NCCL come first: they are what stalls, and know how far their job extends.
    The scheduler, which allocated the GPUs, decides about those that no such process has. The end
    of processes does not end a job of the scheduler; no process outlives its job.

    ``version`` goes up with every change, so that derived values can be cached.

    >>> node, jobs = Device("n1", "node", "n1"), JobTracker()
    >>> jobs.take(
    ...     [Event(0, 0, node, "job_started", {"job": "7", "gpus": "GPU-a GPU-b", "hosts": 1})]
    ... )
    >>> jobs.of("n1", "GPU-a"), jobs.members("7"), jobs.of("n1", "GPU-c")
    ('7', (MigSlot(host='n1', gpu='GPU-a'), MigSlot(host='n1', gpu='GPU-b')), '')
    >>> jobs.take([Event(0, 0, node, "job_ended", {"job": "7"})], now_ns=0)
    >>> jobs.of("n1", "GPU-a"), jobs.members("7"), jobs.lately("n1", "GPU-a", now_ns=0)
    ('', (), '7')
    """

    def __init__(self) -> None:
        self._by_process, self._by_scheduler = _Allocations(), _Allocations()
        self._hosts: set[str] = set()
        self._reach: dict[str, int] = {}  # job -> hosts, as its source says
        self._left: dict[MigSlot, tuple[str, int]] = {}  # its job, and when it left it
        self._changed: dict[str, int] = {}  # host -> version of its last change
        self.version = 0

    def take(self, events: Iterable[Event], now_ns: int | None = None) -> None:
        """Follow the events of an observation; ``now_ns`` is on the clock of durations. Without it
        it is not remembered who left a job.
        """
        for event in events:
            if event.kind in ("job_started", "job_ended") and "job" in event.attributes:
                job = str(event.attributes["job"])
                before = () if now_ns is None else self.members(job)
                self._take(event)
                if now_ns is not None:
                    self._remember(job, before, now_ns)
                self.version += 1
                self._changed[event.device.host] = self.version

    def changed_since(self, version: int) -> list[str]:
        """The hosts with events of jobs after that version; no other host's GPUs changed hands."""
        return [host for host, changed in self._changed.items() if changed > version]

    def _take(self, event: Event) -> None:
        host, job = event.device.host, str(event.attributes["job"])
        self._hosts.add(host)
        reach = event.attributes.get("hosts")
        self._reach = {name: n for name, n in self._reach.items() if self._known(name)}
        if event.kind == "job_started" and isinstance(reach, int):
            self._reach[job] = reach
        gpus = str(event.attributes.get("gpus", "")).split() if event.kind == "job_started" else ()
        if "scheduler" in event.attributes:
            self._outdate(host, job, gpus)
            if event.kind == "job_ended":
                self._close(host, job)
            self._by_scheduler.assign(job, host, gpus)
        else:
            self._by_process.assign(job, host, gpus)

    def _known(self, job: str) -> bool:
        return job in self._by_process.members or job in self._by_scheduler.members

    def _remember(self, job: str, before: Iterable[MigSlot], now_ns: int) -> None:
        after = set(self.members(job))
        self._left = {p: one for p, one in self._left.items() if now_ns - one[1] <= RECENT_NS}
        self._left |= {place: (job, now_ns) for place in before if place not in after}

    def of(self, host: str, gpu: str) -> str:
        """The job that has a GPU, empty where none is known."""
        place = MigSlot(host, gpu)
        return self._by_process.job.get(place) or self._by_scheduler.job.get(place, "")

    def lately(self, host: str, gpu: str, now_ns: int) -> str:
        """The job that has a GPU, or had it until recently; empty where none is known."""
        job, left_ns = self._left.get(MigSlot(host, gpu), ("", 0))
        return self.of(host, gpu) or (job if now_ns - left_ns <= RECENT_NS else "")

    def size(self, job: str, now_ns: int) -> int:
        """How many GPUs a job has, or had until recently; 0 where none is known."""
        left = {
            place
            for place, (name, left_ns) in self._left.items()
            if name == job and now_ns - left_ns <= RECENT_NS
        }
        return len(left.union(self.members(job))) if job else 0

    def reach(self, job: str) -> int | None:
        """How many hosts a job has in all, None where its source does not say."""
        return self._reach.get(job)

    def widest(self, host: str) -> str:
        """Of the jobs of a host the one with most hosts; empty where none is known."""
        return max(self.of_host(host), key=lambda job: self._reach.get(job) or 0, default="")

    def knows(self, host: str) -> bool:
        """Whether jobs were ever reported there; without a job source it is unknown which GPUs are
        idle.
        """
        return host in self._hosts

    def on(self, host: str) -> str:
        """The one job of a host: empty where several have GPUs of it, or none is known."""
        jobs = self.of_host(host)
        return jobs[0] if len(jobs) == 1 else ""

    def of_host(self, host: str) -> list[str]:
        """The jobs that hold GPUs of a host."""
        places = {
            place
            for source in (self._by_process, self._by_scheduler)
            for place in source.at.get(host, ())
        }
        return sorted({self.of(*place) for place in places})

    def busy(self, host: str) -> bool:
        """Whether any job holds a GPU of a host."""
        return any(source.at.get(host) for source in (self._by_process, self._by_scheduler))

    def hosts_of_processes(self, job: str) -> set[str]:
        """The hosts with processes of a job, or of its steps, that hold GPUs."""
        return {
            place.host
            for name, places in self._by_process.members.items()
            if job in (name, base(name))
            for place in places
        }

    def allots(self, job: str, host: str) -> bool:
        """Whether the scheduler has allocated GPUs of a host to a job, or no scheduler knows it."""
        return job not in self._by_scheduler.members or job in map(
            base, self._by_scheduler.at.get(host, {}).values()
        )

    def scheduled(self, job: str) -> bool:
        """Whether the scheduler has allocated GPUs to a job."""
        return job in self._by_scheduler.members

    def members(self, job: str) -> tuple[MigSlot, ...]:
        """All GPUs of a job that are known."""
        given = (
            place
            for place in self._by_scheduler.members.get(job, ())
            if place not in self._by_process.job
        )
        return (*self._by_process.members.get(job, ()), *given)

    def with_steps(self, job: str) -> set[MigSlot]:
        """All GPUs of a job and of its steps."""
        return {
            place
            for source in (self._by_process, self._by_scheduler)
            for name, places in source.members.items()
            if base(name) == job
            for place in places
        }

    def _outdate(self, host: str, job: str, gpus: Iterable[str]) -> None:
        """Processes that were last seen in another job are gone once the scheduler allocates their
        GPU again; steps are of their job.
        """
        for place in (MigSlot(host, gpu) for gpu in gpus):
            if (
                self._by_scheduler.job.get(place, job) != job
                and base(self._by_process.job.get(place, "")) != job
            ):
                self._by_process.free(place)

    def _close(self, host: str, job: str) -> None:
        """The scheduler's job is over, and its steps with it: the end of their processes may have
        been while the agent was off.
        """
        for step in [name for name in self._by_process.members if base(name) == job]:
            self._by_process.assign(step, host, ())

    def state(self) -> State:
        """All allocations; those of the scheduler are marked."""
        by_process = [[*place, job] for place, job in self._by_process.job.items()]
        by_scheduler = [[*place, job, "scheduler"] for place, job in self._by_scheduler.job.items()]
        return {
            "holders": text_array(by_process + by_scheduler),
            "hosts": text_array(sorted(self._hosts)),
            "reach": text_array(self._reach),
            "left": text_array([[*place, *entry] for place, entry in self._left.items()]),
        }

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it does not fit."""
        by_process, by_scheduler = _Allocations(), _Allocations()
        for host, gpu, job, *scheduler in from_text_array(state["holders"]):
            (by_scheduler if scheduler else by_process).give(MigSlot(str(host), str(gpu)), str(job))
        hosts = {str(host) for host in from_text_array(state["hosts"])}
        kept = from_text_array(state["left"])
        left = {
            MigSlot(str(host), str(gpu)): (str(job), int(at_ns)) for host, gpu, job, at_ns in kept
        }

        reach = dict(from_text_array(state["reach"]))

        def commit() -> None:
            self._reach = {str(job): int(hosts) for job, hosts in reach.items()}
            self._by_process, self._by_scheduler, self._hosts = by_process, by_scheduler, hosts
            self._left = left
            self.version += 1

        return commit
