"""What the NCCL source reads of tenants: the methods that run in its child (``reader``)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from collector.sources.nccl.discovery import procfs
from collector.sources.nccl.discovery.devices import is_saved
from collector.sources.nccl.discovery.found import Found, Glance, Seen
from collector.sources.nccl.discovery.inspect import inspect
from collector.sources.nccl.discovery.library import search
from collector.sources.nccl.discovery.mounts import is_served_by_a_user
from collector.sources.nccl.discovery.procfs import Stat
from collector.sources.nccl.discovery.sockets import (
    Listener,
    SocketTables,
    addresses,
    port_holders,
    ras_clients,
)
from collector.sources.nccl.flight_recorder.files import DumpFile, files_of, ring
from collector.sources.nccl.flight_recorder.read import DumpAnswer, DumpRequest, read_dump
from collector.sources.nccl.inspector.inspection import Inspection, InspectorLook
from collector.sources.nccl.ras.address import Address, RasError
from collector.sources.nccl.ras.answering import Answering, Check, anybody
from collector.sources.nccl.ras.client import ask_any
from collector.sources.nccl.ras.json_report import parse_json
from collector.sources.nccl.ras.listening import Listening
from collector.sources.nccl.ras.pieces import split
from collector.sources.nccl.sanitize import FormatError
from collector.sources.tenants.desk import Mark
from pipeline.nccl.report import PeerEvent, Report

MAX_JOBS = 256  # whose files and connections are remembered


@dataclass(frozen=True, slots=True)
class Sockets:
    """RAS sockets by pid, and the addresses of a network namespace. ``holder`` is another user's
    socket on the port of processes of which none has one.
    """

    listeners: tuple[tuple[int, tuple[Listener, ...]], ...]
    addresses: tuple[str, ...]
    holder: Listener | None = None


@dataclass(frozen=True, slots=True)
class RasAnswer:
    """A report, or why there is none: ``cause`` as in RasError, or ``ranks``. ``pieces`` are those
    of ``ras/pieces.py``, ``by`` the process that answered, 0 where that cannot be known.
    """

    report: Report | None
    cause: str = ""
    message: str = ""
    pieces: tuple[bytes, ...] = ()
    by: int = 0


class NcclReader:
    """Reads below ``proc``. ``ask``, ``read`` and ``find`` are how RAS is asked, and dumps and
    libraries are read.
    """

    def __init__(
        self,
        proc: Path,
        mark: Mark = lambda subject, tenant: None,  # noqa: ARG005 - nobody is blamed
        *,
        ask: Callable[[Sequence[Address], Check], bytes] = ask_any,
        read: Callable[[DumpRequest], DumpAnswer] = read_dump,
        find: Callable[[str, Path], str] = search,
    ) -> None:
        self._proc, self._mark, self._ask, self._read, self._find = proc, mark, ask, read, find
        self._saved = is_saved(proc)
        self._inspectors: dict[str, Inspection] = {}
        self._listening: dict[str, Listening] = {}

    def processes(self, glances: tuple[Glance, ...]) -> tuple[Seen, ...]:
        """What these processes are."""
        return tuple(inspect(self._proc, glances, self._mark))

    def stats(self, pids: tuple[int, ...], tenant: str) -> tuple[tuple[int, Stat], ...]:
        """Name, parent and start of these processes of a tenant, as far as they are there."""
        found = []
        for pid in pids:
            self._mark(str(pid), tenant)
            with contextlib.suppress(OSError):
                stat = procfs.stat(procfs.read(self._proc / str(pid) / "stat"))
                found += [(pid, stat)] if stat else []
        return tuple(found)

    def version(self, pid: int, path: str) -> str:
        """NCCL's version in a library of a process, "" where it is not to be had."""
        process = self._proc / str(pid)
        if is_served_by_a_user(process, path):
            return ""
        try:
            return self._find(path, process / "root")
        except OSError:
            return ""

    def sockets(self, rows: tuple[tuple[int, int, str, int], ...]) -> Sockets:
        """Of processes with pid, network namespace, NCCL_RAS_ADDR and user; the addresses are those
        of the first.
        """
        tables = SocketTables(self._proc)
        found = ras_clients(self._proc, (row[:3] for row in rows), tables)
        own = addresses(self._proc / str(rows[0][0]) / "net") if rows else frozenset()
        holders = port_holders(self._proc, rows, tables) if not found else {}
        holder = next(iter(holders.values()), None)
        return Sockets(tuple(found.items()), tuple(sorted(own)), holder)

    def ras(
        self, servers: tuple[Address, ...], origin: str, pids: tuple[int, ...], max_ranks: int
    ) -> RasAnswer:
        """The first report that any of the servers gives, where one of these processes answers."""
        answering = Answering(self._proc, pids)
        try:
            data = self._ask(servers, anybody if self._saved else answering)
            report = parse_json(data, origin)
        except RasError as error:
            return RasAnswer(None, error.cause, str(error))
        except FormatError as error:
            return RasAnswer(None, "garbage", str(error))
        ranks = sum(len(c.members) for c in report.communicators)
        if ranks > max_ranks:
            why = f"a report of {ranks} ranks: at most {max_ranks} are read now"
            return RasAnswer(None, "ranks", why)
        bare, pieces = split(report)
        return RasAnswer(bare, pieces=pieces, by=answering.pid)

    def listen(
        self, job: str, server: Address, pids: tuple[int, ...], now_s: float
    ) -> tuple[PeerEvent, ...]:
        """Events of the job's RAS since the last look; ``now_s`` is monotonic. ``pids`` are the
        job's processes.
        """
        if job not in self._listening and len(self._listening) >= MAX_JOBS:
            return ()
        check = anybody if self._saved else Answering(self._proc, pids)
        return tuple(self._listening.setdefault(job, Listening()).look(server, now_s, check))

    def hush(self, job: str) -> None:
        """Hang up."""
        if listening := self._listening.pop(job, None):
            listening.close()

    def inspector(
        self, job: str, processes: tuple[Found, ...], logs: int, now_s: float
    ) -> InspectorLook:
        """What the Inspector of these processes wrote since the last look. Each log is one of so
        many that share the node's limit.
        """
        if job not in self._inspectors and len(self._inspectors) >= MAX_JOBS:
            return InspectorLook()
        inspection = self._inspectors.setdefault(job, Inspection(self._proc))
        return inspection.look(processes, logs, now_s)

    def inspected(self, job: str, process: Found) -> Report | None:
        """What the Inspector of a process had written at the last look."""
        inspection = self._inspectors.get(job)
        return inspection.report(process) if inspection else None

    def dump_files(self, processes: tuple[Found, ...]) -> tuple[DumpFile, ...]:
        """The dumps that these processes have now."""
        return tuple(file for process in processes for file in files_of(self._proc, process))

    def ring(self, process: Found) -> str:
        """Ask a process for a dump; why it takes no request, "" where it does."""
        return ring(self._proc, process)

    def dump(self, request: DumpRequest) -> DumpAnswer:
        """One dump."""
        return self._read(request)

    def forget(self, job: str) -> None:
        """The job is over."""
        self.hush(job)
        if inspection := self._inspectors.pop(job, None):
            inspection.watch.close()

    def close(self) -> None:
        """Let go of all files and connections."""
        for job in [*self._inspectors, *self._listening]:
            self.forget(job)


def reader(mark: Mark, proc: str) -> NcclReader:
    """The reader of a child."""
    return NcclReader(Path(proc), mark)
