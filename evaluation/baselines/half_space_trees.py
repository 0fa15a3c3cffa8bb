"""river's HalfSpaceTrees, one model for all GPUs of a class, as a detector.

Needs the extra `baselines`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluation.baselines.board import Aligned, Board, moved
from evaluation.baselines.features import SPAN, NotInstalledError, features
from pipeline.finding import Finding
from pipeline.frame import Frame
from pipeline.observation import Observation

BLOCK = 6  # frames in a block: a minute at 10 s
TREES, HEIGHT, WINDOW = 10, 8, 250  # Tan, Ting and Liu (2011), IJCAI; river's recommended use
PERSIST, OF = 5, 6  # blocks


class HalfSpaceTrees:
    """Scores each GPU's block mean with one shared model, then teaches it; a ticket for a GPU that
    is odd in 5 of 6 blocks.
    """

    name = "half-space-trees"

    def __init__(self, limit: float = 0.75, seed: int = 1) -> None:
        try:
            from river import anomaly  # type: ignore[import-untyped, import-not-found, unused-ignore]  # noqa: PLC0415 - an extra
        except ModuleNotFoundError as error:
            raise NotInstalledError(self.name, "river") from error
        self.limit = limit
        self._model: Any = anomaly.HalfSpaceTrees(
            n_trees=TREES, height=HEIGHT, window_size=WINDOW, seed=seed
        )
        self._board = Board(self.name)
        self._aligned = Aligned()
        self._sum: NDArray[np.float64] = np.zeros((0, len(SPAN)))
        self._frames = 0
        self._odd: list[NDArray[np.float64]] = []

    def update(self, observation: Observation) -> Iterable[Finding]:
        """A block every six frames."""
        for frame in observation.frames:
            if frame.kind == "gpu":
                yield from self._frame(frame)

    def _frame(self, frame: Frame) -> Iterator[Finding]:
        move = self._aligned.follow(frame)
        if move is not None:  # devices came or went: begin the block again
            self._sum, self._frames = np.zeros((len(frame.devices), len(SPAN))), 0
            self._odd = [moved(odd, move) for odd in self._odd]
        self._sum = self._sum + features(frame)
        self._frames += 1
        if self._frames < BLOCK:
            return
        x, self._sum, self._frames = self._sum / self._frames, np.zeros_like(self._sum), 0
        score = np.array([self._score(row) for row in x])
        self._odd = [*self._odd[1 - OF :], np.where(score > self.limit, 1.0, 0.0)]
        known = np.isfinite(score)
        bad = np.sum(self._odd, axis=0) >= PERSIST
        yield from self._board.judge(
            frame,
            "odd",
            bad,
            "ticket",
            fault="outlier",
            known=known,
            value=score,
            expected=self.limit,
        )

    def _score(self, row: NDArray[np.float64]) -> float:
        if not np.isfinite(row).any():
            return np.nan
        named = {
            name: float(value) for name, value in zip(SPAN, row, strict=True) if np.isfinite(value)
        }
        score = float(self._model.score_one(named))
        self._model.learn_one(named)
        return score
