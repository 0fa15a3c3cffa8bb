"""Judge: observation in, findings and incidents out.

The same for live and replay: increments, every detector on its own, fusion.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pipeline.catalog import KINDS
from pipeline.clock import Clock
from pipeline.failing import Failing
from pipeline.finding import Finding, Incident
from pipeline.frame import Frame, schema_of
from pipeline.guard import Guard, Health
from pipeline.interfaces import Current, Detector, Fusion
from pipeline.judged import JudgedObservation
from pipeline.observation import Observation
from pipeline.past_incidents import PastIncidents
from pipeline.plain import finding_from, incident_from, plain
from pipeline.rates import Rates
from pipeline.selfmetrics import SelfMetrics

T = TypeVar("T", Finding, Incident)

DEFAULT_PERIOD_S = 1.0
FORGOTTEN = "The detectors started without their state; what is still true opens another incident."
MAX_STANDING = 5_000  # beyond it the oldest are let go: a detector gone wild costs bounded memory
FINDINGS, OLD_FINDINGS = "findings", "told"  # of a snapshot, and as it was called before


class Judge:
    """Makes the increments, asks the detectors, in order, and joins what they found into incidents.

    A detector that raises is left out for that observation only; that it did is a finding of its
    own, about the node, cleared when it judges an observation of that source again. Without
    ``fusion`` there are no incidents.

    What the judge itself remembers (last samples, what stands) is kept under its ``name`` and
    ``version``, as a detector's is.
    """

    name = "judge"
    version = 1

    def __init__(
        self,
        detectors: Sequence[Detector],
        metrics: SelfMetrics,
        clock: Clock,
        *,
        periods_s: Mapping[str, float],
        fusion: Fusion | None = None,
    ) -> None:
        self._detectors = tuple(detectors)
        self._fusion = fusion
        self._periods = dict(periods_s)
        self._guard = Guard(metrics, clock)
        self._rates: dict[tuple[str, str], Rates] = {}
        self._failing = Failing()
        self._health: dict[tuple[str, str], Health] = {}
        self._standing: dict[str, Finding] = {}
        self._open: dict[str, Incident] = {}
        self._past = PastIncidents()
        self._orphans: tuple[Finding, ...] = ()  # of detectors that begin again
        self._lost: tuple[Incident, ...] = ()  # of a fusion that does
        self._untold = False

    @property
    def memories(self) -> tuple[Detector | Fusion | Judge, ...]:
        """Everybody here who remembers something."""
        return (self, *self._detectors, *(() if self._fusion is None else (self._fusion,)))

    def standing(self) -> tuple[Finding, ...]:
        """Every finding that was reported and has not ended, in that order."""
        return tuple(self._standing.values())

    def open(self) -> tuple[Incident, ...]:
        """Every incident that is open, in the order they opened."""
        return tuple(self._open.values())

    def current(self) -> Mapping[str, Finding]:
        """Open findings by id, with the evidence that was last true, at their ``time_ns``.

        Another thread may ask.
        """
        return {
            finding.id: finding
            for detector in self._detectors
            if isinstance(detector, Current)
            for finding in detector.current()
        }

    @property
    def past(self) -> PastIncidents:
        """Incidents of the last day that are over, and findings of open ones that are."""
        return self._past

    def judge(self, observation: Observation) -> JudgedObservation:
        """The observation with increments in its frames, and what is said of it."""
        observation = replace(
            observation,
            frames=tuple(self._with_increments(observation, f) for f in observation.frames),
        )
        findings = self._orphaned(observation)
        for detector in self._detectors:
            findings += self._ask(detector, observation)
        incidents = self._from_anew(observation, findings)
        self.follow(findings, incidents)
        return JudgedObservation(observation, tuple(findings), incidents)

    def follow(self, findings: Iterable[Finding], incidents: Iterable[Incident]) -> None:
        """Know what stands after these were reported, in their order."""
        for finding in findings:
            _follow(self._standing, finding)
        for incident in incidents:
            _follow(self._open, incident)
        self._past.take(findings, incidents)

    def forget(self, sources: Iterable[str]) -> None:
        """Sources that are gone: a name that comes again begins again."""
        gone = frozenset(sources)
        self._rates = {key: rates for key, rates in self._rates.items() if key[0] not in gone}
        self._health = {key: one for key, one in self._health.items() if key[1] not in gone}

    def state(self) -> Mapping[str, NDArray[Any]]:
        """Last samples by source and kind; what stands, and which
        detectors fail on what, as JSON.
        """
        document = {
            "standing": [plain(finding) for finding in self._standing.values()],
            "open": [plain(incident) for incident in self._open.values()],
            "failing": [[*key, plain(finding)] for *key, finding in self._failing.all()],
            "past": self._past.document(),
        }
        arrays = {
            f"{source}/{kind}/{name}": array
            for (source, kind), rates in self._rates.items()
            for name, array in rates.state().items()
        }
        return {**arrays, FINDINGS: np.frombuffer(json.dumps(document).encode(), np.uint8)}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from there. KeyError, ValueError or TypeError, unchanged, where it does not fit."""
        saved = state[FINDINGS] if FINDINGS in state else state[OLD_FINDINGS]
        document = json.loads(saved.astype(np.uint8).tobytes())
        standing = [finding_from(values) for values in document["standing"]]
        opened = [incident_from(values) for values in document["open"]]
        failing = Failing(
            (detector, source, finding_from(values))
            for detector, source, values in document["failing"]
        )
        past = PastIncidents.of(document.get("past", {}))  # older snapshots kept none
        samples: dict[tuple[str, str], dict[str, NDArray[Any]]] = {}
        for label, array in state.items():
            if label not in (FINDINGS, OLD_FINDINGS):
                source, kind, name = label.split("/")
                samples.setdefault((source, kind), {})[name] = array
        rates = {key: self._fresh(*key) for key in samples if key[1] in KINDS}
        for key, made in rates.items():
            made.restore(samples[key])
        self._rates, self._failing = rates, failing
        self._standing = {finding.id: finding for finding in standing}
        self._open = {incident.id: incident for incident in opened}
        self._past = past

    def begins_anew(
        self, cold: Iterable[str], standing: Iterable[Finding], opened: Iterable[Incident]
    ) -> None:
        """These of ``memories`` have lost what they knew.

        Their open findings end with the next observation.

        A detector that no longer knows what it found cannot end it: it would stand forever. To a
        fusion what is still open is reported again.
        """
        names = frozenset(cold)
        self._orphans = tuple(finding for finding in standing if finding.detector in names)
        self._untold = self._fusion is not None and self._fusion.name in names
        self._lost = tuple(opened) if self._untold else ()

    def _orphaned(self, observation: Observation) -> list[Finding]:
        why = "the detector begins again, and reports it again if it is still so"
        orphans, self._orphans = self._orphans, ()
        return [
            replace(f, phase="cleared", time_ns=observation.time_ns, evidence=(*f.evidence, why))
            for f in orphans
        ]

    def _from_anew(
        self, observation: Observation, findings: Sequence[Finding]
    ) -> tuple[Incident, ...]:
        """Incidents that the fusion no longer knows end; what stands behind them opens others."""
        if not self._untold:
            return self._fuse(observation, findings)
        ended = [
            # the clock of a node that has just booted may be years behind
            replace(
                incident,
                cleared_ns=max(observation.time_ns, incident.opened_ns),
                ended=FORGOTTEN,
            )
            for incident in self._lost
        ]
        self._untold, self._lost = False, ()
        over = {finding.id for finding in findings if not finding.active}
        again = [finding for finding in self._standing.values() if finding.id not in over]
        return (*ended, *self._fuse(observation, [*again, *findings]))

    def _fresh(self, source: str, kind: str) -> Rates:
        return Rates(schema_of(kind), self._periods.get(source, DEFAULT_PERIOD_S))

    def _with_increments(self, observation: Observation, frame: Frame) -> Frame:
        if frame.increments is not None:  # made by the judge of the frame's own node
            return frame
        key = (observation.source, frame.kind)
        if key not in self._rates:
            self._rates[key] = self._fresh(*key)
        return self._rates[key].add(frame, observation.boot_id)

    def _ask(self, detector: Detector, observation: Observation) -> Iterable[Finding]:
        key = (detector.name, observation.source)
        said, error = self._guard.call(
            "detector", detector.name, lambda: tuple(detector.update(observation))
        )
        health = self._health.setdefault(
            key, Health(f"detector {detector.name} on {observation.source}")
        )
        if error is not None:
            health.failed(repr(error), observation.time_ns)
            return self._failing.failed(detector.name, observation, error)
        health.succeeded()
        return (*self._failing.ended(detector.name, observation), *(said or ()))

    def _fuse(self, observation: Observation, findings: Sequence[Finding]) -> tuple[Incident, ...]:
        fusion = self._fusion
        if fusion is None:
            return ()
        said, error = self._guard.call(
            "detector", fusion.name, lambda: tuple(fusion.update(observation, findings))
        )
        health = self._health.setdefault((fusion.name, ""), Health(f"fusion {fusion.name}"))
        if error is not None:
            health.failed(repr(error), observation.time_ns)
        else:
            health.succeeded()
        return said or ()


def _follow(kept: dict[str, T], said: T) -> None:
    """Keep what is open as it was last reported."""
    if not said.active:
        kept.pop(said.id, None)
        return
    kept[said.id] = said
    if len(kept) > MAX_STANDING:
        del kept[next(iter(kept))]
