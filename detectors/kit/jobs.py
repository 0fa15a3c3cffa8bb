"""Which job holds which GPU, from the events of the job source: who shares a job are peers, and
which is notified when it fails.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.frame import Device
from pipeline.observation import Event


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


class _Word:
    """Who holds what by one word.

    A GPU that a job takes belongs to no other any more; what a host gives back is free.
    """

    def __init__(self) -> None:
        self.job: dict[MigSlot, str] = {}
        self.members: dict[str, dict[MigSlot, None]] = {}

    def tell(self, job: str, host: str, gpus: Iterable[str]) -> None:
        """What a job holds on a host, and nothing else there."""
        for place in [p for p in self.members.get(job, ()) if p.host == host]:
            self.free(place)
        for gpu in gpus:
            self.give(MigSlot(host, gpu), job)

    def give(self, place: MigSlot, job: str) -> None:
        """It is this job's, and no other's."""
        self.free(place)
        self.job[place] = job
        self.members.setdefault(job, {})[place] = None

    def free(self, place: MigSlot) -> None:
        """Nobody holds it any more."""
        job = self.job.pop(place, None)
        if job is not None:
            del self.members[job][place]
            if not self.members[job]:
                del self.members[job]


class JobTracker:
    """The jobs of now, as processes tell of them and as the scheduler does.

    Processes that speak NCCL are believed first: they are what stands still and waits, and know how
    far they reach. The scheduler, who gave the GPUs, answers for those that no such process holds.
    Processes end nothing that the scheduler told; no process outlives its job.

    ``version`` goes up with every change, so that what was made from it can be kept.

    >>> node, jobs = Device("n1", "node", "n1"), JobTracker()
    >>> jobs.take(
    ...     [Event(0, 0, node, "job_started", {"job": "7", "gpus": "GPU-a GPU-b", "hosts": 1})]
    ... )
    >>> jobs.of("n1", "GPU-a"), jobs.members("7"), jobs.of("n1", "GPU-c")
    ('7', (MigSlot(host='n1', gpu='GPU-a'), MigSlot(host='n1', gpu='GPU-b')), '')
    >>> jobs.take([Event(0, 0, node, "job_ended", {"job": "7"})])
    >>> jobs.of("n1", "GPU-a"), jobs.members("7")
    ('', ())
    """

    def __init__(self) -> None:
        self._told, self._given = _Word(), _Word()
        self._hosts: set[str] = set()
        self.version = 0

    def take(self, events: Iterable[Event]) -> None:
        """Follow the events of an observation."""
        for event in events:
            if event.kind in ("job_started", "job_ended") and "job" in event.attributes:
                host, job = event.device.host, str(event.attributes["job"])
                self._hosts.add(host)
                gpus = (
                    str(event.attributes.get("gpus", "")).split()
                    if event.kind == "job_started"
                    else ()
                )
                if "scheduler" in event.attributes:
                    self._outdate(host, job, gpus)
                    if event.kind == "job_ended":
                        self._close(host, job)
                    self._given.tell(job, host, gpus)
                else:
                    self._told.tell(job, host, gpus)
                self.version += 1

    def of(self, host: str, gpu: str) -> str:
        """The job that holds a GPU, empty where none is known to."""
        place = MigSlot(host, gpu)
        return self._told.job.get(place) or self._given.job.get(place, "")

    def knows(self, host: str) -> bool:
        """Whether jobs were ever told of there; a host without a job source says
        nothing about who is idle.
        """
        return host in self._hosts

    def on(self, host: str) -> str:
        """The one job of a host: empty where several hold GPUs of it, or none is known to."""
        jobs = {
            self.of(*place)
            for word in (self._told, self._given)
            for place in word.job
            if place.host == host
        }
        return jobs.pop() if len(jobs) == 1 else ""

    def members(self, job: str) -> tuple[MigSlot, ...]:
        """All GPUs of a job that are known."""
        given = (place for place in self._given.members.get(job, ()) if place not in self._told.job)
        return (*self._told.members.get(job, ()), *given)

    def _outdate(self, host: str, job: str, gpus: Iterable[str]) -> None:
        """Processes that were last heard of in another job are gone once the scheduler gives their
        GPU away; steps are of their job.
        """
        for place in (MigSlot(host, gpu) for gpu in gpus):
            if (
                self._given.job.get(place, job) != job
                and self._told.job.get(place, "").partition(".")[0] != job
            ):
                self._told.free(place)

    def _close(self, host: str, job: str) -> None:
        """The scheduler's job is over, and its steps with it: the end of their processes may have
        been while the agent was off.
        """
        for step in [name for name in self._told.members if name.partition(".")[0] == job]:
            self._told.tell(step, host, ())

    def state(self) -> State:
        """Who holds what; what the scheduler says is marked."""
        told = [[*place, job] for place, job in self._told.job.items()]
        given = [[*place, job, "scheduler"] for place, job in self._given.job.items()]
        return {"holders": text_array(told + given), "hosts": text_array(sorted(self._hosts))}

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it does not fit."""
        told, given = _Word(), _Word()
        for host, gpu, job, *scheduler in from_text_array(state["holders"]):
            (given if scheduler else told).give(MigSlot(str(host), str(gpu)), str(job))
        hosts = {str(host) for host in from_text_array(state["hosts"])}

        def commit() -> None:
            self._told, self._given, self._hosts = told, given, hosts
            self.version += 1

        return commit
