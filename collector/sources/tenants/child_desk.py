"""A desk whose reader runs in a child: started with the first look, ended when not needed, and
replaced when it dies. One look is lost then, at one job.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Concatenate, NamedTuple

from collector.sources.tenants.answer_time import AnswerTime
from collector.sources.tenants.bounded import BoundsError, pack, unpack
from collector.sources.tenants.calls import signature
from collector.sources.tenants.cuts import Cuts
from collector.sources.tenants.desk import LookLostError, P, R, Who
from collector.sources.tenants.fairness import (
    JOB_RATE,
    JOB_S,
    TENANT_RATE,
    TENANT_S,
    Accounts,
    Strikes,
)
from collector.sources.tenants.frames import (
    ASK,
    DONE,
    FAILED,
    MARK,
    MAX_ANSWER,
    MAX_REQUEST,
    READY,
    FrameError,
    Frames,
    Message,
    framed,
)
from collector.sources.tenants.limits import ONE_THREAD
from collector.sources.tenants.serve import Answer, Failure, Request
from pipeline.catalog import agent
from pipeline.child import Child, python
from pipeline.selfmetrics import SelfMetrics
from pipeline.starvation import Starvation

log = logging.getLogger("tocsin.tenants")

IDLE_S = 60.0
# Children that survived SIGKILL, on a file system whose server took the request and is silent: one
# of a tenant.
MAX_STUCK = 6
MIN_CPU_S = 1.0  # that a look may use where the account is nearly empty
START_S = 20.0  # of a child, from a cold disk: no tenant's doing, and of no look's time


class ReaderOf(NamedTuple):
    """``module`` has the function ``reader`` that is called in the child with ``arguments``."""

    module: str
    memory_bytes: int
    arguments: tuple[str, ...]


class ChildDesk:
    """``source`` names the desk in metrics and logs. For one thread."""

    def __init__(
        self,
        source: str,
        reader: ReaderOf,
        metrics: SelfMetrics,
        cuts: Cuts,
        clock_s: Callable[[], float] = time.monotonic,
        *,
        start_s: float = START_S,
    ) -> None:
        self._source, self._metrics, self._cuts, self._clock_s = source, metrics, cuts, clock_s
        self._start_s = start_s
        memory = str(reader.memory_bytes)
        self._argv = python(
            "collector.sources.tenants.serve", reader.module, memory, *reader.arguments
        )
        self._child: Child | None = None
        self._starvation: Starvation | None = None
        self._frames = Frames(MAX_ANSWER)
        self._stuck: list[tuple[str, Child]] = []  # with the tenant
        self._used_s = 0.0
        self._subject = ("", "")
        self._jobs, self._tenants = Accounts(JOB_S, JOB_RATE), Accounts(TENANT_S, TENANT_RATE)
        self._strikes = Strikes()
        self._over: Counter[tuple[str, str]] = Counter()  # looks not tried, by job and tenant
        self.starts = 0

    @property
    def pid(self) -> int | None:
        """Process id of the child, None where there is none."""
        return self._child.pid if self._child else None

    def ask(
        self,
        method: Callable[Concatenate[Any, P], R],
        who: Who,
        deadline_s: float,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """See Desk."""
        form = signature(method)
        name, now_s = method.__name__, self._clock_s()
        allowed_s = self._admit(name, who, now_s)
        request = framed(ASK, pack((name, allowed_s, form.packed(args, kwargs)), Request))
        if len(request) > MAX_REQUEST:
            raise LookLostError("failed", f"{name}: a request of {len(request)} bytes")
        try:
            value: R = unpack(self._answer(request, who, deadline_s), form.returned)
        except (BoundsError, FrameError) as error:
            raise self._lost("garbage", str(error), name, who) from error
        except _EndedError as error:
            raise self._lost(error.reason, str(error), name, who) from error
        finally:
            self._used_s = self._clock_s()
        return value

    def tend(self) -> None:
        """See Desk."""
        now_s = self._clock_s()
        self._cuts.put(self._source, "child", self._strikes.shown(now_s))
        self._cuts.put(self._source, "time", self._over)
        self._over = Counter()
        self.stuck()
        if self._child is not None and now_s - self._used_s > IDLE_S:
            self.close()

    def close(self) -> None:
        """See Desk."""
        self._end("")

    def _end(self, tenant: str) -> None:
        """End the child; ``tenant`` is whose data it looked at."""
        if self._child is not None:
            self._child.kill()
            if self._child.wait(1.0) is None:
                self._stuck.append((tenant, self._child))
            self._child = None
        if self._starvation is not None:
            self._starvation.close()
            self._starvation = None

    def stuck(self) -> list[str]:
        """The tenants of children that hang in the kernel."""
        self._stuck = [(whose, child) for whose, child in self._stuck if child.poll() is None]
        return [whose for whose, _ in self._stuck]

    def _admit(self, name: str, who: Who, now_s: float) -> float:
        """CPU seconds that the look may use. LookLostError where it is not tried now."""
        if self._strikes.resting((name, who), now_s):
            raise LookLostError("withheld", f"{name} of job {who.job}: it ended the child before")
        if who.tenant and who.tenant in self.stuck():
            raise LookLostError("stuck", f"{name}: a child hangs in a look at {who.tenant}")
        left_s = min(
            self._jobs.left_s(who, now_s) if who.job else JOB_S,
            self._tenants.left_s(who.tenant, now_s) if who.tenant else TENANT_S,
        )
        if left_s <= 0:
            self._over[who] += 1
            raise LookLostError("budget", f"{name} of job {who.job}: its CPU time is used up")
        return max(left_s, MIN_CPU_S)

    def _answer(self, request: bytes, who: Who, deadline_s: float) -> bytes:
        """As ``_exchange``; once more with a new child where it died, for another reason perhaps
        (the kernel had no memory left for anybody).
        """
        self._subject = ("", "")
        child, left = self._started(), self._time(deadline_s)
        try:
            return self._exchange(child, request, who, left)
        except _EndedError as error:
            if error.reason != "died":
                raise
            deadline_s = left.left_s()
            self.close()
        return self._exchange(self._started(), request, who, self._time(deadline_s))

    def _exchange(self, child: Child, request: bytes, who: Who, left: AnswerTime) -> bytes:
        """The value that comes back for a request. FrameError, BoundsError, _EndedError."""
        self._subject = ("", "")
        if not child.send_all(request, self._start_s):
            raise _EndedError("died", "it takes no request")
        while True:
            for message in self._messages(child, left, "time"):
                if message.kind == DONE:
                    return self._paid(message, who)
                self._note(message)

    def _messages(self, child: Child, left: AnswerTime, late: str) -> list[Message]:
        """What it says next. _EndedError with the reason ``late`` where that is nothing in time."""
        data = left.receive(lambda seconds: child.receive(seconds, 1 << 18))
        if data is None:
            raise _EndedError(late, "no answer in time")
        if not data:
            code = child.wait(1.0)
            raise _EndedError("cpu" if code == -_SIGXCPU else "died", f"it ended with {code}")
        return self._frames.feed(data)

    def _time(self, seconds: float) -> AnswerTime:
        assert self._starvation is not None  # noqa: S101 - there is a child
        return AnswerTime(self._starvation, seconds)

    def _paid(self, message: Message, who: Who) -> bytes:
        used_s, value = unpack(message.body, Answer)
        now_s = self._clock_s()
        if who.job:
            self._jobs.charge(who, used_s, now_s)
        if who.tenant:
            self._tenants.charge(who.tenant, used_s, now_s)
        assert isinstance(value, bytes)  # noqa: S101 - by its type
        return value

    def _note(self, message: Message) -> None:
        if message.kind == MARK:
            self._subject = unpack(message.body, tuple[str, str])
        elif message.kind == FAILED:
            reason, text = unpack(message.body, Failure)
            raise _EndedError(reason if reason == "memory" else "failed", text)

    def _started(self) -> Child:
        """The child, once it has begun to serve. FrameError, _EndedError."""
        if self._child is not None and self._child.poll() is not None:
            self.close()  # it ended between two looks
        if self._child is None:
            if len(self.stuck()) >= MAX_STUCK:
                raise _EndedError("stuck", f"{MAX_STUCK} children hang in the kernel")
            self._child = Child(self._argv, env={**os.environ, **ONE_THREAD})
            self._starvation = Starvation(self._child.pid)
            self._frames = Frames(MAX_ANSWER)
            self.starts += 1
            left = self._time(self._start_s)
            if [message.kind for message in self._messages(self._child, left, "start")] != [READY]:
                raise FrameError("another message than that it is ready")
        return self._child

    def _lost(self, reason: str, message: str, name: str, who: Who) -> LookLostError:
        """The look is lost; a child that did not report that itself is replaced."""
        subject, tenant = self._subject
        self._metrics.add(agent.TENANT_LOOKS_LOST, self._source, reason)
        if reason not in {"failed", "start", "stuck"}:
            key, blamed = ((name, who), who) if who.job else ((name, subject), Who("", tenant))
            self._strikes.add(key, blamed, self._clock_s())
        if reason not in {"failed", "memory", "stuck"}:
            self._end(who.tenant or tenant)
        about = who.job or subject
        log.warning("%s of %s not read: the child: %s (%s)", name, about or "?", reason, message)
        return LookLostError(reason, message, subject, tenant)


class _EndedError(Exception):
    """No value came; ``reason`` as in LookLostError."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


_SIGXCPU = 24  # signal(7), the same on all architectures that have NVIDIA drivers
