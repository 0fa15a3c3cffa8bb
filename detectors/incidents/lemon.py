"""Nodes that are repaired again and again: each fault alone is small, together they say that something else is wrong."""

from __future__ import annotations

from detectors.memory import Commit, from_text_array, text_array
from detectors.snapshot import State

DAY_NS = 86400 * 10**9
HALF_LIFE_NS = 30 * DAY_NS
ONE_FAULT_NS = 7 * DAY_NS  # a fault of a device counts once a week: a link that flaps for days is no lemon
# Proposed. A tenth of a cluster's nodes carries about two fifths of its faults, and the mean node has one in eight months
# (InfiniteHBD trace: 400 nodes, 349 days).
LIMIT = 4.0


class Lemons:
    """An exponentially weighted count of incidents per node, ``c = c 2^(-dt/30 d) + 1``; a lemon has 4 and more.

    >>> lemons = Lemons()
    >>> [round(lemons.count("n1", f"fault {k}", 6 * k * DAY_NS), 2) for k in range(6)]
    [1.0, 1.87, 2.63, 3.29, 3.86, 4.36]
    >>> [round(lemons.count("n2", "the same", 3 * k * DAY_NS), 2) for k in range(5)]
    [1.0, 0.93, 0.87, 1.81, 1.69]
    """

    def __init__(self) -> None:
        self._counts: dict[str, tuple[float, int]] = {}
        self._seen: dict[str, dict[str, int]] = {}  # of each node, what was counted within the week and when

    def count(self, host: str, what: str, now_ns: int) -> float:
        """Another incident of a node, of a device and class; its count with it, where these were not counted within the week."""
        seen = {name: at_ns for name, at_ns in self._seen.get(host, {}).items() if now_ns - at_ns <= ONE_FAULT_NS}
        counts = what not in seen
        self._seen[host] = seen | ({what: now_ns} if counts else {})
        count = self.now(host, now_ns) + counts
        self._counts[host] = (count, now_ns)
        return count

    def now(self, host: str, now_ns: int) -> float:
        """The count as it has decayed."""
        count, at_ns = self._counts.get(host, (0.0, now_ns))
        return float(count * 2.0 ** (-(now_ns - at_ns) / HALF_LIFE_NS))

    def state(self) -> State:
        """All counts."""
        return {"counts": text_array({host: list(entry) for host, entry in self._counts.items()}), "seen": text_array(self._seen)}

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it is not that."""
        kept = dict(from_text_array(state["counts"]))
        seen = {
            str(host): {str(what): int(at) for what, at in dict(times).items()}
            for host, times in dict(from_text_array(state["seen"])).items()
        }
        counts = {str(host): (float(count), int(at)) for host, (count, at) in kept.items()}

        def commit() -> None:
            self._counts, self._seen = counts, seen

        return commit
