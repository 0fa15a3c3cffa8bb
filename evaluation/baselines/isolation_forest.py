"""scikit-learn's IsolationForest over features of GPU-hours, as a detector.

Needs the extra `baselines`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluation.baselines.board import Aligned, Board
from evaluation.baselines.features import SPAN, NotInstalledError, features
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding
from pipeline.frame import Frame
from pipeline.observation import Observation

HOUR_NS = 3600 * SECOND_NS
TREES = 100
# GPU-hours to fit on: the forest's own sample size, and what keeps a fit below a second
MIN_ROWS, MAX_ROWS = 256, 4096


class IsolationForest:
    """Each hour: mean and spread of every feature per GPU; a forest fitted on the hours before
    scores the new ones; a ticket above ``limit``.
    """

    name = "isolation-forest"

    def __init__(self, limit: float = 0.65, seed: int = 1) -> None:
        try:
            from sklearn.ensemble import IsolationForest as Forest  # type: ignore[import-untyped, import-not-found, unused-ignore]  # noqa: PLC0415 - an extra
        except ModuleNotFoundError as error:
            raise NotInstalledError(self.name, "scikit-learn") from error
        self.limit = limit
        self._make: Any = lambda: Forest(n_estimators=TREES, random_state=seed)
        self._board = Board(self.name)
        self._aligned = Aligned()
        self._past: NDArray[np.float64] = np.zeros((0, 2 * len(SPAN)))
        self._hour = -1
        self._seen: list[NDArray[np.float64]] = []

    def update(self, observation: Observation) -> Iterable[Finding]:
        """A verdict at each full hour."""
        for frame in observation.frames:
            if frame.kind == "gpu":
                yield from self._frame(frame)

    def _frame(self, frame: Frame) -> Iterator[Finding]:
        if self._aligned.follow(frame) is not None:
            self._seen = []
        hour = frame.time_ns // HOUR_NS
        if hour != self._hour and self._seen:
            yield from self._judge(frame, _summary(np.stack(self._seen)))
            self._seen = []
        self._hour = hour
        self._seen.append(features(frame))

    def _judge(self, frame: Frame, x: NDArray[np.float64]) -> Iterator[Finding]:
        known: NDArray[np.bool_] = np.asarray(np.isfinite(x).all(axis=1))
        score = np.full(len(x), np.nan)
        if len(self._past) >= MIN_ROWS and known.any():
            score[known] = -self._make().fit(self._past).score_samples(x[known])
        bad = score > self.limit
        yield from self._board.judge(
            frame,
            "odd hour",
            bad,
            "ticket",
            fault="outlier",
            known=known,
            value=score,
            expected=self.limit,
        )
        self._past = np.concatenate([self._past, x[known & ~bad]])[-MAX_ROWS:]


def _summary(seen: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean and standard deviation over an hour, (device, 2 x feature); NaN where less than
    half of it was observed.
    """
    enough = np.isfinite(seen).mean(axis=0) >= 0.5
    count = np.maximum(np.isfinite(seen).sum(axis=0), 1)
    mean = np.nansum(seen, axis=0) / count
    spread = np.sqrt(np.nansum((seen - mean) ** 2, axis=0) / count)
    return np.concatenate(
        [np.where(enough, mean, np.nan), np.where(enough, spread, np.nan)], axis=1
    )
