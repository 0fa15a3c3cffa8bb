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

from detectors.kit.elapsed import Elapsed
from detectors.kit.findings import FindingTracker
from detectors.kit.findings import Verdict as FindingVerdict
from detectors.kit.jobs import JobTracker, in_job
from detectors.kit.page import Needs, Page, Shown
from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, Stateful, from_text_array, text_array
from detectors.nccl.case import Case, Ended, GpuFault, PortFault
from detectors.nccl.job_store import JobBook, JobStore
from detectors.nccl.judge import judge
from detectors.nccl.lines import stops_a_rank
from detectors.nccl.places import Places
from detectors.nccl.severity import SLOW, severity_of
from detectors.nccl.verdict import Cause, Verdict
from detectors.nccl.words import summary
from pipeline.clock import SECOND_NS, Instant
from pipeline.finding import Action, Finding
from pipeline.frame import Device, Frame
from pipeline.job_names import base
from pipeline.nccl.wire import COMMUNICATOR, LINE, REPORT, WireError, hit_of, reports_in
from pipeline.observation import Event, Observation
from pipeline.xid.table import xid_entry

DEBOUNCE_NS = 5 * SECOND_NS  # after something new, until the others have reported too
# a verdict must be stable so long before it pages: processes that end one after the
# other look lost at first
AGREES_NS = 15 * SECOND_NS
# how long a fault of hardware may explain a stall: watchdogs wait for ten
# minutes before they report
HARDWARE_NS = 600 * SECOND_NS
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


class _Hardware:
    """Serious XIDs by GPU and links that went down, with when."""

    def __init__(self) -> None:
        self.gpus: dict[str, tuple[int, str]] = {}
        self.ports: dict[tuple[str, str], tuple[int, str]] = {}

    def take(self, event: Event, now_ns: int) -> None:
        facts = event.attributes
        if facts.get("before_start") or facts.get("previous_boot"):
            return
        if (
            event.kind == "xid"
            and event.device.kind == "gpu"
            and isinstance(code := facts.get("code"), int)
        ):
            entry = xid_entry(code)
            if stops_a_rank(entry):
                self.gpus[event.device.id] = (
                    now_ns,
                    f"XID {code} of {event.device.id}: {entry.description}",
                )
        elif event.kind in ("link_down", "hca_health") and event.device.kind == "ib_port":
            port = event.device.attributes.get("device", event.device.id)
            self.ports[event.device.host, port] = (
                now_ns,
                f"{port} of {event.device.host}: {event.kind.replace('_', ' ')}",
            )

    def watch(self, frame: Frame, now_ns: int) -> None:
        """Ports that went down between two reads, which no line of a log need say."""
        for row in np.flatnonzero(_went_down(frame)):
            device = frame.devices[row]
            port = device.attributes.get("device", device.id)
            self.ports[device.host, port] = (now_ns, f"{port} of {device.host}: its link went down")

    def forget(self, now_ns: int) -> None:
        """What is too old to explain anything."""
        self.gpus = {key: seen for key, seen in self.gpus.items() if now_ns - seen[0] < HARDWARE_NS}
        self.ports = {
            key: seen for key, seen in self.ports.items() if now_ns - seen[0] < HARDWARE_NS
        }

    def texts(self) -> set[str]:
        """What is known, as evidence has it."""
        return {text for _, text in (*self.gpus.values(), *self.ports.values())}

    def state(self) -> State:
        return {
            "gpus": text_array(list(self.gpus.items())),
            "ports": text_array(list(self.ports.items())),
        }

    def prepare(self, state: State) -> Commit:
        gpus = {
            str(key): (int(at), str(text)) for key, (at, text) in from_text_array(state["gpus"])
        }
        ports = {
            (str(host), str(port)): (int(at), str(text))
            for (host, port), (at, text) in from_text_array(state["ports"])
        }

        def commit() -> None:
            self.gpus, self.ports = gpus, ports

        return commit


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
        "no scenario has NCCL's own reports; stalls of the suite (F25, F26) are found from GPU "
        "readings by `hang`. It is tested with recorded reports and logs."
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
    version = 4

    def __init__(self) -> None:
        self._book, self._hardware, self._jobs, self._places = (
            JobStore(),
            _Hardware(),
            JobTracker(),
            Places(),
        )
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
            findings += self._over(name, at, "no report of it for an hour")
        findings += self._standing.due(at)
        return findings

    def rests(self) -> bool:
        """Whether nothing was reported of any job."""
        return not self._book.jobs and self._standing.is_empty()

    def stirs(self, frame: Frame) -> NDArray[np.bool_] | None:
        """Ports that went down, which may explain a stall."""
        return _went_down(frame) if frame.kind == "ib_port" else None

    def _reports(self, observation: Observation, at: Instant) -> None:
        parts: dict[str, list[Event]] = {}
        for event in observation.events:
            if event.kind in (REPORT, COMMUNICATOR):
                parts.setdefault(str(event.attributes.get("report", "")), []).append(event)
        for events in parts.values():
            with contextlib.suppress(WireError):  # of another version, or damaged: the others count
                for report, event in reports_in(events):
                    job = self._book.of(base(report.job) or self._job_of(event.device.host))
                    job.take(report, at.mono_ns)
                    job.at(event.device.host)
                    _note(job, at)

    def _lines(self, observation: Observation, at: Instant) -> None:
        for event in observation.events:
            if event.kind == LINE:
                with contextlib.suppress(WireError):
                    hit = hit_of(event)
                    name = _job_in(event) or self._job_of(event.device.host)
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

    def _found(self, event: Event) -> None:
        job = self._book.jobs.get(_job_in(event))
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
            job = self._book.of(_job_in(event) or self._job_of(event.device.host))
            host, uuid = event.device.host, gpus[0] if len(gpus) == 1 else ""
            job.lost(Ended(host, pid, rank, uuid, event.time_ns, last), at.mono_ns)
            _note(job, at)

    def _job_of(self, host: str) -> str:
        return base(self._jobs.on(host)) or f"{UNNAMED} on {host}"

    def _look(self, name: str, job: JobBook, at: Instant) -> Iterator[Finding]:
        """Judge a job; a verdict is reported once it has been stable long enough."""
        job.due_ns = 0
        job.forget(at.mono_ns)
        self._hardware.forget(at.mono_ns)
        hosts = {*job.hosts, *(place.host for place in self._jobs.members(name))}
        verdict = judge(
            Case(
                job.reports(),
                [hit for _, hit in job.hits.values()],
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
            job.suspicion, job.suspected_ns = "", 0
            yield from self._take_back(job, [], at, "the job progresses, or was ended")
            return
        words = f"{verdict.cause} {[c.words() for c in verdict.culprits]}"
        if words != job.suspicion:
            job.suspicion, job.suspected_ns = words, at.mono_ns
        if at.mono_ns - job.suspected_ns < AGREES_NS:
            job.due_ns = job.suspected_ns + AGREES_NS
            return
        yield from self._report(name, job, verdict, at)

    def _report(self, name: str, job: JobBook, verdict: Verdict, at: Instant) -> Iterator[Finding]:
        fault = f"{'straggler' if verdict.cause in SLOW else 'hang'}/{verdict.cause}"
        hosts = self._places.hosts(job.reports())
        culprits = [
            self._places.located(replace(c, host=hosts.get(c.host, c.host)))
            for c in verdict.culprits
        ]
        verdict = replace(verdict, culprits=tuple(culprits))
        devices = [self._places.device(culprit, name) for culprit in culprits] or [
            Device("", "job", name)
        ]
        severity = severity_of(verdict, self._hardware.texts(), gave_up=job.gave_up())
        if _OF_NO_JOB.fullmatch(name) and not self._jobs.members(name):
            severity = "record"  # a log of somebody who has no job here
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


def _went_down(frame: Frame) -> NDArray[np.bool_]:
    """Ports whose link went down since the frame before, (device,)."""
    if frame.increments is None:
        return np.zeros(len(frame.devices), np.bool_)
    went: NDArray[np.bool_] = frame.increase("link_downed") > 0
    return went


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
    """Something new: it is judged when the others had time to report as well."""
    job.due_ns = job.due_ns or at.mono_ns + DEBOUNCE_NS


def _began(began_ns: int, now_ns: int) -> int:
    """When a stall began by the word of the job: 0, which is now, in the future or beyond a day.

    >>> _began(5, 7), _began(9, 7), _began(5, 7 + DAY_NS)
    (5, 0, 0)
    """
    return began_ns if 0 <= now_ns - began_ns <= DAY_NS else 0
