"""A detector over joined nodes, each judged as if it were alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from detectors.kit.roll import Roll, parts_of
from detectors.kit.snapshot import Snapshotable, State
from detectors.kit.stateful import from_text_array, text_array
from pipeline.finding import Finding
from pipeline.interfaces import Detector
from pipeline.observation import Observation


class Joinable(Detector, Snapshotable, Protocol):
    """A detector whose parts can hold several nodes."""


class Joined:
    """Makes a detector one of several nodes: what it finds in joined observations
    (pipeline/joined.py) is what one of each node alone would find.
    """

    def __init__(self, detector: Joinable) -> None:
        self._detector, self._roll = detector, Roll()
        self.name, self.version = detector.name, detector.version
        for part in parts_of(detector):
            part.join(self._roll)

    def know(self, names: Iterable[str]) -> None:
        """These nodes, in this order, after those that are known."""
        self._roll.know(names)

    def update(self, observation: Observation) -> Iterable[Finding]:
        """The findings of all nodes. ValueError for an observation of a single one."""
        return [finding for _, finding in self.by_node(observation)]

    def by_node(self, observation: Observation) -> list[tuple[str, Finding]]:
        """As ``update``, with the node of each finding: its device may be a switch or a job."""
        if observation.nodes is None:
            raise ValueError(f"{self.name} judges joined nodes, and was given a single one")
        with self._roll.showing(observation.nodes.names):
            try:
                return self._roll.credited(self._detector.update(observation))
            except BaseException:
                self._roll.credited(())  # a later finding may get the identity of one of these
                raise

    def state(self) -> State:
        """The detector's, and the nodes in their order."""
        return {**self._detector.state(), "nodes": text_array(self._roll.names)}

    def restore(self, state: State) -> None:
        """The detector's. KeyError, ValueError or TypeError where it does not fit."""
        self._roll.know(str(name) for name in from_text_array(state["nodes"]))
        self._detector.restore({name: array for name, array in state.items() if name != "nodes"})
