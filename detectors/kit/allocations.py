"""The GPUs of jobs according to one kind of source, and those of processes that claim a job."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pipeline.job_names import base


class MigSlot(NamedTuple):
    """A GPU: its host and UUID."""

    host: str
    gpu: str


class Allocations:
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

    def gpus(self, job: str, host: str) -> list[str]:
        """The GPUs that a job has on a host."""
        return [place.gpu for place, name in self.at.get(host, {}).items() if name == job]

    def steps(self, job: str, host: str) -> list[str]:
        """The names on a host that are a job's or of a step of it."""
        return sorted({name for name in self.at.get(host, {}).values() if base(name) == job})

    def hosts(self, job: str) -> set[str]:
        """The hosts where a job, or a step of it, has GPUs."""
        return {
            place.host
            for name, places in self.members.items()
            if job in (name, base(name))
            for place in places
        }


def claimed(name: str, host: str) -> str:
    """The job of processes that claim one to which the scheduler gave no part of their host.

    >>> claimed("71.0", "n9")
    '71 claimed on n9'
    """
    return f"{base(name)} claimed on {host}"


class Claims:
    """GPUs of such processes: ``names`` has the jobs as the processes call them, so that they can
    join these once the scheduler confirms them, ``jobs`` as they are called until then.
    """

    def __init__(self) -> None:
        self.names, self.jobs = Allocations(), Allocations()

    def assign(self, name: str, host: str, gpus: Iterable[str]) -> None:
        """Set the GPUs of a claimed name on a host; steps of a job are one job there."""
        self.names.assign(name, host, gpus)
        places = self.names.at.get(host, {}).items()
        found = [place.gpu for place, one in places if base(one) == base(name)]
        self.jobs.assign(claimed(name, host), host, found)

    def free(self, place: MigSlot) -> None:
        """No claim has it any more."""
        self.names.free(place)
        self.jobs.free(place)
