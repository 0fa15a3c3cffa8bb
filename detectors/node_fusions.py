"""The fusion of each node's findings, asked only where something happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from detectors.kit.snapshot import State
from detectors.node_batch import Batch
from detectors.node_sleepers import Recent, Sleepers
from pipeline.finding import Finding, Incident
from pipeline.guard import Guard
from pipeline.interfaces import Fusion
from pipeline.observation import Observation


class NodeFusions:
    """One fusion per node, made by ``fuse``. With ``guard`` one that raises says nothing of that
    observation; without, the exception ends the judging.
    """

    name = "node_fusions"
    version = 1

    def __init__(self, fuse: Callable[[], Fusion], guard: Guard | None = None) -> None:
        self._guard, self._recent = guard, Recent()
        self._sleepers: Sleepers[Fusion] = Sleepers(lambda _: fuse(), _show, self._recent)

    def update(
        self, batch: Batch, found: Mapping[str, Sequence[Finding]]
    ) -> dict[str, tuple[Incident, ...]]:
        """Incidents of the nodes that were asked, by node; ``found`` by node."""
        incidents = {}
        for place in self._sleepers.wanted(batch, found):
            host = batch.names[place]
            incidents[host] = self._asked(batch.parts[place], tuple(found.get(host, ())))
        self._recent.add(batch)
        return incidents

    def _asked(self, part: Observation, findings: tuple[Finding, ...]) -> tuple[Incident, ...]:
        def fuse() -> tuple[Incident, ...]:
            incidents = tuple(self._sleepers.woken(part.host).update(part, findings))
            self._sleepers.asked(part)
            return incidents

        if self._guard is None:
            return fuse()
        return self._guard.call("detector", "incidents", fuse)[0] or ()

    def state(self) -> State:
        """That of each node's, where it has one."""
        return self._sleepers.state()

    def restore(self, state: State) -> None:
        """KeyError, ValueError or TypeError where it does not fit."""
        self._sleepers.restore(state)


def _show(fusion: Fusion, observation: Observation) -> None:
    """Let the time pass for a fusion that rested."""
    for incident in fusion.update(observation, ()):
        raise ValueError(f"{fusion.name} rested, and has {incident.id} of meanwhile")
