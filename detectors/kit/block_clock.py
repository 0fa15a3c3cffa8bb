"""Blocks of time: where one ends, and means of what was sampled in it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from detectors.kit.columns import Columns
from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from detectors.kit.stats import add_sample, block_mean

FORGET = 0.9  # how fast a faster pace of sampling is forgotten, per block
MAX_BLOCKS = 10_000  # a longer gap than this many blocks counts as this many


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

    def turn(self, mono_ns: int, boot_id: str) -> int | None:
        """Blocks that ended since the frame before, None for a frame that comes twice or
        late: it must be left out.

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

    def state(self) -> State:
        """The last instant and its boot."""
        return {"last": text_array([self._last_ns, self._boot])}

    def prepare(self, state: State) -> Commit:
        """ValueError or TypeError where it is not that."""
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
    known.
    """

    def __init__(self, columns: Columns, names: Iterable[str]) -> None:
        self._columns = columns
        self._names = tuple(names)
        self._frames = 0
        self._usual = 0.0

    @staticmethod
    def fills(*names: str) -> dict[str, float | int]:
        """The columns that these names need."""
        return {f"total_{name}": 0.0 for name in names} | {f"count_{name}": 0 for name in names}

    def add(self, **samples: NDArray[np.float64]) -> None:
        """One frame's sample per row, (row,), by name; NaN adds nothing."""
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
        self._usual = max(float(self._frames), FORGET * self._usual)
        self._frames = 0
        expected = max(1, round(self._usual))
        means = {
            name: block_mean(
                self._columns[f"total_{name}"], self._columns[f"count_{name}"], expected
            )
            for name in self._names
        }
        self._columns.reset(np.ones(len(self._columns), np.bool_), *self._all())
        return means

    def state(self) -> State:
        """Frames of the running block, and what is usual; the rest is in the columns."""
        return {"pace": np.array([float(self._frames), self._usual])}

    def prepare(self, state: State) -> Commit:
        """KeyError or ValueError where it is not there."""
        frames, usual = state["pace"].astype(np.float64).tolist()

        def commit() -> None:
            self._frames, self._usual = int(frames), usual

        return commit

    def _all(self) -> list[str]:
        return [f"{part}_{name}" for name in self._names for part in ("total", "count")]
