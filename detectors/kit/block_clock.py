"""Blocks of time: where one ends, and means of what was sampled in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detectors.kit.columns import Columns
from detectors.kit.instants import Times
from detectors.kit.node_clock import MAX_BLOCKS, NodeClock, times_of
from detectors.kit.node_numbers import NodeNumbers
from detectors.kit.roll import Roll
from detectors.kit.row_pace import FORGET, RowPace
from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from detectors.kit.stats import add_sample, block_mean
from detectors.kit.steps import Steps
from pipeline.clock import Instant
from pipeline.distinct import distinct
from pipeline.frame import Frame

Seconds = float | NDArray[np.float64] | Steps  # of joined nodes (node,)


class BlockClock:
    """Says how many blocks of ``seconds`` a frame ends, by the monotonic clock.

    Blocks lie at multiples of their length.

    >>> clock = BlockClock(60)
    >>> s = 10**9
    >>> [clock.turn(t * s, "boot") for t in (10, 50, 60, 60, 55, 200)]
    [0, 0, 1, None, None, 2]
    >>> clock.turn(5 * s, "another boot")
    1
    """

    def __init__(self, seconds: float) -> None:
        self._length_ns = round(seconds * 1e9)
        self._last_ns: int | None = None
        self._boot = ""
        self._of_nodes: NodeClock | None = None

    def turned(self, frame: Frame, boot_id: str) -> int | NDArray[np.int64] | None:
        """Blocks that ended since the frame before, of a joined one (node,).

        None for a frame that comes twice or late: it must be left out.
        """
        if self._of_nodes is None:
            return self.turn(frame.mono_ns, boot_id)
        since = self._of_nodes.turn(times_of(frame))
        return None if since is None else since.blocks(self._length_ns)

    def ended(self, frame: Frame, boot_id: str, at: Times) -> Iterator[tuple[int, Times]]:
        """How many blocks the frame ends, where it ends any, and when; where nodes are joined for
        each number those that ended so many, which alone are in sight meanwhile.
        """
        yield from self.each(self.turned(frame, boot_id), at)

    def each(
        self, turned: int | NDArray[Any] | None, at: Times, *, singly: bool = False
    ) -> Iterator[tuple[int, Times]]:
        """As ``ended``, of what ``turned`` has returned; ``singly``: node by node."""
        if turned is None or isinstance(at, Instant):
            if isinstance(turned, int) and turned:
                yield turned, at
            return
        assert self._of_nodes is not None  # noqa: S101 - it made the array
        counts = np.asarray(turned)
        for blocks in distinct(counts[counts > 0]).tolist():
            found = np.flatnonzero(counts == blocks)
            for places in np.split(found, len(found)) if singly else (found,):
                with self._of_nodes.roll.among(places):
                    yield blocks, at if len(places) == len(counts) else at.among(places)

    def turned_at(self, at: Times) -> int | NDArray[np.int64]:
        """As ``turned``, at an instant that is not a frame's; 0 for one that is late."""
        if isinstance(at, Instant):
            return self.turn(at.mono_ns, "") or 0
        assert self._of_nodes is not None  # noqa: S101 - such instants are of joined nodes
        return self._of_nodes.turn_at(at.mono_ns).blocks(self._length_ns)

    def turn(self, mono_ns: int, boot_id: str) -> int | None:
        """As ``turned``, of one node at this time.

        After a reboot the clock restarts: that ends the block that ran.
        """
        last = self._last_ns
        if last is None:
            self._last_ns, self._boot = mono_ns, boot_id
            return 0
        if boot_id != self._boot:
            self._last_ns, self._boot = mono_ns, boot_id
            return 1
        if mono_ns <= last:
            return None
        self._last_ns = mono_ns
        return min(mono_ns // self._length_ns - last // self._length_ns, MAX_BLOCKS)

    def last(self, boot_id: str) -> int | None:
        """Monotonic time of the last frame, None if there was none in this boot."""
        return self._last_ns if boot_id == self._boot else None

    def seconds(self, frame: Frame, max_s: float) -> NDArray[np.float64] | None:
        """Seconds since the frame before of each joined node (see ``StepClock``)."""
        assert self._of_nodes is not None  # noqa: S101 - asked for where nodes are joined
        since = self._of_nodes.turn(times_of(frame))
        return None if since is None else since.seconds(max_s)

    @property
    def joined(self) -> bool:
        """Whether it holds the clocks of several nodes."""
        return self._of_nodes is not None

    def join(self, roll: Roll) -> None:
        """Hold the clocks of several nodes."""
        self._of_nodes = NodeClock(roll)

    def state(self) -> State:
        """The last instant and its boot."""
        if self._of_nodes is not None:
            return self._of_nodes.state()
        return {"last": text_array([self._last_ns, self._boot])}

    def prepare(self, state: State) -> Commit:
        """ValueError or TypeError where it is not that."""
        if self._of_nodes is not None:
            return self._of_nodes.prepare(state)
        last_ns, boot = from_text_array(state["last"])
        if not (last_ns is None or isinstance(last_ns, int)) or not isinstance(boot, str):
            raise ValueError("no instant and boot")

        def commit() -> None:
            self._last_ns, self._boot = last_ns, boot

        return commit


class StepClock:
    """Seconds since the frame before, for conditions that must last: at most ``max_s``, as what
    lies in a longer gap is not known.

    >>> clock = StepClock(60.0)
    >>> s = 10**9
    >>> [clock.step(t * s, "boot") for t in (10, 11, 11, 500)]
    [0.0, 1.0, None, 60.0]
    """

    def __init__(self, max_s: float = 60.0) -> None:
        self._max_s = max_s
        self._clock = BlockClock(1.0)

    def step(self, mono_ns: int, boot_id: str) -> float | None:
        """None for a frame that comes twice or late: it must be left out. 0
        for the first of a boot.
        """
        last = self._clock.last(boot_id)
        if self._clock.turn(mono_ns, boot_id) is None:
            return None
        return 0.0 if last is None else min((mono_ns - last) / 1e9, self._max_s)

    def passed(self, frame: Frame, boot_id: str) -> Seconds | None:
        """As ``step``; of joined nodes (node,); of a frame that keeps rows of nodes which it does
        not read, of both.
        """
        if self._clock.joined:
            return self._clock.seconds(frame, self._max_s)
        step = self.step(frame.mono_ns, boot_id)
        if step is None or frame.passed_s is None:
            return step
        return Steps(step, np.minimum(frame.passed_s, self._max_s))

    def state(self) -> State:
        """As ``BlockClock``."""
        return self._clock.state()

    def prepare(self, state: State) -> Commit:
        """As ``BlockClock``."""
        return self._clock.prepare(state)


class BlockMeans:
    """Means over the running block of some quantities, held in a detector's columns: ``total_X``
    and ``count_X`` per name.

    A mean counts where at least half as many samples came as usual. What is usual is learnt: a
    block with more frames at once, one with fewer only slowly. So the pace of sampling need not be
    known, and nodes of one fleet may have one each (detectors/kit/row_pace.py).
    """

    def __init__(self, columns: Columns, names: Iterable[str]) -> None:
        self._columns = columns
        self._names = tuple(names)
        self._frames = 0
        self._usual = 0.0
        self._of_nodes: NodeNumbers | None = None
        self._of_rows = RowPace(columns)

    @staticmethod
    def fills(*names: str) -> dict[str, float | int]:
        """The columns that these names need."""
        return {f"total_{name}": 0.0 for name in names} | {f"count_{name}": 0 for name in names}

    def add(self, **samples: NDArray[np.float64]) -> None:
        """One frame's sample per row, (row,), by name; NaN adds nothing."""
        if self._of_nodes is not None:
            self._of_nodes["frames"] = self._of_nodes["frames"] + 1
        elif not self._of_rows.add():
            self._frames += 1
        for name, x in samples.items():
            add_sample(self._columns[f"total_{name}"], self._columns[f"count_{name}"], x)

    def drop(self, rows: NDArray[np.bool_]) -> None:
        """Forget the running block of these rows."""
        self._columns.reset(rows, *self._all())

    def close(self) -> dict[str, NDArray[np.float64]]:
        """Means of the block by name, (row,), NaN where too few samples
        came; the next block begins.
        """
        expected = self._expected()
        means = {
            name: block_mean(
                self._columns[f"total_{name}"], self._columns[f"count_{name}"], expected
            )
            for name in self._names
        }
        self._columns.reset(np.ones(len(self._columns), np.bool_), *self._all())
        return means

    def join(self, roll: Roll) -> None:
        """Keep the pace of several nodes."""
        self._of_nodes = NodeNumbers(roll, frames=0.0, usual=0.0)

    def _expected(self) -> int | NDArray[np.float64]:
        """Frames that a block has as a rule; of joined nodes (row,)."""
        pace = self._of_nodes
        if pace is None:
            if (own := self._of_rows.expected()) is not None:
                return own
            self._usual = max(float(self._frames), FORGET * self._usual)
            self._frames = 0
            return max(1, round(self._usual))
        pace["usual"] = np.maximum(pace["frames"], FORGET * pace["usual"])
        pace["frames"] = np.zeros_like(pace["frames"])
        expected: NDArray[np.float64] = self._columns.each(np.maximum(1.0, np.rint(pace["usual"])))
        return expected

    def state(self) -> State:
        """Frames of the running block, and what is usual; the rest is in the columns."""
        if self._of_nodes is not None:
            return self._of_nodes.state()
        return {"pace": np.array([float(self._frames), self._usual]), **self._of_rows.state()}

    def prepare(self, state: State) -> Commit:
        """KeyError or ValueError where it is not there."""
        if self._of_nodes is not None:
            return self._of_nodes.prepare(state)
        frames, usual = state["pace"].astype(np.float64).tolist()
        of_rows = self._of_rows.prepare(state)

        def commit() -> None:
            self._frames, self._usual = int(frames), usual
            of_rows()

        return commit

    def _all(self) -> list[str]:
        return [f"{part}_{name}" for name in self._names for part in ("total", "count")]
