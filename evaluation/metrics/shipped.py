"""Alerts of agents as shipped: findings of detectors in shadow mode are records, and incidents are
fused from the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from detectors.kit.snapshot import dump, load
from detectors.paging import PROVED, recorded
from evaluation.metrics.alerts import Alert
from evaluation.metrics.panel import Candidate, Fuse, told_of
from pipeline.finding import Finding, Incident
from pipeline.interfaces import Fusion
from pipeline.judged import JudgedObservation
from pipeline.observation import Observation


class Shipped:
    """Hears what another contestant's detectors just found, which must have been asked first: the
    same findings, those in shadow mode as records, joined again.
    """

    def __init__(self, source: Candidate, fuse: Fuse) -> None:
        self._source, self._fuse = source, fuse
        self._fusions: dict[str, Fusion] = {}

    def update(self, _observation: Observation) -> list[JudgedObservation]:
        """What people hear about an observation that the source has judged."""
        return [self._heard(judged) for judged in self._source.latest]

    def alerts(self, said: Sequence[Finding], told: Sequence[tuple[int, Incident]]) -> list[Alert]:
        """What people were told, from everything that was said."""
        return told_of(said, told)

    def restarted(self) -> Self:
        """Another that remembers what could be written down."""
        other = self.fresh()
        for host, fusion in self._fusions.items():
            other._fusions[host] = self._fuse()  # noqa: SLF001 - another of its kind
            load(dump([fusion]), [other._fusions[host]])  # noqa: SLF001
        return other

    def fresh(self) -> Self:
        """Another that remembers nothing."""
        return type(self)(self._source, self._fuse)

    def forgetful(self) -> tuple[str, ...]:
        """Its detectors are the source's."""
        return ()

    def _heard(self, judged: JudgedObservation) -> JudgedObservation:
        host = judged.observation.host if self._source.scope == "node" else ""
        if host not in self._fusions:
            self._fusions[host] = self._fuse()
        findings = tuple(f if f.detector in PROVED else recorded(f) for f in judged.findings)
        return JudgedObservation(
            judged.observation,
            findings,
            tuple(self._fusions[host].update(judged.observation, findings)),
        )
