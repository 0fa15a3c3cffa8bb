"""Stalled NCCL jobs, by their own reports: names the rank that the others wait for, once two
reports on the job agree.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from detectors.kit.allocations import claimed
from detectors.kit.elapsed import Elapsed
from detectors.kit.findings import FindingTracker
from detectors.kit.findings import Verdict as FindingVerdict
from detectors.kit.jobs import JobTracker, in_job
from detectors.kit.page import Needs, Page, Shown
from detectors.kit.resting import FOREVER_NS
from detectors.kit.stateful import Stateful
from detectors.nccl.case import Case, Ended, GpuFault, PortFault
from detectors.nccl.hardware import Hardware, went_down
from detectors.nccl.job_store import JobBook, JobStore
from detectors.nccl.judge import judge
from detectors.nccl.places import Places, by_short_name, of_node
from detectors.nccl.processes import Processes
from detectors.nccl.severity import SLOW, severity_of
from detectors.nccl.verdict import Cause, Culprit, Verdict
from detectors.nccl.words import summary
from pipeline.clock import SECOND_NS, Instant
from pipeline.finding import Action, Finding
from pipeline.frame import Device, Frame
from pipeline.job_names import base
from pipeline.nccl.wire import COMMUNICATOR, LINE, REPORT, WireError, hit_of, reports_in
from pipeline.observation import Event, Observation

DEBOUNCE_NS = 5 * SECOND_NS  # after something new, until the others have reported too
# a verdict must be stable so long before it pages: processes that end one after the
# other look lost at first
AGREES_NS = 15 * SECOND_NS
ACTIONS: dict[Cause, Action] = {
    "process_lost": "RESTART_APP",
    "hardware_fault": "RUN_FIELDDIAG",
    "order_mismatch": "RESTART_APP",
    "host_hang": "RESTART_APP",
    "launch_order_deadlock": "RESTART_APP",
    "init_hang": "RESTART_APP",
    "in_flight": "RESTART_APP",
}
_OF_NO_JOB = re.compile(r"user\d+")  # collector/sources/tenants/job_users.py
NOTHING: tuple[Cause, ...] = ("no_evidence",)
UNNAMED = "unnamed"
DAY_NS = 86_400 * SECOND_NS


PAGE = Page(
    formula=(
        "wait-for graph over all frozen communicators of a job; the root cause is awaited and "
        "waits for no other rank"
    ),
    sources=(
        "NVIDIA, NCCL documentation: RAS, Inspector",
        "PyTorch, Flight Recorder (torch.distributed)",
    ),
    shows=(Shown("gpu", "gpu_utilization_percent"), Shown("ib_port", "transmit_words")),
    needs=Needs(60.0, sources=("nccl",)),
    next_step=(
        "Follow the class: drain the node of a dead rank; a mismatched collective is fixed in the "
        "application."
    ),
    clears=(
        "When the job progresses again or is over, when another verdict replaces it, or after an "
        "hour without a report of it."
    ),
    unscored=(
        "only F56 has NCCL's own reports, and has no curve; other stalls of the suite (F25, F26) "
        "are found from GPU readings by `hang`."
    ),
)


class Nccl(Stateful):
    """Names the rank that a stalled job waits for, from RAS, the Flight Recorder,
    the Inspector and job logs.

    A verdict that is stable for 15 s is a page where it is sure of the root cause, a ticket where
    it is sure of the class alone, the job is merely slow or the rank may be writing a checkpoint,
    and an info finding while it is a suspicion. Of a job's word alone no hardware and no node is
    paged. It ends when the job moves again, when it is over, or after an hour without a report of
    it. Stalls without any of these sources are found by the detector `hang`.

    >>> Nccl().name
    'nccl'
    """

    name = "nccl"
    version = 6

    def __init__(self) -> None:
        self._book, self._hardware, self._jobs = JobStore(), Hardware(), JobTracker()
        self._places, self._processes = Places(), Processes()
        self._elapsed, self._standing = Elapsed(), FindingTracker(self.name, by_job=True)

    def update(self, observation: Observation) -> Iterable[Finding]:
        """What the reports and lines of this observation, and the time since the last one, say."""
        at = self._elapsed.at(observation)
        self._places.take(observation)
        for frame in observation.frames:
            if frame.kind == "ib_port":
                self._hardware.watch(frame, at.mono_ns)
        findings: list[Finding] = []
        if observation.events:
            self._jobs.take(observation.events)
            over = {_place(event) for event in observation.events if _all_ended(event)}
            for event in observation.events:
                self._hardware.take(event, at.mono_ns)
                if event.kind == "nccl_process_lost":
                    self._ended(event, at, last=_place(event) in over)
                    self._processes.take(self._spoken_of(event), event)
                elif event.kind == "job_started":
                    self._book.begins(_job_in(event))
                elif event.kind == "nccl_process_found":
                    self._found(event)
                elif event.kind == "job_ended":
                    findings += self._job_ended(event, at)
            self._lines(observation, at)
            self._reports(observation, at)
        for name, job in self._book.due(at.mono_ns):
            findings += self._look(name, job, at)
        for name in self._book.silent(at.mono_ns):
            paused = self._book.jobs[name].paused
            findings += self._over(name, at, "no report of it for an hour")
            if paused:  # how long it pauses is known until it ends
                self._book.jobs[name] = JobBook(seen_ns=at.mono_ns, paused=paused)
        findings += self._standing.due(at)
        return findings

    def rests_ns(self) -> int:
        """As long as nothing was reported of any job."""
        return FOREVER_NS if not self._book.jobs and self._standing.is_empty() else 0

    def stirs(self, frame: Frame) -> NDArray[np.bool_] | None:
        """Ports that went down, which may explain a stall."""
        return went_down(frame) if frame.kind == "ib_port" else None

    def _reports(self, observation: Observation, at: Instant) -> None:
        parts: dict[str, list[Event]] = {}
        for event in observation.events:
            if event.kind in (REPORT, COMMUNICATOR):
                parts.setdefault(str(event.attributes.get("report", "")), []).append(event)
        for events in parts.values():
            with contextlib.suppress(WireError):  # of another version, or damaged: the others count
                for raw, event in reports_in(events):
                    host, name = event.device.host, self._spoken_of(event)
                    report = replace(raw, job=name, host=raw.host or host)
                    job = self._book.of(base(name) or self._job_of(host))
                    job.take(self._processes.known(report), at.mono_ns)
                    job.at(host)
                    _note(job, at)

    def _lines(self, observation: Observation, at: Instant) -> None:
        for event in observation.events:
            if event.kind == LINE:
                with contextlib.suppress(WireError):
                    hit = of_node(hit_of(event), event.device.host)
                    name = base(self._spoken_of(event)) or self._job_of(event.device.host)
                    if hit.layer == "process" and self._book.is_over(name):
                        continue  # its launcher's last words: nobody waits for who ended
                    job = self._book.of(name)
                    job.add_line(hit, at.mono_ns)
                    job.at(event.device.host)
                    _note(job, at)

    def _job_ended(self, event: Event, at: Instant) -> Iterator[Finding]:
        """A job is over where its scheduler says so, or where none of its processes is left that
        is known; on one node of several the end may be the fault.
        """
        name = str(event.attributes.get("job", ""))
        if _all_ended(event):
            if not self._jobs.hosts_of_processes(name):
                yield from self._over(name, at, "all processes of the job have ended")
        elif not self._jobs.members(name):
            yield from self._over(name, at)
        if not self._jobs.hosts_of_processes(base(name)):
            self._book.ends(base(name))
            self._processes.ends(name)

    def _found(self, event: Event) -> None:
        name = self._spoken_of(event)
        self._processes.take(name, event)
        job = self._book.jobs.get(base(name))
        if job is not None:
            job.restarted(event.device.host)

    def _ended(self, event: Event, at: Instant, *, last: bool) -> None:
        facts = event.attributes
        pid, rank, gpus = (
            facts.get("own_pid"),
            facts.get("rank", -1),
            str(facts.get("gpus", "")).split(),
        )
        if isinstance(pid, int) and isinstance(rank, int):
            name = base(self._spoken_of(event)) or self._job_of(event.device.host)
            job = self._book.of(name)
            host, uuid = event.device.host, gpus[0] if len(gpus) == 1 else ""
            job.lost(Ended(host, pid, rank, uuid, event.time_ns, last), at.mono_ns)
            _note(job, at)

    def _spoken_of(self, event: Event) -> str:
        """The job that an event of a node is about, with its step.

        Whose job a process is may be its own claim. A node that the scheduler gave no part of the
        job speaks of another one, whatever the claim.
        """
        name, host = str(event.attributes.get("job", "")), event.device.host
        return name if self._jobs.allots(base(name), host) else claimed(name, host)

    def _hosts(self, name: str, job: JobBook) -> set[str]:
        """Nodes of a job, by the names of their agents."""
        return {*job.hosts, *(place.host for place in self._jobs.members(name))}

    def _job_of(self, host: str) -> str:
        return base(self._jobs.on(host)) or f"{UNNAMED} on {host}"

    def _look(self, name: str, job: JobBook, at: Instant) -> Iterator[Finding]:
        """Judge a job; a verdict is reported once it has been stable long enough."""
        job.due_ns = 0
        job.forget(at.mono_ns)
        self._hardware.forget(at.mono_ns)
        hosts = self._hosts(name, job)
        names = by_short_name(hosts)
        verdict = judge(
            Case(
                job.reports(),
                [replace(hit, host=names.get(hit.host, hit.host)) for _, hit in job.hits.values()],
                [GpuFault(uuid, text) for uuid, (_, text) in self._hardware.gpus.items()],
                [
                    PortFault(host, port, text)
                    for (host, port), (_, text) in self._hardware.ports.items()
                    if host in hosts
                ],
                list(job.ended.values()),
                name,
                live=True,
            )
        )
        if verdict.cause in NOTHING or verdict.phase == "ended":
            job.recovers(at.mono_ns)
            yield from self._take_back(job, [], at, "the job progresses, or was ended")
            return
        words = _words(verdict)
        if words != job.suspicion:
            job.suspected_ns = at.mono_ns + _counts_after(job, verdict)
            job.suspicion = words
        # what one reply says is a record, and the next may confirm it in a moment
        stable_ns = AGREES_NS + (DEBOUNCE_NS if verdict.phase != "confirmed" else 0)
        if at.mono_ns - job.suspected_ns < stable_ns and not _ended_before(verdict, job, at):
            job.due_ns = job.suspected_ns + stable_ns
            return
        yield from self._report(name, job, verdict, at)

    def _report(self, name: str, job: JobBook, verdict: Verdict, at: Instant) -> Iterator[Finding]:
        fault = f"{'straggler' if verdict.cause in SLOW else 'hang'}/{verdict.cause}"
        reports = job.reports()
        hosts = by_short_name(self._hosts(name, job)) | self._places.hosts(reports)
        for full in dict.fromkeys(report.job for report in reports):
            hosts |= self._processes.addresses(full, [r for r in reports if r.job == full])
        culprits = [
            self._places.located(self._found_there(replace(c, host=hosts.get(c.host, c.host)), job))
            for c in verdict.culprits
        ]
        verdict = replace(verdict, culprits=tuple(culprits))
        own = {*self._hosts(name, job), *hosts.values()}
        devices = [
            # a line may name any node and port: only one of the job is what a finding is about
            Device("", "job", name)
            if (culprit.is_node or culprit.port) and culprit.host not in own
            else self._places.device(culprit, name)
            for culprit in culprits
        ] or [Device("", "job", name)]
        severity = severity_of(verdict, self._hardware.texts(), gave_up=job.gave_up())
        if _OF_NO_JOB.fullmatch(name) and not self._jobs.members(name):
            severity = "record"  # a log of somebody who has no job here
        if verdict.cause == "host_hang" and severity == "ticket" and job.is_usual(at.mono_ns):
            severity = "record"
        finding = FindingVerdict(
            fault,
            severity,
            ACTIONS.get(verdict.cause, "NONE") if severity == "page" else "NONE",
            f"Job {name}: {summary(verdict)}",
            tuple(f"{e.source}: {e.text}" for e in verdict.evidence[:16])
            or ("nothing more is known",),
            float(verdict.confidence),
            0.0,
            "",
        )
        yield from self._take_back(
            job,
            [[d.host, d.kind, d.id, fault] for d in devices],
            at,
            "another verdict replaced it",
        )
        for device in dict.fromkeys(devices):
            yield from self._standing.holds(
                in_job(device, name), finding, at, _began(verdict.began_ns, at.time_ns)
            )
            row = [device.host, device.kind, device.id, fault]
            if row not in job.reported:
                job.reported.append(row)

    def _found_there(self, culprit: Culprit, job: JobBook) -> Culprit:
        """A culprit with the node and the GPU that its node's agent knows of it."""
        if culprit.uuid or culprit.port or culprit.is_node:
            return culprit
        reports = job.reports()
        for full in dict.fromkeys(report.job for report in reports):
            own = [report for report in reports if report.job == full]
            process = self._processes.of(full, culprit.rank, culprit.pid, own)
            if process is not None:
                uuid = process.gpus[0] if len(process.gpus) == 1 else ""
                return replace(culprit, host=process.host, uuid=uuid)
        return culprit

    def _take_back(
        self, job: JobBook, stays: list[list[str]], at: Instant, why: str
    ) -> Iterator[Finding]:
        for row in [row for row in job.reported if row not in stays]:
            host, kind, name, fault = row
            job.reported.remove(row)
            yield from self._standing.ends(Device(host, kind, name), fault, at, why)

    def _over(self, name: str, at: Instant, why: str = "the job is over") -> Iterator[Finding]:
        job = self._book.jobs.pop(base(name), None)
        if job is not None:
            yield from self._take_back(job, [], at, why)


def _all_ended(event: Event) -> bool:
    """Whether no process of a job is left on a node; its allocation may go on."""
    return event.kind == "job_ended" and "scheduler" not in event.attributes


def _place(event: Event) -> tuple[str, str, int]:
    """The node that an event is about, its job, and the time of that look at the node."""
    return event.device.host, _job_in(event), event.time_ns


def _job_in(event: Event) -> str:
    """The job that an event is about, without the step; empty where it says none."""
    return base(str(event.attributes.get("job", "")))


def _note(job: JobBook, at: Instant) -> None:
    """Something new: it is judged when the others had time to report as well, or at once where
    something is suspected already.
    """
    if job.suspicion:
        job.due_ns = at.mono_ns
    else:
        job.due_ns = job.due_ns or at.mono_ns + DEBOUNCE_NS


def _counts_after(job: JobBook, verdict: Verdict) -> int:
    """From when on a verdict counts as stable, nanoseconds from now.

    The first one counts from the reply that began the look: another that agrees has come before it
    is reported. One that replaces another waits for the others to report as well, and so does a
    loss that a node has seen, as processes end one after the other.
    """
    if job.suspicion:
        return DEBOUNCE_NS
    ended = {(one.rank, one.uuid) for one in job.ended.values()}
    return 0 if any((c.rank, c.uuid) in ended for c in verdict.culprits) else -DEBOUNCE_NS


def _ended_before(verdict: Verdict, job: JobBook, at: Instant) -> bool:
    """Whether the nodes of all lost processes have seen them end so long ago that others would have
    followed.
    """
    ended = {(one.rank, one.uuid): one.seen_ns for one in job.ended.values()}
    seen = [ended.get((c.rank, c.uuid), at.time_ns) for c in verdict.culprits]
    lost = verdict.cause == "process_lost" and bool(seen)
    return lost and at.time_ns - max(seen) >= AGREES_NS + DEBOUNCE_NS


def _words(verdict: Verdict) -> str:
    """What must be stable before it is reported. A first look gives candidates, and a second one
    that agrees makes them culprits; that a process is lost is another thing than that it is late.
    """
    named = sorted(culprit.words() for culprit in verdict.culprits or verdict.candidates)
    lost = verdict.cause == "process_lost" or not named
    return f"{verdict.cause if lost else 'waits for'} {named}"


def _began(began_ns: int, now_ns: int) -> int:
    """When a stall began by the word of the job: 0, which is now, in the future or beyond a day.

    >>> _began(5, 7), _began(9, 7), _began(5, 7 + DAY_NS)
    (5, 0, 0)
    """
    return began_ns if 0 <= now_ns - began_ns <= DAY_NS else 0
