"""The agents of a fleet in one pass: what each of them says of its own node, at the price of
arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Self

from detectors.kit.snapshot import dump, load
from detectors.node_batch import Batch
from detectors.node_fusions import NodeFusions
from detectors.node_horizon import NodeHorizon
from detectors.paging import PROVED, recorded
from evaluation.metrics.alerts import Alert
from evaluation.metrics.joining import NodesOf
from evaluation.metrics.panel import Candidate, Fuse, Make, alerts_and_records
from pipeline.finding import Finding, Incident
from pipeline.judged import JudgedObservation
from pipeline.observation import Observation

Found = tuple[Batch, Mapping[str, Sequence[Finding]]]


class Agents:
    """One agent per host of ``only`` (None for all), judged together at horizon ``node``.

    An exception of a detector is not caught: a score with a hole is none.
    """

    def __init__(self, make: Make, fuse: Fuse, only: frozenset[str] | None = None) -> None:
        self._make, self._fuse, self._only = make, fuse, only
        self._nodes = NodesOf(only)
        self._horizon, self._fusions = NodeHorizon(make, None, {}), NodeFusions(fuse)
        self._horizon.know(self._nodes.order)
        self.found: list[list[Found]] = []  # of the last observations

    def update(self, observations: Sequence[Observation]) -> list[list[JudgedObservation]]:
        """Findings about observations whose frames have their increments, one result per host of
        which there is anything to say, of each.
        """
        joined = [list(self._nodes.joined(one)) for one in observations]
        found = iter(self._horizon.find([one for some in joined for one in some]))
        self.found = [list(islice(found, len(some))) for some in joined]
        return [
            list(_fused(one, some, self._fusions))
            for one, some in zip(observations, self.found, strict=True)
        ]

    def alerts(
        self, findings: Sequence[Finding], incidents: Sequence[tuple[int, Incident]]
    ) -> list[Alert]:
        """Alerts from everything found."""
        return alerts_and_records(findings, incidents)

    def restarted(self) -> Self:
        """Others with the saved state of these."""
        other = self.fresh()
        load(dump(self._memories), other._memories)  # noqa: SLF001 - another of its kind
        other._nodes.order = dict(self._nodes.order)  # noqa: SLF001
        return other

    @property
    def _memories(self) -> list[NodeHorizon | NodeFusions]:
        return [self._horizon, self._fusions]

    def fresh(self) -> Self:
        """Others without state."""
        return type(self)(self._make, self._fuse, self._only)

    def forgetful(self) -> tuple[str, ...]:
        """None: a detector without a memory that can be kept cannot be joined."""
        return ()


class ShippedAgents:
    """What the same agents say as they are shipped: findings of detectors in shadow mode as
    records, merged again. ``source`` must have judged the observation before.
    """

    def __init__(self, source: Candidate, fuse: Fuse) -> None:
        self._source, self._fuse = source, fuse
        self._fusions = NodeFusions(fuse)

    def update(self, observations: Sequence[Observation]) -> list[list[JudgedObservation]]:
        """Results of observations that the source has judged."""
        agents = self._source.panel
        assert isinstance(agents, Agents)  # noqa: S101 - it is made of them
        return [
            list(_fused(one, map(_as_shipped, found), self._fusions))
            for one, found in zip(observations, agents.found, strict=True)
        ]

    def alerts(
        self, findings: Sequence[Finding], incidents: Sequence[tuple[int, Incident]]
    ) -> list[Alert]:
        """Alerts from everything found."""
        return alerts_and_records(findings, incidents)

    def restarted(self) -> Self:
        """Another with the saved state of this one."""
        other = self.fresh()
        load(dump([self._fusions]), [other._fusions])  # noqa: SLF001 - another of its kind
        return other

    def fresh(self) -> Self:
        """Another without state."""
        return type(self)(self._source, self._fuse)

    def forgetful(self) -> tuple[str, ...]:
        """Its detectors are the source's."""
        return ()


def _as_shipped(found: Found) -> Found:
    batch, by_host = found
    return batch, {
        host: [one if one.detector in PROVED else recorded(one) for one in findings]
        for host, findings in by_host.items()
    }


def _fused(
    observation: Observation, found: Iterable[Found], fusions: NodeFusions
) -> Iterator[JudgedObservation]:
    for batch, by_host in found:
        incidents = fusions.update(batch, by_host)
        for host in batch.names:
            if by_host.get(host) or incidents.get(host):
                findings = tuple(by_host.get(host, ()))
                yield JudgedObservation(observation, findings, incidents.get(host, ()))
