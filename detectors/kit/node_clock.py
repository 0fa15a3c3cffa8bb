"""The clocks of several nodes, as arrays (detectors/kit/block_clock.py)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.kit.roll import Roll
from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.frame import Frame
from pipeline.node_times import NodeTimes

MAX_BLOCKS = 10_000  # a longer gap than this many blocks counts as this many


class Since(NamedTuple):
    """The monotonic clock of each node in sight, ns, now and at its frame before, (node,).

    ``first``: it had none; ``booted``: that was in another boot.
    """

    now_ns: NDArray[np.int64]
    last_ns: NDArray[np.int64]
    first: NDArray[np.bool_]
    booted: NDArray[np.bool_]

    def blocks(self, length_ns: int) -> NDArray[np.int64]:
        """Blocks that ended, (node,): a boot ends the one that ran."""
        passed = np.minimum(self.now_ns // length_ns - self.last_ns // length_ns, MAX_BLOCKS)
        return np.where(self.first, 0, np.where(self.booted, 1, passed))

    def seconds(self, max_s: float) -> NDArray[np.float64]:
        """Seconds that passed, (node,), at most ``max_s``; 0 for the first of a boot."""
        passed = np.minimum((self.now_ns - self.last_ns) / 1e9, max_s)
        return np.where(self.first | self.booted, 0.0, passed)


class NodeClock:
    """When the last frame of each node was read, and in which boot."""

    def __init__(self, roll: Roll) -> None:
        self.roll = roll
        self._last_ns = np.zeros(0, np.int64)
        self._boots: list[str | None] = []  # None before the first frame
        self._known = np.zeros(0, np.bool_)  # that an instant was taken of (``turn_at``)
        self._seen: tuple[str, ...] = ()

    def turn(self, times: NodeTimes) -> Since | None:
        """Take the frames of the nodes in sight.

        None where all come twice or late. ValueError where some do: such nodes are joined apart
        (pipeline/joined.py).
        """
        now = self.roll.now
        self._grow()
        last_ns = self._last_ns[now]
        first, booted = np.zeros((2, len(now)), np.bool_)
        if times.boots != self._seen:
            for place, (node, boot) in enumerate(zip(now.tolist(), times.boots, strict=True)):
                before = self._boots[node]
                first[place], booted[place] = before is None, before not in (None, boot)
        late = ~first & ~booted & (times.mono_ns <= last_ns)
        if late.any():
            if late.all():
                return None
            raise ValueError("nodes whose frame comes twice or late are joined with others")
        if times.boots != self._seen:
            for node, boot in zip(now.tolist(), times.boots, strict=True):
                self._boots[node] = boot
            whole = len(now) == len(self.roll.names)
            self._seen = times.boots if whole else ()
        self._last_ns[now] = times.mono_ns
        return Since(times.mono_ns, last_ns, first, booted)

    def turn_at(self, mono_ns: NDArray[np.int64]) -> Since:
        """As ``turn``, at instants; one that is late is as long ago as the last."""
        now = self.roll.now
        self._grow()
        last_ns = self._last_ns[now]
        first = ~self._known[now]
        now_ns = np.where(first, mono_ns, np.maximum(mono_ns, last_ns))
        for node in now[first].tolist():
            self._boots[node] = ""
        self._last_ns[now], self._known[now] = now_ns, True
        return Since(now_ns, last_ns, first, np.zeros(len(now), np.bool_))

    def _grow(self) -> None:
        more = len(self.roll.names) - len(self._boots)
        if more:
            self._last_ns = np.concatenate((self._last_ns, np.zeros(more, np.int64)))
            self._known = np.concatenate((self._known, np.zeros(more, np.bool_)))
            self._boots += [None] * more
            self._seen = ()

    def state(self) -> State:
        """The last instants, and the boots."""
        self._grow()
        return {"last": self._last_ns, "boots": text_array(self._boots)}

    def prepare(self, state: State) -> Commit:
        """KeyError or ValueError where they do not fit."""
        last_ns, boots = state["last"].astype(np.int64), from_text_array(state["boots"])
        if len(last_ns) != len(boots):
            raise ValueError("instants and boots of nodes do not fit")

        def commit() -> None:
            self._last_ns, self._boots, self._seen = last_ns, list(boots), ()
            self._known = np.array([boot is not None for boot in boots], np.bool_)

        return commit


def times_of(frame: Frame) -> NodeTimes:
    """The times of a joined frame. ValueError for one of a single node."""
    if frame.nodes is None:
        raise ValueError("a detector of joined nodes was given the frame of one")
    return frame.nodes
