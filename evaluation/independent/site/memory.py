"""Errors of GPU memory and the rows that replace it, as the driver counts them."""

from __future__ import annotations

import numpy as np

from evaluation.independent.site.draw import Values
from evaluation.independent.site.faults import Effect

BANKS = 640.0


class Memory:
    """Counters of all GPUs, each (GPU,)."""

    def __init__(self, source: np.random.Generator, size: int) -> None:
        bursty = source.random(size) < 0.02  # most GPUs have no correctable error in a month
        self._rate = np.where(bursty, source.uniform(1e-6, 3e-5, size), 0.0)  # per second
        self._corrected = np.zeros(size)
        self._lifetime = source.poisson(0.2, size).astype(float)
        self._uncorrectable = np.zeros(size)
        self._remapped = source.binomial(1, 0.03, size).astype(float)
        self._pending = np.zeros(size)
        self._failed = np.zeros(size)
        self._seen: set[Effect] = set()

    def age(self, source: np.random.Generator, seconds: float, active: list[Effect]) -> None:
        """So much later, with what has broken."""
        hits = source.random(len(self._rate)) < self._rate * seconds
        if hits.any():
            self._corrected[hits] += source.geometric(0.05, int(hits.sum()))
        for effect in active:
            if effect.kind in ("uncorrectable", "remap_failed") and effect not in self._seen:
                self._seen.add(effect)
                gpus = list(effect.of)
                self._uncorrectable[gpus] += 1
                if effect.kind == "uncorrectable":
                    self._remapped[gpus] += 1
                    self._pending[gpus] = 1
                else:
                    self._failed[gpus] = 1
        for effect in self._seen - set(active):  # it was reset, or replaced
            self._pending[list(effect.of)] = 0
            self._failed[list(effect.of)] = 0

    def columns(self) -> dict[str, Values]:
        """As they are stored."""
        return {
            "ecc_corrected_volatile": self._corrected.copy(),
            "ecc_corrected_volatile_dram": self._corrected.copy(),
            "ecc_corrected_aggregate": self._corrected + self._lifetime,
            "ecc_uncorrected_volatile": self._uncorrectable.copy(),
            "ecc_uncorrected_volatile_dram": self._uncorrectable.copy(),
            "ecc_uncorrected_aggregate": self._uncorrectable.copy(),
            "remapped_rows_correctable": np.zeros(len(self._rate)),
            "remapped_rows_uncorrectable": self._remapped.copy(),
            "row_remap_pending": self._pending.copy(),
            "row_remap_failed": self._failed.copy(),
            "row_remap_banks_max": BANKS - self._remapped,
            "row_remap_banks_high": self._remapped.copy(),
            "row_remap_banks_partial": np.zeros(len(self._rate)),
            "row_remap_banks_low": np.zeros(len(self._rate)),
            "row_remap_banks_none": np.zeros(len(self._rate)),
            "recovery_action": self._pending.copy(),
            "sram_threshold_exceeded": np.zeros(len(self._rate)),
        }
