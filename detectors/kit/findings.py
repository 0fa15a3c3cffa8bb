"""Open findings of a detector of facts: several faults of one device may be open at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from math import isfinite, nan

import numpy as np
from numpy.typing import NDArray

from detectors.faults import Strength, fault_of
from detectors.kit.columns import Columns
from detectors.kit.instants import Times, instant_of
from detectors.kit.node_findings import NodeFindings
from detectors.kit.roll import Roll
from detectors.kit.slots import Slots
from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.clock import Instant
from pipeline.documents import exact, exact_finding
from pipeline.finding import SEVERITIES, Action, Finding, Severity
from pipeline.frame import Device, Frame, whole_microseconds

# A fault that comes back within the hour after it ended is not reported again, unless it is more
# serious. What is certainly broken and pages is reported each time; what is slow may flicker.
REST_NS = 3600 * 10**9
AGAIN_NS = 600 * 10**9  # reports of one event follow each other more closely than this
WORSE = 2.0  # numbers are reported again when the distance from the expected value has doubled
# faults of one device that begin together are kept apart by this, as their
# ids are made of the onset
MICROSECOND_NS = 1000
RANK: Mapping[Severity, int] = {severity: rank for rank, severity in enumerate(SEVERITIES)}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Judgement of a device now: a finding without its times and phase."""

    fault: str
    severity: Severity
    action: Action
    summary: str
    evidence: tuple[str, ...] = ()
    value: float = nan
    expected: float = nan
    unit: str = ""


@dataclass(frozen=True, slots=True)
class _Rest:
    """When a fault ended, how serious it was, what came back since and waits for the rest to be
    over, and whether its device ``left``: what is remembered of it is no news. ``job``: whose it
    was, where that matters.
    """

    ended_ns: int
    severity: Severity
    waits: Finding | None = None
    left: bool = False
    job: str = ""


class FindingTracker:
    """At most one finding is open per device and fault; its id is that of its
    onset until it has cleared.

    >>> tracker, gpu = FindingTracker("d"), Device("n1", "gpu", "G")
    >>> ticket, page = (
    ...     Verdict("straggler", severity, "NONE", "it is slow") for severity in ("ticket", "page")
    ... )
    >>> [
    ...     f.phase
    ...     for f in (
    ...         *tracker.holds(gpu, ticket, Instant(1, 1)),
    ...         *tracker.holds(gpu, page, Instant(2, 2)),
    ...     )
    ... ]
    ['onset', 'ongoing']
    >>> [
    ...     f.phase
    ...     for f in (
    ...         *tracker.ends(gpu, "straggler", Instant(3, 3)),
    ...         *tracker.holds(gpu, page, Instant(4, 4)),
    ...     )
    ... ]
    ['cleared']
    >>> [
    ...     f.phase for f in tracker.due(Instant(9, 3 + REST_NS))
    ... ]  # it came back and is still there when the rest is over
    ['onset']
    """

    def __init__(self, detector: str, *, by_job: bool = False) -> None:
        """``by_job``: what was of one job keeps nothing about another quiet."""
        self._detector, self._by_job = detector, by_job
        self._findings: dict[tuple[Device, str], Finding] = {}
        self._rests: dict[tuple[Device, str], _Rest] = {}
        # What was last true of each open finding, and when (unix ns); not kept over a restart.
        self._latest: dict[tuple[Device, str], tuple[Verdict | None, int]] = {}
        self._slots = Slots()
        self._nodes: NodeFindings[FindingTracker] | None = None
        self._credit: Callable[[Finding], None] = _nobody

    def join(self, roll: Roll) -> None:
        """Findings of several nodes; ``all`` and ``due`` are about those in sight."""
        self._nodes = NodeFindings(roll, self._of_node)

    def _of_node(self, roll: Roll, host: str) -> FindingTracker:
        made = FindingTracker(self._detector, by_job=self._by_job)
        made._credit = partial(roll.credit, host=host)
        return made

    def of(self, host: str) -> FindingTracker:
        """Those of one node."""
        return self if self._nodes is None else self._nodes.of(host)

    def each(self) -> Iterator[tuple[str, FindingTracker]]:
        """Those of each node in sight that has any, by its name; of one node itself, by none."""
        return iter([("", self)] if self._nodes is None else self._nodes.in_sight())

    def opened(self) -> int | NDArray[np.bool_]:
        """Whether any is open or waits; of joined nodes (node in sight,)."""
        return int(bool(self.all())) if self._nodes is None else self._nodes.opened()

    def is_empty(self) -> bool:
        """Whether nothing is open, and nothing rests."""
        if self._nodes is not None:
            return self._nodes.is_empty()
        return not self._findings and not self._rests

    def get(self, device: Device, fault: str) -> Finding | None:
        """The open finding of a device."""
        if self._nodes is not None:
            one = self._nodes.known(device)
            return None if one is None else one.get(device, fault)
        return self._findings.get((device, fault))

    def all(self) -> list[Finding]:
        """Open findings, in the order reported, then what came back and waits for its rest to be
        over: that may end too, and is then never reported.
        """
        if self._nodes is not None:
            return [finding for _, one in self._nodes.in_sight() for finding in one.all()]
        return [
            *self._findings.values(),
            *(rest.waits for rest in self._rests.values() if rest.waits is not None),
        ]

    def holds(
        self,
        device: Device,
        verdict: Verdict,
        at: Times,
        onset_ns: int = 0,
        *,
        recurred: bool = False,
        again_ns: int = 0,
    ) -> Iterator[Finding]:
        """The fault is there: reported when it begins and when it gets worse.

        ``onset_ns`` is unix time, now if left out.

        ``recurred``: there is news of it, which is reported while it is open and while it rests;
        what only flickers is not. ``again_ns``: it happened then, unix time; if it was open, it has
        happened once more, which is counted and reported.
        """
        if self._nodes is not None:
            one, now = self._nodes.at(device), self._nodes.instant(at, device)
            yield from one.holds(
                device, verdict, now, onset_ns, recurred=recurred, again_ns=again_ns
            )
            return
        at, key = instant_of(at, device), (device, verdict.fault)
        known = self._findings.get(key)
        if known is not None:
            self._latest[key] = verdict, at.time_ns
            if (
                recurred
                or again_ns
                or RANK[verdict.severity] > RANK[known.severity]
                or 0 < WORSE * _strength(known) <= _strength(verdict)
            ):
                severity = max(verdict.severity, known.severity, key=RANK.__getitem__)
                worse = self._finding(device, verdict, at, known.onset_ns)
                # Its onset makes its id: a wall clock that was set back does not
                # make it another finding.
                yield self._keep(
                    replace(
                        worse,
                        phase="ongoing",
                        severity=severity,
                        onset_ns=known.onset_ns,
                        times=known.times + (again_ns > 0),
                        again_ns=again_ns or known.again_ns,
                    )
                )
            return
        finding = self._finding(device, verdict, at, onset_ns or at.time_ns)
        rest = self._rests.get(key)
        if (
            rest is not None
            and rest.job in ("", _job(device))
            and not (recurred or again_ns or (_each_time(verdict) and not rest.left))
            and at.mono_ns - rest.ended_ns < REST_NS
            and RANK[verdict.severity] <= RANK[rest.severity]
        ):
            self._rests[key] = replace(rest, waits=rest.waits or finding)
            return
        self._rests.pop(key, None)
        yield self._keep(finding)

    def still(self, device: Device, fault: str, at: Times) -> None:
        """An open finding is true as it was reported: nothing is to be reported again."""
        if self._nodes is not None:
            one = self._nodes.known(device)
            if one is not None:
                one.still(device, fault, self._nodes.instant(at, device))
        elif (device, fault) in self._findings:
            self._latest[device, fault] = None, instant_of(at, device).time_ns

    def current(self) -> list[Finding]:
        """Open findings with the evidence that was last true, at their ``time_ns``.

        Another thread may ask.
        """
        if self._nodes is not None:
            return [finding for one in self._nodes.all() for finding in one.current()]
        found = list(self._findings.items())
        return [_refreshed(finding, *self._latest.get(key, (None, 0))) for key, finding in found]

    def ends(
        self, device: Device, fault: str, at: Times, *why: str, left: bool = False
    ) -> Iterator[Finding]:
        """The fault is not there any more, or its device is not (``left``); ``why`` is added to the
        evidence.
        """
        if self._nodes is not None:
            one = self._nodes.known(device)
            if one is not None:
                now = self._nodes.instant(at, device)
                yield from one.ends(device, fault, now, *why, left=left)
            return
        at, key = instant_of(at, device), (device, fault)
        ended = self._findings.pop(key, None)
        self._latest.pop(key, None)
        if ended is not None:
            of = _job(ended.device) if self._by_job else ""
            rest = _Rest(at.mono_ns, ended.severity, left=left, job=of)
            self._rests[ended.device if of else device, fault] = rest
            evidence = (*ended.evidence, *why)
            over = replace(ended, phase="cleared", time_ns=at.time_ns, evidence=evidence)
            self._credit(over)
            yield over
        elif key in self._rests:
            self._rests[key] = replace(self._rests[key], waits=None)

    def end_rows(
        self, columns: Columns, well: NDArray[np.bool_], at: Times, *faults: str
    ) -> Iterator[Finding]:
        """End open findings of devices of these rows, (row,), of these faults
        (all, where none is named).
        """
        for finding in self.all():
            row = columns.row(finding.device) if not faults or finding.fault in faults else None
            if row is not None and well[row]:
                yield from self.ends(finding.device, finding.fault, at)

    def due(self, at: Times) -> Iterator[Finding]:
        """Faults that came back while they rested and are still there when the rest is over."""
        if self._nodes is not None:
            yield from self._nodes.due(at)
            return
        for key, rest in list(self._rests.items()):
            now = instant_of(at, key[0])
            if now.mono_ns - rest.ended_ns >= REST_NS:
                del self._rests[key]
                if rest.waits is not None:
                    yield self._keep(replace(rest.waits, time_ns=now.time_ns))

    def next_due_ns(self) -> int | None:
        """When the first rest is over, on the clock of durations; None where nothing rests."""
        return min((rest.ended_ns + REST_NS for rest in self._rests.values()), default=None)

    def swapped(self, frame: Frame, at: Times) -> Iterator[Finding]:
        """End open findings of a device in whose PCI slot another one is read now, or that a
        virtual machine has: its faults left with it.
        """
        for finding in self.all():
            there = self._slots.instead(finding.device, frame)
            if there is not None:
                why = f"{there.id} has replaced it in its slot"
                yield from self.ends(finding.device, finding.fault, at, why, left=True)
            elif self._slots.given_away(finding.device, frame):
                why = "it was passed through to a virtual machine"
                yield from self.ends(finding.device, finding.fault, at, why, left=True)

    def _keep(self, finding: Finding) -> Finding:
        self._findings[finding.device, finding.fault] = finding
        self._credit(finding)
        return finding

    def _finding(self, device: Device, verdict: Verdict, at: Instant, onset_ns: int) -> Finding:
        parts = {field.name: getattr(verdict, field.name) for field in fields(verdict)}
        parts |= {
            "value": float(verdict.value),
            "expected": float(verdict.expected),
        }  # not numpy's: findings are printed and stored
        onset_ns = whole_microseconds(min(onset_ns, at.time_ns))
        waiting = (rest.waits for rest in self._rests.values() if rest.waits is not None)
        others = [
            f.onset_ns
            for f in (*self._findings.values(), *waiting)
            if f.device == device and f.fault != verdict.fault
        ]
        while onset_ns in others:
            onset_ns -= MICROSECOND_NS
        return Finding(
            detector=self._detector,
            device=device,
            phase="onset",
            onset_ns=onset_ns,
            time_ns=at.time_ns,
            **parts,
        )

    def state(self) -> State:
        """Open findings and what rests."""
        if self._nodes is not None:
            return self._nodes.state()
        rests = [
            [
                exact(device),
                fault,
                rest.ended_ns,
                rest.severity,
                rest.waits and exact(rest.waits),
                rest.left,
            ]
            for (device, fault), rest in self._rests.items()
        ]
        return {
            "standing": text_array([exact(finding) for finding in self._findings.values()]),
            "rests": text_array(rests),
        }

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it does not fit."""
        if self._nodes is not None:
            return self._nodes.prepare(state)
        opened = [exact_finding(document) for document in from_text_array(state["standing"])]
        rests = {
            (at := Device(**device), str(fault)): _Rest(
                int(ended),
                severity,
                exact_finding(waits) if waits else None,
                left == [True],
                _job(at) if self._by_job else "",
            )
            for device, fault, ended, severity, waits, *left in from_text_array(state["rests"])
        }

        def commit() -> None:
            self._findings = {(finding.device, finding.fault): finding for finding in opened}
            self._rests, self._latest = rests, {}

        return commit


def _job(device: Device) -> str:
    return device.attributes.get("job", "")


def _nobody(_: Finding) -> None:
    """It is of its device's node."""


def _refreshed(finding: Finding, verdict: Verdict | None, true_ns: int) -> Finding:
    """With what was last true; severity and action stay those that were reported."""
    true_ns = max(true_ns, finding.time_ns)
    if verdict is None:
        return replace(finding, time_ns=true_ns)
    return replace(
        finding,
        time_ns=true_ns,
        summary=verdict.summary,
        value=float(verdict.value),
        expected=float(verdict.expected),
        unit=verdict.unit,
        evidence=verdict.evidence,
    )


def _each_time(verdict: Verdict) -> bool:
    """Whether it is reported each time, however soon it comes back."""
    row = fault_of(verdict.fault)
    return verdict.severity == "page" and row.certain and row.strength > Strength.SLOWDOWN


def _strength(of: Verdict | Finding) -> float:
    """Distance from what was expected; 0 where the fault is not a number."""
    return abs(of.value - of.expected) if isfinite(of.value) and isfinite(of.expected) else 0.0
