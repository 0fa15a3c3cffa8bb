"""Which jobs had which GPUs of a node, by events of which some may be missing: the end of a job
that ended with its node, or while no agent ran, was not always reported.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pipeline.job_names import base
from pipeline.observation import Event


class Held(NamedTuple):
    """Some GPUs of a job, from the event of its start on; ``scheduled`` by a scheduler's word."""

    start: Event
    end_ms: int
    gpus: tuple[str, ...]
    scheduled: bool

    @property
    def begin_ms(self) -> int:
        """When the event was."""
        return at_ms(self.start)


def held(events: Iterable[Event], restarts: Iterable[tuple[int, int]], end_ms: int) -> list[Held]:
    """Of one node, whose events are in order. What the scheduler says comes last, and of that what
    began later: it counts where jobs overlap.

    ``restarts`` are from when to when the node was off, in ms.
    """
    found = list(_Open().follow(events, sorted(restarts), end_ms))
    return sorted(found, key=lambda one: (one.scheduled, one.begin_ms))


def left_open(events: Iterable[Event]) -> list[Event]:
    """Of all nodes, events in order: the starts of jobs that none of them ended, by node, with the
    GPUs that no other job has got since.
    """
    nodes: dict[str, _Open] = defaultdict(_Open)
    for event in events:
        nodes[event.device.host].pass_by(event)
    return [start for node in nodes.values() for start in node.starts()]


def at_ms(event: Event) -> int:
    """The time of an event."""
    return event.time_ns // 1_000_000


@dataclass(slots=True)
class _Job:
    name: str
    scheduled: bool
    start: Event
    gpus: frozenset[str]

    def until(self, end_ms: int, gpus: Iterable[str]) -> Iterator[Held]:
        """Some GPUs are no longer its own."""
        gone = self.gpus.intersection(gpus)
        self.gpus -= gone
        if gone:
            yield Held(self.start, end_ms, tuple(sorted(gone)), self.scheduled)


class _Open:
    """The jobs that run at a time of the events."""

    def __init__(self) -> None:
        self._jobs: list[_Job] = []

    def follow(
        self, events: Iterable[Event], restarts: Sequence[tuple[int, int]], end_ms: int
    ) -> Iterator[Held]:
        """No job runs on over a restart of its node."""
        left = list(restarts)
        for event in events:
            if event.kind in ("job_started", "job_ended"):
                while left and left[0][0] <= at_ms(event):
                    yield from self._close(self._jobs, left.pop(0)[0])
                yield from self._take(event)
        for begin_ms, _ in left:
            yield from self._close(self._jobs, begin_ms)
        yield from self._close(self._jobs, end_ms)

    def pass_by(self, event: Event) -> None:
        """An event of which only what is open afterwards matters."""
        for _ in self._take(event):
            pass
        self._jobs = [job for job in self._jobs if job.gpus]

    def starts(self) -> Iterator[Event]:
        """Of the jobs that run."""
        for job in self._jobs:
            about = {**job.start.attributes, "gpus": " ".join(sorted(job.gpus))}
            yield replace(job.start, attributes=about)

    def _take(self, event: Event) -> Iterator[Held]:
        name, scheduled = str(event.attributes.get("job", "")), "scheduler" in event.attributes
        starts, now_ms = event.kind == "job_started", at_ms(event)
        same = [job for job in self._jobs if job.name == name and job.scheduled == scheduled]
        if scheduled and not starts:  # no process outlives its job
            same += [job for job in self._jobs if not job.scheduled and base(job.name) == name]
        yield from self._close(same, now_ms)
        if starts:
            gpus = frozenset(str(event.attributes.get("gpus", "")).split())
            if scheduled:
                yield from self._give(base(name), gpus, now_ms)
            self._jobs.append(_Job(name, scheduled, event, gpus))

    def _give(self, name: str, gpus: frozenset[str], now_ms: int) -> Iterator[Held]:
        """A scheduler allocates GPUs: jobs that had them have ended, and their processes too.

        A GPU that jobs share is reported of none of them.
        """
        others = [job for job in self._jobs if base(job.name) != name]
        taken = {uuid for job in others if job.scheduled for uuid in job.gpus & gpus}
        for job in others:
            yield from job.until(now_ms, taken)

    def _close(self, jobs: Iterable[_Job], end_ms: int) -> Iterator[Held]:
        closed = list(jobs)
        for job in closed:
            yield from job.until(end_ms, job.gpus)
        self._jobs = [job for job in self._jobs if job not in closed]
