"""Fits a calibration (detectors/trust/calibration.py) to labelled incidents.

Plain logistic regression with scikit-learn: with 60 labels isotonic regression and boosting are
worse (measured: Brier .187 and .208 against .180 on synthetic labels).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detectors.trust.calibration import Calibration
from history.learning.examples import Example
from history.learning.extra import NotInstalledError

# Labels of each verdict: with 8, models of 20 labels lost one real ticket in ten (measured).
MIN_EACH = 15
# Labels of a fault, all of them false, after which none of its tickets is shown: with 95 %
# confidence fewer than one in five are real (1 - 0.05 ** (1 / 14) = .193, Clopper and Pearson).
NEVER_REAL = 14
MIN_OF_FAULT = 4  # labels of a fault, or with a number, before it counts for anything
# A number that hardly varied among the labels must not decide where it does: its weight is that of
# one with this spread (counts are logarithms; words are 0 or 1, with at most .5).
MIN_SPREAD = 0.3
FOLDS = 5
STRENGTH = 1.0  # scikit-learn's C: its default
# Of the real ones, those that the limit may lose: the limit is half of the lowest probability that
# a real one was given by a model that had not seen it.
MARGIN = 0.5
HIGHEST = 0.5  # no incident that is rather real than not is lowered


class TooFewLabelsError(ValueError):
    """There is nothing to learn from yet: the message says what is missing."""


def calibrate(found: Sequence[Example], *, never_real: bool = False) -> Calibration:
    """The model, and the limit below which no real one lay; with ``never_real`` also the faults
    that were never real, and only those where there are too few labels of a verdict for a model.
    TooFewLabelsError.
    """
    real, faults = sum(one.real for one in found), _faults(found)
    alone = (fault for fault, (r, f) in faults.items() if not r and f >= NEVER_REAL)
    never = tuple(alone) if never_real else ()
    if never and min(real, len(found) - real) < MIN_EACH:
        overall = log((real + 0.5) / (len(found) - real + 0.5))
        return Calibration(round(overall, 6), {}, 0.0, faults, never)
    for count, word in ((real, "real"), (len(found) - real, "false")):
        if count < MIN_EACH:
            raise TooFewLabelsError(
                f"{count} of {len(found)} labelled incidents are {word}; "
                f"{MIN_EACH} are needed of each verdict"
            )
    having = Counter(name for one in found for name, value in one.numbers.items() if value)
    names = sorted(name for name, often in having.items() if often >= MIN_OF_FAULT)
    x = np.array([[one.numbers.get(name, 0.0) for name in names] for one in found])
    y = np.array([one.real for one in found])
    spread = np.maximum(x.std(axis=0), MIN_SPREAD)
    made = _fit(x / spread, y)
    weights = dict(zip(names, (made.coef_[0] / spread).tolist(), strict=True))
    out_of_fold = _out_of_fold(x / spread, y)
    least = min(HIGHEST, MARGIN * float(out_of_fold[y].min()))
    return Calibration(
        round(float(made.intercept_[0]), 6),
        {name: round(weight, 6) for name, weight in weights.items() if abs(weight) >= 5e-7},
        round(least, 6),
        faults,
        never,
    )


def _faults(found: Sequence[Example]) -> dict[str, tuple[int, int]]:
    count = Counter((one.opening.fault, one.real) for one in found)
    pairs = {fault: (count[fault, True], count[fault, False]) for fault, _ in sorted(count)}
    return {fault: pair for fault, pair in pairs.items() if sum(pair) >= MIN_OF_FAULT}


def _out_of_fold(x: NDArray[np.float64], y: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The probability of each by a model of the others, in folds with both verdicts."""
    from sklearn.model_selection import (  # type: ignore[import-untyped, import-not-found, unused-ignore]  # noqa: PLC0415 - an extra
        StratifiedKFold,
    )

    found = np.zeros(len(y))
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(x, y):
        found[test] = _fit(x[train], y[train]).predict_proba(x[test])[:, 1]
    return found


def _fit(x: NDArray[np.float64], y: NDArray[np.bool_]) -> Any:
    try:
        from sklearn.linear_model import (  # type: ignore[import-untyped, import-not-found, unused-ignore]  # noqa: PLC0415 - an extra
            LogisticRegression,
        )
    except ModuleNotFoundError as error:
        raise NotInstalledError("scikit-learn") from error
    return LogisticRegression(C=STRENGTH, max_iter=1000).fit(x, y)
