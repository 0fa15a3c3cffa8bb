"""Judges stored observations of many nodes in one pass, each as its agent did: horizon ``node``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from collector.replaying.arrivals import is_gateway
from collector.replaying.cadences import Cadences
from collector.replaying.rejudge import Rejudged
from collector.replaying.stored import Hours
from detectors.node_horizon import NodeHorizon, Said
from pipeline.finding import Finding
from pipeline.joined import rounds
from pipeline.judged import JudgedObservation
from pipeline.observation import Observation
from pipeline.round import Round

# More at once cost less each, and an hour of each of them is in memory.
NODES_AT_ONCE = 64
# So many rounds are judged detector by detector: twice as many gain little, and lie in memory.
ROUNDS_AT_ONCE = 16
NOTHING = Said((), ())


@dataclass(frozen=True, slots=True)
class JudgedRound:
    """A round judged again; ``said`` by node where anything was."""

    round: Round
    said: Mapping[str, Said]

    def each(self) -> Iterator[Rejudged]:
        """Node by node."""
        return map(self.at, range(len(self.round)))

    def at(self, place: int) -> Rejudged:
        """One node's."""
        said = self.said.get(self.round.names[place], NOTHING)
        then = self.round.then.get(place, ())
        return Rejudged(JudgedObservation(self.round[place], *said), then)

    def reported(self, *, compared: bool = False) -> set[int]:
        """The places of nodes of which anything is said, or was where that is ``compared``."""
        names = self.round.names
        reported = (
            {place for place, name in enumerate(names) if name in self.said} if self.said else set()
        )
        return reported.union(self.round.then) if compared else reported


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
        for one in every:
            if isinstance(one, JudgedRound):
                yield from one.each()
            else:
                yield one


def rejudge_hours(
    stored: Iterable[Hours],
    make: Callable[[], NodeHorizon],
    at_once: int = NODES_AT_ONCE,
    cadences: Cadences | None = None,
) -> Iterator[tuple[Hours, Iterator[JudgedRound | Rejudged]]]:
    """As ``rejudge_nodes``, hour by hour, and in rounds where the hour has them; each is to be read
    before the next.
    """
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
) -> Iterator[JudgedRound | Rejudged]:
    listed = hours.nodes if hours.joined is None else ((name, None) for name in hours.joined.names)
    groups: dict[int, list[tuple[str, Iterator[JudgedObservation] | None]]] = {}
    for name, node in listed:
        if is_gateway(name):
            continue
        number = place.setdefault(name, len(place)) // at_once
        groups.setdefault(number, []).append((name, node))
    for number, group in sorted(groups.items()):
        while number >= len(judges):
            judges.append(make())
        judge = judges[number]
        if hours.joined is None:
            yield from _judged((node for _, node in group if node is not None), judge)
            continue
        names = sorted((name for name, _ in group), key=place.__getitem__)
        judge.know(names)
        every = hours.joined.rounds(names)
        while some := list(islice(every, ROUNDS_AT_ONCE)):
            yield from map(JudgedRound, some, judge.judge_rounds(some))


def _judged(group: Iterable[Iterator[JudgedObservation]], judge: NodeHorizon) -> Iterator[Rejudged]:
    then: dict[str, tuple[Finding, ...]] = {}

    def observations(node: Iterator[JudgedObservation]) -> Iterator[Observation]:
        for judged in node:
            # Rounds read a node's next observation when the one before was judged.
            then[judged.observation.host] = judged.findings
            yield judged.observation

    for batch in rounds(observations(node) for node in group):
        found = tuple(then[one.host] for one in batch)
        for now, before in zip(judge.judge(batch), found, strict=True):
            yield Rejudged(now, before)
