"""What a calibration is worth: false tickets avoided, real ones lost, and the Brier score, on
worlds that no fit has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.learning.calibration_ways import WAYS, Fitted
from benchmarks.learning.worlds import Opened
from detectors.trust.openings import Opening
from evaluation.metrics.classes import class_of
from evaluation.metrics.intervals import share_interval
from history.learning.calibrate import TooFewLabelsError
from history.learning.examples import Example, apart, examples

LABELS = (60, 100)  # how many incidents are labelled; 60 is the goal's
DRAWS = 5  # fleets that label other incidents of the same worlds
RESAMPLES = 2_000
TICKET = "ticket"
Worlds = Mapping[str, Sequence[Opened]]
Known = Mapping[str, tuple[Sequence[Example], Sequence[Example]]]  # pool of labels, held-out world


def table(
    fitted_on: Worlds, held_out: Worlds, ways: Sequence[str] = tuple(WAYS)[:1], seed: int = 0
) -> list[dict[str, Any]]:
    """A row for each number of labels and way: means over draws of labels, intervals over held-out
    worlds, resampled whole.
    """
    pool = _pool(fitted_on)
    known = {name: (pool, _examples(world)) for name, world in held_out.items()}
    return _rows(known, ways, seed)


def of_the_others(
    worlds: Worlds, ways: Sequence[str] = tuple(WAYS)[:1], seed: int = 0
) -> list[dict[str, Any]]:
    """The same where labels are of the same author's worlds as what is held out: each world in
    turn, by labels of the others.
    """
    known = {
        name: (_pool({k: v for k, v in worlds.items() if k != name}), _examples(world))
        for name, world in worlds.items()
    }
    return _rows(known, ways, seed)


def _pool(worlds: Worlds) -> list[Example]:
    return [one for world in worlds.values() for one in apart(_examples(world))]


def _rows(known: Known, ways: Sequence[str], seed: int) -> list[dict[str, Any]]:
    most = min(len(pool) for pool, _ in known.values())
    return [
        {"way": way} | _row(number, WAYS[way], known, seed)
        for number in LABELS
        if number <= most or number == LABELS[0]
        for way in ways
    ]


def _examples(world: Sequence[Opened]) -> list[Example]:
    """Without tickets to the owner of a job about its own XIDs: they are no alarms
    (evaluation/metrics/false_alarms.py).
    """
    return list(
        examples(
            (one.opening, None if _of_program(one.opening) else one.real, one.device)
            for one in world
        )
    )


def _of_program(opening: Opening) -> bool:
    return class_of(opening.fault) == "xid" and opening.kind == "job"


def _row(
    number: int, fit: Callable[[Sequence[Example]], Fitted], known: Known, seed: int
) -> dict[str, Any]:
    """Where there are too few labels of one verdict, each ticket stays; of a pool that is smaller
    than the number of labels all are taken.
    """
    rng = np.random.default_rng(seed)
    tallies, briers, plain, refused = [], [], [], 0
    for _ in range(DRAWS):
        fitted: dict[int, tuple[Sequence[Example], Fitted | None]] = {}
        tally, with_model, without = [], [], []
        for pool, world in known.values():
            if id(pool) not in fitted:
                chosen = rng.choice(len(pool), min(number, len(pool)), replace=False)
                drawn = [pool[int(i)] for i in chosen]
                fitted[id(pool)] = drawn, _fitted(fit, drawn)
            labels, model = fitted[id(pool)]
            refused += model is None
            tally.append(_tally(model, world))
            share = _by_detector(labels, world)
            without += share
            with_model += [model.probability(one) for one in world] if model else share
        tallies.append(tally)
        every = [one for _, world in known.values() for one in world]
        briers.append(_brier(with_model, every))
        plain.append(_brier(without, every))
    mean = np.mean(np.array(tallies, dtype=float), axis=0)  # (world, figure)
    return {
        "labels": number,
        "draws": len(tallies),
        "refused": refused / len(tallies),
        "false_tickets": _sum(mean, 0),
        "false_avoided": _share(mean, 1, 0, rng),
        "real_tickets": _sum(mean, 2),
        "real_kept": _share(mean, 3, 2, rng),
        "real_kept_exact": list(share_interval(round(_sum(mean, 3)), round(_sum(mean, 2)))),
        "brier": {"with": fmean(briers), "without": fmean(plain)},
    }


def _fitted(fit: Callable[[Sequence[Example]], Fitted], labels: Sequence[Example]) -> Fitted | None:
    try:
        return fit(labels)
    except TooFewLabelsError:
        return None


def _tally(model: Fitted | None, world: Sequence[Example]) -> tuple[int, int, int, int]:
    """False tickets, those that are lowered, real tickets, those that stay."""
    tickets = [one for one in world if one.opening.severity == TICKET]
    low = [model is not None and model.lowers(one) for one in tickets]
    false = sum(not one.real for one in tickets)
    avoided = sum(is_low and not one.real for one, is_low in zip(tickets, low, strict=True))
    kept = sum(one.real and not is_low for one, is_low in zip(tickets, low, strict=True))
    return false, avoided, len(tickets) - false, kept


def _by_detector(labels: Sequence[Example], every: Sequence[Example]) -> list[float]:
    """What is used without a model: each detector's share of real ones, by the rule of Jeffreys."""
    found: dict[str, list[bool]] = {}
    for one in labels:
        found.setdefault(one.opening.detector, []).append(one.real)
    share = {name: (sum(real) + 0.5) / (len(real) + 1) for name, real in found.items()}
    overall = fmean(one.real for one in labels)
    return [share.get(one.opening.detector, overall) for one in every]


def _brier(probabilities: Sequence[float], every: Sequence[Example]) -> float:
    return fmean((p - one.real) ** 2 for p, one in zip(probabilities, every, strict=True))


def _sum(mean: NDArray[np.float64], column: int) -> float:
    return float(mean[:, column].sum())


def _share(
    mean: NDArray[np.float64], hits: int, of: int, rng: np.random.Generator
) -> dict[str, float | None]:
    """A share over all worlds with a 95 % interval of worlds drawn again."""
    total = mean[:, of].sum()
    if not total:
        return {"value": None, "low95": None, "high95": None}
    rows = rng.integers(len(mean), size=(RESAMPLES, len(mean)))
    sums = mean[rows].sum(axis=1)
    shares = sums[:, hits] / np.where(sums[:, of] > 0, sums[:, of], np.nan)
    low, high = np.nanpercentile(shares, [2.5, 97.5])
    value = float(mean[:, hits].sum() / total)
    return {"value": value, "low95": float(low), "high95": float(high)}
