"""The last minutes in memory, for the sparklines of the page: a few columns, ten
minutes, means of five seconds.

The store has the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from collector.web.columns import RECENT
from pipeline.align import Rows
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding, Incident
from pipeline.frame import Frame
from pipeline.observation import Observation

Past = Mapping[str, NDArray[np.float32]]
BLOCK_S = 5
BLOCKS = 120  # 8 GPUs and 8 ports take 35 kB


class Recent:
    """The sink that keeps them. One thread writes, any may look."""

    name = "recent"

    def __init__(self) -> None:
        self._lock = Lock()
        self._rings = {kind: _Ring(kind) for kind in RECENT}

    def write(
        self,
        observation: Observation,
        _findings: Sequence[Finding] = (),
        _incidents: Sequence[Incident] = (),
    ) -> None:
        """Take over the frames of an observation."""
        with self._lock:
            for frame in observation.frames:
                if frame.kind in self._rings:
                    self._rings[frame.kind].write(frame)

    def of(self, kind: str, device: str, mono_ns: int) -> Past:
        """By column the means of the blocks up to ``mono_ns``, (block,), the oldest first, NaN =
        nothing was read; empty for a stranger.
        """
        with self._lock:
            return self._rings[kind].of(device, mono_ns // (BLOCK_S * SECOND_NS))


class _Ring:
    """Sums and counts of one kind of device, (column, device, block), in a ring over blocks."""

    def __init__(self, kind: str) -> None:
        self._columns = RECENT[kind]
        self._rows = Rows()
        self._block = 0  # the newest, numbered by the monotonic clock
        shape = (len(self._columns), 0, BLOCKS)
        self._sums, self._counts = np.zeros(shape, np.float32), np.zeros(shape, np.uint16)

    def write(self, frame: Frame) -> None:
        rows = self._rows.place(frame.devices)
        if len(self._rows) > self._sums.shape[1]:
            more = ((0, 0), (0, len(self._rows) - self._sums.shape[1]), (0, 0))
            self._sums, self._counts = np.pad(self._sums, more), np.pad(self._counts, more)
        self._advance(frame.mono_ns // (BLOCK_S * SECOND_NS))
        for number, column in enumerate(self._columns):
            values = column.read(frame)
            seen = np.isfinite(values)
            self._sums[number, rows, self._block % BLOCKS] += np.where(seen, values, 0)
            self._counts[number, rows, self._block % BLOCKS] += seen

    def _advance(self, block: int) -> None:
        """Empty the blocks that begin; a reading that comes late counts for the newest."""
        for begun in range(max(self._block + 1, block - BLOCKS + 1), block + 1):
            self._sums[:, :, begun % BLOCKS] = 0
            self._counts[:, :, begun % BLOCKS] = 0
        self._block = max(self._block, block)

    def of(self, device: str, now: int) -> Past:
        row = next(
            (row for row, known in enumerate(self._rows.devices) if known.id == device), None
        )
        if row is None:
            return {}
        self._advance(now)
        order = np.arange(self._block - BLOCKS + 1, self._block + 1) % BLOCKS
        sums, counts = self._sums[:, row, order], self._counts[:, row, order]
        means = np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
        return dict(zip((column.name for column in self._columns), means, strict=True))
