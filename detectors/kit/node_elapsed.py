"""The time that detectors measure days by, of several nodes at once (detectors/kit/elapsed.py)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.kit.instants import Instants
from detectors.kit.roll import Roll
from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.node_times import NodeTimes
from pipeline.observation import Observation


class _Clocks(NamedTuple):
    """Of each node, (node,): the wall clock and the monotonic one of its last observation, ns, the
    time that passed, and its boot, None before the first observation. Never written to.
    """

    wall: NDArray[np.int64]
    mono: NDArray[np.int64]
    elapsed: NDArray[np.int64]
    boots: tuple[str | None, ...]

    def grown(self, nodes: int) -> _Clocks:
        """Of so many nodes."""
        more = nodes - len(self.boots)
        if not more:
            return self
        zeros = np.zeros(more, np.int64)
        wall, mono, elapsed = (np.concatenate((old, zeros)) for old in self[:3])
        return _Clocks(wall, mono, elapsed, (*self.boots, *[None] * more))

    def after(self, times: NodeTimes, now: NDArray[np.intp]) -> _Clocks:
        """When an observation of the nodes ``now`` has come."""
        wall, mono = times.time_ns, np.maximum(times.mono_ns, self.mono[now])
        elapsed = self.elapsed[now] + mono - self.mono[now]
        boots = self.boots
        if times.boots != boots:
            known = list(boots)
            for place, (node, boot) in enumerate(zip(now.tolist(), times.boots, strict=True)):
                before = boots[node]
                if before != boot:
                    mono[place] = times.mono_ns[place]
                    apart = max(0, int(wall[place]) - int(self.wall[node]))
                    first = before is None
                    elapsed[place] = wall[place] if first else self.elapsed[node] + apart
                    known[node] = boot
            boots = tuple(known)
        if len(now) == len(boots):
            return _Clocks(wall, mono, elapsed, boots)
        clocks = self.wall.copy(), self.mono.copy(), self.elapsed.copy()
        for old, new in zip(clocks, (wall, mono, elapsed), strict=True):
            old[now] = new
        return _Clocks(clocks[0], clocks[1], clocks[2], boots)


NOTHING = np.zeros(0, np.int64)
NONE = _Clocks(NOTHING, NOTHING, NOTHING, ())


class NodeElapsed:
    """One clock per node: its wall clock's first reading, carried on by its monotonic clock.

    Detectors that have seen the same have the same clocks, as one object, and what follows from an
    observation is made by the first of them.
    """

    def __init__(self, roll: Roll) -> None:
        self._roll = roll
        self._clocks = NONE
        self._places: tuple[tuple[str, ...], dict[str, int]] = ((), {})

    def at(self, observation: Observation) -> Instants:
        """The instant of each node of a joined observation. ValueError for one of a single node."""
        times = observation.nodes
        if times is None:
            raise ValueError("a detector of joined nodes was given the observation of one")
        now, before = self._roll.now, self._clocks
        key = (NodeElapsed, id(before), len(self._roll.names), self._roll.now_bytes())
        known = times.made.get(key)
        if known is None:
            self._clocks = before.grown(len(self._roll.names)).after(times, now)
            elapsed = self._clocks.elapsed[now]
            elapsed.setflags(write=False)
            times.made[key] = before, self._clocks, elapsed  # ``before``: so that its id stays its
        else:
            _, self._clocks, elapsed = known
        if self._places[0] is not times.names:
            self._places = times.names, {name: n for n, name in enumerate(times.names)}
        return Instants(times.time_ns, elapsed, self._places[1])

    def state(self) -> State:
        """All clocks."""
        wall, mono, elapsed, boots = self._clocks.grown(len(self._roll.names))
        return {"clocks": np.stack((wall, mono, elapsed)), "boots": text_array(list(boots))}

    def prepare(self, state: State) -> Commit:
        """KeyError or ValueError where they do not fit."""
        clocks, boots = state["clocks"].astype(np.int64), from_text_array(state["boots"])
        if clocks.shape != (3, len(boots)):
            raise ValueError("clocks and boots of nodes do not fit")

        def commit() -> None:
            wall, mono, elapsed = clocks.copy()
            self._clocks = _Clocks(wall, mono, elapsed, tuple(boots))

        return commit
