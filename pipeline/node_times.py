"""The nodes of a joined observation or frame: when each was read, and in which boot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

NO_ROWS = np.zeros(0, np.intp)


@dataclass(frozen=True, slots=True, eq=False)
class NodeTimes:
    """``names`` and ``boots`` of the nodes; ``time_ns`` unix time and ``mono_ns`` the monotonic
    clock of each, int64 (node,); ``node_of`` the node of each row of a frame, (device,), or of each
    event of an observation, (event,). ``made``: what was made of these times, for those who need
    the same.
    """

    names: tuple[str, ...]
    time_ns: NDArray[np.int64]
    mono_ns: NDArray[np.int64]
    boots: tuple[str, ...]
    node_of: NDArray[np.intp] = field(default_factory=lambda: NO_ROWS)
    made: dict[Any, Any] = field(init=False, repr=False, default_factory=dict)

    @classmethod
    def of(
        cls,
        names: tuple[str, ...],
        instants: Sequence[tuple[int, int]],
        boots: tuple[str, ...],
        node_of: NDArray[np.intp] = NO_ROWS,
    ) -> NodeTimes:
        """From (unix, monotonic) of each node."""
        times = np.array(instants, np.int64).reshape(len(names), 2)
        return cls(names, times[:, 0], times[:, 1], boots, node_of)

    @classmethod
    def at_once(
        cls,
        names: tuple[str, ...],
        time_ns: int,
        mono_ns: int,
        boots: tuple[str, ...],
        node_of: NDArray[np.intp] = NO_ROWS,
    ) -> NodeTimes:
        """Of nodes that were all read at one instant."""
        times, monos = (np.full(len(names), ns, np.int64) for ns in (time_ns, mono_ns))
        return cls(names, times, monos, boots, node_of)

    @property
    def row_times_ns(self) -> NDArray[np.int64]:
        """Unix time of each row, (device,)."""
        times: NDArray[np.int64] = self.time_ns[self.node_of]
        return times

    def row_boots(self) -> list[str]:
        """The boot of each row's node."""
        return [self.boots[node] for node in self.node_of.tolist()]
