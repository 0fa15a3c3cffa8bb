"""The clocks of several nodes, as arrays (detectors/kit/block_clock.py)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.kit.roll import Roll
from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.frame import Frame
from pipeline.node_times import NodeTimes
from pipeline.small_arrays import all_true, any_true

MAX_BLOCKS = 10_000  # a longer gap than this many blocks counts as this many


@dataclass(frozen=True, slots=True, eq=False)
class Since:
    """The monotonic clock of each node in sight, ns, now and at its frame before, (node,).

    ``first``: it had none; ``booted``: that was in another boot. What is made of it is made once,
    and not to be written to.
    """

    now_ns: NDArray[np.int64]
    last_ns: NDArray[np.int64]
    first: NDArray[np.bool_]
    booted: NDArray[np.bool_]
    _blocks: dict[int, NDArray[np.int64]] = field(init=False, repr=False, default_factory=dict)
    _seconds: dict[float, NDArray[np.float64]] = field(init=False, repr=False, default_factory=dict)

    def blocks(self, length_ns: int) -> NDArray[np.int64]:
        """Blocks that ended, (node,): a boot ends the one that ran."""
        made = self._blocks.get(length_ns)
        if made is None:
            passed = np.minimum(self.now_ns // length_ns - self.last_ns // length_ns, MAX_BLOCKS)
            made = np.where(self.first, 0, np.where(self.booted, 1, passed))
            made.setflags(write=False)
            self._blocks[length_ns] = made
        return made

    def seconds(self, max_s: float) -> NDArray[np.float64]:
        """Seconds that passed, (node,), at most ``max_s``; 0 for the first of a boot."""
        made = self._seconds.get(max_s)
        if made is None:
            passed = np.minimum((self.now_ns - self.last_ns) / 1e9, max_s)
            made = np.where(self.first | self.booted, 0.0, passed)
            made.setflags(write=False)
            self._seconds[max_s] = made
        return made


class _Last(NamedTuple):
    """Of each node, (node,): when its last frame was read, ns, and in which boot, None before the
    first; ``known``: whether an instant was taken of it (``turn_at``). Never written to.
    """

    mono_ns: NDArray[np.int64]
    boots: tuple[str | None, ...]
    known: NDArray[np.bool_]

    def grown(self, nodes: int) -> _Last:
        """Of so many nodes."""
        more = nodes - len(self.boots)
        if not more:
            return self
        return _Last(
            np.concatenate((self.mono_ns, np.zeros(more, np.int64))),
            (*self.boots, *[None] * more),
            np.concatenate((self.known, np.zeros(more, np.bool_))),
        )

    def turned(self, times: NodeTimes, now: NDArray[np.intp]) -> tuple[_Last, Since | None]:
        """When frames of the nodes ``now`` have come; as ``NodeClock.turn``."""
        last_ns, boots = self.mono_ns[now], self.boots
        first, booted = np.zeros((2, len(now)), np.bool_)
        if times.boots != boots:
            known = list(boots)
            for place, (node, boot) in enumerate(zip(now.tolist(), times.boots, strict=True)):
                before = boots[node]
                first[place], booted[place] = before is None, before not in (None, boot)
                known[node] = boot
            boots = tuple(known)
        late = ~first & ~booted & (times.mono_ns <= last_ns)
        if any_true(late):
            if all_true(late):
                return self, None
            raise ValueError("nodes whose frame comes twice or late are joined with others")
        mono_ns = times.mono_ns
        if len(now) < len(boots):
            mono_ns = self.mono_ns.copy()
            mono_ns[now] = times.mono_ns
        return _Last(mono_ns, boots, self.known), Since(times.mono_ns, last_ns, first, booted)


NONE = _Last(np.zeros(0, np.int64), (), np.zeros(0, np.bool_))


class NodeClock:
    """When the last frame of each node was read, and in which boot.

    Detectors that have seen the same frames have the same clocks, as one object, and what follows
    from a frame is made by the first of them.
    """

    def __init__(self, roll: Roll) -> None:
        self.roll = roll
        self._last = NONE

    def turn(self, times: NodeTimes) -> Since | None:
        """Take the frames of the nodes in sight.

        None where all come twice or late. ValueError where some do: such nodes are joined apart
        (pipeline/joined.py).
        """
        before, nodes = self._last, len(self.roll.names)
        key = (NodeClock, id(before), nodes, self.roll.now_bytes())
        made = times.made.get(key)
        if made is None:
            made = before.grown(nodes).turned(times, self.roll.now)
            times.made[key] = *made, before  # ``before``: so that its id stays its
        self._last, since = made[:2]
        return since

    def turn_at(self, mono_ns: NDArray[np.int64]) -> Since:
        """As ``turn``, at instants; one that is late is as long ago as the last."""
        now, last = self.roll.now, self._last.grown(len(self.roll.names))
        last_ns = last.mono_ns[now]
        first = ~last.known[now]
        now_ns = np.where(first, mono_ns, np.maximum(mono_ns, last_ns))
        boots = list(last.boots)
        for node in now[first].tolist():
            boots[node] = ""
        kept_ns, known = last.mono_ns.copy(), last.known.copy()
        kept_ns[now], known[now] = now_ns, True
        self._last = _Last(kept_ns, tuple(boots) if any_true(first) else last.boots, known)
        return Since(now_ns, last_ns, first, np.zeros(len(now), np.bool_))

    def state(self) -> State:
        """The last instants, and the boots."""
        last = self._last.grown(len(self.roll.names))
        return {"last": last.mono_ns, "boots": text_array(list(last.boots))}

    def prepare(self, state: State) -> Commit:
        """KeyError or ValueError where they do not fit."""
        last_ns, boots = state["last"].astype(np.int64), from_text_array(state["boots"])
        if len(last_ns) != len(boots):
            raise ValueError("instants and boots of nodes do not fit")

        def commit() -> None:
            known = np.array([boot is not None for boot in boots], np.bool_)
            self._last = _Last(last_ns, tuple(boots), known)

        return commit


def times_of(frame: Frame) -> NodeTimes:
    """The times of a joined frame. ValueError for one of a single node."""
    if frame.nodes is None:
        raise ValueError("a detector of joined nodes was given the frame of one")
    return frame.nodes
