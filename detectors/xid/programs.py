"""Whose program a job runs: jobs of one user and one name are one program, started again."""

from __future__ import annotations

from collections.abc import Iterable

from detectors.kit.jobs import RECENT_NS
from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.job_names import base
from pipeline.observation import Event

MAX_JOBS = 20_000  # whose end may have been missed: the oldest are dropped


class Programs:
    """User and name of jobs, from the events of the job source, until shortly after their end.

    >>> from pipeline.frame import Device
    >>> gpu, programs = Device("n1", "gpu", "GPU-1"), Programs()
    >>> about = {"job": "7", "user": "1000", "name": "serve"}
    >>> programs.take([Event(0, 0, gpu, "job_started", about)], now_ns=0)
    >>> programs.of("7"), programs.of("7.0"), programs.of("8")
    ('1000/serve', '1000/serve', '8')
    """

    def __init__(self) -> None:
        self._of: dict[str, str] = {}
        self._ended: dict[str, int] = {}  # when, on the clock of durations

    def take(self, events: Iterable[Event], now_ns: int) -> None:
        """Follow the events of an observation."""
        for event in events:
            job = base(str(event.attributes.get("job", "")))
            if event.kind == "job_started" and "name" in event.attributes:
                self._of[job] = f"{event.attributes.get('user', '')}/{event.attributes['name']}"
                self._ended.pop(job, None)
                if len(self._of) > MAX_JOBS:
                    oldest = next(iter(self._of))
                    del self._of[oldest]
                    self._ended.pop(oldest, None)
            elif event.kind == "job_ended" and job in self._of:
                self._ended[job] = now_ns
                self._forget(now_ns)

    def of(self, job: str) -> str:
        """The program of a job; the job itself where its source does not say, and of jobs on
        several hosts once they ended on one.
        """
        return self._of.get(base(job), job)

    def _forget(self, now_ns: int) -> None:
        for job, ended_ns in list(self._ended.items()):
            if now_ns - ended_ns > RECENT_NS:
                del self._of[job], self._ended[job]

    def state(self) -> State:
        """Everything."""
        return {"programs": text_array(self._of), "ended": text_array(self._ended)}

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it does not fit."""
        programs, ended = (
            {str(job): str(program) for job, program in from_text_array(state["programs"]).items()},
            {str(job): int(at_ns) for job, at_ns in from_text_array(state["ended"]).items()},
        )
        if not ended.keys() <= programs.keys():
            raise ValueError("jobs ended that did not start")

        def commit() -> None:
            self._of, self._ended = programs, ended

        return commit
