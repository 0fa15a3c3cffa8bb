"""Detectors at work on a fleet, in one of two scopes; they may be restarted on the way, to see
whether anybody notices.
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


@dataclass(frozen=True, slots=True)
class _Set:
    """The detectors of one host, or of the fleet, and what joins their findings."""

    detectors: Sequence[Detector]
    fusion: Fusion | None

    def update(self, observation: Observation) -> JudgedObservation:
        findings = tuple(
            finding for detector in self.detectors for finding in detector.update(observation)
        )
        return JudgedObservation(
            observation,
            findings,
            () if self.fusion is None else tuple(self.fusion.update(observation, findings)),
        )

    @property
    def memories(self) -> list[Detector | Fusion]:
        return [*self.detectors, *([] if self.fusion is None else [self.fusion])]


class Panel:
    """One set of detectors over the whole fleet, or one set per host.

    What a detector raises is not caught: a score with a hole is none.

    With ``fuse`` people are told of incidents, otherwise of findings. ``only``: the hosts whose
    agents are asked in scope node, None for all.
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

    def update(self, observation: Observation) -> list[JudgedObservation]:
        """What they say about an observation whose frames have their
        increments, each about its part.
        """
        parts = [("", observation)] if self._by_host is None else self._by_host.split(observation)
        return [self._set(host).update(part) for host, part in parts]

    def alerts(self, said: Sequence[Finding], told: Sequence[tuple[int, Incident]]) -> list[Alert]:
        """What people were told, from everything that was said, and what was only
        recorded: that opens no incident.
        """
        return alerts_of(said) if self._fuse is None else told_of(said, told)

    def restarted(self) -> Self:
        """A new panel that remembers what could be written down."""
        other = self.fresh()
        for host, one in self._sets.items():
            new = self._new()
            load(dump(one.memories), new.memories)
            other._sets[host] = new  # noqa: SLF001 - another of its kind
        return other

    def fresh(self) -> Self:
        """A new panel that remembers nothing: what was written down was too old, or damaged."""
        return type(self)(
            self._make, "fleet" if self._by_host is None else "node", self._fuse, only=self._only
        )

    def forgetful(self) -> tuple[str, ...]:
        """Detectors that have no memory to write down: whatever they know is lost in a restart."""
        return tuple(one.name for one in self._new().memories if not isinstance(one, Snapshotable))

    def _new(self) -> _Set:
        return _Set(self._make(), None if self._fuse is None else self._fuse())

    def _set(self, host: str) -> _Set:
        if host not in self._sets:
            self._sets[host] = self._new()
        return self._sets[host]


def told_of(said: Sequence[Finding], told: Sequence[tuple[int, Incident]]) -> list[Alert]:
    """What people were told as incidents, and what was only recorded: that opens none."""
    members = {name for _, incident in told for name in incident.findings}
    recorded = [
        alert for alert in alerts_of(said) if alert.severity == "record" and alert.id not in members
    ]
    return [*alerts_of_incidents(told, said), *recorded]


class Asked(Protocol):
    """Whoever says something about observations, may be restarted, and is told to people."""

    def update(self, observation: Observation, /) -> list[JudgedObservation]:
        """What it says about an observation."""

    def alerts(self, said: Sequence[Finding], told: Sequence[tuple[int, Incident]]) -> list[Alert]:
        """What people were told, from everything that it said."""

    def restarted(self) -> Self:
        """Another that remembers what could be written down."""

    def fresh(self) -> Self:
        """Another that remembers nothing."""

    def forgetful(self) -> tuple[str, ...]:
        """Detectors that have no memory to write down."""


@dataclass(slots=True)
class Candidate:
    """Detectors in a scope, what they said, and whether a restarted twin, if one is to be had
    (``restarts``), said the same.

    ``latest`` is what they said of the last observation.
    """

    name: str
    scope: Scope
    panel: Asked
    restarts: bool = True
    findings: list[Finding] = field(default_factory=list)
    # with when they were told, unix ns
    incidents: list[tuple[int, Incident]] = field(default_factory=list)
    latest: list[JudgedObservation] = field(default_factory=list)
    twin: Asked | None = None
    compared: bool = False  # whether it ever had a twin
    differences: list[str] = field(default_factory=list)

    def update(self, observation: Observation) -> None:
        """Ask it, and its twin where there is one."""
        judged = self.latest = self.panel.update(observation)
        for one in judged:
            self.findings += one.findings
            self.incidents += [(one.observation.time_ns, incident) for incident in one.incidents]
        if self.twin is not None:
            said, again = _words(judged), _words(self.twin.update(observation))
            if said != again:
                names = sorted({name for name, _ in (*said, *again)})
                self.differences.append(
                    f"observation {observation.seq} of {observation.source}: {', '.join(names)}"
                )

    @property
    def alerts(self) -> list[Alert]:
        """What people were told."""
        return self.panel.alerts(self.findings, self.incidents)

    def begin_anew(self, saved: str) -> None:
        """The agents restart, and go on with what they saved where that is ``whole``."""
        if self.restarts:
            self.panel = self.panel.restarted() if saved == "whole" else self.panel.fresh()

    def restart(self) -> None:
        """From here on a restarted twin is asked too."""
        if self.restarts:
            self.twin, self.compared = self.panel.restarted(), True


def _words(judged: Iterable[JudgedObservation]) -> list[tuple[str, str]]:
    """Who said what.

    As text: two findings without a number are equal too, though their NaN are not.
    """
    findings = [(finding.detector, repr(finding)) for one in judged for finding in one.findings]
    return findings + [
        ("incidents", repr(incident)) for one in judged for incident in one.incidents
    ]


def judge(
    observations: Iterable[Observation],
    contestants: Sequence[Candidate],
    periods_s: Mapping[str, float],
    *,
    restart_at_ns: int | None = None,
    compare_ns: int | None = None,
    restarts: Sequence[tuple[int, str]] = (),
) -> int:
    """Show every observation to every contestant; the time of the last one,
    unix ns (0 without any).

    Increments are made once, by the rules of the agent's engine. From ``restart_at_ns`` on whoever
    restarts has a restarted twin, for ``compare_ns`` or to the end. At each of ``restarts`` (unix
    ns, how what was saved looks then) whoever restarts really does.
    """
    rates: dict[tuple[str, str], Rates] = {}
    running: dict[tuple[str, str], Event] = {}
    last_ns, ahead, part_at_ns = 0, list(restarts), None
    for observation in observations:
        if restart_at_ns is not None and observation.time_ns >= restart_at_ns:
            part_at_ns = None if compare_ns is None else observation.time_ns + compare_ns
            restart_at_ns = None
            for contestant in contestants:
                contestant.restart()
        if part_at_ns is not None and observation.time_ns >= part_at_ns:
            part_at_ns = None
            for contestant in contestants:
                contestant.twin = None
        whole = _with_increments(observation, rates, periods_s)
        while ahead and observation.time_ns >= ahead[0][0]:
            _, saved = ahead.pop(0)
            for contestant in contestants:
                contestant.begin_anew(saved)
            # a source that starts tells of the jobs it finds
            whole = replace(whole, events=(*running.values(), *whole.events))
        _follow(running, observation)
        for contestant in contestants:
            contestant.update(whole)
        last_ns = max(last_ns, observation.time_ns)
    return last_ns


def _follow(running: dict[tuple[str, str], Event], observation: Observation) -> None:
    """The jobs of now, by host and job."""
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
