"""The observations of a fleet as agents under one scheduler read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from evaluation.schedulers.deaths import KILLED
from evaluation.schedulers.placed import AGAIN, Host, Placed, Scheduler
from evaluation.schedulers.route import Routes
from evaluation.schedulers.twenty import Hours
from pipeline.clock import Instant
from pipeline.frame import Frame
from pipeline.observation import Event, Observation
from simulator.fleet import Run
from simulator.fleet.events import JOBS

JOB_KINDS = ("job_started", "job_ended")


class Scheduled:
    """A run under a scheduler. ``over`` are jobs that have ended, in their order."""

    def __init__(self, run: Run, scheduler: Scheduler, hours: Hours) -> None:
        self._run, self._scheduler, self._hours = run, scheduler, hours
        self.routes = Routes()
        self._hosts = {host: Host(host, scheduler, self.routes.take) for host in run.topology.hosts}
        self._jobs: dict[str, list[Placed]] = {}  # by the fleet's id
        self._present: set[str] = set()
        self._next, self._queued = hours.first, list[Placed]()
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
            here = [job for jobs in self._jobs.values() for job in jobs if host in job.gpus]
            yield from sources.read(here, self._present, at)

    def _start(self, name: str, one: Observation, at: Instant) -> None:
        gpus = {
            e.device.host: str(e.attributes["gpus"]).split()
            for e in one.events
            if e.kind == JOB_KINDS[0] and e.attributes["job"] == name
        }
        begin = 0
        self._jobs[name] = []
        for size in self._hours.parts:
            part = {host: uuids[begin : begin + size] for host, uuids in gpus.items()}
            begin += size
            self._jobs[name].append(self._placed(part, at))

    def _placed(self, gpus: dict[str, list[str]], at: Instant) -> Placed:
        """A job on these GPUs: one that is queued again, else a new one."""
        if self._queued:
            before = self._queued.pop(0)
            number, attempt = before.number, before.attempt + 1
        else:
            number, attempt = self._next, 0
            self._next += 1
        job = Placed(number, attempt, at.time_ns, gpus)
        job.pids = {uuid: 10_000 + 400 * number + 40 * attempt + r for uuid, r in job.ranks.items()}
        self._scheduler.started(job)
        return job

    def _runs(self, number: int) -> int:
        return self._hours.runs or 1 + (number % 5 == AGAIN)

    def _end(self, name: str, one: Observation, at: Instant) -> Iterator[Event]:
        outcomes = {
            str(e.attributes.get("outcome"))
            for e in one.events
            if e.kind == JOB_KINDS[1] and e.attributes["job"] == name
        }
        ways = self._hours.ways
        for job in self._jobs.pop(name):
            self.over.append(job)
            if job.attempt + 1 < self._runs(job.number):
                self._queued.append(job)
            death = ways[job.number % len(ways)] if outcomes == {"completed"} else KILLED
            yield from self._scheduler.ended(job, death, at)
