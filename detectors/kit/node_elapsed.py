"""The time that detectors measure days by, of several nodes at once (detectors/kit/elapsed.py)."""

from __future__ import annotations

import numpy as np

from detectors.kit.instants import Instants
from detectors.kit.roll import Roll
from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.observation import Observation


class NodeElapsed:
    """One clock per node: its wall clock's first reading, carried on by its monotonic clock."""

    def __init__(self, roll: Roll) -> None:
        self._roll = roll
        self._wall, self._mono, self._elapsed = np.zeros((3, 0), np.int64)
        self._boots: list[str | None] = []  # None before the first observation
        self._seen: tuple[str, ...] = ()
        self._places: tuple[tuple[str, ...], dict[str, int]] = ((), {})

    def at(self, observation: Observation) -> Instants:
        """The instant of each node of a joined observation. ValueError for one of a single node."""
        times = observation.nodes
        if times is None:
            raise ValueError("a detector of joined nodes was given the observation of one")
        self._grow()
        now = self._roll.now
        wall, mono = times.time_ns, np.maximum(times.mono_ns, self._mono[now])
        elapsed = self._elapsed[now] + mono - self._mono[now]
        if times.boots != self._seen:
            for place, (node, boot) in enumerate(zip(now.tolist(), times.boots, strict=True)):
                before = self._boots[node]
                if before != boot:
                    mono[place] = times.mono_ns[place]
                    apart = max(0, int(wall[place]) - int(self._wall[node]))
                    first = before is None
                    elapsed[place] = wall[place] if first else self._elapsed[node] + apart
                self._boots[node] = boot
            self._seen = times.boots if self._roll.whole() else ()
        self._wall[now], self._mono[now], self._elapsed[now] = wall, mono, elapsed
        if self._places[0] is not times.names:
            self._places = times.names, {name: n for n, name in enumerate(times.names)}
        return Instants(wall, elapsed, self._places[1])

    def _grow(self) -> None:
        more = len(self._roll.names) - len(self._boots)
        if more:
            zeros = np.zeros(more, np.int64)
            self._wall, self._mono, self._elapsed = (
                np.concatenate((old, zeros)) for old in (self._wall, self._mono, self._elapsed)
            )
            self._boots += [None] * more
            self._seen = ()

    def state(self) -> State:
        """All clocks."""
        self._grow()
        clocks = np.stack((self._wall, self._mono, self._elapsed))
        return {"clocks": clocks, "boots": text_array(self._boots)}

    def prepare(self, state: State) -> Commit:
        """KeyError or ValueError where they do not fit."""
        clocks, boots = state["clocks"].astype(np.int64), list(from_text_array(state["boots"]))
        if clocks.shape != (3, len(boots)):
            raise ValueError("clocks and boots of nodes do not fit")

        def commit() -> None:
            self._wall, self._mono, self._elapsed = clocks.copy()
            self._boots, self._seen = boots, ()

        return commit
