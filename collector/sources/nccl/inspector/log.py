"""What Inspector lines add up to: per communicator and rank the latest timings, and how many of
each operation are complete.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from io import BytesIO

from collector.sources.nccl.inspector.line import Completed, parse_line
from collector.sources.nccl.sanitize import FormatError, Unread
from pipeline.nccl.member import KEPT_TIMINGS, Member, Timing
from pipeline.nccl.report import Communicator, Discard, Report

MAX_BYTES = 1 << 30  # of a saved log: two hours of 500 operations a second
MAX_RANKS = 20_000  # (communicator, rank) pairs of one log; a process has as many as communicators
MAX_OPERATIONS = 32  # kinds of collectives


@dataclass(slots=True)
class _Seat:
    """One rank of one communicator."""

    size: int
    host: str
    pid: int
    timings: deque[Timing]
    completed: dict[str, int] = field(default_factory=dict)
    # of each operation: number and time of the first seen
    since: dict[str, tuple[int, int]] = field(default_factory=dict)


class InspectorLog:
    """Takes lines as they come. Memory is bounded by ``ranks``, and ``operations`` and ``timings``
    of each.

    Of each operation about ``per_second`` timings are kept: those whose number is a multiple of a
    power of two, so that of all ranks the same operations are kept, though their logs are written
    at different moments.
    """

    def __init__(
        self,
        per_second: float = math.inf,
        *,
        ranks: int = MAX_RANKS,
        operations: int = MAX_OPERATIONS,
        timings: int = KEPT_TIMINGS,
    ) -> None:
        self._per_second = per_second
        self.max_ranks, self._operations, self._kept = ranks, operations, timings
        self.lines = 0
        self.latest_ns = 0
        self.unread = Unread()
        self.crowd = 0  # lines of ranks beyond MAX_RANKS
        self._seats: dict[tuple[str, int], _Seat] = {}

    def feed(self, lines: Iterable[bytes]) -> None:
        """Take these; what is no Inspector line is counted."""
        for line in lines:
            if not line.strip():
                continue
            try:
                self._take(parse_line(line))
            except FormatError:
                self.unread.add(line[:400].decode(errors="replace"))

    def report(self, origin: str = "", *, timings: int = KEPT_TIMINGS) -> Report:
        """The current state, with at most so many of the latest timings of each rank."""
        members: dict[tuple[str, int], list[Member]] = {}
        for (identity, rank), seat in self._seats.items():
            members.setdefault((identity, seat.size), []).append(_member(rank, seat, timings))
        crowd = (
            (Discard("lines", f"of more than {self.max_ranks} ranks", self.crowd),)
            if self.crowd
            else ()
        )
        hosts = {(seat.host, seat.pid) for seat in self._seats.values()}
        host, pid = hosts.pop() if len(hosts) == 1 else ("", -1)
        return Report(
            "inspector",
            origin,
            time_ns=self.latest_ns,
            host=host,
            pid=pid,
            communicators=tuple(
                Communicator(identity, size, tuple(found))
                for (identity, size), found in members.items()
            ),
            parsed=(("line", self.lines),),
            discarded=(*self.unread.discards("not understood"), *crowd),
        )

    def _take(self, found: Completed) -> None:
        key = (found.communicator, found.rank)
        if key not in self._seats and len(self._seats) >= self.max_ranks:
            self.crowd += 1
            return
        self.lines += 1
        self.latest_ns = max(self.latest_ns, found.time_ns)
        seat = self._seats.get(key)
        if seat is None or seat.pid != found.pid:  # another life of the job under the same hash
            seat = self._seats[key] = _Seat(
                found.size, found.host, found.pid, deque(maxlen=self._kept)
            )
        timing = found.timing
        if timing is None or (
            timing.operation not in seat.completed and len(seat.completed) >= self._operations
        ):
            return
        if (
            math.isfinite(timing.microseconds)
            and timing.seq % self._stride(seat, timing, found.time_ns) == 0
        ):
            seat.timings.append(timing)
        seat.completed[timing.operation] = max(
            seat.completed.get(timing.operation, 0), timing.seq + 1
        )

    def _stride(self, seat: _Seat, timing: Timing, time_ns: int) -> int:
        """One timing in so many is kept: a power of two."""
        number, began_ns = seat.since.setdefault(timing.operation, (timing.seq, time_ns))
        rate = max(timing.seq - number, 1) / max((time_ns - began_ns) / 1e9, 1.0)
        return 1 << math.ceil(math.log2(rate / self._per_second)) if rate > self._per_second else 1


def _member(rank: int, seat: _Seat, timings: int) -> Member:
    """``seq`` counts from 0, so that as many are complete as the highest says, plus one; RAS counts
    what was launched from 1.
    """
    latest = list(seat.timings)[-timings:] if timings else []
    return Member(
        rank,
        host=seat.host,
        pid=seat.pid,
        state="ok",
        completed=tuple(sorted(seat.completed.items())),
        timings=tuple(latest),
    )


def looks_like_inspector(data: bytes) -> bool:
    """Whether the first line is one of an Inspector log."""
    head = data[:4096].lstrip()
    return (
        head.startswith(b"{")
        and b'"header"' in head
        and (b'"coll_perf"' in head or b'"p2p_perf"' in head)
    )


def parse_log(data: bytes, origin: str = "") -> Report:
    """What a saved log says; a last line without its end is cut off.

    FormatError where no line is an Inspector line.
    """
    if len(data) > MAX_BYTES:
        raise FormatError(f"an Inspector log of {len(data)} bytes: at most {MAX_BYTES} are read")
    log = InspectorLog()
    end = data.rfind(b"\n") + 1
    log.feed(line.rstrip(b"\r\n") for line in BytesIO(data[:end]))
    if end < len(data):
        log.unread.add("a last line without its end")
    if not log.lines:
        raise FormatError("no Inspector log: no line of it is understood")
    return log.report(origin)
