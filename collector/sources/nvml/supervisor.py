"""Keeps one driver child serving: replaces it when it hangs or dies, leaves out the GPU that is to
blame, looks for missing ones.

What may hang is tried in a second child, the candidate, beside the one that serves: it takes over
only after a whole sweep.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from collector.sources.nvml import wire
from collector.sources.nvml.callboard import NO_DEVICE
from collector.sources.nvml.candidate import Candidate, found, rows
from collector.sources.nvml.library import LOST
from collector.sources.nvml.quarantine import Backoff, Quarantine
from collector.sources.nvml.wire import Message
from collector.sources.nvml.worker import ChildLostError, Worker
from pipeline.catalog import agent
from pipeline.clock import SECOND_NS, Clock
from pipeline.selfmetrics import SelfMetrics

log = logging.getLogger("tocsin.nvml")

MAX_ABANDONED = 3  # children stuck in the kernel that are put up with
CRASHES_BEFORE_QUARANTINE = 2  # in a row in calls on the same GPU
CLOSE_S = 1.0  # how long closing waits for killed children, all together
RETRY_FIRST_S, RETRY_MAX_S = 2.0, 60.0  # without a driver
# After a hang the next child reads the other GPUs, unless it is the driver that hangs. It gets the
# time that the one before it needed until its first values, three times over, and this at least.
DRIVER_S, PATIENCE = 5.0, 3.0
DRIVER_WORDS = {
    9: "driver not loaded",
    12: "driver library not found",
    18: "driver and library versions differ",
}


class Start(Protocol):
    """Starts a driver child."""

    def __call__(self, *, skip: Sequence[int], events: bool) -> Worker:
        """Leave out these GPUs; with or without NVML's events."""
        ...


@dataclass(frozen=True, slots=True)
class Hang:
    """A driver call that did not return: on which GPU (NO_DEVICE where none is the cause), and
    for how long it was waited.
    """

    gpu: int
    function: str
    seconds: float
    pid: int


@dataclass(slots=True)
class Sweep:
    """What one sweep gave: messages in order, of which child, whether it was whole, and why not."""

    messages: list[Message] = field(default_factory=list)
    pid: int = 0
    complete: bool = False
    trouble: str = ""
    hangs: list[Hang] = field(default_factory=list)


class Supervisor:
    """One child that serves, at most one candidate, and those that are dying."""

    def __init__(
        self,
        start: Start,
        clock: Clock,
        metrics: SelfMetrics,
        rng: random.Random,
        *,
        wait_s: float,
        uuid_at: Callable[[int], str],
    ) -> None:
        self.quarantine = Quarantine(rng)
        self._start, self._clock, self._metrics = start, clock, metrics
        self._wait_s, self._uuid_at = wait_s, uuid_at
        self._serving: Worker | None = None
        self._completed = False  # a whole sweep of the child that serves
        self._rows: set[int] = set()  # GPUs that its last whole sweep read
        self._candidate: Candidate | None = None
        self._inherited: list[Message] = []  # what a candidate said before it took over
        self._dying: list[Worker] = []
        self._crashes: dict[int, int] = {}
        self._events = True
        self._retry = Backoff(rng, RETRY_FIRST_S, RETRY_MAX_S)
        self._retry_ns = 0
        self._look = Backoff(rng)
        self._look_ns = 0
        self._trouble = ""
        self._began_ns = 0  # when the child that serves was started
        self._first_values_ns = 0  # how long the last one took to give its first
        self._no_values_ns = 0  # when a call hung after which no GPU has answered; 0: none
        self._starved_ns = 0  # since then, by children that are no more
        metrics.set(agent.NVML_ABANDONED, 0)
        metrics.set(agent.NVML_BLIND, 0)

    @property
    def pid(self) -> int:
        """Process id of the child that serves, 0 where none does."""
        return self._serving.pid if self._serving else 0

    @property
    def driver_hung(self) -> bool:
        """Whether calls into the driver do not return, about whatever GPU."""
        if not self._no_values_ns:
            return False
        patience_ns = max(DRIVER_S * SECOND_NS, PATIENCE * self._first_values_ns)
        starved_ns = self._starved_ns + (self._serving.starved_ns if self._serving else 0)
        waited_ns = self._clock.monotonic_ns() - self._no_values_ns - starved_ns
        return waited_ns >= patience_ns

    def sweep(self, *, links: bool, facts: bool, missing: bool) -> Sweep:
        """One sweep of the child that serves.

        ``missing``: GPUs that should be there are not, so look for them now and then.
        """
        self._bury()
        self._try_candidate(missing=missing)
        if self._serving is None:
            self._serve()
        result = Sweep(self._inherited, trouble=self._trouble)
        self._inherited = []
        if self._serving is not None:
            result.pid = self._serving.pid
            try:
                self._run(self._serving, result, links=links, facts=facts)
            except ChildLostError as error:
                self._lost(error, result)
        self._watch_driver(result)
        return result

    def _watch_driver(self, result: Sweep) -> None:
        now = self._clock.monotonic_ns()
        if any(message.kind in (wire.VALUES, wire.TROUBLE) for message in result.messages):
            if self._began_ns:
                self._first_values_ns, self._began_ns = now - self._began_ns, 0
            self._no_values_ns = 0
        elif result.hangs and not self._no_values_ns:
            self._no_values_ns, self._starved_ns = now, 0
        hung = self.driver_hung
        if hung and self._serving is not None:
            result.trouble = "the driver hangs: no call returns"
        blind = self._serving is None and self._abandoned() >= MAX_ABANDONED
        self._metrics.set(agent.NVML_BLIND, float(blind or hung))

    def close(self) -> None:
        """End all children; one that survives its kill is left behind."""
        for worker in (self._serving, self._candidate.worker if self._candidate else None):
            if worker is not None:
                self._dismiss(worker)
        self._serving = self._candidate = None
        for worker in self._dying:
            worker.ended(CLOSE_S / len(self._dying))
        self._bury()

    def _run(self, worker: Worker, result: Sweep, *, links: bool, facts: bool) -> None:
        if not worker.ready:
            worker.collect(self._wait_s, result.messages, until="ready")
        if worker.ready:
            if not worker.busy:
                worker.sweep(links=links, facts=facts)
            worker.collect(self._wait_s, result.messages)
        result.complete = worker.ready and not worker.busy
        result.trouble = "" if result.complete else ("late" if worker.ready else "starting")
        self._due_where_moved(worker, result.messages)
        if result.complete:
            self._whole(result)

    def _whole(self, result: Sweep) -> None:
        """A whole sweep: all is well, unless the driver refused every GPU,
        as after it was unloaded.
        """
        self._rows = rows(result.messages)
        codes = {m.number("code") for m in result.messages if m.kind == wire.TROUBLE}
        if not self._rows and codes and LOST not in codes:
            raise ChildLostError("failed", "", code=codes.pop())
        self._completed = True
        self._retry.reset()
        self._say("")
        for gpu in self._rows:
            self._crashes.pop(gpu, None)

    def _serve(self) -> None:
        """Start a child where that is allowed now."""
        if self._abandoned() >= MAX_ABANDONED:
            self._say(
                f"blind: {MAX_ABANDONED} driver children are stuck in the kernel; another is "
                "started when one of them ends"
            )
        elif self._clock.monotonic_ns() >= self._retry_ns:
            self._serving = self._begin(self.quarantine.indices())
            self._completed, self._began_ns = False, self._clock.monotonic_ns()

    def _begin(self, skip: Sequence[int]) -> Worker | None:
        try:
            return self._start(skip=skip, events=self._events)
        except OSError as error:
            self._put_off(f"a driver child cannot be started: {error}")
            return None

    def _lost(self, error: ChildLostError, result: Sweep) -> None:
        """The serving child is of no more use: blame, and start another at once unless
        that led nowhere before.
        """
        assert self._serving is not None  # noqa: S101 - it was just lost
        self._dismiss(self._serving)
        self._metrics.add(agent.NVML_CHILD_ENDS, error.cause)
        result.trouble = self._blame(error, result.messages)
        if error.cause == "hung":
            result.hangs.append(Hang(error.gpu, error.function, error.seconds, self._serving.pid))
        self._serving = None
        if error.cause == "failed" or (error.gpu == NO_DEVICE and not self._completed):
            self._put_off(result.trouble)
        self._serve()

    def _put_off(self, trouble: str) -> None:
        self._retry_ns = self._clock.monotonic_ns() + round(self._retry.next() * SECOND_NS)
        self._say(trouble)

    def _blame(self, error: ChildLostError, messages: Sequence[Message]) -> str:
        """Leave out the GPU whose call hung, or crashed repeatedly; the reason in words."""
        if error.cause == "failed":
            return DRIVER_WORDS.get(error.code, str(error) or f"NVML error {error.code}")
        log.warning("driver child %s", error)
        if error.cause == "hung":
            self._metrics.add(agent.NVML_HUNG_CALLS, error.function)
            self._events &= error.function != "nvmlEventSetWait_v2"
        if error.gpu != NO_DEVICE:
            self._crashes[error.gpu] = self._crashes.get(error.gpu, 0) + 1
            if error.cause == "hung" or self._crashes[error.gpu] >= CRASHES_BEFORE_QUARANTINE:
                self._leave_out(error.gpu, error, messages)
        return f"{error.cause} in {error.function}" if error.function else error.cause

    def _leave_out(self, gpu: int, error: ChildLostError, messages: Sequence[Message]) -> None:
        new = gpu not in self.quarantine
        uuid = found(messages).get(gpu) or self._uuid_at(gpu)
        pause = self.quarantine.add(gpu, uuid, error.cause, self._clock.monotonic_ns())
        if new:
            log.error(
                "GPU %d is skipped: %s; retrying in %.0f s, then with increasing delays",
                gpu,
                error,
                pause,
            )

    def _due_where_moved(self, worker: Worker, messages: Sequence[Message]) -> None:
        """An index that is another GPU now, or none, is no reason to leave that one out."""
        for index, uuid in found(messages).items():
            self.quarantine.moved(uuid, index)
        if worker.ready:
            self.quarantine.shrink(worker.count)

    def _try_candidate(self, *, missing: bool) -> None:
        """Start the candidate, or see how far it is. Never waits."""
        if not missing:
            self._look.reset()
        now = self._clock.monotonic_ns()
        if self._candidate is None:
            due = self.quarantine.due(now)
            wanted = due or (missing and now >= self._look_ns)
            if (
                not wanted
                or not self._completed
                or self._serving is None
                or self._abandoned() >= MAX_ABANDONED - 1
            ):
                return
            self._look_ns = now + round(self._look.next() * SECOND_NS)
            worker = self._begin([index for index in self.quarantine.indices() if index not in due])
            if worker is None:
                return
            self._candidate = Candidate(worker, due)
        try:
            if self._candidate.drive(self._rows):
                self._judge(self._candidate)
        except ChildLostError as error:
            self._reject(self._candidate, error)

    def _judge(self, candidate: Candidate) -> None:
        """It survived a whole sweep: it takes over if it reads GPUs that were left out, or more
        than the child that serves.
        """
        self._candidate = None
        if not candidate.gains(self._rows):
            self._dismiss(candidate.worker)
            return
        for index in candidate.due:
            log.info("GPU %d no longer hangs", index)
            self.quarantine.release(index)
        if self._serving is not None:
            self._dismiss(self._serving)
            self._metrics.add(agent.NVML_CHILD_ENDS, "replaced")
        self._serving, self._inherited = (
            candidate.worker,
            [m for m in candidate.messages if m.kind not in {wire.VALUES, wire.DONE}],
        )

    def _reject(self, candidate: Candidate, error: ChildLostError) -> None:
        self._candidate = None
        self._dismiss(candidate.worker)
        self._metrics.add(agent.NVML_CHILD_ENDS, error.cause)
        for index in candidate.due:
            if error.gpu in {index, NO_DEVICE}:
                self._leave_out(index, error, candidate.messages)

    def _dismiss(self, worker: Worker) -> None:
        self._starved_ns += worker.starved_ns
        worker.kill()
        self._dying.append(worker)

    def _bury(self) -> None:
        """Reap the children that have ended; count those that are stuck."""
        for worker in [w for w in self._dying if w.ended()]:
            self._dying.remove(worker)
            worker.close()
        self._metrics.set(agent.NVML_ABANDONED, self._abandoned())

    def _abandoned(self) -> int:
        return sum(worker.stuck for worker in self._dying)

    def _say(self, trouble: str) -> None:
        """One line per change."""
        if trouble != self._trouble:
            log.warning("no GPU can be read: %s", trouble) if trouble else log.info(
                "GPUs can be read"
            )
            self._trouble = trouble
