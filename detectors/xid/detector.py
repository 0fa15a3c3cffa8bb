"""XIDs, the driver's error codes: each counted once, a burst read as one, repeats remembered, and
ended when the GPU was repaired.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detectors.kit.columns import Columns, rows_where
from detectors.kit.elapsed import Elapsed
from detectors.kit.findings import AGAIN_NS, RANK, FindingTracker, Verdict
from detectors.kit.jobs import JobTracker
from detectors.kit.literature import XIDS
from detectors.kit.page import Needs, Page, Part, gpu_columns
from detectors.kit.persistence import Persistence
from detectors.kit.readings import reading
from detectors.kit.resets import ResetTracker
from detectors.kit.resting import FOREVER_NS
from detectors.kit.stateful import Stateful
from detectors.xid.burst import (
    APPLICATION,
    LINK_FAULT,
    Burst,
    BurstDiagnosis,
    Seen,
    Suspicion,
    is_application,
    read,
)
from detectors.xid.domains import Domains
from detectors.xid.history import DAY_NS, History, Past
from detectors.xid.known import Known
from detectors.xid.meaning import NVLINK4, meaning, recovery
from detectors.xid.open_bursts import NodeBurst, OpenBursts
from detectors.xid.programs import Programs
from detectors.xid.remedies import MANY, Remedies
from detectors.xid.repetition import REPEATED, suspicion_of, too_often
from pipeline.clock import SECOND_NS, Instant
from pipeline.finding import Finding, Severity
from pipeline.frame import Device, Frame
from pipeline.gpu_state import GpuState
from pipeline.observation import Event, Observation
from pipeline.small_arrays import any_true, or_else
from pipeline.xid.counts import HISTORY_NS
from pipeline.xid.table import xid_entry, xid_words

RECOVERY_READS = 2  # of NVML's recovery action, before it is believed or gone
SETTLED_NS = 600 * SECOND_NS  # after a reset without the code: it helped
# unless the code came again and again: so long without it (NVSentinel's rule)
STICKY_NS = 3 * 3600 * SECOND_NS
CLEAN_NS = DAY_NS  # without a reset: a day without the code
FORGOTTEN_NS = 3600 * SECOND_NS  # a program that failed, and what is only for the record
RECOVERY_FAULT, DOMAIN_FAULT, NODE_FAULT = (
    "xid/recovery_action",
    "xid/nvlink_domain",
    "xid/node_suspect",
)
GONE = tuple(float(state) for state in (GpuState.LOST, GpuState.HUNG, GpuState.ABSENT))


PAGE = Page(
    formula=(
        "severity = table(code, sub-code, registers), raised by burst, repetition (GPU, code) and "
        "XID 154"
    ),
    sources=(XIDS, "NVIDIA NVSentinel, github.com/NVIDIA/NVSentinel"),
    shows=gpu_columns("recovery_action", "sm_clock_megahertz"),
    needs=Needs(
        60.0,
        (("gpu.state",),),
        sources=("kmsg", "dcgm-exporter"),
        # the exporter's gauge has the last code only
        parts=(
            Part("codes that another follows, or repeats, before the next scrape", (), ("kmsg",)),
        ),
    ),
    next_step="Follow the finding's action; it is the driver's own where XID 154 named one.",
    clears=(
        "Ten minutes after a reset, driver load or boot since which the code stayed away (three "
        "hours where it came too often before), or after a day without it; what a GPU alone "
        "repeats after that day only, application errors and info findings after an hour. Never "
        "while the driver asks for recovery or the GPU does not answer. A node with too many "
        "remedies: when a week had fewer."
    ),
    scored_as=("xid",),
)


class Xid(Stateful):
    """Judges XIDs by the table (pipeline/xid/xid.csv), by what came with them,
    and by what came before.

    One finding per GPU and burst, led by the most serious code; programs that failed are reported
    their job, and of the GPU only when it alone repeats them. XID 154, or NVML's recovery action
    when the line was lost, decides how serious a burst is. Lines that were there before the agent
    are judged by their age; those of the boot before are marked as such. A finding ends ten minutes
    after a reset or reboot that helped, or after a clean day; never while the driver still asks for
    recovery or the GPU does not answer.

    >>> gpu, xid = Device("n1", "gpu", "GPU-1"), Xid()
    >>> off = Event(0, 0, gpu, "xid", {"code": 79, "origin": "kmsg"})
    >>> [
    ...     (f.fault, f.severity, f.action, f.summary)
    ...     for f in xid.update(Observation("kmsg", "n1", "b", 0, 0, 0, 0, events=(off,)))
    ... ]
    [('xid/gpu', 'page', 'RESTART_BM', 'XID 79: GPU no longer answers on the PCIe bus. Next: drain, cold reboot; again after reboot: RMA.')]
    """  # noqa: E501 - an example or a table

    name = "xid"
    version = 6

    def __init__(self) -> None:
        self._columns = Columns(**Persistence.fills(1), life_ns=0, gone=False, recovery=0)
        self._runs = Persistence(self._columns, [RECOVERY_READS], [RECOVERY_READS])
        self._elapsed, self._standing, self._lives, self._jobs = (
            Elapsed(),
            FindingTracker(self.name),
            ResetTracker(),
            JobTracker(),
        )
        self._open, self._history, self._domains, self._known = (
            OpenBursts(),
            History(),
            Domains(),
            Known(),
        )
        self._programs = Programs()
        self._remedies = Remedies()
        self._now_ns = 0

    def update(self, observation: Observation) -> Iterable[Finding]:
        """Findings from the XIDs of this observation and the time since the last one."""
        at = self._elapsed.at(observation)
        self._now_ns = at.mono_ns
        findings = list(self._closed(at))
        self._jobs.take(observation.events, at.mono_ns)
        self._programs.take(observation.events, at.mono_ns)
        for event in observation.events:
            if event.kind == "xid":
                findings += self._event(event, observation.boot_id, at)
        for frame in observation.frames:
            if frame.kind == "gpu":
                findings += self._frame(frame, observation.boot_id, at)
        for node in self._open.all():
            for gpu, burst in node.gpus.items():
                if burst.undecided(at.mono_ns):
                    findings += self._report(node, gpu, burst, at)
        findings += self._ended(at)
        findings += self._standing.due(at)
        return findings

    def rests_ns(self) -> int:
        """Until a finding may end, where no code is recent and no GPU asks for recovery or does not
        answer.
        """
        columns = self._columns
        if self._open.all() or any(
            any_true(columns[name]) for name in ("run", "set", "gone", "recovery")
        ):
            return 0
        due = [self._due_ns(finding) for finding in self._standing.all()]
        rest_over_ns = self._standing.next_due_ns()
        due += [] if rest_over_ns is None else [rest_over_ns]
        return max(0, min(due) - self._now_ns) if due else FOREVER_NS

    def stirs(self, frame: Frame) -> NDArray[np.bool_] | None:
        """GPUs that ask for recovery, do not answer, are not read or were given away."""
        if frame.kind != "gpu":
            return None
        stirred, state = frame.gauge("recovery_action") > 0, frame.gauge("state")
        for one in (*GONE, float(GpuState.PASSTHROUGH)):
            stirred |= state == one
        unknown = np.isnan(state)
        if any_true(unknown):
            stirred[unknown] |= np.isnan(frame.gauges[:, unknown]).all(axis=0)
        return stirred

    def _closed(self, at: Instant) -> Iterator[Finding]:
        for node in self._open.over(at.mono_ns):
            for gpu, burst in node.gpus.items():
                yield from self._report(node, gpu, burst, at, closed=True)
            self._history.forget(at.mono_ns)

    def _event(self, event: Event, boot_id: str, at: Instant) -> Iterator[Finding]:
        facts, age = event.attributes, max(0, at.time_ns - event.time_ns)
        count, before = self._known.once.new(event, boot_id), bool(facts.get("previous_boot"))
        if not count or age > DAY_NS:
            return
        past = self._past(event, boot_id, at, age)
        begins = self._history.add(event.device, past)
        if (before or facts.get("before_start")) and age > HISTORY_NS:
            return  # counts for what comes back, and is no news
        node = self._open.at(event.device.host, at.mono_ns, before=before)
        node.last_ns = at.mono_ns
        burst = node.gpus.setdefault(event.device, Burst(job=past.job))
        means = meaning(
            xid_entry(past.code),
            facts,
            alone=not set(burst.seen) - {past.code},
            times=self._times(event.device, past, at),
        )
        burst.add(
            Seen(past.code, count, event.time_ns, at.mono_ns, means, str(facts.get("text", "")))
        )
        suspicion = None
        if begins and not before:
            suspects = {
                finding.device for finding in self._standing.all() if finding.fault == REPEATED
            }
            suspicion = suspicion_of(event.device, past, self._history, at.mono_ns, suspects)
        if suspicion is not None and not is_application(past.code):
            burst.suspicion = suspicion
        burst.suspect |= suspicion is not None and is_application(past.code)
        yield from self._report(node, event.device, burst, at)
        if suspicion is not None and is_application(past.code):
            yield from self._acquit(event.device, past.job, at)
            yield from self._repeated(event.device, suspicion, burst, at)

    def _repeated(
        self, gpu: Device, suspicion: Suspicion, burst: Burst, at: Instant
    ) -> Iterator[Finding]:
        words = (suspicion.words, *burst.evidence())
        verdict = Verdict(REPEATED, suspicion.severity, suspicion.action, suspicion.summary, words)
        yield from self._open_finding(gpu, verdict, at, burst)

    def _acquit(self, gpu: Device, job: str, at: Instant) -> Iterator[Finding]:
        """The program is not the root cause of what one GPU alone repeats."""
        others = (
            p
            for other in self._history.devices()
            if other != gpu
            for p in self._history.of(other, at.mono_ns, FORGOTTEN_NS)
        )
        if job and not any(p.job == job and is_application(p.code) for p in others):
            self._known.last.pop((Device("", "job", job), APPLICATION), None)
            yield from self._standing.ends(
                Device("", "job", job), APPLICATION, at, f"GPU {gpu.id} alone repeats it"
            )

    def _past(self, event: Event, boot_id: str, at: Instant, age: int) -> Past:
        facts = event.attributes
        lasted = facts.get("last_time_ns", event.time_ns)
        place = (
            f"GPC {facts['gpc']}, TPC {facts['tpc']}" if "gpc" in facts and "tpc" in facts else ""
        )
        if "link" in facts:
            place = f"NVLink {facts['link']}"
        boot = (
            str(facts.get("stream", "the boot before")) if facts.get("previous_boot") else boot_id
        )
        job = self._jobs.lately(event.device.host, event.device.id, at.mono_ns)
        return Past(
            int(facts["code"]),
            at.mono_ns - age,
            at.mono_ns - age + max(0, int(lasted) - event.time_ns),
            place,
            job,
            f"{boot}/{event.device.attributes.get('epoch', '')}",
            self._jobs.size(job, at.mono_ns),
            self._programs.of(job),
        )

    def _times(self, gpu: Device, past: Past, at: Instant) -> int:
        """How often this link reported XID 74 within a day, now included."""
        if past.code != NVLINK4:
            return 1
        return sum(
            p.code == past.code and p.place == past.place
            for p in self._history.of(gpu, at.mono_ns, DAY_NS)
        )

    def _report(
        self, node: NodeBurst, gpu: Device, burst: Burst, at: Instant, *, closed: bool = False
    ) -> Iterator[Finding]:
        """Report what a burst means, if that is new."""
        reading = read(burst, at.mono_ns, closed=closed, others=node.others(gpu))
        if reading is None:
            return
        if reading.fault == APPLICATION:
            if burst.suspect:
                return  # the GPU is the root cause, not the program
            if (
                burst.suspicion is not None
            ):  # a code of the hardware came back in the burst of a program: both are reported
                yield from self._repeated(gpu, burst.suspicion, burst, at)
            job = burst.job or self._jobs.lately(gpu.host, gpu.id, at.mono_ns)
            root = Device("", "job", job) if job else gpu  # a job is on many hosts
            yield from self._open_finding(root, _verdict(reading, burst, node, at), at, burst)
            return
        burst.fault = burst.fault or reading.fault
        verdict = _verdict(replace(reading, fault=burst.fault), burst, node, at)
        back = burst.suspicion
        if back is not None and (
            back.code == reading.lead or RANK[back.severity] > RANK[verdict.severity]
        ):
            severity = max(back.severity, verdict.severity, key=RANK.__getitem__)
            words = (back.words, *verdict.evidence)
            verdict = replace(
                verdict, severity=severity, action=back.action, summary=back.summary, evidence=words
            )
        again = (
            not burst.reported
            and verdict.severity == "page"
            and self._standing.get(gpu, verdict.fault) is None
        )
        recurred = again or (
            burst.reported != verdict.summary and (burst.reported != "" or back is not None)
        )
        burst.reported = verdict.summary
        if burst.fault == LINK_FAULT and RANK[verdict.severity] > 0:
            yield from self._link(gpu, verdict, at, burst, recurred=recurred)
        else:
            yield from self._open_finding(gpu, verdict, at, burst, recurred=recurred)

    def _link(
        self, gpu: Device, verdict: Verdict, at: Instant, burst: Burst, *, recurred: bool
    ) -> Iterator[Finding]:
        """Of one GPU, or of its NVLink domain when more GPUs have link errors than a node has."""
        domain = self._domains.add(gpu, at.mono_ns)
        if domain is None:
            yield from self._open_finding(gpu, verdict, at, burst, recurred=recurred)
            return
        members = set(self._domains.members(domain, at.mono_ns))
        summary = (
            "GPUs all over this NVLink domain report link errors: a switch or "
            "the job, not the GPUs."
        )
        words = (f"{len(members)} GPUs within two minutes", *verdict.evidence)
        of_domain = replace(
            verdict, fault=DOMAIN_FAULT, summary=summary, action="CONTACT_SUPPORT", evidence=words
        )
        yield from self._open_finding(domain, of_domain, at, burst)
        for finding in self._standing.all():
            if finding.fault == LINK_FAULT and finding.device.id in members:
                yield from self._standing.ends(
                    finding.device, LINK_FAULT, at, "it is part of the fault of the domain"
                )

    def _open_finding(
        self, device: Device, verdict: Verdict, at: Instant, burst: Burst, *, recurred: bool = False
    ) -> Iterator[Finding]:
        key = (device, verdict.fault)
        # When the code was seen, not when it is reported: a reset may have come in between.
        last_ns = self._known.last.get(key, 0)
        self._known.last[key] = max(burst.last_ns, last_ns)
        again = RANK[verdict.severity] > 0 and 0 < last_ns <= burst.last_ns - AGAIN_NS
        yield from self._standing.holds(
            device,
            verdict,
            at,
            burst.first_ns,
            recurred=recurred,
            again_ns=burst.first_ns if again else 0,
        )

    def _frame(self, frame: Frame, boot_id: str, at: Instant) -> Iterator[Finding]:
        columns = self._columns
        columns.show(frame)
        yield from self._standing.swapped(frame, at)
        new = columns.wide(self._lives.new(frame, boot_id).astype(np.float64)) > 0
        columns["life_ns"] = np.where(new, at.mono_ns, columns["life_ns"])
        yield from self._remedied({columns.devices[row] for row in rows_where(new)}, at)
        state, action = (
            columns.wide(frame.gauge("state")),
            columns.wide(reading(frame, "recovery_action")),
        )
        gone = np.logical_or.reduce([state == one for one in GONE])
        columns["gone"] = np.where(np.isfinite(state), gone, columns["gone"])
        columns["recovery"] = np.where(np.isfinite(action), or_else(action), columns["recovery"])
        _, ends = self._runs.step(
            np.where(np.isfinite(action), (action > 0) * 1.0, np.nan)[None, :], frame.time_ns
        )
        # Of a GPU that was swapped nothing is read that could end what it asked for.
        for row in rows_where(self._runs.is_set(0) & columns.present()):
            yield from self._asks(row, at)
        for row in rows_where(ends[0]):
            yield from self._standing.ends(columns.devices[row], RECOVERY_FAULT, at)

    def _remedied(self, restarted: set[Device], at: Instant) -> Iterator[Finding]:
        """GPUs that began a new epoch while a page about them was open were repaired; a node that
        needs it every other day is suspect.
        """
        for host in dict.fromkeys(
            f.device.host
            for f in self._standing.all()
            if f.severity == "page" and f.device in restarted
        ):
            self._remedies.took(host, at.mono_ns)
            times = self._remedies.recent(host, at.mono_ns)
            if times >= MANY:
                summary = (
                    f"GPUs of node {host} were reset or rebooted for XIDs {times} times in 7 days: "
                    "test the complete node."
                )
                words = f"{times} remedies in 7 days (limit: {MANY})"
                verdict = Verdict(
                    NODE_FAULT, "ticket", "RUN_FIELDDIAG", summary, (words,), times, 0.0, "remedies"
                )
                yield from self._standing.holds(Device(host, "node", host), verdict, at)

    def _asks(self, row: int, at: Instant) -> Iterator[Finding]:
        """The driver asks for recovery: reported where no XID asked for as much."""
        gpu, advice = self._columns.devices[row], recovery(int(self._columns["recovery"][row]))
        others = [f for f in self._standing.all() if f.device == gpu and f.fault != RECOVERY_FAULT]
        if any(RANK[f.severity] >= RANK[advice.severity] for f in others):
            return
        verdict = Verdict(
            RECOVERY_FAULT,
            advice.severity,
            advice.action,
            (
                "The driver recommends a recovery action for this GPU, and no XID was "
                "logged that explains it."
            ),
            (advice.words,),
        )
        yield from self._standing.holds(gpu, verdict, at, self._runs.began(0, row))

    def _ended(self, at: Instant) -> Iterator[Finding]:
        for finding in self._standing.all():
            key = (finding.device, finding.fault)
            if finding.fault != RECOVERY_FAULT and self._over(finding, at):
                self._known.last.pop(key, None)
                yield from self._standing.ends(*key, at)

    def _over(self, finding: Finding, at: Instant) -> bool:
        if finding.fault == NODE_FAULT:
            return self._remedies.recent(finding.device.host, at.mono_ns) < MANY
        quiet = at.mono_ns - self._known.last.get((finding.device, finding.fault), 0)
        if finding.fault == APPLICATION or finding.severity == "record":
            return quiet >= FORGOTTEN_NS
        row = self._columns.row(finding.device)
        if row is None:
            return quiet >= CLEAN_NS
        if self._columns["gone"][row] or self._runs.is_set(0)[row]:
            return False
        since_reset = at.mono_ns - int(self._columns["life_ns"][row])
        settled = STICKY_NS if too_often(finding.device, self._history, at.mono_ns) else SETTLED_NS
        return quiet >= CLEAN_NS or (finding.fault != REPEATED and settled <= since_reset < quiet)

    def _due_ns(self, finding: Finding) -> int:
        """When ``_over`` may be true of an open finding, where nothing is reported of its GPU."""
        if finding.fault == NODE_FAULT:
            return self._now_ns
        last_ns = self._known.last.get((finding.device, finding.fault), 0)
        if finding.fault == APPLICATION or finding.severity == "record":
            return last_ns + FORGOTTEN_NS
        row = self._columns.row(finding.device)
        if row is None or not self._columns.present()[row]:
            return self._now_ns  # another one may be read in its slot any time
        reset_ns = int(self._columns["life_ns"][row])
        settles = reset_ns > last_ns and finding.fault != REPEATED
        return min(last_ns + CLEAN_NS, reset_ns + SETTLED_NS) if settles else last_ns + CLEAN_NS


def _verdict(reading: BurstDiagnosis, burst: Burst, node: NodeBurst, at: Instant) -> Verdict:
    entry, severity = xid_entry(reading.lead), reading.severity
    step, own = entry.action, burst.seen[reading.lead].meaning.action
    if reading.action == "RESTART_BM" and own == "COMPONENT_RESET":
        step = "drain, reboot the node: the driver asks for it"
    summary = f"{xid_words(reading.lead)}. Next: {step}."
    evidence: tuple[Any, ...] = burst.evidence()
    if node.before:  # the reboot was the remedy; what is still broken is reported again
        severity = _at_most(severity, "ticket")
        summary = (
            f"In the boot before, {(at.time_ns - burst.first_ns) / (60 * SECOND_NS):.0f} "
            f"minutes ago: {summary}"
        )
    return Verdict(reading.fault, severity, reading.action, summary, evidence)


def _at_most(severity: Severity, most: Severity) -> Severity:
    return min(severity, most, key=RANK.__getitem__)
