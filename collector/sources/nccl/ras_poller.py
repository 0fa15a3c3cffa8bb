"""Polls the RAS of each job for a report when the policy allows it, and counts the outcomes."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from collector.sources.nccl.attribute_ranks import joined
from collector.sources.nccl.discovery.found import Found
from collector.sources.nccl.discovery.library import Version
from collector.sources.nccl.discovery.sockets import Listener
from collector.sources.nccl.ras.address import Address, RasError
from collector.sources.nccl.ras.client import CONNECT_S, GREET_S, READ_S
from collector.sources.nccl.ras.continuity import Continuity
from collector.sources.nccl.ras.pieces import whole
from collector.sources.nccl.ras.policy import (
    CLOSE_LOOKS,
    SPACING_S,
    JobSituation,
    Mode,
    Refusal,
    is_of,
    own_host,
    poller,
    refusal,
    slot_of,
    unfit,
)
from collector.sources.nccl.ras.strays import Answer, Server, Strays
from collector.sources.nccl.reader import NcclReader
from collector.sources.tenants.bounded import BoundsError
from collector.sources.tenants.desk import NODE, Desk, LookLostError, Who
from collector.sources.tenants.patience import SLOW_S
from pipeline.catalog import agent
from pipeline.guard import Health
from pipeline.nccl.report import Report
from pipeline.selfmetrics import SelfMetrics

log = logging.getLogger("tocsin.nccl")

LISTENERS_S = 60.0  # between two looks for sockets of a job that is not suspected
# to reach the right one of several jobs that share a port: one more for each, up to a bound
MAX_TRIES, MAX_TRIES_CROWD = 8, 32
MAX_DOUBLINGS = 4  # of the time between two polls of a job whose RAS fails: 4 minutes
# servers that are tried in one poll: for a stopped process its neighbours answer
MAX_SILENT = 2
NODE_RANKS = 65_536  # of all reports of one read, in shares: 1,024 ranks in 64 communicators
DECODE_S = 5.0
LOOK_S = 5.0

_TOO_LARGE = {"flood": "bytes", "ranks": "ranks"}
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, not bound to


@dataclass(slots=True)
class PollState:
    """State of the polls of one job.

    ``health`` logs once that its RAS fails, and once that it works again.
    """

    health: Health
    continuity: Continuity = field(default_factory=Continuity)
    at_s: float | None = None
    times: int = 0  # since something was suspected
    failures: int = 0  # polls in a row without a report
    slow: bool = False  # the last of them took its time
    waited_s: float = 0.0  # in the last poll, for answers that took longer than a healthy one's
    suspected_s: float | None = None
    looked_s: float = float("-inf")
    listeners: dict[int, tuple[Listener, ...]] = field(default_factory=dict)
    addresses: frozenset[str] = frozenset()  # of the job's network namespace here
    held: bool = False  # another user has its port, and that was logged
    report: Report | None = None  # the last that was trusted
    refused: Refusal | None = None
    listening: bool = False
    cut: str = ""  # why its last answer was too large: bytes or ranks


@dataclass(frozen=True, slots=True)
class LocalJob:
    """A job as it is on this node now.

    ``versions`` are NCCL's, one per process, empty where unknown. Times as in policy.JobSituation.
    ``rivals`` are the processes of other jobs that may answer in its place, by job.
    """

    name: str
    processes: tuple[Found, ...]
    versions: tuple[Version, ...]
    suspected_s: float | None
    rivals: tuple[tuple[Found, ...], ...] = ()
    who: Who = NODE
    max_ranks: int = NODE_RANKS


class RasPoller:
    """``desk`` asks and reads; ``proc`` is where processes and sockets are found."""

    def __init__(
        self,
        host: str,
        proc: Path,
        mode: Mode,
        metrics: SelfMetrics,
        desk: Desk,
    ) -> None:
        self._host, self._proc, self._mode, self._metrics = host, proc, mode, metrics
        self._desk = desk
        self._jobs: dict[str, PollState] = {}
        self._strays = Strays()

    def of(self, name: str) -> PollState:
        """State of the polls of a job."""
        return self._jobs.setdefault(name, PollState(Health(f"RAS of job {name}")))

    def failures(self, name: str) -> int:
        """Polls of a job in a row that gave no report."""
        asked = self._jobs.get(name)
        return asked.failures if asked else 0

    def cut(self, name: str) -> str:
        """Why the last answer of a job was too large: bytes, ranks, or "" where it was not."""
        asked = self._jobs.get(name)
        return asked.cut if asked else ""

    def forget(self, name: str) -> None:
        """The job is over."""
        self._jobs.pop(name, None)

    def listen(self, job: LocalJob, now_s: float, time_ns: int) -> Report | None:
        """Events of the job's RAS since the last call, as a report; None where there are none, or
        it may not be connected to.
        """
        asked = self.of(job.name)
        situation = _situation(job, asked)
        if unfit(self._mode, situation, now_s) or situation.first_to_ask is not True:
            if asked.listening:
                asked.listening = False
                self._desk.ask(NcclReader.hush, job.who, LOOK_S, job.name)
            return None
        address = self._servers(job, asked)[0].address
        asked.listening = True
        pids = tuple(p.pid for p in job.processes)
        peers = self._desk.ask(NcclReader.listen, job.who, LOOK_S, job.name, address, pids, now_s)
        if not peers:
            return None
        dead = tuple(dict.fromkeys(e.peer for e in peers if e.event == "PEER_DEAD"))
        return Report(
            "ras", f"{address.host}:{address.port}", time_ns, job.name, peers=peers, dead=dead
        )

    def look(self, job: LocalJob, now_s: float, time_ns: int) -> Report | None:
        """A report of the job, trusted or not; None where it was not asked, or did not answer."""
        asked = self.of(job.name)
        asked.waited_s = 0.0
        if job.suspected_s != asked.suspected_s:
            asked.suspected_s, asked.times = job.suspected_s, 0
        self._find(job, asked, now_s)
        situation = _situation(job, asked)
        asked.refused = refusal(self._mode, situation, now_s, slot_of(self._host, job.name))
        if asked.refused is None and asked.at_s is not None:
            pause_s = SPACING_S * 2 ** min(asked.failures, MAX_DOUBLINGS)
            if asked.slow and asked.failures >= CLOSE_LOOKS and now_s - asked.at_s < pause_s:
                asked.refused = "spacing"  # its server costs seconds of every other job
        if asked.refused is not None:
            return None
        asked.at_s, asked.times = now_s, asked.times + 1
        self._strays.begin(time_ns)
        try:
            report = asked.continuity.check(replace(self._fetch(job, asked), time_ns=time_ns))
        except (RasError, LookLostError) as error:
            cause = error.cause if isinstance(error, RasError) else "lost"
            self._metrics.add(agent.NCCL_POLLS, cause)
            asked.health.failed(str(error), time_ns)
            asked.failures, asked.slow = asked.failures + 1, cause != "refused"
            asked.cut = _TOO_LARGE.get(cause, "")
            return None
        asked.failures, asked.cut = 0, ""
        asked.health.succeeded()
        self._metrics.add(agent.NCCL_POLLS, "trusted" if report.trusted else "untrusted")
        report = joined(
            report,
            job.name,
            own_host(_members(report), _own_pids(job), asked.addresses),
            job.processes,
        )
        if report.trusted:
            asked.report = report
        return report

    def _find(self, job: LocalJob, asked: PollState, now_s: float) -> None:
        """The sockets of the job: now and then, and at once on suspicion."""
        if now_s - asked.looked_s >= LISTENERS_S or (
            job.suspected_s is not None and not asked.listeners
        ):
            asked.looked_s = now_s
            rows = [
                (p.pid, p.network, p.environment.get("NCCL_RAS_ADDR", ""), p.user)
                for p in job.processes
            ]
            found = self._desk.ask(NcclReader.sockets, job.who, LOOK_S, tuple(rows))
            asked.listeners = dict(found.listeners)
            asked.addresses = frozenset(found.addresses)
            wanted = unfit(self._mode, replace(_situation(job, asked), listeners=1), now_s) is None
            if found.holder is not None and wanted and not asked.held:
                asked.held = True
                log.warning(
                    "no RAS of job %s: port %d is held by uid %d (NCCL_RAS_ADDR per job)",
                    job.name,
                    found.holder.port,
                    found.holder.user,
                )

    def _fetch(self, job: LocalJob, asked: PollState) -> Report:
        """The report of this job: another one of the same user may listen on the same
        port, and answer for itself.
        """
        servers = self._servers(job, asked)
        first = asked.failures % len(servers)  # another one after each poll that failed
        servers = servers[first:] + servers[:first]
        if answer := self._strays.take(servers, lambda answer: _is_of(answer, job)):
            return answer.report
        end = time.monotonic() + READ_S
        for _ in range(min(MAX_TRIES + len(job.rivals), MAX_TRIES_CROWD)):
            began = time.monotonic()
            try:
                answer = self._asked(job, [server.address for server in servers[:MAX_SILENT]])
            finally:
                took_s = time.monotonic() - began
                asked.waited_s += took_s if took_s >= SLOW_S else 0.0
            if answer is not None:
                if _is_of(answer, job):
                    return answer.report
                self._strays.keep(servers[0], answer)
            if time.monotonic() > end:
                break
        raise RasError("refused", "only another job answers on its port, or one of equal pids")

    def _asked(self, job: LocalJob, addresses: list[Address]) -> Answer | None:
        """The first report that any of these gives; None where a process answered that is none of
        these jobs'. RasError, LookLostError.
        """
        origin = f"{addresses[0].host}:{addresses[0].port}"
        pids = (p.pid for processes in (job.processes, *job.rivals) for p in processes)
        answer = self._desk.ask(
            NcclReader.ras,
            job.who,
            len(addresses) * (CONNECT_S + 2 * GREET_S) + READ_S + DECODE_S,
            tuple(addresses),
            origin,
            tuple(pids),
            job.max_ranks,
        )
        if answer.cause == "stranger":
            return None
        if answer.report is None:
            raise RasError(answer.cause, answer.message)
        try:
            report = whole(answer.report, answer.pieces)
        except BoundsError as error:
            raise LookLostError("garbage", str(error)) from error
        return Answer(report, frozenset(pid for _, pid in _members(report)), answer.by)

    def _servers(self, job: LocalJob, asked: PollState) -> list[Server]:
        # our own, whichever tree the jobs are found in
        ours = _namespace(Path("/proc/self/ns/net"))
        found = []
        for process in job.processes:
            foreign = process.network not in {0, ours}
            namespace = str(self._proc / str(process.pid) / "ns" / "net") if foreign else ""
            found += [
                Server(
                    Address(_ANY.get(x.host, x.host), x.port, namespace), process.network, x.user
                )
                for x in asked.listeners.get(process.pid, ())
            ]
        return found


def _situation(job: LocalJob, asked: PollState) -> JobSituation:
    return JobSituation(
        starts_s=tuple(p.started_s for p in job.processes),
        versions=job.versions,
        listeners=sum(map(len, asked.listeners.values())),
        disabled=_disabled(job),
        asked_s=asked.at_s,
        asked_times=asked.times,
        suspected_s=job.suspected_s,
        first_to_ask=_first_to_ask(job, asked),
    )


def _disabled(job: LocalJob) -> bool:
    return any(p.environment.get("NCCL_RAS_ENABLE") == "0" for p in job.processes)


def _first_to_ask(job: LocalJob, asked: PollState) -> bool | None:
    """Whether this node asks for the job: as its last report says, else the node of rank 0; None
    where that is another one.
    """
    report = asked.report
    if report is not None:
        members = _members(report)
        here = own_host(members, _own_pids(job), asked.addresses)
        gone = {(m.host, m.pid) for c in report.communicators for m in c.members if m.gone}
        return poller(members - gone) == here if here else None
    ranks = {p.rank for p in job.processes}
    if 0 in ranks or ranks == {-1}:
        return True
    return None


def _members(report: Report) -> set[tuple[str, int]]:
    return {
        (m.host, m.pid) for c in report.communicators for m in c.members if m.host and m.pid >= 0
    }


def _is_of(answer: Answer, job: LocalJob) -> bool:
    """Whether it is this job's: by the process that gave it, else by the pids in it."""
    if answer.by:
        return answer.by in {p.pid for p in job.processes}
    rivals = [{p.inner_pid for p in rival} for rival in job.rivals]
    return is_of(answer.pids, _own_pids(job), rivals) or not (answer.pids or rivals)


def _own_pids(job: LocalJob) -> set[int]:
    return {p.inner_pid for p in job.processes}


def _namespace(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0
