"""The table of ranges that wide worlds are drawn from (ranges.toml), and what is drawn from it."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path

import numpy as np

from simulator.fleet.scenario import Parameter, Scenario, Split
from simulator.fleet.settings import Settings

FILE = Path(__file__).with_name("ranges.toml")
BEYOND_SHARE = 3  # one row in so many is drawn from outside of dev's range, at least
Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Range:
    """A row: the range of dev, and those of test outside of it.

    ``even``: uniform, else uniform in the logarithm; ``whole`` numbers.
    """

    dev: Span
    beyond: tuple[Span, ...]
    even: bool = False
    whole: bool = False

    def within(self, value: float) -> bool:
        """Whether dev draws such a value."""
        return self.dev[0] <= value <= self.dev[1]

    def draw(self, rng: np.random.Generator, spans: tuple[Span, ...]) -> float:
        """A value of one of these spans, each in proportion to its length."""
        lengths = np.array([self._length(span) for span in spans])
        chosen = spans[int(rng.choice(len(spans), p=lengths / lengths.sum()))]
        low, high = chosen
        if self.whole:
            return float(rng.integers(int(low), int(high) + 1))
        if self.even or low <= 0:
            return float(rng.uniform(low, high))
        return math.exp(rng.uniform(math.log(low), math.log(high)))

    def _length(self, span: Span) -> float:
        low, high = span
        if self.whole:
            return high - low + 1
        return high - low if self.even or low <= 0 else math.log(high / low)


@cache
def ranges(file: Path = FILE) -> Mapping[str, Range]:
    """All rows by name. ValueError names the row that is wrong."""
    rows = {}
    for name, row in tomllib.loads(file.read_text(encoding="utf-8")).items():
        dev, beyond = tuple(row["dev"]), tuple(tuple(span) for span in row["beyond"])
        made = Range(dev, beyond, bool(row.get("even")), bool(row.get("whole")))
        for low, high in (dev, *beyond):
            if not low <= high:
                raise ValueError(f"{file.name}: {name}: {[low, high]} must be [low, high]")
        if any(low < dev[1] and dev[0] < high for low, high in beyond):
            raise ValueError(f"{file.name}: {name}: beyond overlaps dev")
        rows[name] = made
    return rows


def draw(
    rng: np.random.Generator, split: Split, rows: Mapping[str, Range] | None = None
) -> dict[str, float]:
    """A value of each row for one run of a split."""
    rows = ranges() if rows is None else rows
    names = list(rows)
    outside: set[str] = set()
    if split == "test":
        number = math.ceil(len(names) / BEYOND_SHARE)
        outside = {names[row] for row in rng.choice(len(names), number, replace=False)}
    values = {}
    for name, row in rows.items():
        spans = (row.dev,) if split == "dev" else (row.dev, *row.beyond)
        values[name] = row.draw(rng, row.beyond if name in outside else spans)
    return values


def widened(scenario: Scenario, values: Mapping[str, float]) -> Scenario:
    """The scenario in a world of these values: settings of the same name, and parameters that are
    the same for the whole run.
    """
    settings = {field.name: field.type for field in fields(Settings)}
    own = {name: value for name, value in values.items() if name in settings}
    own["stage_spread"] = 1 - 1 / values["stage_ratio"]
    own["init_low_s"], own["init_high_s"] = values["init_s"] / 2, values["init_s"] * 1.5
    own["loss"] = values["missed_share"] / 2  # the other half is missed in runs
    fixed = {name: Parameter(x, (x, x), (x, x)) for name, x in values.items()}
    parameters = {**fixed, **scenario.parameters}
    return replace(scenario, world=replace(scenario.world, **own), parameters=parameters)  # type: ignore[arg-type]
