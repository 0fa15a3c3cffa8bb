"""ECC errors and row remapping of GPU memory: single events by the Poisson
law, spare rows per bank.

A row is remapped after an uncorrectable error; it takes effect at the next GPU reset (``pending``).
A bank has eight spare rows for uncorrectable errors; remapping fails when its bank has none left,
or after 512 remaps (NVIDIA GPU memory error management).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SPARE_ROWS = 8
MAX_REMAPS = 512
# Healthy memory: hours with a correctable error, per GPU and hour; errors of such
# an hour come in one burst.
BURSTS_PER_HOUR = 0.002


class Cells:
    """Error counters of all GPUs of a node; arrays have one element per GPU.

    ``volatile`` and ``aggregate`` hold counts by (place, corrected): place is ``dram`` or ``sram``.
    ``rate`` is what faults add: correctable errors per second.
    """

    def __init__(self, gpus: int, banks: int, rng: np.random.Generator) -> None:
        self._rng = rng
        self.gpus, self.banks = gpus, banks
        kinds = [(place, corrected) for place in ("dram", "sram") for corrected in (True, False)]
        self.volatile = {kind: np.zeros(gpus, np.uint64) for kind in kinds}
        self.aggregate = {kind: np.zeros(gpus, np.uint64) for kind in kinds}
        self.rate = np.zeros(gpus)
        self.remapped = {True: np.zeros(gpus, np.uint64), False: np.zeros(gpus, np.uint64)}
        self.pending = np.zeros(gpus, bool)
        self.failed = np.zeros(gpus, bool)
        self.sram_threshold = np.zeros(gpus, bool)
        self._used: list[dict[int, int]] = [{} for _ in range(gpus)]  # bank -> spare rows used

    def advance(self, dt: float) -> None:
        """Correctable errors of ``dt`` seconds: the healthy background and what faults add."""
        hits = self._rng.random(self.gpus) < BURSTS_PER_HOUR * dt / 3600
        if hits.any() or self.rate.any():
            burst = np.where(hits, self._rng.geometric(0.3, self.gpus), 0)
            storm = self._rng.poisson(self.rate * dt)
            self._count("dram", True, slice(None), (burst + storm).astype(np.int64))

    def error(self, gpu: int, *, corrected: bool, place: str = "dram", count: int = 1) -> None:
        """Errors of one GPU, now."""
        self._count(place, corrected, gpu, count)

    def remap(self, gpu: int, *, corrected: bool = False, bank: int | None = None) -> bool:
        """Record a row to be remapped; False when it failed: its bank has no spare row
        left, or there were too many.
        """
        where = int(self._rng.integers(self.banks)) if bank is None else bank
        used = self._used[gpu].get(where, 0)
        if used >= SPARE_ROWS or sum(self._used[gpu].values()) >= MAX_REMAPS:
            self.failed[gpu] = True
            return False
        self._used[gpu][where] = used + 1
        self.remapped[corrected][gpu] += np.uint64(1)
        self.pending[gpu] = True
        return True

    def histogram(self, gpu: int) -> tuple[int, int, int, int, int]:
        """Banks by spare rows left: max, high, partial, low, none."""
        used = list(self._used[gpu].values())
        high, low, none = (sum(rows in span for rows in used) for span in ((1, 2), (6, 7), (8,)))
        partial = len(used) - high - low - none
        return (self.banks - len(used), high, partial, low, none)

    def reset(self, gpu: int) -> None:
        """A GPU reset: volatile counts go, pending remaps take effect."""
        for counts in self.volatile.values():
            counts[gpu] = 0
        self.pending[gpu] = False

    def total(self, *, corrected: bool, lifetime: bool) -> NDArray[np.uint64]:
        """Errors of all places."""
        counts = self.aggregate if lifetime else self.volatile
        whole: NDArray[np.uint64] = counts["dram", corrected] + counts["sram", corrected]
        return whole

    def _count(
        self, place: str, corrected: bool, where: int | slice, count: int | NDArray[np.int64]
    ) -> None:
        for counts in (self.volatile, self.aggregate):
            counts[place, corrected][where] += np.asarray(count).astype(np.uint64)
