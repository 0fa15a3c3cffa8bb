"""Which detectors may wake people in the agent. The others are on trial: what they say is kept and shown, and nobody is paged by it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from detectors import DETECTORS
from pipeline.finding import Finding
from pipeline.interfaces import Detector
from pipeline.observation import Observation

# A statistical detector joins when its false alarms, scored on unseen seeds (docs/scoring.md), are within its share of the budget.
PROVED = frozenset({"availability"})


class OnTrial:
    """A detector whose findings are records, whatever severity it gives them."""

    def __init__(self, detector: Detector) -> None:
        self._detector = detector

    @property
    def name(self) -> str:
        """The detector's own name."""
        return self._detector.name

    def update(self, observation: Observation) -> Iterable[Finding]:
        """What the detector says, as records."""
        return [replace(finding, severity="record") for finding in self._detector.update(observation)]


def in_service() -> list[Detector]:
    """All detectors as the agent asks them."""
    return [make() if name in PROVED else OnTrial(make()) for name, make in DETECTORS.items()]
