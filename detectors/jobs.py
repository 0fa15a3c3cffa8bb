"""Which job holds which GPU, from the events of the job source: who shares a job are peers, and who is told when it dies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from detectors.memory import Commit, from_text_array, text_array
from detectors.snapshot import State
from pipeline.frame import Device
from pipeline.observation import Event


class Place(NamedTuple):
    """A GPU: its host and UUID."""

    host: str
    gpu: str


def in_job(device: Device, job: str) -> Device:
    """The device as one of a job: a finding about it is a finding about the job (pipeline/exposition/stalls.py).

    >>> in_job(Device("n1", "gpu", "G", {"index": "0"}), "7").attributes["job"]
    '7'
    """
    return replace(device, attributes={**device.attributes, "job": job})


class Jobs:
    """The jobs of now. A GPU that a job takes belongs to no other any more; what a host gives back is free.

    ``version`` goes up with every change, so that what was made from it can be kept.

    >>> node, jobs = Device("n1", "node", "n1"), Jobs()
    >>> jobs.take([Event(0, 0, node, "job_started", {"job": "7", "gpus": "GPU-a GPU-b", "hosts": 1})])
    >>> jobs.of("n1", "GPU-a"), jobs.members("7"), jobs.of("n1", "GPU-c")
    ('7', (Place(host='n1', gpu='GPU-a'), Place(host='n1', gpu='GPU-b')), '')
    >>> jobs.take([Event(0, 0, node, "job_ended", {"job": "7"})])
    >>> jobs.of("n1", "GPU-a"), jobs.members("7")
    ('', ())
    """

    def __init__(self) -> None:
        self._job: dict[Place, str] = {}
        self._members: dict[str, dict[Place, None]] = {}
        self._hosts: set[str] = set()
        self.version = 0

    def take(self, events: Iterable[Event]) -> None:
        """Follow the events of an observation."""
        for event in events:
            if event.kind in ("job_started", "job_ended") and "job" in event.attributes:
                host, job = event.device.host, str(event.attributes["job"])
                self._hosts.add(host)
                for place in [p for p in self._members.get(job, ()) if p.host == host]:
                    self._free(place)
                if event.kind == "job_started":
                    for gpu in str(event.attributes.get("gpus", "")).split():
                        self._give(Place(host, gpu), job)
                self.version += 1

    def of(self, host: str, gpu: str) -> str:
        """The job that holds a GPU, empty where none is known to."""
        return self._job.get(Place(host, gpu), "")

    def knows(self, host: str) -> bool:
        """Whether jobs were ever told of there; a host without a job source says nothing about who is idle."""
        return host in self._hosts

    def on(self, host: str) -> str:
        """The one job of a host: empty where several hold GPUs of it, or none is known to."""
        jobs = {job for job, places in self._members.items() if any(place.host == host for place in places)}
        return jobs.pop() if len(jobs) == 1 else ""

    def members(self, job: str) -> tuple[Place, ...]:
        """All GPUs of a job that are known."""
        return tuple(self._members.get(job, ()))

    def _give(self, place: Place, job: str) -> None:
        self._free(place)
        self._job[place] = job
        self._members.setdefault(job, {})[place] = None

    def _free(self, place: Place) -> None:
        job = self._job.pop(place, None)
        if job is not None:
            del self._members[job][place]
            if not self._members[job]:
                del self._members[job]

    def state(self) -> State:
        """Who holds what."""
        holders = [[*place, job] for place, job in self._job.items()]
        return {"holders": text_array(holders), "hosts": text_array(sorted(self._hosts))}

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it does not fit."""
        holders = [(Place(str(host), str(gpu)), str(job)) for host, gpu, job in from_text_array(state["holders"])]
        hosts = {str(host) for host in from_text_array(state["hosts"])}

        def commit() -> None:
            self._job, self._members, self._hosts = {}, {}, hosts
            for place, job in holders:
                self._give(place, job)
            self.version += 1

        return commit
