"""Detectors at work on a fleet, in one of two scopes; they may be restarted on the way, to see whether anybody notices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from detectors.scoring.scope import ByHost, Scope
from detectors.snapshot import Snapshotable, dump, load
from pipeline.finding import Finding
from pipeline.interfaces import Detector
from pipeline.observation import Observation
from pipeline.rates import Rates

Make = Callable[[], Sequence[Detector]]


class Panel:
    """One set of detectors over the whole fleet, or one set per host. What a detector raises is not caught: a score with a hole is none."""

    def __init__(self, make: Make, scope: Scope) -> None:
        self._make = make
        self._by_host = ByHost() if scope == "node" else None
        self._sets: dict[str, Sequence[Detector]] = {}

    def update(self, observation: Observation) -> list[Finding]:
        """What they say about an observation whose frames have their increments."""
        parts = [("", observation)] if self._by_host is None else self._by_host.split(observation)
        return [finding for host, part in parts for detector in self._set(host) for finding in detector.update(part)]

    def restarted(self) -> Panel:
        """A new panel that remembers what could be written down."""
        other = Panel(self._make, "fleet" if self._by_host is None else "node")
        for host, detectors in self._sets.items():
            load(dump(detectors), other._set(host))
        return other

    def forgetful(self) -> tuple[str, ...]:
        """Detectors that have no memory to write down: whatever they know is lost in a restart."""
        return tuple(detector.name for detector in self._make() if not isinstance(detector, Snapshotable))

    def _set(self, host: str) -> Sequence[Detector]:
        if host not in self._sets:
            self._sets[host] = self._make()
        return self._sets[host]


@dataclass(slots=True)
class Contestant:
    """A set of detectors in a scope, what it said, and whether its restarted twin, if it ``restarts`` at all, said the same."""

    name: str
    scope: Scope
    panel: Panel
    restarts: bool = True
    findings: list[Finding] = field(default_factory=list)
    twin: Panel | None = None
    differences: list[str] = field(default_factory=list)

    def update(self, observation: Observation) -> None:
        """Ask it, and its twin where there is one."""
        said = self.panel.update(observation)
        self.findings += said
        if self.twin is not None:
            again = self.twin.update(observation)
            # repr: two findings without a number are equal too, though their NaN are not
            if list(map(repr, said)) != list(map(repr, again)):
                names = sorted({finding.detector for finding in (*said, *again)})
                self.differences.append(f"observation {observation.seq} of {observation.source}: {', '.join(names)}")

    def restart(self) -> None:
        """From here on a restarted twin is asked too."""
        if self.restarts:
            self.twin = self.panel.restarted()


def judge(
    observations: Iterable[Observation],
    contestants: Sequence[Contestant],
    periods_s: Mapping[str, float],
    *,
    restart_at_ns: int | None = None,
) -> int:
    """Show every observation to every contestant; the time of the last one, unix ns (0 without any).

    Increments are made once, by the rules of the agent's engine. From ``restart_at_ns`` on whoever restarts has a restarted twin.
    """
    rates: dict[tuple[str, str], Rates] = {}
    last_ns = 0
    for observation in observations:
        if restart_at_ns is not None and observation.time_ns >= restart_at_ns:
            restart_at_ns = None
            for contestant in contestants:
                contestant.restart()
        whole = _with_increments(observation, rates, periods_s)
        for contestant in contestants:
            contestant.update(whole)
        last_ns = max(last_ns, observation.time_ns)
    return last_ns


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
