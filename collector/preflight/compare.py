"""Results against the history of the same device, and against its peers.

No fixed floors: a floor in a wrong unit cannot fail, and one board is not another. A result is low
below median - max(3 %, 5 robust sigma) of at least MIN_VALUES others (our proposal).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from collector.preflight.model import Machine, Outcome, Severity
from collector.preflight.standard import MEASURES, Measured

MIN_VALUES = 3
MARGIN, SIGMAS = 0.03, 5.0
MAD_TO_SIGMA = 1.4826  # of a normal distribution
GRAVE = 0.8  # of the median: below it a job is not worth starting


def floor(values: Sequence[float]) -> tuple[float, float] | None:
    """Median and floor of values; None of too few.

    >>> floor([100.0, 101.0, 99.0]), floor([100.0])
    ((100.0, 92.587), None)
    """
    if len(values) < MIN_VALUES:
        return None
    middle = _median(values)
    sigma = MAD_TO_SIGMA * _median([abs(value - middle) for value in values])
    return middle, middle - max(MARGIN * middle, SIGMAS * sigma)


def low(
    machine: Machine, results: Sequence[Measured], earlier: Sequence[Measured]
) -> Iterator[Outcome]:
    """Results that fell. ``earlier`` are those of this store, of any host."""
    names = {row.device.id: row.name for row in machine.gpus}
    for one in results:
        alike = [e for e in earlier if e.measure == one.measure]
        own = [e.value for e in alike if e.device == one.device]
        peers = [*_latest(one, alike).values(), *_beside(one, results)]
        for who, values in (("its own history", own), ("its peers", peers)):
            found = floor(values)
            if found and one.value < found[1]:
                middle, _ = found
                why = (
                    f"{MEASURES[one.measure]} {_shown(one.value)} is {1 - one.value / middle:.0%} "
                    f"below {who} ({_shown(middle)}, {len(values)} results)"
                )
                severity: Severity = "page" if one.value < GRAVE * middle else "ticket"
                part = names.get(one.device, "node")
                yield Outcome(one.measure, severity, part, why, "run the level deep")
                break


def _latest(one: Measured, alike: Sequence[Measured]) -> Mapping[str, float]:
    """The last result of each other device of the model; ``alike`` is in the order of time."""
    return {e.device: e.value for e in alike if e.model == one.model and e.device != one.device}


def _beside(one: Measured, results: Sequence[Measured]) -> Iterator[float]:
    for other in results:
        if (other.measure, other.model) == (one.measure, one.model) and other.device != one.device:
            yield other.value


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def _shown(value: float) -> str:
    return f"{value / 1e12:.3g} T" if value >= 1e12 else f"{value / 1e9:.3g} G"
