"""P2 quantiles: one quantile per device in five markers, no samples kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MARKERS = 5


class P2:
    """The ``p`` quantile of each device's stream. Jain and Chlamtac (1985), Comm. ACM 28(10).

    ``q`` (5, device) are the heights of the markers and ``n`` (5, device) their positions, in the paper's words; ``count`` (device,).

    >>> p2 = P2(0.5, devices=1)
    >>> for x in (0.02, 0.15, 0.74, 3.39, 0.83, 22.37, 10.15, 15.43, 38.62, 15.92, 34.60, 10.28, 1.47, 0.40, 0.05, 11.39, 0.27, 0.42, 0.09, 11.37):
    ...     p2.update(np.array([x]))
    >>> p2.value().round(2).tolist()  # table I of the paper
    [4.44]
    """

    def __init__(self, p: float, devices: int) -> None:
        if not 0 < p < 1:
            raise ValueError(f"wanted 0 < p < 1, got {p}")
        self.p = p
        self.q = np.full((MARKERS, devices), np.inf)
        self.n = np.repeat(np.arange(1.0, MARKERS + 1)[:, None], devices, axis=1)
        self.count = np.zeros(devices, np.int64)
        self._share = np.array([0, p / 2, p, (1 + p) / 2, 1])[:, None]

    def update(self, x: NDArray[np.float64]) -> None:
        """Learn one sample per device, (device,); NaN is not learnt."""
        seen = np.isfinite(x)
        starting, running = seen & (self.count < MARKERS), seen & (self.count >= MARKERS)
        if starting.any():
            self._start(np.flatnonzero(starting), x)
        if running.any():
            self._run(np.flatnonzero(running), x)
        self.count += seen

    def value(self) -> NDArray[np.float64]:
        """The quantile per device, (device,): of the sorted samples while there are fewer than five, NaN while there is none."""
        few = np.clip(np.ceil(self.p * self.count).astype(np.int64) - 1, 0, MARKERS - 1)
        row = np.where(self.count >= MARKERS, 2, few)
        return np.where(self.count > 0, self.q[row, np.arange(len(row))], np.nan)

    def _start(self, at: NDArray[np.intp], x: NDArray[np.float64]) -> None:
        self.q[self.count[at], at] = x[at]
        self.q[:, at] = np.sort(self.q[:, at], axis=0)

    def _run(self, at: NDArray[np.intp], x: NDArray[np.float64]) -> None:
        q, n, x = self.q[:, at], self.n[:, at], x[at]
        q[0], q[4] = np.minimum(q[0], x), np.maximum(q[4], x)
        n[1:] += x < q[1:]
        n[4] = self.count[at] + 1.0
        wanted = 1 + self._share * self.count[at]
        for i in (1, 2, 3):
            gap = wanted[i] - n[i]
            move = np.where((gap >= 1) & (n[i + 1] - n[i] > 1), 1.0, np.where((gap <= -1) & (n[i - 1] - n[i] < -1), -1.0, 0.0))
            q[i], n[i] = self._height(q, n, i, move), n[i] + move
        self.q[:, at], self.n[:, at] = q, n

    @staticmethod
    def _height(q: NDArray[np.float64], n: NDArray[np.float64], i: int, d: NDArray[np.float64]) -> NDArray[np.float64]:
        """Height of marker i moved by d: the parabola through its neighbours, a line where that would leave them."""
        with np.errstate(divide="ignore", invalid="ignore"):
            above, below = (q[i + 1] - q[i]) / (n[i + 1] - n[i]), (q[i] - q[i - 1]) / (n[i] - n[i - 1])
            curve = q[i] + d / (n[i + 1] - n[i - 1]) * ((n[i] - n[i - 1] + d) * above + (n[i + 1] - n[i] - d) * below)
        line = q[i] + d * np.where(d > 0, above, below)
        inside = (q[i - 1] < curve) & (curve < q[i + 1])
        height: NDArray[np.float64] = np.where(d == 0, q[i], np.where(inside, curve, line))
        return height
