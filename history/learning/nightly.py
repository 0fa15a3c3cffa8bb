"""The nightly list: GPUs worth a look, most first, with what is odd about each.

Several ways to rank the same numbers (gpu_days.py); which of them is used is
what won on held-out fleets (docs/scores.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from history.learning.extra import NotInstalledError
from history.learning.gpu_days import NUMBERS, Floats

LENGTH = 10
WINNER = "distance"  # of the ways, on held-out fleets (docs/scores.md)
NODE_SHARE = 0.5
WHY = 3  # numbers named of each GPU
TOP = 3  # of the numbers of a day that are summed
HALF_LIFE_DAYS = 7.0  # of what was odd before: a lemon shows one thing after the other
WORTH = 2.5  # spreads that chance hardly reaches: what is below counts for nothing
CAP = 12.0  # of a number's distance, in spreads: one number alone decides no order of the others
TREES, NEIGHBOURS, SEED = 200, 20, 0
MIN_ROWS = 32  # GPU-days of a model before anything is fitted to them
# The least spread that each number is measured against, by what readings resolve: 0.2 % of a clock,
# 0.5 % of power, half a kelvin, ln 2 of counts, a thousandth of a day.
MIN_SPREAD = np.array([
    {"clock": 0.002, "clock_change": 0.002, "power": 0.005, "power_change": 0.005,
     "clock_hour": 0.004, "power_hour": 0.01, "memory_heat_hour": 1.0,
     "heat": 0.5, "heat_change": 0.5, "memory_heat": 0.5, "memory_heat_change": 0.5,
     "limit": 0.005, "corrected": 0.7, "uncorrected": 0.35, "replays": 0.7,
     "hot_slowed": 0.001, "braked": 0.001, "unread": 0.01}[name]
    for name in NUMBERS
])  # fmt: skip
Way = Callable[[Floats, NDArray[np.intp]], Floats]


@dataclass(frozen=True, slots=True)
class Listed:
    """A GPU of the list: its row, score, and the numbers that are oddest: name, value, distance
    from the fleet's median in spreads, and how many days ago.
    """

    row: int
    score: float
    why: tuple[tuple[str, float, float, int], ...]


def nightly(
    numbers: Floats, models: NDArray[np.intp], nodes: NDArray[np.intp], way: str = WINNER
) -> list[Listed]:
    """The list after the last day of ``numbers`` (day, GPU, NUMBERS); ``models`` and ``nodes``:
    code of each GPU's. GPUs of which nothing is odd are in no list.
    """
    scores = scored(numbers, models, nodes, way)
    z = distances(numbers, models)
    order = [int(i) for i in np.argsort(-scores, kind="stable") if scores[i] > 0]
    return [Listed(i, float(scores[i]), _why(numbers[:, i], z[:, i])) for i in order[:LENGTH]]


def scored(numbers: Floats, models: NDArray[np.intp], nodes: NDArray[np.intp], way: str) -> Floats:
    """A score for each GPU after the last day, with what was before; (GPU,), 0 where nothing is
    known. Where two GPUs of a node are odd, all of it are suspect: half of the second's score.
    """
    keep = 0.5 ** (1 / HALF_LIFE_DAYS)
    carried = np.zeros(numbers.shape[1])
    for own in WAYS[way](numbers, models):
        carried = keep * carried + np.nan_to_num(own)
    made = carried.copy()
    for code in range(int(nodes.max(initial=-1)) + 1):
        own = carried[nodes == code]
        if len(own) > 1:
            made[nodes == code] += NODE_SHARE * np.sort(own)[-2]
    return made


def distances(numbers: Floats, models: NDArray[np.intp]) -> Floats:
    """How far each number is from its model's median, in spreads (median absolute deviation x
    1.4826, never below what readings resolve); only worse is odd, so never negative, at most CAP.
    0 where it is not known.
    """
    made = np.zeros(numbers.shape)
    for code in range(int(models.max(initial=-1)) + 1):
        own = numbers[:, models == code]
        with np.errstate(invalid="ignore"):
            flat = own.reshape(-1, own.shape[2])
            known = np.isfinite(flat).any(axis=0)
            middle, spread = np.zeros(flat.shape[1]), np.ones(flat.shape[1])
            middle[known] = np.nanmedian(flat[:, known], axis=0)
            deviation = np.abs(flat - middle)
            spread[known] = 1.4826 * np.nanmedian(deviation[:, known], axis=0)
        z = (own - middle) / np.maximum(spread, MIN_SPREAD)
        made[:, models == code] = np.clip(np.nan_to_num(z), 0.0, CAP)
    return made


def _distance(numbers: Floats, models: NDArray[np.intp]) -> Floats:
    """Sum of squares of the oddest numbers of a day, above what is odd by chance (WORTH)."""
    z = np.maximum(distances(numbers, models) - WORTH, 0.0)
    made: Floats = (np.sort(z, axis=2)[:, :, -TOP:] ** 2).sum(axis=2)
    return made


def _forest(numbers: Floats, models: NDArray[np.intp]) -> Floats:
    """scikit-learn's isolation forest over all days until then, of each model apart."""
    try:
        from sklearn.ensemble import (  # type: ignore[import-untyped, import-not-found, unused-ignore]  # noqa: PLC0415 - an extra
            IsolationForest,
        )
    except ModuleNotFoundError as error:
        raise NotInstalledError("scikit-learn") from error

    def score(rows: Floats) -> Floats:
        made = IsolationForest(n_estimators=TREES, random_state=SEED).fit(rows)
        found: Floats = -made.score_samples(rows) - 0.5
        return found

    return _each_model(numbers, models, score)


def _neighbours(numbers: Floats, models: NDArray[np.intp]) -> Floats:
    """scikit-learn's local outlier factor, likewise."""
    try:
        from sklearn.neighbors import (  # type: ignore[import-untyped, import-not-found, unused-ignore]  # noqa: PLC0415 - an extra
            LocalOutlierFactor,
        )
    except ModuleNotFoundError as error:
        raise NotInstalledError("scikit-learn") from error

    def score(rows: Floats) -> Floats:
        made: Any = LocalOutlierFactor(n_neighbors=min(NEIGHBOURS, len(rows) - 1)).fit(rows)
        found: Floats = -made.negative_outlier_factor_ - 1.0
        return found

    return _each_model(numbers, models, score)


def _each_model(
    numbers: Floats, models: NDArray[np.intp], score: Callable[[Floats], Floats]
) -> Floats:
    z, made = distances(numbers, models), np.zeros(numbers.shape[:2])
    for code in range(int(models.max(initial=-1)) + 1):
        own = z[:, models == code]
        rows = own.reshape(-1, own.shape[2])
        if len(rows) >= MIN_ROWS:
            found = np.maximum(score(rows), 0.0).reshape(own.shape[:2])
            made[:, models == code] = found
    return made


def _hottest(numbers: Floats, models: NDArray[np.intp]) -> Floats:  # noqa: ARG001 - as the others
    """What is looked at without a list: how much warmer than its node a GPU is."""
    made: Floats = np.maximum(np.nan_to_num(numbers[:, :, list(NUMBERS).index("heat")]), 0.0)
    return made


WAYS: Mapping[str, Way] = {
    "hottest": _hottest,
    "distance": _distance,
    "isolation forest": _forest,
    "local outlier factor": _neighbours,
}


def _why(values: Floats, z: Floats) -> tuple[tuple[str, float, float, int], ...]:
    """The oddest numbers of a GPU, (day, NUMBERS), each on the day that counts most today."""
    ago = np.arange(len(z))[::-1]
    weighted = z * 0.5 ** (ago / HALF_LIFE_DAYS)[:, None]
    day, names = weighted.argmax(axis=0), list(NUMBERS)
    best = weighted.max(axis=0)
    order = [int(i) for i in np.argsort(-best, kind="stable")[:WHY] if best[i] > WORTH]
    return tuple(
        (names[i], float(values[day[i], i]), float(z[day[i], i]), int(ago[day[i]])) for i in order
    )
