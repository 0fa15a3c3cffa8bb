"""One driver child as its parent sees it: started, given its work, read with a
deadline on every call it makes.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collector.sources.nvml import wire
from collector.sources.nvml.callboard import NO_DEVICE, SLOW, CallBoard, Running
from collector.sources.nvml.wire import GarbageError, Message, Stream
from pipeline.catalog import facts_of, fields_of
from pipeline.child import Child, python
from pipeline.clock import SECOND_NS
from pipeline.starvation import Starvation

KINDS_READ = ("gpu", "gpu_instance", "nvlink")
MAX_MESSAGES = 20_000  # in one sweep; 16 GPUs with 72 links each are 1,200 targets of at most four
_GRACE_NS = 1_000_000  # between a call's end and the next look at the board
_LOOK_NS = 20_000_000  # and at a child that waits for a processor: two ticks of its account
_REAP_S = 0.1  # between the end of a child's output and of the child


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long things may take, in seconds."""

    call_s: float = 0.5  # one driver call
    # a slow one: loading the library (without persistence mode the driver loads
    # with it), discovery, facts
    slow_s: float = 30.0
    # a child in which no call runs says nothing; slow_s before it is ready: it is being loaded
    silent_s: float = 5.0
    sweep_s: float = 2.0  # a reading waits for its sweep


class ChildLostError(Exception):
    """The child is of no more use.

    ``cause`` is hung, died, garbage, silent or failed; ``gpu`` is NO_DEVICE if none is the cause.
    """

    def __init__(
        self,
        cause: str,
        text: str,
        running: Running | None = None,
        code: int = 0,
        seconds: float = 0.0,
    ) -> None:
        super().__init__(text)
        self.cause = cause
        self.code, self.seconds = code, seconds
        self.function = running.function if running else ""
        self.gpu = running.gpu if running else NO_DEVICE


def questions() -> dict[str, dict[str, dict[str, str]]]:
    """What a child is to ask, from the catalogue: ``questions`` and
    ``facts``, by kind and column.
    """
    return {
        "questions": {
            kind: {f.name: f.read for f in fields_of(kind) if f.read != "source"}
            for kind in KINDS_READ
        },
        "facts": {
            kind: {f.name: f.read for f in facts_of(kind) if f.read.startswith("nvml")}
            for kind in KINDS_READ
        },
    }


class Worker:
    """A driver child.

    Its messages are collected in pieces; ``ready`` once it has found its devices,
    ``busy`` during a sweep.
    """

    def __init__(
        self,
        library: str,
        deadlines: Deadlines,
        *,
        skip: Sequence[int] = (),
        hold: float = 1.0,
        processes: int = 0,
        events: bool = True,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.skip = tuple(skip)
        self.ready = self.busy = False
        self.count = 0
        self._deadlines = deadlines
        self._board = CallBoard()
        self._stream = Stream()
        self._heard_ns = time.monotonic_ns()
        plan = json.dumps(
            {
                "library": library,
                "skip": list(skip),
                "hold": hold,
                "processes": processes,
                "events": events,
                **questions(),
            }
        ).encode()
        plan_fd = os.memfd_create("tocsin-nvml-plan")
        try:
            os.write(plan_fd, plan)
            argv = python("collector.sources.nvml.driver", str(self._board.fd), str(plan_fd))
            self._child = Child(argv, env=env, pass_fds=(self._board.fd, plan_fd))
            self._starvation, self._excused_ns = Starvation(self._child.pid), 0
        except OSError:
            self._board.close()
            raise
        finally:
            os.close(plan_fd)

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._child.pid

    def sweep(self, *, links: bool, facts: bool) -> None:
        """Ask for a sweep, and for the slow facts after it. It must be ready and not busy."""
        self.busy = True
        self._heard_ns = time.monotonic_ns()
        self._starvation.mark()
        self._excused_ns = 0
        self._child.send((b"l" if links else b"s") + (b"f" if facts else b""))

    def collect(self, wait_s: float, messages: list[Message], *, until: str = "done") -> None:
        """Append what it says until it is ready or done, or for ``wait_s``.

        ChildLostError where it is of no more use.
        """
        deadline = time.monotonic_ns() + round(wait_s * SECOND_NS)
        while not (self.ready if until == "ready" else self.ready and not self.busy):
            patience, asked_ns = self._patience(deadline), time.monotonic_ns()
            data = self._child.receive(patience / 1e9)
            if data is None:
                self._starvation.woke_late(time.monotonic_ns() - asked_ns - patience)
            if data:
                self._heard_ns = time.monotonic_ns()
                self._take(data, messages)
            elif data is not None:
                raise self._ended()
            elif self._overdue():
                if (
                    data := self._child.receive(0.0)
                ) is None:  # nothing came at the last moment either
                    raise self._late()
                self._take(data, messages)
            elif time.monotonic_ns() >= deadline:
                return

    def kill(self) -> None:
        """Let go of the child; it may outlive this for a while."""
        self._child.kill()

    def ended(self, wait_s: float = 0.0) -> bool:
        """True once the process is gone."""
        return self._child.wait(wait_s) is not None

    @property
    def starved_ns(self) -> int:
        """For how long it had no processor since it began, ns."""
        return self._starvation.total_ns()

    @property
    def stuck(self) -> bool:
        """True where it survived SIGKILL."""
        return self._child.stuck

    def close(self) -> None:
        """Let go of the shared memory. The child must have ended or been given up."""
        self._board.close()
        self._starvation.close()

    def _take(self, data: bytes, messages: list[Message]) -> None:
        try:
            new = self._stream.feed(data)
            for message in new:
                self._note(message)
        except GarbageError as error:
            raise ChildLostError("garbage", f"wrote {error}", self._board.running()) from error
        messages += new
        if len(messages) > MAX_MESSAGES:
            raise ChildLostError("garbage", f"wrote more than {MAX_MESSAGES} messages in one sweep")

    def _note(self, message: Message) -> None:
        if message.kind == wire.READY:
            self.ready = True
            self.count = message.number("count")
        elif message.kind == wire.DONE:
            self.busy = False
        elif message.kind == wire.FAILED:
            raise ChildLostError(
                "failed", str(message.document().get("text", "")), code=message.number("code")
            )

    def _limit_ns(self, running: Running | None) -> int:
        """Until when something must come: the call that runs must be over, or where none
        runs the child must speak; later by as long as it had no processor.
        """
        if running is None:
            patience = (self._deadlines.silent_s, 0.0 if self.ready else self._deadlines.slow_s)
            return self._heard_ns + round(max(patience) * SECOND_NS) + self._excused_ns
        seconds = self._deadlines.slow_s if running.patience == SLOW else self._deadlines.call_s
        return running.since_ns + round(seconds * SECOND_NS) + self._excused_ns

    def _patience(self, deadline: int) -> int:
        """How long to listen before the next look at the board, ns: a call may begin, and
        hang, right after this look.
        """
        now = time.monotonic_ns()
        limit = self._limit_ns(self._board.running())
        look = now + round(min(self._deadlines.call_s, self._deadlines.slow_s) * SECOND_NS)
        return max(_GRACE_NS, min(deadline, limit, look) - now)

    def _overdue(self) -> bool:
        """Also without the time in which it had no processor, which is asked for only then; one
        that waits for it now is waited for.
        """
        running = self._board.running()
        if time.monotonic_ns() > self._limit_ns(running):
            waits = self._starvation.waits_now()
            self._excused_ns = self._starvation.since_mark_ns()
            if waits:
                late_ns = time.monotonic_ns() - self._limit_ns(running)
                self._excused_ns += max(0, late_ns) + _LOOK_NS
        return time.monotonic_ns() > self._limit_ns(running) and running == self._board.running()

    def _late(self) -> ChildLostError:
        running = self._board.running()
        if running is None:
            return ChildLostError("silent", "said nothing, though no driver call runs")
        seconds = (time.monotonic_ns() - running.since_ns) / 1e9
        return ChildLostError(
            "hung",
            f"{running.function} did not return for {seconds:.1f} s",
            running,
            seconds=seconds,
        )

    def _ended(self) -> ChildLostError:
        running = self._board.running()
        within = f" in {running.function}" if running else ""
        return ChildLostError("died", f"ended{within}{self._by()}", running)

    def _by(self) -> str:
        """What ended it, in words."""
        code = self._child.wait(_REAP_S)
        if code is None:
            return ""
        names = {number.value: number.name for number in signal.Signals}
        return (
            f" by {names.get(-code, f'signal {-code}')}" if code < 0 else f" with exit code {code}"
        )
