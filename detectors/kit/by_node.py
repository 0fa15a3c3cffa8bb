"""What each node has one of, and the events of each node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from detectors.kit.roll import Roll
from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, Component
from pipeline.observation import Event, Observation

T = TypeVar("T", bound=Component)
SEPARATOR = "\n"  # between a node's name and that of an array; no host has it in its name


class ByNode(Generic[T]):
    """One of something for a detector of one node, one per node where nodes are joined.

    >>> from detectors.kit.maintenance import Maintenance
    >>> one = ByNode(Maintenance)
    >>> one.of("n1") is one.of("n2")
    True
    >>> one.join(Roll())
    >>> one.of("n1") is one.of("n2"), one.of("n1") is one.of("n1")
    (False, True)
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make, self._alone = make, make()
        self._roll: Roll | None = None
        self._of: dict[str, T] = {}

    def join(self, roll: Roll) -> None:
        """Hold those of several nodes."""
        self._roll = roll

    def of(self, host: str) -> T:
        """That of a node; of the one in sight, whatever the host, where there is one only."""
        roll = self._roll
        if roll is None:
            return self._alone
        host = roll.sole or host
        found = self._of.get(host)
        if found is None:
            found = self._of[host] = self._make()
        return found

    def each(self, observation: Observation) -> Iterator[tuple[T, tuple[Event, ...]]]:
        """Those of nodes with events, and these."""
        if self._roll is None:
            yield self._alone, observation.events
            return
        for host, events in events_by_node(observation).items():
            yield self.of(host), events

    def state(self) -> State:
        """All of them, by node where nodes are joined."""
        if self._roll is None:
            return self._alone.state()
        return {
            f"{host}{SEPARATOR}{name}": array
            for host, one in self._of.items()
            for name, array in one.state().items()
        }

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it does not fit."""
        if self._roll is None:
            return self._alone.prepare(state)
        states: dict[str, dict[str, object]] = {}
        for label, array in state.items():
            host, _, name = label.partition(SEPARATOR)
            states.setdefault(host, {})[name] = array
        made = {host: self._make() for host in states}
        commits = [made[host].prepare(own) for host, own in states.items()]  # type: ignore[arg-type]

        def commit() -> None:
            for one in commits:
                one()
            self._of = made

        return commit


def events_by_node(observation: Observation) -> dict[str, tuple[Event, ...]]:
    """The events of each node that has any, in their order."""
    if not observation.events:
        return {}
    if observation.nodes is None:
        return {observation.host: observation.events}
    found: dict[str, list[Event]] = {}
    names = observation.nodes.names
    for event, node in zip(observation.events, observation.nodes.node_of.tolist(), strict=True):
        found.setdefault(names[node], []).append(event)
    return {host: tuple(events) for host, events in found.items()}
