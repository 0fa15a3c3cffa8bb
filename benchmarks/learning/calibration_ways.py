"""Other ways to say which tickets are hardly ever real, fitted to the same labels: what the shipped
fit (history/learning/calibrate.py) is compared with.

What may be lowered at all is decided by the rules of detectors/trust/calibration.py for each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from detectors.trust.calibration import Calibration
from history.learning.calibrate import (
    FOLDS,
    HIGHEST,
    MARGIN,
    MIN_OF_FAULT,
    MIN_SPREAD,
    calibrate,
)
from history.learning.examples import Example

NUMBERS = ("far", "findings", "jobs", "alike", "again", "burst")
MIN_OF_DETECTOR = 8  # labels of a detector before it has a limit of its own
Labels = Sequence[Example]
Probability = Callable[[Example], float]
Features = Callable[[Example], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Fitted:
    """What was learnt: the probability that an incident is real, and whether it is lowered."""

    probability: Probability
    lowers: Callable[[Example], bool]


def _never(labels: Labels) -> Fitted:
    """With faults that were never real."""
    return _of(calibrate(labels, never_real=True))


def _alone(labels: Labels) -> Fitted:
    return _of(calibrate(labels))


def _of(model: Calibration) -> Fitted:
    return Fitted(
        lambda one: model.probability(one.numbers),
        lambda one: model.lowers(one.opening, model.probability(one.numbers)),
    )


def _limited(fit: Callable[[Labels], Probability]) -> Callable[[Labels], Fitted]:
    """With the shipped limit: half of the lowest probability that a real one got from a model that
    had not seen it.
    """

    def fitted(labels: Labels) -> Fitted:
        _alone(labels)  # TooFewLabelsError
        real = np.array([one.real for one in labels])
        found = _unseen(labels, fit, FOLDS)
        rules = Calibration(
            0.0, {}, min(HIGHEST, MARGIN * float(found[real].min())), _faults(labels)
        )
        score = fit(labels)
        return Fitted(score, lambda one: rules.lowers(one.opening, score(one)))

    return fitted


def _numbers_only(labels: Labels) -> Probability:
    """No names: what holds of each detector alike."""
    return _linear(labels, lambda one: {name: one.numbers.get(name, 0.0) for name in NUMBERS})


def _rates(labels: Labels) -> Probability:
    """The site's own rate of each fault in place of its name, and how many labels it rests on."""
    count = Counter((one.opening.fault, one.real) for one in labels)

    def features(one: Example) -> Mapping[str, float]:
        real, false = (count[one.opening.fault, verdict] for verdict in (True, False))
        rate = float(np.log((real + 0.5) / (false + 0.5)))
        own = {name: one.numbers.get(name, 0.0) for name in NUMBERS}
        return {**own, "rate": rate, "labels": float(np.log1p(real + false))}

    return _linear(labels, features)


def _margins(labels: Labels) -> Probability:
    """How far over its limit beside the others of its detector."""
    found: dict[str, list[float]] = {}
    for one in labels:
        found.setdefault(one.opening.detector, []).append(one.numbers.get("far", 0.0))
    usual = {
        name: (float(np.mean(far)), max(float(np.std(far)), MIN_SPREAD))
        for name, far in found.items()
    }

    def features(one: Example) -> Mapping[str, float]:
        middle, spread = usual.get(one.opening.detector, (0.0, 1.0))
        z = (one.numbers.get("far", 0.0) - middle) / spread
        return {**one.numbers, "far": z, f"far={one.opening.detector}": z}

    return _linear(labels, features)


def _isotonic(labels: Labels) -> Probability:
    from sklearn.isotonic import IsotonicRegression  # type: ignore[import-untyped, import-not-found, unused-ignore]  # noqa: PLC0415 - an extra

    made = IsotonicRegression(out_of_bounds="clip")
    made.fit(_unseen(labels, _all, _folds(labels)), [one.real for one in labels])
    score = _all(labels)
    return lambda one: float(made.predict([score(one)])[0])


def _beta(labels: Labels) -> Probability:
    """Kull, Silva Filho and Flach (2017): logistic in ln p and -ln(1 - p)."""
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped, import-not-found, unused-ignore]  # noqa: PLC0415 - an extra

    def logs(p: NDArray[np.float64]) -> NDArray[np.float64]:
        inside = np.clip(p, 1e-6, 1 - 1e-6)
        return np.column_stack((np.log(inside), -np.log1p(-inside)))

    made = LogisticRegression()
    made.fit(logs(_unseen(labels, _all, _folds(labels))), [one.real for one in labels])
    score = _all(labels)
    return lambda one: float(made.predict_proba(logs(np.array([score(one)])))[0, 1])


def _by_detector(labels: Labels) -> Fitted:
    """No model: of each detector with enough labels, what is less than half as far over its limit
    as any real one.
    """
    _alone(labels)  # TooFewLabelsError
    rules = Calibration(0.0, {}, HIGHEST, _faults(labels))
    count = Counter((one.opening.detector, one.real) for one in labels)
    least: dict[str, float] = {}
    for one in labels:
        if one.real:
            name, far = one.opening.detector, one.numbers.get("far", 0.0)
            least[name] = min(least.get(name, np.inf), far)

    def share(one: Example) -> float:
        real, false = (count[one.opening.detector, verdict] for verdict in (True, False))
        return (real + 0.5) / (real + false + 1)

    def lowers(one: Example) -> bool:
        name = one.opening.detector
        enough = count[name, True] + count[name, False] >= MIN_OF_DETECTOR
        near = one.numbers.get("far", 0.0) < MARGIN * least.get(name, np.inf)
        return enough and near and rules.lowers(one.opening, 0.0)

    return Fitted(share, lowers)


def _all(labels: Labels) -> Probability:
    return _linear(labels, lambda one: one.numbers)


def _linear(labels: Labels, features: Features) -> Probability:
    """Logistic regression over features, each by its spread."""
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped, import-not-found, unused-ignore]  # noqa: PLC0415 - an extra

    rows = [features(one) for one in labels]
    names = sorted({name for row in rows for name in row})
    x = np.array([[row.get(name, 0.0) for name in names] for row in rows])
    spread = np.maximum(x.std(axis=0), MIN_SPREAD)
    made = LogisticRegression(max_iter=1000).fit(x / spread, [one.real for one in labels])
    weights = dict(zip(names, (made.coef_[0] / spread).tolist(), strict=True))
    begin = float(made.intercept_[0])

    def probability(one: Example) -> float:
        odds = begin + sum(weights.get(name, 0.0) * v for name, v in features(one).items())
        return float(1.0 / (1.0 + np.exp(-np.clip(odds, -700.0, 700.0))))

    return probability


def _unseen(
    labels: Labels, fit: Callable[[Labels], Probability], folds: int
) -> NDArray[np.float64]:
    """The probability of each by a model of the others."""
    from sklearn.model_selection import StratifiedKFold  # type: ignore[import-untyped, import-not-found, unused-ignore]  # noqa: PLC0415 - an extra

    real, found = np.array([one.real for one in labels]), np.zeros(len(labels))
    for train, test in StratifiedKFold(folds, shuffle=True, random_state=0).split(real, real):
        score = fit([labels[int(i)] for i in train])
        found[test] = [score(labels[int(i)]) for i in test]
    return found


def _folds(labels: Labels) -> int:
    real = sum(one.real for one in labels)
    return max(2, min(3, real, len(labels) - real))


def _faults(labels: Labels) -> dict[str, tuple[int, int]]:
    count = Counter((one.opening.fault, one.real) for one in labels)
    pairs = {fault: (count[fault, True], count[fault, False]) for fault, _ in sorted(count)}
    return {fault: pair for fault, pair in pairs.items() if sum(pair) >= MIN_OF_FAULT}


WAYS: Mapping[str, Callable[[Labels], Fitted]] = {
    "logistic, and faults never real": _never,
    "logistic (shipped)": _alone,
    "numbers without names": _limited(_numbers_only),
    "the site's rate of each fault": _limited(_rates),
    "margin within the detector": _limited(_margins),
    "isotonic": _limited(_isotonic),
    "beta": _limited(_beta),
    "limit by detector": _by_detector,
}
