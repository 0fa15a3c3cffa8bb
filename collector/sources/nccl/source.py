"""The NCCL source: which jobs of the node use NCCL, their progress, and, when a stall is suspected,
their reports.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path

from collector.node.gpu_processes import GpuProcesses
from collector.node.pods_by_gpu import PodsByGpu
from collector.node.trainings import Trainings
from collector.sources.nccl.discovery.found import Found
from collector.sources.nccl.discovery.holding import holding
from collector.sources.nccl.discovery.library import Versions, version_of
from collector.sources.nccl.discovery.procfs import Library
from collector.sources.nccl.discovery.scan import Scanner
from collector.sources.nccl.dump_watch import DumpWatch
from collector.sources.nccl.job_watch import JobWatch, shares_of
from collector.sources.nccl.jobs import Job, Jobs
from collector.sources.nccl.process_looks import ProcessLooks
from collector.sources.nccl.progress import Values, of_ras
from collector.sources.nccl.ras.policy import Mode
from collector.sources.nccl.ras_poller import NODE_RANKS, LocalJob, RasPoller
from collector.sources.nccl.reader import NcclReader
from collector.sources.nccl.settings_watch import KnownJob, Looks, SettingsWatch
from collector.sources.nccl.suspicion import Suspicions
from collector.sources.tenants.cuts import Cuts
from collector.sources.tenants.desk import Desk, LocalDesk, LookLostError, Who
from collector.sources.tenants.job_users import JobUsers
from collector.sources.tenants.patience import Patience
from collector.sources.tenants.shares import fair
from pipeline.catalog import agent
from pipeline.clock import SECOND_NS, Clock, Instant, instant
from pipeline.frame import Device, frame_of
from pipeline.nccl.report import Report
from pipeline.nccl.wire import events_of
from pipeline.observation import Event, Reading, Unread
from pipeline.selfmetrics import SelfMetrics

log = logging.getLogger("tocsin.nccl")

# between two looks over /proc; every read looks while something is suspected, or a job loses
# processes and may be ending
SCAN_S = 15.0
# shown; a node of 16 GPUs in 7 instances holds at most 112, and one to four in practice
MAX_JOBS = 128
MIN_RANKS = 1024  # of a RAS report, whatever the share
LIBRARY_S = 20.0  # half a gigabyte from a cold disk
FORGET_S = 5.0


class NcclSource:
    """Reads below ``proc``; asks jobs only as ``mode`` and the policy allow, when
    ``suspicions`` has a reason.

    ``monitor`` also listens.

    ``desk`` is where an NcclReader reads what tenants wrote: in a child, or by default in this
    process. ``cuts`` shows who was cut. ``settings`` looks at those of jobs.
    """

    name = "nccl"

    def __init__(
        self,
        proc: Path,
        host: str,
        clock: Clock,
        metrics: SelfMetrics,
        *,
        suspicions: Suspicions,
        mode: Mode = "auto",
        monitor: bool = False,
        desk: Desk | None = None,
        cuts: Cuts | None = None,
        opened: Callable[[Path], Collection[int]] | None = None,
        holders: GpuProcesses | None = None,
        hidden: Collection[str] = (),
        pods: PodsByGpu | None = None,
        trainings: Trainings | None = None,
        users: JobUsers | None = None,
        settings: Looks | None = None,
    ) -> None:
        self._users = users or JobUsers()
        self._host, self._clock, self._metrics, self._suspicions = host, clock, metrics, suspicions
        self._node, self._monitor = Device(host, "node", host), monitor
        self._desk, self._cuts = desk or LocalDesk(NcclReader(proc)), cuts or Cuts(metrics)
        self._looks = ProcessLooks(self._desk)
        self._scanner, self._holders = Scanner(proc, opened, self._looks), holders or GpuProcesses()
        self._versions = Versions()
        self._settings = SettingsWatch(settings, self._node)
        self._jobs = Jobs(host, hidden=hidden, pods=pods, trainings=trainings)
        self._ras = RasPoller(host, proc, mode, metrics, self._desk)
        self._proc = proc
        self._patience = Patience()
        self._watches: dict[str, JobWatch] = {}  # by job
        self._scanned_s = float("-inf")
        self._searched: dict[str, int] = {}  # by tenant, the last search in a library
        self._searches = 0
        # By tenant: of how many equal shares each of its logs, or jobs, has one.
        self._logs: dict[str, int] = {}
        self._shares: dict[str, int] = {}

    def read(self) -> Reading:
        """The present jobs, changes and reports. OSError where /proc cannot be read."""
        now = instant(self._clock)
        now_s = now.mono_ns / SECOND_NS
        since_ns = self._suspicions.since_ns(now.mono_ns)
        events: list[Event] = []
        unsure = since_ns is not None or any(
            job.lost_s is not None and now_s - job.lost_s < SCAN_S
            for job in self._jobs.now.values()
        )
        if now_s - self._scanned_s >= SCAN_S or unsure:
            self._scanned_s = now_s
            events += self._scan(now_s, now)
        unread: list[Unread] = []
        values_of: dict[str, tuple[Device, Values]] = {}
        shown, cut = fair(list(self._jobs.now.values()), lambda job: job.owner.tenant, MAX_JOBS)
        self._cuts.put(self.name, "jobs", Counter((j.owner.name, j.owner.tenant) for j in cut))
        self._logs = shares_of(shown)
        self._shares = shares_of(shown, of=lambda _: 1)
        for job in self._patience.begin(shown, lambda job: job.owner.tenant, self._rank):
            since_s = job.bereft_s(now_s) if since_ns is None else since_ns / SECOND_NS
            nccl = next((v for p in job.present if (v := self._version(p))), "")
            device = Device(self._host, "job", job.name, {"nccl": nccl} if nccl else {})
            try:
                values, found = self._look(job, since_s, now, unread)
            except LookLostError as error:
                unread.append(Unread(f"look lost: {error.reason}", job.name))
                values, found = {"processes": len(job.present)}, []
            except (ArithmeticError, LookupError, OSError, TypeError, ValueError) as error:
                # whatever a job wrote to cause it, the others are read
                log.warning("job %s: not read: %s: %s", job.name, type(error).__name__, error)
                unread.append(Unread(f"failed: {type(error).__name__}", job.name))
                values, found = {"processes": len(job.present)}, []
            events += found
            values_of[job.name] = device, values
        if not unsure:  # it may take seconds
            events += self._settings.read([self._known(job) for job in shown], now_s, now)
        self._count_refusals()
        self._count_cuts(shown)
        self._desk.tend()
        rows = [values_of[job.name] for job in shown]
        return Reading((frame_of("job", rows, *now),), tuple(events), tuple(unread))

    def close(self) -> None:
        """Let go of all files."""
        self._desk.close()

    def _scan(self, now_s: float, at: Instant) -> list[Event]:
        self._looks.begin(now_s)
        scan = self._scanner.scan(now_s)
        self._metrics.set(agent.NCCL_HIDDEN, scan.hidden)
        held = holding(scan.processes, self._holders.look().holders, self._proc)
        events = self._jobs.update(held, now_s, at)
        for sure in (True, False):
            jobs = (job for job in self._jobs.now.values() if job.owner.sure == sure)
            self._users.learn(((job.known_as, job.owner.user) for job in jobs), now_s, sure=sure)
        owners = [process.owner for process in scan.cut]
        cut = Counter((o.name, o.tenant) for o in owners)
        cut.update({("", tenant): count for tenant, count in scan.late.items()})
        self._cuts.put(self.name, "processes", cut)
        for name, watch in list(self._watches.items()):
            job = self._jobs.now.get(name)
            if job is None or job.owner != watch.owner:
                del self._watches[name]
                self._ras.forget(name)
                with suppress(LookLostError):
                    self._desk.ask(NcclReader.forget, Who(name, watch.who.tenant), FORGET_S, name)
        self._search()
        return events

    def _search(self) -> None:
        """Find one version that is not known: each may take seconds. The tenant is served whose
        last turn is longest ago.
        """
        present = [p for job in self._jobs.now.values() for p in job.present if p.library]
        self._versions.keep((p.library, p.owner.tenant) for p in present if p.library)
        strange = [
            p
            for p in present
            if p.library and self._versions.known(p.library, p.owner.tenant) is None
        ]
        tenants = {p.owner.tenant for p in present}
        self._searched = {t: turn for t, turn in self._searched.items() if t in tenants}
        chosen = min(strange, key=lambda p: self._searched.get(p.owner.tenant, 0), default=None)
        if chosen is not None and chosen.library is not None:
            self._searches += 1
            self._searched[chosen.owner.tenant] = self._searches
            self._look_inside(chosen, chosen.library)

    def _look_inside(self, process: Found, library: Library) -> None:
        """Find the version of a library that does not name it; one whose look was lost has none."""
        version, who = "", Who(process.owner.name, process.owner.tenant)
        with suppress(LookLostError):
            version = self._desk.ask(NcclReader.version, who, LIBRARY_S, process.pid, library.path)
        self._versions.note(library, who.tenant, version)

    def _rank(self, job: Job) -> int:
        """Last those whose RAS failed (others may bring their answer, and need not wait for them),
        and those that have no GPU for themselves: of these a tenant may have any number.
        """
        return 2 * self._ras.failures(job.name) + (not job.gpus)

    def _look(
        self, job: Job, since_s: float | None, now: Instant, unread: list[Unread]
    ) -> tuple[Values, list[Event]]:
        """The numbers of one job, and its events of this read."""
        watch = self._watches.get(job.name)
        if watch is None:
            who = Who(job.name, job.owner.tenant)
            dumps = DumpWatch(self._host, self._proc, self._desk, who)
            watch = self._watches[job.name] = JobWatch(job.owner, who, dumps)
        values, reports = self._job(job, watch, since_s, now, unread)
        due = watch.reports(self._desk, job, now.mono_ns / SECOND_NS)
        events = [
            event for report in chain(reports, due) for event in events_of(report, self._node, *now)
        ]
        events += self._dumped(job, watch, now, unread, suspected=since_s is not None)
        return values, events

    def _job(
        self,
        job: Job,
        watch: JobWatch,
        since_s: float | None,
        now: Instant,
        unread: list[Unread],
    ) -> tuple[Values, list[Report]]:
        reports: list[Report] = []
        now_s = now.mono_ns / SECOND_NS
        versions = tuple(version_of(self._version(p)) for p in job.present)
        local = LocalJob(
            job.name,
            job.present,
            versions,
            since_s,
            self._rivals(job),
            watch.who,
            max(NODE_RANKS // self._shares.get(job.owner.tenant, 1), MIN_RANKS),
        )
        report = None
        if self._patience.may_ask(job.owner.tenant):
            report = self._ras.look(local, now_s, now.time_ns)
            self._patience.took(job.owner.tenant, self._ras.of(job.name).waited_s)
        if report is not None:
            reports.append(report)
            unread += [Unread("untrusted", job.name, "ras")] if not report.trusted else []
        if self._monitor and (changes := self._ras.listen(local, now_s, now.time_ns)):
            reports.append(changes)
            job.lost_s = now_s if changes.dead else job.lost_s
        logs = self._logs.get(job.owner.tenant, 1)
        watch.inspect(self._desk, job, logs, now_s)
        asked = self._ras.of(job.name)
        usable = asked.refused not in {
            "off",
            "disabled",
            "no_socket",
            "version_unknown",
            "version_unsafe",
        }
        values: Values = {
            "processes": len(job.present),
            "ras_usable": float(usable),
            "flight_recorder_usable": float(any(_can_be_asked(p) for p in job.present)),
            "inspector_usable": float(
                any(p.environment.get("NCCL_INSPECTOR_ENABLE") == "1" for p in job.present)
            ),
            **of_ras(asked.report),
            **watch.inspected,
        }
        return values, reports

    def _rivals(self, job: Job) -> tuple[tuple[Found, ...], ...]:
        """Processes of the other jobs of its user in the network namespaces of a job: no other
        user's can answer on the same port.
        """
        networks = {(process.network, process.user) for process in job.present}
        others = (
            tuple(p for p in other.present if (p.network, p.user) in networks)
            for other in self._jobs.now.values()
            if other is not job
        )
        return tuple(filter(None, others))

    def _dumped(
        self,
        job: Job,
        watch: JobWatch,
        at: Instant,
        unread: list[Unread],
        *,
        suspected: bool,
    ) -> list[Event]:
        now_s = at.mono_ns / SECOND_NS
        named = [replace(p, job=job.name) for p in job.present]
        events: list[Event] = []
        for dump in watch.dumps.look(named, suspected=suspected, now_s=now_s, time_ns=at.time_ns):
            self._metrics.add(agent.NCCL_DUMPS, "refused" if dump.refused else "read")
            if dump.refused:
                log.warning(
                    "skipping the dump of rank %d of job %s: %s",
                    dump.process.rank,
                    job.name,
                    dump.refused,
                )
                unread.append(Unread("refused", job.name, "flight_recorder"))
            if dump.report:
                written = events_of(dump.report, self._node, dump.report.time_ns)
                events += [Event(*at, self._node, e.kind, e.attributes) for e in written]
        return events

    def _version(self, process: Found) -> str:
        library = process.library
        return (self._versions.known(library, process.owner.tenant) or "") if library else ""

    def _known(self, job: Job) -> KnownJob:
        who = Who(job.name, job.owner.tenant)
        return KnownJob(job.name, who, job.present, tuple(map(self._version, job.present)))

    def _count_cuts(self, jobs: Sequence[Job]) -> None:
        """What limits cut of each job: bytes of its logs and replies, ranks, dumps."""
        cut: dict[str, Counter[tuple[str, str]]] = {
            limit: Counter() for limit in ("bytes", "ranks", "dumps")
        }
        for job in jobs:
            watch, key = self._watches.get(job.name), (job.owner.name, job.owner.tenant)
            if watch is not None:
                cut["bytes"][key] += watch.behind
                cut["dumps"][key] += watch.dumps.cut
            if limit := self._ras.cut(job.name):
                cut[limit][key] += 1
        for limit, counts in cut.items():
            self._cuts.put(self.name, limit, counts)

    def _count_refusals(self) -> None:
        counts: dict[tuple[str, ...], float] = {}
        for name in self._jobs.now:
            if reason := self._ras.of(name).refused:
                counts[(reason,)] = counts.get((reason,), 0.0) + 1
        self._metrics.replace(agent.NCCL_NOT_POLLED, counts)


def _can_be_asked(process: Found) -> bool:
    return any(
        process.environment.get(n)
        for n in ("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "TORCH_WORKER_SERVER_SOCKET")
    )
