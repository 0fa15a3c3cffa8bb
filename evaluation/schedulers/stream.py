"""The observations of a fleet as agents under one scheduler read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from evaluation.schedulers.deaths import KILLED, WAYS
from evaluation.schedulers.placed import AGAIN, Host, Placed, Scheduler
from pipeline.clock import Instant
from pipeline.frame import Frame
from pipeline.observation import Event, Observation
from simulator.fleet import Run
from simulator.fleet.events import JOBS

JOB_KINDS = ("job_started", "job_ended")


class Scheduled:
    """A run under a scheduler. ``over`` are jobs that have ended, in their order."""

    def __init__(self, run: Run, scheduler: Scheduler) -> None:
        self._run, self._scheduler = run, scheduler
        self._hosts = {host: Host(host, scheduler) for host in run.topology.hosts}
        self._jobs: dict[str, Placed] = {}  # by the fleet's id
        self._present: set[str] = set()
        self._number, self._again = -1, set[int]()
        self.over: list[Placed] = []

    def observations(self) -> Iterator[Observation]:
        """As the fleet's, with other events of jobs."""
        for one in self._run.observations():
            for frame in one.frames:
                if frame.kind == "gpu":
                    self._see(frame)
            of_jobs = one.source == JOBS
            yield replace(one, events=tuple(self._events(one))) if of_jobs else one

    def _see(self, frame: Frame) -> None:
        """Which GPUs processes hold."""
        counts = frame.gauge("compute_processes")
        for device, count in zip(frame.devices, counts.tolist(), strict=True):
            if np.isfinite(count):
                (self._present.add if count else self._present.discard)(device.id)

    def _events(self, one: Observation) -> Iterator[Event]:
        at = Instant(one.time_ns, one.mono_ns)
        yield from (event for event in one.events if event.kind not in JOB_KINDS)
        started = {str(e.attributes["job"]) for e in one.events if e.kind == JOB_KINDS[0]}
        ended = {str(e.attributes["job"]) for e in one.events if e.kind == JOB_KINDS[1]}
        for name in sorted(ended):
            if name in self._jobs:
                yield from self._end(name, one, at)
        for name in sorted(started - ended):
            self._start(name, one, at)
        for host, sources in self._hosts.items():
            here = [job for job in self._jobs.values() if host in job.gpus]
            yield from sources.read(here, self._present, at)

    def _start(self, name: str, one: Observation, at: Instant) -> None:
        gpus = {
            e.device.host: str(e.attributes["gpus"]).split()
            for e in one.events
            if e.kind == JOB_KINDS[0] and e.attributes["job"] == name
        }
        last = self.over[-1].number if self.over else 0
        if last % 5 == AGAIN and last not in self._again:
            self._again.add(last)
            number, attempt = last, 1
        else:
            self._number += 1
            number, attempt = self._number, 0
        job = Placed(number, attempt, at.time_ns, gpus)
        job.pids = {uuid: 10_000 + 100 * number + 40 * attempt + r for uuid, r in job.ranks.items()}
        self._jobs[name] = job
        self._scheduler.started(job)

    def _end(self, name: str, one: Observation, at: Instant) -> Iterator[Event]:
        outcomes = {
            str(e.attributes.get("outcome"))
            for e in one.events
            if e.kind == JOB_KINDS[1] and e.attributes["job"] == name
        }
        job = self._jobs.pop(name)
        self.over.append(job)
        death = WAYS[job.number % len(WAYS)] if outcomes == {"completed"} else KILLED
        yield from self._scheduler.ended(job, death, at)
