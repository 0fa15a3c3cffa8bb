"""Alerts of agents as shipped: findings of detectors in shadow mode are records, and incidents are
merged from the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from detectors.kit.snapshot import dump, load
from detectors.paging import PROVED, recorded
from evaluation.metrics.alerts import Alert
from evaluation.metrics.panel import Candidate, Fuse, alerts_and_records
from pipeline.finding import Finding, Incident
from pipeline.interfaces import Fusion
from pipeline.judged import JudgedObservation
from pipeline.observation import Observation


class Shipped:
    """Takes the results of another candidate, which must have judged the observations before: the
    same findings, those in shadow mode as records, merged again.
    """

    def __init__(self, source: Candidate, fuse: Fuse) -> None:
        self._source, self._fuse = source, fuse
        self._fusions: dict[str, Fusion] = {}

    def update(self, _observations: Sequence[Observation]) -> list[list[JudgedObservation]]:
        """Results of observations that the source has judged."""
        return [[self._as_shipped(judged) for judged in some] for some in self._source.latest]

    def alerts(
        self, findings: Sequence[Finding], incidents: Sequence[tuple[int, Incident]]
    ) -> list[Alert]:
        """Alerts from everything found."""
        return alerts_and_records(findings, incidents)

    def restarted(self) -> Self:
        """Another with the saved state of this one."""
        other = self.fresh()
        for host, fusion in self._fusions.items():
            other._fusions[host] = self._fuse()  # noqa: SLF001 - another of its kind
            load(dump([fusion]), [other._fusions[host]])  # noqa: SLF001
        return other

    def fresh(self) -> Self:
        """Another without state."""
        return type(self)(self._source, self._fuse)

    def forgetful(self) -> tuple[str, ...]:
        """Its detectors are the source's."""
        return ()

    def _as_shipped(self, judged: JudgedObservation) -> JudgedObservation:
        host = judged.observation.host if self._source.scope == "node" else ""
        if host not in self._fusions:
            self._fusions[host] = self._fuse()
        findings = tuple(f if f.detector in PROVED else recorded(f) for f in judged.findings)
        return JudgedObservation(
            judged.observation,
            findings,
            tuple(self._fusions[host].update(judged.observation, findings)),
        )
