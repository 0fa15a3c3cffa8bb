"""Watches for dumps of the node's ranks, asks for them when something is
suspected, and has new ones read.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from collector.sources.nccl.discovery.found import Found
from collector.sources.nccl.flight_recorder.files import DumpFile
from collector.sources.nccl.flight_recorder.read import DumpAnswer, DumpRequest
from collector.sources.nccl.reader import NcclReader
from collector.sources.tenants.desk import Desk, LookLostError, Who
from pipeline.clock import SECOND_NS
from pipeline.nccl.report import Report

log = logging.getLogger("tocsin.nccl")

SETTLED_NS = 2 * SECOND_NS  # a file that changed a moment ago is still being written
ASK_AGAIN_S = 120.0
READ_AGAIN_S = 30.0  # a job that writes its dump again all the time costs a read every half minute
MAX_AT_ONCE = 16  # dumps of one job in one look
# between two looks at a dump on a network file system, on suspicion; and after one without answer
REMOTE_AGAIN_S, DEAD_AGAIN_S = 120.0, 3600.0
LOOK_S, RING_S = 5.0, 5.0
DUMPS_S = 30.0  # for all dumps of a job in one look
UNTRIED = frozenset({"late", "start", "stuck", "withheld", "budget"})  # as in LookLostError
REMOTE_S = 8.0  # on a file system that may not answer: the other jobs wait meanwhile


@dataclass(slots=True)
class _Rank:
    """What is known of the dumps of one process."""

    # time and size of what was read, by path, and whether it was refused
    seen: dict[str, tuple[int, int]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    asked_s: float = float("-inf")
    read_s: float = float("-inf")
    remote_s: float = float("-inf")


@dataclass(frozen=True, slots=True)
class Dumped:
    """What came of one dump: a report, or why it was refused."""

    process: Found
    report: Report | None
    refused: str = ""


class DumpWatch:
    """``desk`` reads, for the job ``who``. Times: ``now_s`` monotonic seconds, ``time_ns`` unix."""

    def __init__(
        self,
        host: str,
        proc: Path,
        desk: Desk,
        who: Who,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host, self._proc, self._desk, self._who = host, proc, desk, who
        self._clock_s = clock_s
        self._ranks: dict[tuple[int, float], _Rank] = {}
        self._dead_s = float("-inf")  # when a file system of the job gave no answer
        self._waiting = 0

    @property
    def cut(self) -> int:
        """Dumps that are there and were refused, or wait because there are too many at once."""
        return self._waiting + sum(len(rank.refused) for rank in self._ranks.values())

    def look(
        self, processes: Sequence[Found], *, suspected: bool, now_s: float, time_ns: int
    ) -> list[Dumped]:
        """New dumps of these processes; on suspicion each is asked for one first,
        at most every two minutes.
        """
        keys = {(p.pid, p.started_s): p for p in processes if p.rank >= 0}
        self._ranks = {key: self._ranks.get(key) or _Rank() for key in keys}
        wanted: list[tuple[Found, DumpRequest]] = []
        remote: list[tuple[Found, DumpRequest]] = []
        files = self._files(keys.values(), suspected=suspected, now_s=now_s)
        self._waiting = 0
        for key, process in keys.items():
            rank, own = self._ranks[key], files.get(process.pid, ())
            born_ns = time_ns - int((now_s - process.started_s) * SECOND_NS)
            if now_s - rank.read_s >= READ_AGAIN_S:
                room = MAX_AT_ONCE - len(wanted)
                fresh = [f for f in own if born_ns < f.changed_ns <= time_ns - SETTLED_NS]
                found = list(self._new(process, rank, fresh, room))
                rank.read_s = now_s if found else rank.read_s
                wanted += [(process, request) for request in found]
            if suspected and now_s - max(rank.remote_s + REMOTE_AGAIN_S, self._dead_s) >= 0:
                rank.remote_s = now_s
                remote += self._remote(process, own, born_ns, time_ns)
            if suspected and now_s - rank.asked_s >= ASK_AGAIN_S:
                rank.asked_s = now_s
                self._ring(process)
                if path := process.environment.get("TORCH_WORKER_SERVER_SOCKET"):
                    wanted.append((process, self._request(process, path, time_ns, http=True)))
        return [*self._near(wanted), *self._far(remote[:MAX_AT_ONCE], now_s)]

    def _near(self, wanted: Iterable[tuple[Found, DumpRequest]]) -> Iterator[Dumped]:
        """Dumps on file systems of this node, together in ``DUMPS_S``; what was not tried waits."""
        end_s = self._clock_s() + DUMPS_S
        for process, request in wanted:
            rank, left_s = self._ranks[process.pid, process.started_s], end_s - self._clock_s()
            try:
                if left_s <= 0:
                    raise LookLostError("late", "the dumps before it took the time")
                answer = self._desk.ask(NcclReader.dump, self._who, left_s, request)
            except LookLostError as error:
                answer = DumpAnswer(refused=f"{error.reason}: {error}")
                if error.reason in UNTRIED and not request.http:
                    rank.seen.pop(request.path, None)
                    self._waiting += 1
                    log.info("dump %s of job %s waits: %s", request.path, request.job, error)
                    continue
            (rank.refused.add if answer.refused else rank.refused.discard)(request.path)
            yield Dumped(process, answer.report, answer.refused)

    def _far(self, wanted: Iterable[tuple[Found, DumpRequest]], now_s: float) -> Iterator[Dumped]:
        """Dumps on other file systems, until one does not answer."""
        end_s = self._clock_s() + REMOTE_S
        for process, request in wanted:
            left_s = max(end_s - self._clock_s(), 0.0)
            try:
                answer = self._desk.ask(NcclReader.dump, self._who, left_s, request)
            except LookLostError:
                self._dead_s = now_s + DEAD_AGAIN_S
                yield Dumped(process, None, "its file system does not answer")
                return
            if answer.report or answer.refused:
                yield Dumped(process, answer.report, answer.refused)

    def _files(
        self, processes: Iterable[Found], *, suspected: bool, now_s: float
    ) -> dict[int, list[DumpFile]]:
        """The files of the ranks that are due, by pid."""
        due = tuple(
            process
            for process in processes
            if suspected
            or now_s - self._ranks[process.pid, process.started_s].read_s >= READ_AGAIN_S
        )
        files: dict[int, list[DumpFile]] = {}
        for file in self._desk.ask(NcclReader.dump_files, self._who, LOOK_S, due) if due else ():
            files.setdefault(file.pid, []).append(file)
        return files

    def _new(
        self, process: Found, rank: _Rank, files: Iterable[DumpFile], room: int
    ) -> Iterator[DumpRequest]:
        for file in files:
            mark = (file.changed_ns, file.size)
            if file.local and mark != rank.seen.get(file.path) and file.size:
                if room <= 0:
                    self._waiting += 1
                    continue
                room -= 1
                rank.seen[file.path] = mark
                yield self._request(process, file.path, file.changed_ns, http=False)

    def _remote(
        self, process: Found, files: Iterable[DumpFile], born_ns: int, time_ns: int
    ) -> Iterator[tuple[Found, DumpRequest]]:
        """Requests for dumps on file systems that may not answer: they are looked for there too."""
        for file in files:
            if not file.local:
                between = (born_ns, time_ns - SETTLED_NS)
                yield process, self._request(process, file.path, time_ns, between_ns=between)

    def _request(
        self,
        process: Found,
        path: str,
        time_ns: int,
        *,
        http: bool = False,
        between_ns: tuple[int, int] | None = None,
    ) -> DumpRequest:
        return DumpRequest(
            root=str(self._proc / str(process.pid) / "root"),
            path=path,
            owner=process.user,
            http=http,
            rank=process.rank,
            job=process.job,
            host=self._host,
            pid=process.inner_pid,
            time_ns=time_ns,
            between_ns=between_ns,
        )

    def _ring(self, process: Found) -> None:
        """Ask for a dump through the FIFO of its rank, where the job has one."""
        if not process.environment.get("TORCH_NCCL_DEBUG_INFO_PIPE_FILE"):
            return
        try:
            error = self._desk.ask(NcclReader.ring, self._who, RING_S, process)
        except LookLostError as lost:
            error = str(lost)
        if error:
            log.info(
                "rank %d of job %s takes no request for a dump: %s",
                process.rank,
                process.job,
                error,
            )
