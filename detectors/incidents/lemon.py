"""Nodes that are repaired again and again: each fault alone is small, together
they show another fault.
"""

from __future__ import annotations

from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array

DAY_NS = 86400 * 10**9
HALF_LIFE_NS = 30 * DAY_NS
# A fault counts once a week: a link that flaps for days is no lemon. A class of faults once a day:
# what strikes several devices at once has one cause, mostly outside of the node.
ONE_FAULT_NS, ONE_CLASS_NS = 7 * DAY_NS, DAY_NS
# Five within twenty days, however they lie: 1 + 4 * 2^(-20/30) = 3.52. Four is what was proposed,
# and takes five in much less. By chance the mean node, with one fault in eight months, is reported
# once in some 9,000 years; one of the worst tenth, which have two fifths of all faults, once in
# eighteen (584 faults of 400 nodes in 349 days, InfiniteHBD trace; independent faults, simulated).
LIMIT = 3.5


class Lemons:
    """An exponentially weighted count of incidents per node, ``c = c 2^(-dt/30 d) + 1``;
    a lemon has 3.5 and more.

    >>> lemons, classes = Lemons(), ("ecc", "xid", "pcie", "thermal", "power")
    >>> [
    ...     round(lemons.count("n1", kind, "gpu GPU-1", 5 * k * DAY_NS), 2)
    ...     for k, kind in enumerate(classes)
    ... ]
    [1.0, 1.89, 2.68, 3.39, 4.02]
    >>> [round(lemons.count("n2", "pcie", "gpu GPU-1", 3 * k * DAY_NS), 2) for k in range(5)]
    [1.0, 0.93, 0.87, 1.81, 1.69]
    >>> [round(lemons.count("n3", "pcie", f"gpu GPU-{k}", k * DAY_NS // 2), 2) for k in range(5)]
    [1.0, 0.99, 0.98, 1.97, 1.94]
    """

    def __init__(self) -> None:
        self._counts: dict[str, tuple[float, int]] = {}
        self._seen: dict[
            str, dict[str, int]
        ] = {}  # of each node: classes and faults that were counted within the week, and when

    def count(self, host: str, kind: str, whose: str, now_ns: int) -> float:
        """Another incident of a node, of a class and a device; its count with it, where neither
        was counted just before.
        """
        what = f"{kind} of {whose}"
        seen = {
            name: at_ns
            for name, at_ns in self._seen.get(host, {}).items()
            if now_ns - at_ns <= ONE_FAULT_NS
        }
        counts = what not in seen and now_ns - seen.get(kind, now_ns - ONE_FAULT_NS) > ONE_CLASS_NS
        self._seen[host] = seen | (dict.fromkeys((what, kind), now_ns) if counts else {})
        count = self.now(host, now_ns) + counts
        self._counts[host] = (count, now_ns)
        return count

    def now(self, host: str, now_ns: int) -> float:
        """The count as it has decayed."""
        count, at_ns = self._counts.get(host, (0.0, now_ns))
        return float(count * 2.0 ** (-(now_ns - at_ns) / HALF_LIFE_NS))

    def state(self) -> State:
        """All counts."""
        return {
            "counts": text_array({host: list(entry) for host, entry in self._counts.items()}),
            "seen": text_array(self._seen),
        }

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
