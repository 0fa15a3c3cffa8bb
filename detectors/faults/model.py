"""A row of the table of faults."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Literal

from pipeline.finding import Action, Severity

# "site": settings, load, storage; "agent": the fault hides what happens to devices.
Origin = Literal["hardware", "application", "site", "agent", "unknown"]
# Levels of the topology (detectors/incidents/graph.py).
Level = Literal["link", "switch", "rail", "node", "rack", "nvlink_domain", "job"]

OF_NODE: frozenset[Level] = frozenset({"node"})
OF_SWITCH: frozenset[Level] = frozenset({"switch", "rail"})


class Strength(IntEnum):
    """How strong the evidence for a root cause is, the weakest first."""

    STATISTIC = 0
    TREND = 1
    SLOWDOWN = 2
    MEMORY = 3
    LINK = 4
    GPU = 5


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, or a class of faults: its faults inherit from it (``sub``).

    ``detectors`` emit it, with ``severity`` at most and one of ``actions``. ``certain``: a
    device, a driver or a counter states it; otherwise it is inferred. ``why`` is the reason for
    the action, ``inspect`` the step where the action is CONTACT_SUPPORT. ``shared``: where half of
    the parts of such a switch, node, rack or job, or eight of a rail, have it at once, that is
    their common cause.
    ``symptom``: nothing of the device need be broken; its causes are edges in
    detectors/faults/causes.py. ``exonerates``: it clears the program whose fault the GPU repeats.
    ``prediction``: the device still works. ``alert`` is the stem of the alert in
    rules/findings.py, ``score`` the class of the scenario suite, by default the class of the fault.
    """

    name: str
    detectors: tuple[str, ...] = ()
    severity: Severity = "record"
    actions: tuple[Action, ...] = ()
    origin: Origin = "hardware"
    certain: bool = False
    why: str = ""
    inspect: str = ""
    strength: Strength = Strength.STATISTIC
    shared: frozenset[Level] = frozenset()
    symptom: bool = False
    exonerates: bool = False
    prediction: bool = False
    alert: str = "Other"
    score: str = ""

    def sub(self, name: str, severity: Severity, *actions: Action, **changes: Any) -> Fault:
        """A fault of this class, which inherits what is not given.

        >>> Fault("ecc", ("ecc",), why="wrong bits").sub("sram", "page", "RUN_FIELDDIAG").why
        'wrong bits'
        """
        full = f"{self.name}/{name}"
        return replace(self, name=full, severity=severity, actions=actions, **changes)

    @property
    def scored_as(self) -> str:
        """The class of the scenario suite.

        >>> Fault("power_limit/low").scored_as
        'power-limit'
        """
        return self.score or self.name.partition("/")[0].replace("_", "-")
