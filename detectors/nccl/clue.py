"""Clue: one independent piece of evidence, whom it accuses, and how much it weighs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from detectors.nccl.verdict import Cause


class RankTarget(NamedTuple):
    """A rank, by its number (identity.py)."""

    number: int


class PortTarget(NamedTuple):
    """A network port or card, by the node's name and its own."""

    host: str
    port: str


class NodeTarget(NamedTuple):
    """A whole node."""

    host: str


Target = RankTarget | PortTarget | NodeTarget


@dataclass(frozen=True, slots=True)
class Clue:
    """``source`` is the kind of report: of one source only the heaviest clue against a target
    counts, since its clues are not independent.

    ``weight`` is the share of doubt it removes; 0 explains and names no target. ``cause`` is the
    class it would make; ``firm`` is False where it is not enough alone (one report only).
    """

    source: str
    text: str
    weight: float = 0.0
    target: Target | None = None
    cause: Cause | None = None
    ref: str = ""
    firm: bool = True
    time_ns: int = 0


# How much each kind of evidence weighs, as a probability that it is right by itself. Starting
# values of ours, by what each kind of evidence can prove.
GONE = 0.9
FATAL_XID = 0.9
OWN_ERROR = 0.7
VOTED_PORT = 0.7
VOTED_EDGE = 0.4
BEHIND = {"flight_recorder": 0.85, "ras": 0.8, "log": 0.75, "inspector": 0.6}
STUCK_PROCESS = 0.6
FASTEST = 0.6
COUNTERS_MOVED = 0.5
LEFT = 0.4


def scores(clues: Iterable[Clue]) -> dict[Target, float]:
    """The score of each target: 1 - product of (1 - weight) over independent sources.

    >>> a = RankTarget(1)
    >>> round(
    ...     scores([Clue("ras", "", 0.8, a), Clue("ras", "", 0.5, a), Clue("kernel", "", 0.5, a)])[
    ...         a
    ...     ],
    ...     3,
    ... )
    0.9
    """
    heaviest: dict[Target, dict[str, float]] = {}
    for clue in clues:
        if clue.target is not None and clue.weight > 0:
            weights = heaviest.setdefault(clue.target, {})
            weights[clue.source] = max(weights.get(clue.source, 0.0), clue.weight)
    found = {}
    for target, weights in heaviest.items():
        doubt = 1.0
        for weight in weights.values():
            doubt *= 1.0 - weight
        found[target] = 1.0 - doubt
    return found
