"""One worker as the gateway sees it: what it was asked, what it holds, and how it is started again.

The gateway keeps the bytes of all that a worker holds, so a worker that ends or hangs costs time
and nothing else. What it was at when it ended is suspect: it is asked once more, and then skipped.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple, Protocol
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from gateway.ingest import wire
from gateway.ingest.arena import MAX_RECORD, RING, Arena, Ring
from pipeline.block import Block
from pipeline.bus.batch import (
    BatchError,
    Decoder,
    blocks_in,
    claimed,
    damage_is_an_error,
    described,
    read_head,
)
from pipeline.bus.stack import About
from pipeline.child import KILL_GRACE_S, Child

log = logging.getLogger("tocsin.gateway")

# Batches that were read and not yet taken: 40 ms of work, and 20 MB of values. A larger one takes
# the place of several.
AHEAD, BYTES_OF_ONE = 128, 160 << 10
MAX_SENT = 1000  # commands without an answer: the pipe takes 3,000
STRIKES = 2  # times that a worker ends at a message before that is skipped
START_S = 30.0  # until a worker is ready, on a machine that is busy
# The largest batch takes less: a worker that hangs and used so much hangs because of what it reads.
WORKED_S = 0.5
STOPPED = 0.25  # of a strike: one that hangs and used none was stopped by something else
# Starts in vain, one after the other, until the gateway reads these hosts' messages itself.
MAX_STARTS = 3
PAUSES_S = (0.0, 0.2, 0.5, 1.0, 2.0)  # before the next start, by deaths that came soon
SOON_S = 60.0
SKIPPED = "ends an ingest worker each time it is read: skipped"
# A host of which another message was skipped in that time is not read for as long.
QUARANTINE_S = 300.0
QUARANTINED = "messages of {token!r:.80} end ingest workers: not read for a while"
TICKS_PER_S = 100  # of /proc/PID/stat on Linux, proc(5): USER_HZ


class Known(NamedTuple):
    """A batch that a worker holds: its head, and of each stack the description and the number of
    samples. ``times``: unix and monotonic of each block.
    """

    held: Held
    host: str
    head: dict[str, Any]
    stacks: list[tuple[About, int]]
    times: NDArray[np.int64]


@dataclass(eq=False, slots=True)
class Ticket:
    """A message that is to be read; ``answer`` is what became of it, or why it is refused."""

    number: int
    token: str
    payload: bytes
    lane: Lane
    answer: Known | str | None = None
    strikes: float = 0.0
    sent: bool = False

    @property
    def places(self) -> int:
        """That it takes of those that are read ahead."""
        return 1 + claimed(self.payload) // BYTES_OF_ONE


@dataclass(eq=False)
class Held:
    """A batch that is still needed. While it lives its worker keeps the values."""

    number: int
    token: str
    payload: bytes
    lane: Lane
    strikes: float = 0.0
    _blocks: list[Block] | None = field(default=None, repr=False)

    def block(self, number: int) -> Block:
        """Read again, by this process."""
        if self._blocks is None:
            stacks = blocks_in(Decoder().open(self.payload))
            self._blocks = [block for stack in stacks for block in stack]
        return self._blocks[number]

    def __del__(self) -> None:
        self.lane.released.append(self.number)


@dataclass(eq=False, slots=True)
class Joining:
    """Blocks that a worker writes. ``failed``: it will not."""

    join: wire.Join
    done: bool = False
    failed: bool = False
    strikes: float = 0.0


@dataclass(frozen=True, slots=True)
class Forget:
    """A host that is gone."""

    token: str


class Again(NamedTuple):
    """A batch that another worker held before; it is not asked for where nobody needs it."""

    number: int
    token: str


Asked = Ticket | Joining | Forget | Again


class Notices(Protocol):
    """Who counts what happens to workers."""

    def restarted(self, reason: str) -> None:
        """A worker ended: ``ended``, ``hung`` or ``start``."""

    def spent(self, seconds: float) -> None:
        """CPU time of workers."""


class Lane:
    """``start`` begins a process. Asked by any thread; one thread calls ``step``."""

    def __init__(
        self,
        number: int,
        arena: Arena,
        start: Callable[[], Child],
        hang_s: float,
        notices: Notices,
    ) -> None:
        self._name, self._memory = f"ingest worker {number}", memoryview(arena.memory)
        self._ring, self._start_child = Ring(number * RING), start
        self._hang_s, self._notices = hang_s, notices
        self.released: deque[int] = deque()
        self.held: WeakValueDictionary[int, Held] = WeakValueDictionary()
        self._lock = RLock()
        self._urgent: deque[Asked] = deque()
        self._later: deque[Ticket] = deque()
        self._sent: deque[Asked] = deque()
        self._ahead = 0  # places of tickets that were sent and not taken
        self._child: Child | None = None
        self._ready = False
        self._answers = bytearray()
        self._known: dict[str, list[About]] = {}
        self._quiet_s = self._worker_s = 0.0  # without an answer; CPU time at the last one
        self._starts = 0  # in vain
        self._started_s = 0.0
        self._ends: deque[float] = deque(maxlen=len(PAUSES_S) - 1)
        self._due_s = 0.0
        self._reason = ""  # why it ends, as it says itself
        self._skipped: dict[str, float] = {}  # when a host's message was skipped last
        self._quarantined: dict[str, float] = {}  # hosts that are not read, and until when
        self._start()

    @property
    def absent(self) -> bool:
        """Whether no worker can be started; it is tried again."""
        return self._starts >= MAX_STARTS

    @property
    def pid(self) -> int:
        """Of its process; 0 while there is none."""
        child = self._child
        return child.pid if child else 0

    def read(self, ticket: Ticket) -> None:
        """Ask for a message, after those before."""
        with self._lock:
            if len(ticket.payload) + len(ticket.token) + 64 > MAX_RECORD:
                ticket.answer = f"a message of {len(ticket.payload)} bytes"
                return
            self._later.append(ticket)
            self._pump()

    def taken(self, ticket: Ticket) -> None:
        """Its answer was taken."""
        with self._lock:
            if ticket.sent:
                ticket.sent = False
                self._ahead -= ticket.places
                self._pump()

    def withdraw(self, ticket: Ticket) -> None:
        """A message that the gateway reads itself."""
        with self._lock, suppress(ValueError):
            self._later.remove(ticket)

    def ask(self, asked: Joining | Forget) -> None:
        """Before all messages that were not sent yet."""
        with self._lock:
            if isinstance(asked, Joining) and self.absent:
                asked.failed = True
                return
            self._urgent.append(asked)
            self._pump()

    def step(self, timeout_s: float) -> None:
        """Take answers, for so long at most where there are none; start a worker again."""
        child, began_s = self._child, time.monotonic()
        if child is None:
            if (wait_s := self._due_s - began_s) > 0:
                time.sleep(min(timeout_s, wait_s))
            else:
                with self._lock:
                    self._start()
            return
        data = child.receive(timeout_s)
        with self._lock:
            if data is None:
                # Not more than was waited for: where all were still, it did too.
                self._quiet_s += min(time.monotonic() - began_s, timeout_s)
                if self._ready and self._sent and self._quiet_s > self._hang_s:
                    self._ended("hung", weight=self._weight())
                elif not self._ready and began_s - self._started_s > START_S:
                    self._ended("start", weight=0.0)
            elif not data:
                self._ended("ended" if self._ready else "start", weight=float(self._ready))
            else:
                self._quiet_s = 0.0
                self._answers += data
                self._take()
                self._pump()

    def close(self) -> None:
        """End it."""
        with self._lock:
            if self._child is not None:
                self._child.kill()
                self._child.wait(KILL_GRACE_S)
                self._child = None
            self._due_s = float("inf")

    def _start(self) -> None:
        self._started_s = time.monotonic()
        try:
            self._child = self._start_child()
        except OSError as error:
            log.warning("%s cannot be started: %s", self._name, error)
            self._vain()
        self._ready, self._quiet_s, self._worker_s = False, 0.0, 0.0

    def _vain(self) -> None:
        self._starts += 1
        self._notices.restarted("start")
        self._due_s = time.monotonic() + PAUSES_S[min(self._starts, len(PAUSES_S) - 1)]
        if self.absent:
            self._urgent = deque(each for each in self._urgent if not _fails(each))

    def _pump(self) -> None:
        """Send what there is room for."""
        while self._ready and self._child is not None and len(self._sent) < MAX_SENT:
            if self._urgent:
                asked: Asked = self._urgent[0]
            elif self._later and self._ahead < AHEAD:
                asked = self._later[0]
            else:
                return
            if isinstance(asked, Ticket) and self._quarantines(asked.token):
                asked.answer = QUARANTINED.format(token=asked.token)
            elif (command := self._command(asked)) is not None:
                released = [*self._released()]
                raw = wire.record(released, command[2])
                at = self._ring.place(len(raw))
                if at is None:
                    self.released.extend(released)
                    return
                self._memory[at : at + len(raw)] = raw
                if not self._child.send(wire.COMMAND.pack(command[0], command[1], at, len(raw))):
                    self._ring.undo()
                    self.released.extend(released)
                    return  # it has ended, as ``step`` will see
                self._sent.append(asked)
                if isinstance(asked, Ticket) and not asked.sent:
                    asked.sent, self._ahead = True, self._ahead + asked.places
            (self._urgent or self._later).popleft()

    def _quarantines(self, token: str) -> bool:
        until_s = self._quarantined.get(token)
        if until_s is not None and until_s < time.monotonic():
            del self._quarantined[token], self._skipped[token]
        return token in self._quarantined

    def _released(self) -> Iterator[int]:
        for _ in range(len(self.released)):
            yield self.released.popleft()

    def _command(self, asked: Asked) -> tuple[int, int, bytes] | None:
        if isinstance(asked, Joining):
            return wire.JOIN, 0, asked.join.body()
        if isinstance(asked, Forget):
            return wire.FORGET, 0, wire.message(asked.token, b"")
        message = self.held.get(asked.number) if isinstance(asked, Again) else asked
        if message is None:
            return None
        return wire.READ, message.number, wire.message(message.token, message.payload)

    def _take(self) -> None:
        at = 0
        while len(self._answers) - at >= wire.ANSWER.size:
            what, spent_ns, _, length = wire.ANSWER.unpack_from(self._answers, at)
            end = at + wire.ANSWER.size + length
            if len(self._answers) < end:
                break
            body = bytes(self._answers[at + wire.ANSWER.size : end])
            self._notices.spent(spent_ns / 1e9 - self._worker_s)
            self._worker_s = spent_ns / 1e9
            at = end
            if what == wire.READY:
                self._ready, self._starts = True, 0
            elif what == wire.FAILED:  # its end follows
                self._reason = " ".join(body.decode("utf-8", "replace").split())
            else:
                self._answered(self._sent.popleft(), what, body)
                self._ring.free()
        del self._answers[:at]

    def _answered(self, asked: Asked, what: int, body: bytes) -> None:
        if isinstance(asked, Joining):
            asked.done = True
        elif isinstance(asked, Ticket):
            if what == wire.BATCH:
                held = Held(asked.number, asked.token, asked.payload, self)
                self.held[held.number] = held
                asked.answer = self._read(asked.token, body, held)
            else:
                asked.answer = body.decode("utf-8", "replace")
        elif isinstance(asked, Again) and what == wire.BATCH:
            again = self.held.get(asked.number)
            if again is not None:
                again.strikes = 0
            self._read(asked.token, body, again)  # for its descriptions
        elif isinstance(asked, Forget):
            self._known.pop(asked.token, None)

    def _read(self, token: str, body: bytes, held: Held | None) -> Known | str:
        read = wire.Read.of(memoryview(body))
        known = self._known.setdefault(token, [])
        if read.renumbered:
            known.clear()
        try:
            with damage_is_an_error():
                host, head = read_head(read.head_json)
                known += [described(size, raw, host) for size, raw in read.described]
        except BatchError as error:
            return str(error)
        stacks = [(known[number], samples) for number, samples in read.stacks]
        return Known(held, host, head, stacks, read.times) if held else ""

    def _weight(self) -> float:
        """How suspect is what it hangs at: more where it used CPU since its last answer."""
        try:
            text = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii")
        except OSError:
            return STOPPED
        user, system = text.rpartition(")")[2].split()[11:13]
        worked_s = (int(user) + int(system)) / TICKS_PER_S - self._worker_s
        return 1.0 if worked_s > WORKED_S else STOPPED

    def _ended(self, why: str, *, weight: float) -> None:
        """It ended or is ended now; what it was at is suspect by that weight."""
        child, self._child = self._child, None
        status = child.poll() if child is not None else None
        if child is not None:
            child.kill()
            child.wait(KILL_GRACE_S)
        if weight and self._sent:
            self._strike(self._sent[0], weight)
        ready, self._ready = self._ready, False
        reason, self._reason = self._reason, ""
        again = [Again(held.number, held.token) for held in self._wanted()]
        asked = [each for each in [*self._sent, *self._urgent] if not isinstance(each, Again)]
        tickets = [each for each in asked if isinstance(each, Ticket) and each.answer is None]
        for ticket in tickets:
            ticket.sent, self._ahead = False, self._ahead - ticket.places
        self._later.extendleft(reversed(tickets))
        joins = [each for each in asked if isinstance(each, Joining) and not each.failed]
        self._urgent = deque([*again, *joins])
        self._sent.clear()
        self._ring.clear()
        self._answers.clear()
        self._known.clear()
        self.released.clear()
        if not ready:
            log.warning("%s does not start (%s)", self._name, reason or f"exit status {status}")
            self._vain()
            return
        now_s = time.monotonic()
        soon = sum(each > now_s - SOON_S for each in self._ends)
        self._ends.append(now_s)
        self._due_s = now_s + PAUSES_S[soon]
        self._notices.restarted(why)
        log.warning(
            "%s %s (%s): started again, %d batches are read again",
            self._name,
            why,
            reason or ("no answer" if status is None else f"exit status {status}"),
            len(again) + len(tickets),
        )

    def _wanted(self) -> list[Held]:
        return [held for held in self.held.values() if held.strikes < STRIKES]

    def _strike(self, asked: Asked, weight: float) -> None:
        """A worker ended at this. What ended two is not asked again."""
        if isinstance(asked, Forget):
            return
        suspect = self.held.get(asked.number) if isinstance(asked, Again) else asked
        if suspect is None:
            return
        suspect.strikes += weight
        if suspect.strikes < STRIKES:
            return
        if isinstance(suspect, Ticket):
            suspect.answer = SKIPPED
            now_s, token = time.monotonic(), suspect.token
            if self._skipped.get(token, -QUARANTINE_S) > now_s - QUARANTINE_S:
                self._quarantined[token] = now_s + QUARANTINE_S
            self._skipped[token] = now_s
            self._ahead -= suspect.places * suspect.sent
            suspect.sent = False
        elif isinstance(suspect, Joining):
            suspect.failed = True


def _fails(asked: Asked) -> bool:
    """Whether it is a join, which has failed then."""
    if isinstance(asked, Joining):
        asked.failed = True
    return isinstance(asked, Joining)
