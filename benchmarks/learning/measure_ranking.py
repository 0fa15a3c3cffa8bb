"""Whether a ranking that is learnt from labelled incidents names the right device, and the right
action, more often than the rules do (detectors/incidents).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.learning.competing import Choice, Decision
from evaluation.metrics.intervals import share_interval

MIN_HAVING = 4  # choices with a number, before it counts
RESAMPLES = 2_000
Worlds = Mapping[str, Sequence[Decision]]
Score = Callable[[Sequence[Choice]], NDArray[np.float64]]


def table(fitted_on: Worlds, held_out: Worlds) -> list[dict[str, Any]]:
    """A row for each group of held-out worlds, kind of decision and way of ranking; ``held_out``
    by group and world, as ``test/F45``.
    """
    made = []
    for of in ("device", "action"):
        seen = [one for world in fitted_on.values() for one in world if one.of == of]
        groups = sorted({name.partition("/")[0] for name in held_out})
        for way, fit in WAYS.items():
            score = fit(seen)
            for group in groups:
                asked = [
                    one
                    for name, world in held_out.items()
                    if name.startswith(f"{group}/")
                    for one in world
                    if one.of == of and any(choice.right for choice in one.choices)
                ]
                head = {"of": of, "worlds": group, "way": way, "fitted_on": len(seen)}
                made.append(head | _row(asked, score))
    return made


def _row(asked: Sequence[Decision], score: Score) -> dict[str, Any]:
    hits = np.array([_best(one, score).right for one in asked], dtype=bool)
    ruled = np.array([any(c.ruled and c.right for c in one.choices) for one in asked], dtype=bool)
    low, high = share_interval(int(hits.sum()), len(hits)) if len(hits) else (0.0, 1.0)
    gain = _gain(hits, ruled)
    return {
        "hits": int(hits.sum()),
        "asked": len(asked),
        "low95": low,
        "high95": high,
        "gain": None if gain is None else list(gain),
    }


def _best(one: Decision, score: Score) -> Choice:
    return one.choices[int(np.argmax(score(one.choices)))]


def _gain(hits: NDArray[np.bool_], ruled: NDArray[np.bool_]) -> tuple[float, float, float] | None:
    """Share more than the rules, with a 95 % interval of incidents drawn again."""
    if not len(hits):
        return None
    more = hits.astype(float) - ruled
    drawn = np.random.default_rng(0).integers(len(more), size=(RESAMPLES, len(more)))
    low, high = np.percentile(more[drawn].mean(axis=1), [2.5, 97.5])
    return float(more.mean()), float(low), float(high)


def _rules(_: Sequence[Decision]) -> Score:
    return lambda choices: np.array([float(one.ruled) for one in choices])


def _pairs(*, ruled: bool) -> Callable[[Sequence[Decision]], Score]:
    """Logistic regression on differences between a right and a wrong choice of one incident."""

    def fit(seen: Sequence[Decision]) -> Score:
        from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped, import-not-found, unused-ignore]  # noqa: PLC0415 - an extra

        names = _names(seen, ruled=ruled)
        rows = []
        for one in seen:
            x = _matrix(one.choices, names)
            right = np.array([choice.right for choice in one.choices])
            rows += [x[i] - x[j] for i in np.flatnonzero(right) for j in np.flatnonzero(~right)]
        if not rows:
            return _rules(seen)
        pairs = np.array(rows)
        spread = np.maximum(pairs.std(axis=0), 0.3)
        both = np.concatenate((pairs, -pairs)) / spread
        model = LogisticRegression(fit_intercept=False, max_iter=1000)
        model.fit(both, np.repeat([1, 0], len(pairs)))
        weights = model.coef_[0] / spread
        return lambda choices: np.asarray(_matrix(choices, names) @ weights)

    return fit


def _boosted(seen: Sequence[Decision]) -> Score:
    """Gradient boosting: the probability of each choice by itself."""
    from sklearn.ensemble import HistGradientBoostingClassifier  # type: ignore[import-untyped, import-not-found, unused-ignore]  # noqa: PLC0415 - an extra

    choices = [choice for one in seen for choice in one.choices]
    if len({choice.right for choice in choices}) < 2:
        return _rules(seen)
    names = _names(seen, ruled=False)
    model = HistGradientBoostingClassifier(min_samples_leaf=5, random_state=0)
    model.fit(_matrix(choices, names), [choice.right for choice in choices])
    return lambda asked: np.asarray(model.predict_proba(_matrix(asked, names))[:, 1])


def _names(seen: Sequence[Decision], *, ruled: bool) -> list[str]:
    having: dict[str, int] = {}
    for one in seen:
        for choice in one.choices:
            for name, value in choice.numbers.items():
                having[name] = having.get(name, 0) + bool(value)
    names = sorted(name for name, often in having.items() if often >= MIN_HAVING)
    return [*names, *(["ruled"] if ruled else [])]


def _matrix(choices: Sequence[Choice], names: Sequence[str]) -> NDArray[np.float64]:
    rows = [{**one.numbers, "ruled": float(one.ruled)} for one in choices]
    return np.array([[row.get(name, 0.0) for name in names] for row in rows])


WAYS: Mapping[str, Callable[[Sequence[Decision]], Score]] = {
    "rules": _rules,
    "logistic, pairs": _pairs(ruled=False),
    "logistic, pairs, with the rules' choice": _pairs(ruled=True),
    "boosting": _boosted,
}
