"""When settings of jobs are looked at again, and what of them is new."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from threading import Thread
from typing import Protocol

from collector.sources.nccl.discovery.found import Found
from collector.sources.tenants.desk import LookLostError, Who
from collector.sources.tenants.shares import in_turns
from pipeline.clock import Instant
from pipeline.frame import Device
from pipeline.observation import Event, Value

log = logging.getLogger("tocsin.nccl")

EVERY_S, AGAIN_S = 600.0, 60.0  # between two rounds, and two where processes came or went
MAX_DOCUMENT = 16_384  # characters of one job's problems in an event
# Why a look was lost that kept the others waiting.
SLOW = frozenset({"time", "died", "cpu", "memory", "garbage"})


@dataclass(frozen=True, slots=True)
class KnownJob:
    """A job of the node: its processes, and the version of NCCL of each, "" where not known."""

    name: str
    who: Who
    processes: tuple[Found, ...]
    versions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobSettings:
    """What a look gave: of how many processes, and the problems as JSON."""

    ranks: int
    document: str


class Looks(Protocol):
    """How settings are looked at."""

    def of(self, job: KnownJob) -> JobSettings:
        """Those of one job. LookLostError."""
        ...

    def rest(self) -> None:
        """No more looks for minutes."""
        ...


@dataclass(slots=True)
class Round:
    """What a look at each job gave, and the jobs whose look was lost."""

    found: dict[str, JobSettings] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)


Start = Callable[[Callable[[], Round]], "Future[Round]"]


def aside(look: Callable[[], Round]) -> Future[Round]:
    """In a thread of its own, for which nobody waits: it lasts as long as jobs make it last."""
    looking: Future[Round] = Future()

    def run() -> None:
        try:
            looking.set_result(look())
        finally:
            if not looking.done():  # the thread's own traceback says why
                looking.set_exception(RuntimeError("the look failed"))

    Thread(target=run, name="nccl-settings", daemon=True).start()
    return looking


def look_at(looks: Looks, jobs: Sequence[KnownJob]) -> Round:
    """One round: a job of each tenant before the second of any. A tenant that keeps the others
    waiting has no more looks in it.
    """
    done, slow = Round(), set[str]()
    try:
        for job in in_turns(jobs, lambda job: job.who.tenant):
            if job.who.tenant in slow:
                continue
            try:
                done.found[job.name] = looks.of(job)
            except LookLostError as error:
                done.lost.add(job.name)
                slow |= {job.who.tenant} if error.reason in SLOW else set()
    finally:
        looks.rest()
    return done


class SettingsWatch:
    """Looks by ``looks``, one round at a time as ``start`` runs it; without ``looks`` there is
    nothing to say.
    """

    def __init__(self, looks: Looks | None, node: Device, start: Start = aside) -> None:
        self._looks, self._node, self._start = looks, node, start
        self._looking: Future[Round] | None = None
        self._looked_s = float("-inf")
        self._seen: frozenset[tuple[int, str]] = frozenset()  # processes and their versions
        self._known: dict[str, str] = {}
        self._lost: set[str] = set()

    def read(self, jobs: Sequence[KnownJob], now_s: float, at: Instant) -> Iterator[Event]:
        """An event for each of the present jobs of which something else is known than before."""
        self._begin(jobs, now_s)
        if self._looking is None or not self._looking.done():
            return
        looking, self._looking = self._looking, None
        try:
            done = looking.result()
        except RuntimeError as error:
            log.warning("settings of NCCL jobs: not looked at: %s", error)
            return
        self._lost = done.lost
        present = {job.name for job in jobs}
        self._known = {name: known for name, known in self._known.items() if name in present}
        for name, found in done.found.items():
            if name in present and self._known.get(name) != found.document:
                self._known[name] = found.document
                facts: dict[str, Value] = {
                    "job": name,
                    "ranks": found.ranks,
                    "document": found.document,
                }
                yield Event(*at, self._node, "nccl_settings", facts)

    def _begin(self, jobs: Sequence[KnownJob], now_s: float) -> None:
        """Begin a round where one is due: of each tenant the jobs first whose look was not lost."""
        if self._looking is not None or self._looks is None or not jobs:
            return
        seen = frozenset(
            (process.pid, version)
            for job in jobs
            for process, version in zip(job.processes, job.versions, strict=True)
        )
        if now_s - self._looked_s >= (EVERY_S if seen == self._seen else AGAIN_S):
            self._looked_s, self._seen = now_s, seen
            ordered = sorted(jobs, key=lambda job: job.name in self._lost)
            self._looking = self._start(partial(look_at, self._looks, ordered))
