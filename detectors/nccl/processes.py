"""Processes of jobs as the agents of their nodes found them: which rank, node and GPU a process is
that a report from another node names by its pid.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.nccl.member import Member
from pipeline.nccl.report import Report
from pipeline.observation import Event

MAX_JOBS = 256  # as many as job_store.py keeps
MAX_PROCESSES = 65_536  # of one job: more than any has


@dataclass(frozen=True, slots=True)
class Process:
    """A process of a job.

    ``pid`` is the one that it sees itself, as RAS reports it; ``rank`` is -1 where its launcher
    did not set it. ``ended``: its node no longer finds it.
    """

    host: str
    pid: int
    rank: int = -1
    gpus: tuple[str, ...] = ()
    ended: bool = False


class Processes:
    """Takes what agents say of processes; jobs by their full names, with the step.

    A report has of other nodes' processes the address, the pid and the rank. The address of a node
    is no name of it, and in containers all nodes may have the same pids, also those whose agents
    know none of their processes: a process is one that only one of the job can be.

    >>> known = Processes()
    >>> known.found("7.0", Process("n1", 50, 0, ("GPU-a",)))
    >>> known.found("7.0", Process("n2", 50, 1, ("GPU-b",)))
    >>> known.of("7.0", 1, 50).gpus, known.of("7.0", -1, 50), known.of("7.0", 1, 60)
    (('GPU-b',), None, None)
    """

    def __init__(self) -> None:
        self._jobs: dict[str, dict[tuple[str, int], Process]] = {}
        # Of each job the keys of processes that ended, by rank: thousands may end at once.
        self._ended: dict[str, dict[int, set[tuple[str, int]]]] = {}

    def take(self, job: str, event: Event) -> None:
        """An event ``nccl_process_found`` or ``nccl_process_lost`` of a job."""
        facts, host = event.attributes, event.device.host
        pid, rank = facts.get("own_pid"), facts.get("rank", -1)
        if not isinstance(pid, int) or not isinstance(rank, int):
            return
        if event.kind == "nccl_process_found":
            self.found(job, Process(host, pid, rank, tuple(str(facts.get("gpus", "")).split())))
        elif (known := self._jobs.get(job, {}).get((host, pid))) is not None:
            self._jobs[job][host, pid] = replace(known, ended=True)
            self._note_end(job, (host, pid), known.rank)

    def found(self, job: str, process: Process) -> None:
        """A process of a job. One that ended with its rank is no longer that rank."""
        if job not in self._jobs and len(self._jobs) >= MAX_JOBS:
            self.ends(min(self._jobs, key=self._alive))
        known = self._jobs.setdefault(job, {})
        if process.rank >= 0:
            for key in self._ended.get(job, {}).pop(process.rank, ()):
                old = known.get(key)  # its pid may have been given again
                if old and old.ended and old.rank == process.rank:
                    del known[key]
        if len(known) < MAX_PROCESSES:
            known[process.host, process.pid] = process

    def ends(self, job: str) -> None:
        """Nothing of the job is left."""
        self._jobs.pop(job, None)
        self._ended.pop(job, None)

    def _note_end(self, job: str, key: tuple[str, int], rank: int) -> None:
        self._ended.setdefault(job, {}).setdefault(rank, set()).add(key)

    def hosts(self, job: str) -> set[str]:
        """Nodes that have, or had, processes of a job."""
        return {host for host, _ in self._jobs.get(job, ())}

    def of(
        self, job: str, rank: int = -1, pid: int = -1, reports: Iterable[Report] = ()
    ) -> Process | None:
        """The one process of a job that has this rank and pid, so far as they are known (-1: not);
        None where there is none, or several. ``reports`` of the job show pids that several have.
        """
        return _Index(self._jobs.get(job, {}).values(), reports).of(rank, pid)

    def known(self, report: Report) -> Report:
        """The report with rank in the job and GPU of the members that its own node does not know.

        A process of several GPUs has several members: these keep what the report has.
        """
        processes = self._jobs.get(report.job)
        strange = [m for c in report.communicators for m in c.members if not m.uuid]
        if not processes or not strange:
            return report
        index, ranks = _Index(processes.values(), (report,)), _ranks(report)

        def named(member: Member) -> Member:
            if member.uuid or (member.pid < 0 and member.world_rank < 0):
                return member
            rank = member.world_rank if member.world_rank >= 0 else ranks.get(_place(member), -1)
            process = index.of(rank, member.pid)
            if process is None or len(process.gpus) != 1:
                return member
            own = process.rank if member.world_rank < 0 else member.world_rank
            return replace(member, world_rank=own, uuid=process.gpus[0])

        communicators = (
            replace(c, members=tuple(map(named, c.members))) for c in report.communicators
        )
        return replace(report, communicators=tuple(communicators))

    def addresses(self, job: str, reports: Sequence[Report]) -> dict[str, str]:
        """Names of nodes by what reports call them, where their processes are known."""
        index = _Index(self._jobs.get(job, {}).values(), reports)
        found: dict[str, set[str]] = {}
        for report in reports:
            ranks = _ranks(report)
            for member in (m for c in report.communicators for m in c.members if m.pid >= 0):
                rank = ranks.get(_place(member), member.world_rank)
                process = index.of(rank, member.pid)
                if member.host and process is not None:
                    found.setdefault(member.host, set()).add(process.host)
        return {address: hosts.pop() for address, hosts in found.items() if len(hosts) == 1}

    def _alive(self, job: str) -> int:
        """A job whose processes have all ended is missed least."""
        return sum(not process.ended for process in self._jobs[job].values())

    def state(self) -> State:
        """All processes."""
        rows = [
            [job, p.host, p.pid, p.rank, " ".join(p.gpus), p.ended]
            for job, processes in self._jobs.items()
            for p in processes.values()
        ]
        return {"processes": text_array(rows)}

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it does not fit."""
        jobs: dict[str, dict[tuple[str, int], Process]] = {}
        for job, host, pid, rank, gpus, ended in from_text_array(state["processes"]):
            process = Process(str(host), int(pid), int(rank), tuple(str(gpus).split()), bool(ended))
            jobs.setdefault(str(job), {})[process.host, process.pid] = process

        def commit() -> None:
            self._jobs, self._ended = jobs, {}
            for job, processes in jobs.items():
                for key, process in processes.items():
                    if process.ended:
                        self._note_end(job, key, process.rank)

        return commit


class _Index:
    """Processes of one job by rank and by pid; ``reports`` are its own."""

    def __init__(self, processes: Iterable[Process], reports: Iterable[Report]) -> None:
        self._shared = _shared(reports)
        self._ranks: dict[int, list[Process]] = {}
        self._pids: dict[int, list[Process]] = {}
        for process in processes:
            self._ranks.setdefault(process.rank, []).append(process)
            self._pids.setdefault(process.pid, []).append(process)

    def of(self, rank: int, pid: int) -> Process | None:
        """See Processes.of. A rank in a communicator may be another one than the launcher's: a
        pid that only one process has counts more.
        """
        if pid < 0:
            like = self._ranks.get(rank, []) if rank >= 0 else []
            like = [p for p in like if not p.ended] or like
        else:
            like = self._pids.get(pid, [])
            alone = like if len(like) == 1 and pid not in self._shared else []
            like = [p for p in like if p.rank == rank >= 0] or alone
        return like[0] if len(like) == 1 else None


def _shared(reports: Iterable[Report]) -> set[int]:
    """Pids that several addresses have in one report; two reports may name a node in two ways."""
    shared: set[int] = set()
    for report in reports:
        address: dict[int, str] = {}
        for member in (m for c in report.communicators for m in c.members if m.pid >= 0 and m.host):
            if address.setdefault(member.pid, member.host) != member.host:
                shared.add(member.pid)
    return shared


def _ranks(report: Report) -> dict[tuple[str, int, int], int]:
    """The rank in the communicator of the whole job, by address, pid and GPU.

    Empty where the largest one lacks a process of another: a job may have groups alone, whose
    ranks are counted from 0 in each.
    """
    if report.teller != "ras":
        return {}
    largest = max(report.communicators, key=lambda c: c.size, default=None)
    ranks = {_place(m): m.rank for m in largest.members} if largest is not None else {}
    others = (_place(m) for c in report.communicators for m in c.members if m.pid >= 0)
    return ranks if all(place in ranks for place in others) else {}


def _place(member: Member) -> tuple[str, int, int]:
    return member.host, member.pid, member.gpu
