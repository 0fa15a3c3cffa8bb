"""Detectors run over a fleet in one of two scopes; they may be restarted on the way, to compare
the results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, Self

from detectors.kit.snapshot import Snapshotable, dump, load
from evaluation.metrics.alerts import Alert, alerts_of, alerts_of_incidents
from evaluation.metrics.scope import ByHost, Scope
from pipeline.finding import Finding, Incident
from pipeline.interfaces import Detector, Fusion
from pipeline.judged import JudgedObservation
from pipeline.observation import Event, Observation
from pipeline.rates import Rates

Make = Callable[[], Sequence[Detector]]
Fuse = Callable[[], Fusion]
# Observations that are judged detector by detector: its code and state stay near.
AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class _Set:
    """The detectors of one host, or of the fleet, and the fusion of their findings."""

    detectors: Sequence[Detector]
    fusion: Fusion | None

    def update(self, observations: Sequence[Observation]) -> list[JudgedObservation]:
        found: list[list[Finding]] = [[] for _ in observations]
        for detector in self.detectors:
            for observation, findings in zip(observations, found, strict=True):
                findings.extend(detector.update(observation))
        return [
            JudgedObservation(one, tuple(findings), self._fused(one, findings))
            for one, findings in zip(observations, found, strict=True)
        ]

    def _fused(self, one: Observation, findings: Sequence[Finding]) -> tuple[Incident, ...]:
        return () if self.fusion is None else tuple(self.fusion.update(one, findings))

    @property
    def memories(self) -> list[Detector | Fusion]:
        return [*self.detectors, *([] if self.fusion is None else [self.fusion])]


class Panel:
    """One set of detectors over the whole fleet, or one set per host.

    An exception of a detector is not caught: a score with a hole is none.

    With ``fuse`` alerts are made from incidents, otherwise from findings. ``only``: the hosts whose
    agents are run in scope node, None for all.
    """

    def __init__(
        self,
        make: Make,
        scope: Scope,
        fuse: Fuse | None = None,
        *,
        only: frozenset[str] | None = None,
    ) -> None:
        self._make, self._fuse, self._only = make, fuse, only
        self._by_host = ByHost(only) if scope == "node" else None
        self._sets: dict[str, _Set] = {}

    def update(self, observations: Sequence[Observation]) -> list[list[JudgedObservation]]:
        """Findings about observations whose frames have their increments, one result per part of
        each.
        """
        if self._by_host is None:
            return [[judged] for judged in self._set("").update(observations)]
        judged: list[list[JudgedObservation]] = [[] for _ in observations]
        for host, parts in self._parts(observations).items():
            some = self._set(host).update([part for _, part in parts])
            for (number, _), one in zip(parts, some, strict=True):
                judged[number].append(one)
        return judged

    def _parts(
        self, observations: Sequence[Observation]
    ) -> dict[str, list[tuple[int, Observation]]]:
        """Those of each host, with the number of the observation that they are of."""
        assert self._by_host is not None  # noqa: S101 - the caller looked
        parts: dict[str, list[tuple[int, Observation]]] = {}
        for number, observation in enumerate(observations):
            for host, part in self._by_host.split(observation):
                parts.setdefault(host, []).append((number, part))
        return parts

    def alerts(
        self, findings: Sequence[Finding], incidents: Sequence[tuple[int, Incident]]
    ) -> list[Alert]:
        """Alerts from everything found, and the findings of severity record that are in no
        incident.
        """
        return (
            alerts_of(findings) if self._fuse is None else alerts_and_records(findings, incidents)
        )

    def restarted(self) -> Self:
        """A new panel with the saved state of this one."""
        other = self.fresh()
        for host, one in self._sets.items():
            new = self._new()
            load(dump(one.memories), new.memories)
            other._sets[host] = new  # noqa: SLF001 - another of its kind
        return other

    def fresh(self) -> Self:
        """A new panel without state: the saved one was too old, or damaged."""
        return type(self)(
            self._make, "fleet" if self._by_host is None else "node", self._fuse, only=self._only
        )

    def forgetful(self) -> tuple[str, ...]:
        """Detectors that save no state: what they know is lost in a restart."""
        return tuple(one.name for one in self._new().memories if not isinstance(one, Snapshotable))

    def _new(self) -> _Set:
        return _Set(self._make(), None if self._fuse is None else self._fuse())

    def _set(self, host: str) -> _Set:
        if host not in self._sets:
            self._sets[host] = self._new()
        return self._sets[host]


def alerts_and_records(
    findings: Sequence[Finding], incidents: Sequence[tuple[int, Incident]]
) -> list[Alert]:
    """Alerts from incidents, and the findings of severity record that are in none."""
    members = {name for _, incident in incidents for name in incident.findings}
    records = [
        alert
        for alert in alerts_of(findings)
        if alert.severity == "record" and alert.id not in members
    ]
    return [*alerts_of_incidents(incidents, findings), *records]


class Evaluated(Protocol):
    """What can be scored: it judges observations, may be restarted, and makes alerts."""

    def update(self, observations: Sequence[Observation], /) -> list[list[JudgedObservation]]:
        """Findings and incidents of each of these observations, which come one after the other."""

    def alerts(
        self, findings: Sequence[Finding], incidents: Sequence[tuple[int, Incident]]
    ) -> list[Alert]:
        """Alerts from everything that it found."""

    def restarted(self) -> Self:
        """Another with the saved state of this one."""

    def fresh(self) -> Self:
        """Another without state."""

    def forgetful(self) -> tuple[str, ...]:
        """Detectors that save no state."""


@dataclass(slots=True)
class Candidate:
    """Detectors in a scope, their results, and whether a restarted twin, where it can have one
    (``restarts``), has the same results.

    ``latest`` are the results of the last observations.
    """

    name: str
    scope: Scope
    panel: Evaluated
    restarts: bool = True
    findings: list[Finding] = field(default_factory=list)
    # with the time of the update, unix ns
    incidents: list[tuple[int, Incident]] = field(default_factory=list)
    latest: list[list[JudgedObservation]] = field(default_factory=list)
    twin: Evaluated | None = None
    compared: bool = False  # whether it ever had a twin
    differences: list[str] = field(default_factory=list)

    def update(self, observations: Sequence[Observation]) -> None:
        """Judge observations, also by the twin where there is one."""
        self.latest = self.panel.update(observations)
        for judged in self.latest:
            for one in judged:
                self.findings += one.findings
                self.incidents += [(one.observation.time_ns, each) for each in one.incidents]
        if self.twin is None:
            return
        every = zip(observations, self.latest, self.twin.update(observations), strict=True)
        for observation, judged, by_twin in every:
            ours, twins = _as_text(judged), _as_text(by_twin)
            if ours != twins:
                names = sorted({name for name, _ in (*ours, *twins)})
                self.differences.append(
                    f"observation {observation.seq} of {observation.source}: {', '.join(names)}"
                )

    @property
    def alerts(self) -> list[Alert]:
        """Alerts from all results so far."""
        return self.panel.alerts(self.findings, self.incidents)

    def restart(self, saved: str) -> None:
        """The agents restart, with their saved state where that is ``whole``."""
        if self.restarts:
            self.panel = self.panel.restarted() if saved == "whole" else self.panel.fresh()

    def start_twin(self) -> None:
        """From here on a restarted twin judges too."""
        if self.restarts:
            self.twin, self.compared = self.panel.restarted(), True


def _as_text(judged: Iterable[JudgedObservation]) -> list[tuple[str, str]]:
    """Each finding and incident, with its detector.

    As text: two findings without a number are equal too, though their NaN are not.
    """
    findings = [(finding.detector, repr(finding)) for one in judged for finding in one.findings]
    return findings + [
        ("incidents", repr(incident)) for one in judged for incident in one.incidents
    ]


def judge(
    observations: Iterable[Observation],
    candidates: Sequence[Candidate],
    periods_s: Mapping[str, float],
    *,
    restart_at_ns: int | None = None,
    compare_ns: int | None = None,
    restarts: Sequence[tuple[int, str]] = (),
) -> int:
    """Run every candidate over every observation; the time of the last one, unix ns (0 without
    any).

    Increments are made once, by the rules of the agent's engine. From ``restart_at_ns`` on each
    candidate that can restart has a restarted twin, for ``compare_ns`` or to the end. At each of
    ``restarts`` (unix ns, state of what was saved) it restarts itself.
    """
    rates: dict[tuple[str, str], Rates] = {}
    running: dict[tuple[str, str], Event] = {}
    waiting: list[Observation] = []
    last_ns, ahead, part_at_ns = 0, list(restarts), None
    for observation in observations:
        turns = (restart_at_ns, part_at_ns, ahead[0][0] if ahead else None)
        if any(at_ns is not None and observation.time_ns >= at_ns for at_ns in turns):
            _update(candidates, waiting)
        if restart_at_ns is not None and observation.time_ns >= restart_at_ns:
            part_at_ns = None if compare_ns is None else observation.time_ns + compare_ns
            restart_at_ns = None
            for candidate in candidates:
                candidate.start_twin()
        if part_at_ns is not None and observation.time_ns >= part_at_ns:
            part_at_ns = None
            for candidate in candidates:
                candidate.twin = None
        complete = _with_increments(observation, rates, periods_s)
        while ahead and observation.time_ns >= ahead[0][0]:
            _, saved = ahead.pop(0)
            for candidate in candidates:
                candidate.restart(saved)
            # a source that starts reports the jobs it finds
            complete = replace(complete, events=(*running.values(), *complete.events))
        _follow(running, observation)
        waiting.append(complete)
        if len(waiting) == AT_ONCE:
            _update(candidates, waiting)
        last_ns = max(last_ns, observation.time_ns)
    _update(candidates, waiting)
    return last_ns


def _update(candidates: Sequence[Candidate], waiting: list[Observation]) -> None:
    """Each candidate judges what waits; nothing does then."""
    if waiting:
        for candidate in candidates:
            candidate.update(waiting)
    waiting.clear()


def _follow(running: dict[tuple[str, str], Event], observation: Observation) -> None:
    """Keep the running jobs, by host and job."""
    for event in observation.events:
        key = (event.device.host, str(event.attributes.get("job", "")))
        if event.kind == "job_started":
            running[key] = event
        elif event.kind == "job_ended":
            running.pop(key, None)


def _with_increments(
    observation: Observation, rates: dict[tuple[str, str], Rates], periods_s: Mapping[str, float]
) -> Observation:
    frames = []
    for frame in observation.frames:
        key = (observation.source, frame.kind)
        if key not in rates:
            rates[key] = Rates(frame.schema, periods_s[observation.source])
        frames.append(rates[key].add(frame, observation.boot_id))
    return replace(observation, frames=tuple(frames))
