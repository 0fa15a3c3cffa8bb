"""Watches for dumps of the node's ranks, asks for them when something is
suspected, and has new ones read.

Files and their names: torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp and
FlightRecorder.hpp, PyTorch 2.2 to 2.13.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from collector.sources.nccl.discovery.mounts import is_local
from collector.sources.nccl.discovery.scan import Found
from collector.sources.untrusted import open_fifo, open_regular
from pipeline.clock import SECOND_NS

log = logging.getLogger("tocsin.nccl")

SETTLED_NS = 2 * SECOND_NS  # a file that changed a moment ago is still being written
ASK_AGAIN_S = 120.0
READ_AGAIN_S = 30.0  # a job that writes its dump again all the time costs a child every half minute
MAX_AT_ONCE = 16  # dumps that one child reads
# between two looks at a dump on a network file system, on suspicion; and after one without answer
REMOTE_AGAIN_S, DEAD_AGAIN_S = 120.0, 3600.0

Read = Callable[[Sequence[dict[str, Any]]], list[dict[str, Any]]]


@dataclass(slots=True)
class _Rank:
    """What is known of the dumps of one process."""

    # time and size of what was read, by path
    seen: dict[str, tuple[int, int]] = field(default_factory=dict)
    asked_s: float = float("-inf")
    read_s: float = float("-inf")
    remote_s: float = float("-inf")


@dataclass(frozen=True, slots=True)
class Dumped:
    """What came of one dump: events as (kind, attributes), or why it was refused."""

    process: Found
    events: tuple[tuple[str, dict[str, Any]], ...]
    refused: str = ""


class DumpWatch:
    """``read`` reads requests in a child. Times: ``now_s`` monotonic seconds, ``time_ns`` unix."""

    def __init__(self, host: str, proc: Path, read: Read) -> None:
        self._host, self._proc, self._read = host, proc, read
        self._ranks: dict[tuple[int, float], _Rank] = {}
        self._dead_s = float("-inf")  # when a file system of the job gave no answer

    def look(
        self, processes: Sequence[Found], *, suspected: bool, now_s: float, time_ns: int
    ) -> list[Dumped]:
        """New dumps of these processes; on suspicion each is asked for one first,
        at most every two minutes.
        """
        keys = {(p.pid, p.started_s): p for p in processes if p.rank >= 0}
        self._ranks = {key: self._ranks.get(key) or _Rank() for key in keys}
        wanted: list[tuple[Found, dict[str, Any]]] = []
        remote: list[tuple[Found, dict[str, Any]]] = []
        for key, process in keys.items():
            rank = self._ranks[key]
            born_ns = time_ns - int((now_s - process.started_s) * SECOND_NS)
            if now_s - rank.read_s >= READ_AGAIN_S:
                found = [
                    (process, request) for request in self._files(process, rank, born_ns, time_ns)
                ]
                rank.read_s = now_s if found else rank.read_s
                wanted += found
            if suspected and now_s - max(rank.remote_s + REMOTE_AGAIN_S, self._dead_s) >= 0:
                rank.remote_s = now_s
                remote += self._remote(process, born_ns, time_ns)
            if suspected and now_s - rank.asked_s >= ASK_AGAIN_S:
                rank.asked_s = now_s
                self._ring(process)
                if path := process.environment.get("TORCH_WORKER_SERVER_SOCKET"):
                    wanted.append((process, self._request(process, path, time_ns, http=True)))
        near = self._have_read(wanted[:MAX_AT_ONCE])
        far = self._have_read(remote[:MAX_AT_ONCE])
        if len(far) < len(remote[:MAX_AT_ONCE]):
            self._dead_s = now_s + DEAD_AGAIN_S
            far.append(Dumped(remote[len(far)][0], (), "its file system does not answer"))
        return [*near, *(dump for dump in far if dump.events or dump.refused)]

    def _have_read(self, wanted: list[tuple[Found, dict[str, Any]]]) -> list[Dumped]:
        if not wanted:
            return []
        answers = self._read([request for _, request in wanted])
        return [
            Dumped(
                process,
                tuple((kind, facts) for kind, facts in answer.get("events", ())),
                answer.get("refused", ""),
            )
            for (process, _), answer in zip(wanted, answers, strict=False)
        ]

    def _files(
        self, process: Found, rank: _Rank, born_ns: int, time_ns: int
    ) -> Iterator[dict[str, Any]]:
        for path in dump_paths(process):
            if not self._is_local(process, path):
                continue
            try:
                fd = open_regular(path, root=self._root(process), owner=process.user)
            except OSError:
                continue  # not there, or a trap: nothing is read from it
            status = os.fstat(fd)
            os.close(fd)
            mark = (status.st_mtime_ns, status.st_size)
            fresh = born_ns < status.st_mtime_ns <= time_ns - SETTLED_NS
            if mark != rank.seen.get(path) and fresh and status.st_size:
                rank.seen[path] = mark
                yield self._request(process, path, status.st_mtime_ns, http=False)

    def _remote(
        self, process: Found, born_ns: int, time_ns: int
    ) -> Iterator[tuple[Found, dict[str, Any]]]:
        """Requests for dumps on file systems that may not answer: the child looks for them too."""
        for path in dump_paths(process):
            if not self._is_local(process, path):
                request = self._request(process, path, time_ns, http=False)
                yield process, {**request, "between_ns": [born_ns, time_ns - SETTLED_NS]}

    def _is_local(self, process: Found, path: str) -> bool:
        return is_local(self._proc / str(process.pid), path)

    def _request(self, process: Found, path: str, time_ns: int, *, http: bool) -> dict[str, Any]:
        place = {
            "root": str(self._root(process)),
            "path": path,
            "owner": process.user,
            "http": http,
        }
        return {
            **place,
            "rank": process.rank,
            "job": process.job,
            "host": self._host,
            "pid": process.inner_pid,
            "time_ns": time_ns,
        }

    def _ring(self, process: Found) -> None:
        """Ask for a dump through the FIFO of its rank, where the job has one: any byte will
        do, and the job goes on.
        """
        prefix = process.environment.get("TORCH_NCCL_DEBUG_INFO_PIPE_FILE")
        if not prefix or not self._is_local(process, prefix):
            return
        try:
            fd = open_fifo(
                f"{prefix}{process.rank}.pipe", root=self._root(process), owner=process.user
            )
        except OSError as error:
            log.info(
                "rank %d of job %s takes no request for a dump: %s",
                process.rank,
                process.job,
                error,
            )
            return
        try:
            os.write(fd, b"1\n")
        except OSError as error:
            log.info(
                "rank %d of job %s takes no request for a dump: %s",
                process.rank,
                process.job,
                error,
            )
        finally:
            os.close(fd)

    def _root(self, process: Found) -> Path:
        return self._proc / str(process.pid) / "root"


def dump_paths(process: Found) -> list[str]:
    """Where a rank writes its dump: where its environment says, else where PyTorch 2.13, and where
    older ones do by default.
    """
    environment = process.environment
    given = [
        environment[n]
        for n in ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
        if environment.get(n)
    ]
    if not given:
        home = environment.get("HOME", "/root")
        cache = environment.get("XDG_CACHE_HOME") or f"{home}/.cache"
        given = [f"{cache}/torch/comm_lib_trace_rank_", "/tmp/nccl_trace_rank_"]  # noqa: S108 - read, with its owner checked
    return [f"{prefix}{process.rank}" for prefix in given]
