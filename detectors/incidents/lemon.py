"""Nodes that are repaired again and again: each fault alone is small, together they say that something else is wrong."""

from __future__ import annotations

from detectors.memory import Commit, from_text_array, text_array
from detectors.snapshot import State

HALF_LIFE_NS = 30 * 86400 * 10**9
# Proposed. A tenth of a cluster's nodes carries about two fifths of its faults, and the mean node has one in eight months
# (InfiniteHBD trace: 400 nodes, 349 days).
LIMIT = 4.0


class Lemons:
    """An exponentially weighted count of incidents per node, ``c = c 2^(-dt/30 d) + 1``; a lemon has 4 and more.

    >>> lemons, day = Lemons(), 86400 * 10**9
    >>> [round(lemons.count("n1", 6 * k * day), 2) for k in range(6)]
    [1.0, 1.87, 2.63, 3.29, 3.86, 4.36]
    """

    def __init__(self) -> None:
        self._counts: dict[str, tuple[float, int]] = {}

    def count(self, host: str, now_ns: int) -> float:
        """Another incident of a node; its count with it."""
        count = self.now(host, now_ns) + 1.0
        self._counts[host] = (count, now_ns)
        return count

    def now(self, host: str, now_ns: int) -> float:
        """The count as it has decayed."""
        count, at_ns = self._counts.get(host, (0.0, now_ns))
        return float(count * 2.0 ** (-(now_ns - at_ns) / HALF_LIFE_NS))

    def state(self) -> State:
        """All counts."""
        return {"counts": text_array({host: list(entry) for host, entry in self._counts.items()})}

    def prepare(self, state: State) -> Commit:
        """ValueError or TypeError where it is not that."""
        kept = dict(from_text_array(state["counts"]))
        counts = {str(host): (float(count), int(at)) for host, (count, at) in kept.items()}

        def commit() -> None:
            self._counts = counts

        return commit
