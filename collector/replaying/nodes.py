"""Judges stored observations of many nodes in one pass, each as its agent did: horizon ``node``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from collector.replaying.arrivals import is_gateway
from collector.replaying.cadences import Cadences
from collector.replaying.rejudge import Rejudged
from collector.replaying.stored import Hours
from detectors.node_horizon import NodeHorizon
from pipeline.finding import Finding
from pipeline.joined import rounds
from pipeline.judged import JudgedObservation
from pipeline.observation import Observation

# More at once cost less each, and an hour of each of them is in memory.
NODES_AT_ONCE = 64


def rejudge_nodes(
    stored: Iterable[Hours],
    make: Callable[[], NodeHorizon],
    at_once: int = NODES_AT_ONCE,
    cadences: Cadences | None = None,
) -> Iterator[Rejudged]:
    """What is said of each observation, each node's in its order; ``make`` gives a judge of
    ``at_once`` nodes, which lives as long as the replay. ``cadences`` follow the hours, for judges
    that ask them.

    What a gateway stored is of no node, and left out.
    """
    for _, every in rejudge_hours(stored, make, at_once, cadences):
        yield from every


def rejudge_hours(
    stored: Iterable[Hours],
    make: Callable[[], NodeHorizon],
    at_once: int = NODES_AT_ONCE,
    cadences: Cadences | None = None,
) -> Iterator[tuple[Hours, Iterator[Rejudged]]]:
    """As ``rejudge_nodes``, hour by hour; each is to be read before the next."""
    judges: list[NodeHorizon] = []
    place: dict[str, int] = {}  # of each node, as they come
    for hours in stored:
        if cadences is not None:
            cadences.follow(hours)
        yield hours, _hour(hours, judges, place, make, at_once)


def _hour(
    hours: Hours,
    judges: list[NodeHorizon],
    place: dict[str, int],
    make: Callable[[], NodeHorizon],
    at_once: int,
) -> Iterator[Rejudged]:
    groups: dict[int, list[tuple[str, Iterator[JudgedObservation]]]] = {}
    for name, node in hours.nodes:
        if is_gateway(name):
            continue
        number = place.setdefault(name, len(place)) // at_once
        groups.setdefault(number, []).append((name, node))
    for number, group in sorted(groups.items()):
        while number >= len(judges):
            judges.append(make())
        yield from _judged(group, judges[number])


def _judged(
    group: Iterable[tuple[str, Iterator[JudgedObservation]]], judge: NodeHorizon
) -> Iterator[Rejudged]:
    then: dict[str, tuple[Finding, ...]] = {}

    def observations(node: Iterator[JudgedObservation]) -> Iterator[Observation]:
        for judged in node:
            # Rounds read a node's next observation when the one before was judged.
            then[judged.observation.host] = judged.findings
            yield judged.observation

    for batch in rounds(observations(node) for _, node in group):
        found = tuple(then[one.host] for one in batch)
        for now, before in zip(judge.judge(batch), found, strict=True):
            yield Rejudged(now, before)
