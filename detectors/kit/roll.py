"""The nodes that one detector judges, and which of them it judges now.

A detector of joined nodes keeps one state array for all of them. What belongs to a node and not to
a device (clocks, paces) has one entry per node. Where nodes differ in what is to be done (a minute
has ended for some), those concerned are brought into sight, and the code of one node runs over all
of them at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pipeline.finding import Finding
from pipeline.small_arrays import any_true

Nodes = NDArray[np.intp]
EVERYBODY = nullcontext()  # nobody is out of sight
OWN = "detectors."  # packages whose objects are, or hold, parts


class Narrowing(Protocol):
    """State arrays that show only the rows of some nodes."""

    def narrow(self) -> None:
        """Show only rows of the nodes in sight."""
        ...

    def widen(self) -> None:
        """Take back what has changed, and show what was shown before."""
        ...


@runtime_checkable
class Joinable(Protocol):
    """A part of a detector that can hold several nodes."""

    def join(self, roll: Roll) -> None:
        """From now on, before anything was read."""
        ...


class Roll:
    """Numbers nodes in the order they come. ``now`` are those in sight, (node,), ascending.

    >>> roll = Roll()
    >>> with roll.showing(("n1", "n2")):
    ...     [roll.now.tolist()]
    [[0, 1]]
    >>> with roll.showing(("n2", "n3")):
    ...     roll.now.tolist(), roll.names
    ([1, 2], ['n1', 'n2', 'n3'])
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self._number: dict[str, int] = {}
        self.now: Nodes = np.zeros(0, np.intp)
        self._narrowing: list[Narrowing] = []
        self._shown: tuple[tuple[str, ...], Nodes] = ((), self.now)
        self._all = self.now
        self._credits: dict[int, str] = {}  # by the identity of a finding

    def add(self, part: Narrowing) -> None:
        """State arrays that follow what is in sight."""
        self._narrowing.append(part)

    def know(self, names: Iterable[str]) -> None:
        """These nodes, in this order, after those that are known."""
        for name in names:
            if self._number.setdefault(name, len(self.names)) == len(self.names):
                self.names.append(name)

    def number(self, host: str) -> int:
        """The number of a node, -1 where it never came."""
        return self._number.get(host, -1)

    @property
    def sole(self) -> str:
        """The one node in sight, empty where there are several or none."""
        return self.names[self.now[0]] if len(self.now) == 1 else ""

    def credit(self, finding: Finding, host: str) -> None:
        """A finding is of this node, whatever its device is: a switch or a job is of none."""
        if finding.device.host != host:
            self._credits[id(finding)] = host

    def credited(self, findings: Iterable[Finding]) -> list[tuple[str, Finding]]:
        """All findings of an observation with the node of each, once."""
        listed = list(findings)  # the numbers in _credits are those of objects that live
        known, self._credits = self._credits, {}
        return [(known.get(id(finding), finding.device.host), finding) for finding in listed]

    def names_now(self) -> frozenset[str]:
        """Names of the nodes in sight."""
        return frozenset(self.names[node] for node in self.now.tolist())

    def places(self, nodes: Nodes) -> Nodes:
        """Where these nodes are among those in sight, -1 for others."""
        place = np.full(len(self.names) + 1, -1, np.intp)  # the last is that of no node
        place[self.now] = np.arange(len(self.now))
        places: Nodes = place[nodes]
        return places

    def of_observation(self, nodes: Nodes) -> Nodes:
        """Where these nodes are among those of the observation, in sight or not."""
        place = np.zeros(len(self.names) + 1, np.intp)
        place[self._shown[1]] = np.arange(len(self._shown[1]))
        places: Nodes = place[nodes]
        return places

    def now_bytes(self) -> bytes | None:
        """The numbers of those in sight, to compare them by; None where they are all."""
        return None if self.now is self._all else self.now.tobytes()

    def whole(self) -> bool:
        """Whether all nodes are in sight."""
        return len(self.now) == len(self.names)

    def showing(self, names: tuple[str, ...]) -> AbstractContextManager[None]:
        """Only these nodes are in sight while the context lasts; new ones are added.

        ValueError where they are in another order than before.
        """
        if names is not self._shown[0]:
            self.know(names)
            numbers = np.array([self._number[name] for name in names], np.intp)
            if any_true(np.diff(numbers) <= 0):
                raise ValueError("nodes are joined in another order than before")
            self._shown = names, numbers
        if len(self._all) != len(self.names):
            self._all = np.arange(len(self.names))
        self.now = self._all
        return EVERYBODY if len(names) == len(self.names) else self.among(self._shown[1])

    @contextmanager
    def among(self, places: Nodes) -> Iterator[None]:
        """Only these of the nodes in sight, by place, while the context lasts."""
        before = self.now
        if len(places) == len(before):
            yield
            return
        self.now = before[places]
        for part in self._narrowing:
            part.narrow()
        try:
            yield
        finally:
            for part in self._narrowing:
                part.widen()
            self.now = before


def parts_of(owner: object) -> Iterator[Joinable]:
    """Everything that a detector is made of and that can hold several nodes, once each."""
    seen: set[int] = set()
    stack: list[object] = [owner]
    while stack:
        one = stack.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, dict):
            stack += one.values()
        elif isinstance(one, list | tuple):
            stack += one
        elif type(one).__module__.startswith(OWN):
            if isinstance(one, Joinable):
                yield one
            stack += vars(one).values() if hasattr(one, "__dict__") else ()
