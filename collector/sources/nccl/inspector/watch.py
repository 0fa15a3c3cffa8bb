"""Follows the Inspector's files of the node's processes: the log of each, and the
Prometheus file of each GPU.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from collector.node.helper import client
from collector.node.helper.protocol import Kind
from collector.sources.nccl.discovery.found import Found
from collector.sources.nccl.discovery.mounts import is_served_by_a_process
from collector.sources.nccl.discovery.relative import absolute
from collector.sources.nccl.inspector.log import InspectorLog
from collector.sources.nccl.inspector.prometheus import MAX_BYTES, parse_samples
from collector.sources.nccl.sanitize import FormatError
from collector.sources.tail import Tail
from collector.sources.untrusted import names_in, read_regular
from pipeline.nccl.report import Report

# of one log at one look: 400 lines a second for five seconds and ten times as much
READ_BYTES, MIN_READ_BYTES = 1 << 20, 1 << 14
# of all logs of the node, shared by its tenants: 9 kB a rank, 30 ms a MiB
NODE_RANKS, NODE_BYTES = 1024, 16 << 20
RANKS, OPERATIONS = 64, 8  # of one log: a process has a rank in each of its communicators
TIMINGS = 32  # reported per rank, of the last minute: stragglers show in a dozen
PER_SECOND = 0.5  # kept of each operation
LOOK_AGAIN_S = 60.0  # for a log that is not there
BANDWIDTH = "nccl_bus_bandwidth_gbs"


def folder_of(environment: Mapping[str, str], process: Path) -> str:
    """Where the Inspector of a process writes: NCCL's default is relative to where it runs.

    PermissionError where that may not be known.
    """
    job = environment.get("SLURM_JOB_ID", "unknown-jobid")
    folder = environment.get("NCCL_INSPECTOR_DUMP_DIR") or f"nccl-inspector-{job}"
    return absolute(folder, process)


class _Followed:
    """One process."""

    def __init__(self) -> None:
        self.due_s = 0.0
        self.folder = ""
        self.tail: Tail | None = None
        self.log = InspectorLog(PER_SECOND, ranks=RANKS, operations=OPERATIONS, timings=TIMINGS)


class InspectorWatch:
    """Follows what processes write that have the Inspector switched on; what others'
    environment names is not opened.
    """

    def __init__(self, proc: Path) -> None:
        self._proc = proc
        self._ranks, self._bytes = RANKS, READ_BYTES
        self._followed: dict[tuple[int, float], _Followed] = {}

    def share(self, logs: int) -> None:
        """Its part of what the node may use: one of so many logs of equal shares."""
        self._ranks = min(max(NODE_RANKS // logs, 1), RANKS)
        self._bytes = min(max(NODE_BYTES // logs, MIN_READ_BYTES), READ_BYTES)

    def look(self, processes: Sequence[Found], now_s: float) -> list[tuple[Found, Report]]:
        """A report of each process whose log has grown."""
        switched = {
            (p.pid, p.started_s): p
            for p in processes
            if p.environment.get("NCCL_INSPECTOR_ENABLE") == "1"
        }
        for key in self._followed.keys() - switched.keys():
            self._drop(self._followed.pop(key))
        found = []
        for key, process in switched.items():
            followed = self._followed.setdefault(key, _Followed())
            if followed.tail is None and now_s >= followed.due_s:
                followed.due_s = now_s + LOOK_AGAIN_S
                self._open(process, followed)
            if followed.tail and self._read(followed):
                found.append(
                    (
                        process,
                        followed.log.report(
                            f"{followed.folder}/{process.inner_pid}", timings=TIMINGS
                        ),
                    )
                )
        return found

    @property
    def behind(self) -> int:
        """Bytes that were written and not read yet at the last look."""
        return sum(f.tail.behind for f in self._followed.values() if f.tail)

    def bandwidths(self, processes: Sequence[Found]) -> list[float]:
        """Bus bandwidth in 10^9 bytes/s that each GPU's Prometheus file shows; a file caught half
        written is left for the next look.
        """
        found = []
        for process in processes:
            followed = self._followed.get((process.pid, process.started_s))
            for uuid in process.uuids if followed and followed.folder else ():
                path = f"{followed.folder}/nccl_inspector_metrics_{uuid}.prom" if followed else ""
                with contextlib.suppress(OSError, FormatError):
                    data = read_regular(
                        path, root=self._root(process), owner=process.user, max_bytes=MAX_BYTES
                    )
                    found += [
                        sample.value for sample in parse_samples(data) if sample.name == BANDWIDTH
                    ]
        return found

    def close(self) -> None:
        """Let go of all files. Safe to call twice."""
        for followed in self._followed.values():
            self._drop(followed)
        self._followed.clear()

    def _open(self, process: Found, followed: _Followed) -> None:
        """The log is ``<hostname>-pid<pid>.log``, with the names that the process
        itself has for host and pid.
        """
        end = f"-pid{process.inner_pid}.log"
        with contextlib.suppress(OSError):
            folder = self._folder(process)
            if is_served_by_a_process(self._proc / str(process.pid), folder):
                return
            names = [
                name for name in names_in(folder, root=self._root(process)) if name.endswith(end)
            ]
            followed.folder = folder
            if names:
                followed.tail = Tail(
                    f"{folder}/{names[0]}", root=self._root(process), owner=process.user
                )

    def _folder(self, process: Found) -> str:
        try:
            return folder_of(process.environment, self._proc / str(process.pid))
        except PermissionError:
            answer = client.ask(Kind.INSPECTOR, process.pid)
            os.close(answer.fd)
            return answer.data.decode(errors="surrogateescape")

    def _read(self, followed: _Followed) -> bool:
        assert followed.tail is not None  # noqa: S101 - the caller looked
        try:
            lines = followed.tail.read(self._bytes)
        except OSError:
            self._drop(followed)
            return False
        before, followed.log.max_ranks = followed.log.lines, self._ranks
        followed.log.feed(lines)
        return followed.log.lines > before

    @staticmethod
    def _drop(followed: _Followed) -> None:
        if followed.tail is not None:
            followed.tail.close()
            followed.tail = None

    def _root(self, process: Found) -> Path:
        return self._proc / str(process.pid) / "root"
