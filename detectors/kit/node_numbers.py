"""Numbers that a detector keeps once per node, as arrays over nodes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from detectors.kit.roll import Roll
from detectors.kit.snapshot import State


class NodeNumbers:
    """Named numbers of each node, (node in sight,); as they are here for a node that is new.

    >>> roll = Roll()
    >>> numbers = NodeNumbers(roll, n=1.0)
    >>> with roll.showing(("n1", "n2")), roll.among(np.array([1])):
    ...     numbers["n"] = numbers["n"] + 1
    >>> with roll.showing(("n1", "n2")):
    ...     numbers["n"].tolist()
    [1.0, 2.0]
    """

    def __init__(self, roll: Roll, **fills: float) -> None:
        self.roll, self._fills = roll, fills
        self._arrays = {name: np.zeros(0) for name in fills}

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        return self._grown(name)[self.roll.now]

    def __setitem__(self, name: str, values: NDArray[np.float64]) -> None:
        self._grown(name)[self.roll.now] = values

    def _grown(self, name: str) -> NDArray[np.float64]:
        array = self._arrays[name]
        more = len(self.roll.names) - len(array)
        if more:
            array = np.concatenate((array, np.full(more, self._fills[name])))
            self._arrays[name] = array
        return array

    def state(self) -> State:
        """All numbers, and the names of the nodes."""
        return {name: self._grown(name) for name in self._fills}

    def prepare(self, state: State) -> Callable[[], None]:
        """KeyError where a number is not there."""
        arrays = {name: state[name].astype(np.float64) for name in self._fills}

        def commit() -> None:
            self._arrays = arrays

        return commit
