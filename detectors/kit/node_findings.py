"""The open findings of several nodes, each node's by themselves (detectors/kit/findings.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from detectors.kit.instants import Instants, Times
from detectors.kit.roll import Roll
from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.clock import Instant
from pipeline.finding import Finding
from pipeline.frame import Device


class Tracker(Protocol):
    """Open findings of one node."""

    def all(self) -> list[Finding]:
        """What is open, or waits."""
        ...

    def due(self, at: Times) -> Iterator[Finding]:
        """What is to be reported now."""
        ...

    def is_empty(self) -> bool:
        """Whether nothing is open, and nothing rests."""
        ...

    def state(self) -> State:
        """All of it."""
        ...

    def prepare(self, state: State) -> Commit:
        """What makes this its memory."""
        ...


T = TypeVar("T", bound=Tracker)


class NodeFindings(Generic[T]):
    """A tracker per node that has anything to remember.

    A finding belongs to the node in sight, where there is one only; else to that of its device. So
    two nodes may have a finding about one switch or job.
    """

    def __init__(self, roll: Roll, make: Callable[[Roll, str], T]) -> None:
        self._roll, self._make = roll, make
        self._of: dict[str, T] = {}

    def known(self, device: Device) -> T | None:
        """The tracker of a device's node, None where nothing is remembered."""
        return self._of.get(self._host(device))

    def at(self, device: Device) -> T:
        """The same, made where there is none. KeyError for a device of no node in sight."""
        host = self._host(device)
        if self._roll.number(host) < 0:
            raise KeyError(f"{device.kind} {device.id} is of no node in sight")
        return self.of(host)

    def of(self, host: str) -> T:
        """That of a node."""
        if host not in self._of:
            self._of[host] = self._make(self._roll, host)
        return self._of[host]

    def instant(self, at: Times, device: Device) -> Instant:
        """The instant of a device's node. KeyError where that is not in sight."""
        if isinstance(at, Instant):
            return at
        found = at.of(self._host(device))
        if found is None:
            raise KeyError(f"{device.kind} {device.id} is of no node in sight")
        return found

    def in_sight(self) -> Iterator[tuple[str, T]]:
        """Nodes in sight of which anything is remembered."""
        if not self._of:
            return
        if self._roll.whole():
            yield from self._of.items()
            return
        names = self._roll.names_now()
        yield from ((host, one) for host, one in self._of.items() if host in names)

    def opened(self) -> NDArray[np.bool_]:
        """Which nodes in sight have any, (node,)."""
        numbers = [self._roll.number(host) for host, one in self._of.items() if one.all()]
        found: NDArray[np.bool_] = np.isin(self._roll.now, numbers)
        return found

    def due(self, at: Times) -> Iterator[Finding]:
        """What is due in each node in sight; nodes of which nothing is left are forgotten."""
        for host, one in list(self._of.items()):
            now = at.of(host) if isinstance(at, Instants) else at
            if now is not None:
                yield from one.due(now)
                if one.is_empty():
                    del self._of[host]

    def is_empty(self) -> bool:
        """Whether nothing is remembered of any node."""
        return not self._of

    def all(self) -> Iterator[T]:
        """Those of all nodes."""
        yield from self._of.values()

    def _host(self, device: Device) -> str:
        return self._roll.sole or device.host

    def state(self) -> State:
        """All of them."""
        rows = {
            host: {name: from_text_array(array) for name, array in one.state().items()}
            for host, one in self._of.items()
        }
        return {"nodes": text_array(rows)}

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it does not fit."""
        made = {
            str(host): self._make(self._roll, str(host)) for host in from_text_array(state["nodes"])
        }
        commits = [
            made[host].prepare({name: text_array(value) for name, value in rows.items()})
            for host, rows in from_text_array(state["nodes"]).items()
        ]

        def commit() -> None:
            for one in commits:
                one()
            self._of = made

        return commit
