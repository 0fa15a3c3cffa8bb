"""The time that detectors measure days by: it continues across reboots, and does not step
when the wall clock does.
"""

from __future__ import annotations

from detectors.kit.instants import Times
from detectors.kit.node_elapsed import NodeElapsed
from detectors.kit.roll import Roll
from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.clock import Instant
from pipeline.observation import Observation


class Elapsed:
    """One clock per host, made of observations: the wall clock's first reading, carried
    on by the monotonic clock.

    Between two boots the wall clock shows how long it took; it never goes back.

    >>> def seen(boot_id: str, wall_s: int, mono_s: int) -> Observation:
    ...     return Observation("nvml", "n1", boot_id, 0, wall_s * 10**9, mono_s * 10**9, 0)
    >>> elapsed = Elapsed()
    >>> [
    ...     elapsed.at(seen(*o)).mono_ns // 10**9
    ...     for o in (("a", 1000, 5), ("a", 500, 15), ("b", 700, 1))
    ... ]
    [1000, 1010, 1210]
    """

    def __init__(self) -> None:
        self._hosts: dict[
            str, tuple[str, int, int, int]
        ] = {}  # host -> boot, wall, monotonic, elapsed
        self._of_nodes: NodeElapsed | None = None

    def times(self, observation: Observation) -> Times:
        """As ``at``; of joined nodes that of each."""
        return self.at(observation) if self._of_nodes is None else self._of_nodes.at(observation)

    def at(self, observation: Observation) -> Instant:
        """The instant of an observation; its ``mono_ns`` is this clock's."""
        boot, wall, mono = observation.boot_id, observation.time_ns, observation.mono_ns
        before = self._hosts.get(observation.host)
        if before is None:
            now = wall
        elif boot != before[0]:
            now = before[3] + max(0, wall - before[1])
        else:
            mono = max(mono, before[2])  # reads of different sources may overlap
            now = before[3] + mono - before[2]
        self._hosts[observation.host] = (boot, wall, mono, now)
        return Instant(wall, now)

    def join(self, roll: Roll) -> None:
        """Keep the clocks of several nodes."""
        self._of_nodes = NodeElapsed(roll)

    def state(self) -> State:
        """All hosts' clocks."""
        if self._of_nodes is not None:
            return self._of_nodes.state()
        return {"hosts": text_array(self._hosts)}

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it does not fit."""
        if self._of_nodes is not None:
            return self._of_nodes.prepare(state)
        kept = from_text_array(state["hosts"])
        hosts = {str(host): (str(b), int(w), int(m), int(n)) for host, (b, w, m, n) in kept.items()}

        def commit() -> None:
            self._hosts = hosts

        return commit
