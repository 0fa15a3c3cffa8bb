"""Which row groups, files and days can hold rows that meet a condition at
all: what need not be read.

A condition is split at its ANDs. Each part is tried on the lowest and on the highest values: a
comparison of one column with a constant holds somewhere between them only if it holds at one end,
and everywhere if it holds at both; any other part decides only where all its columns are the same
at both.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow.parquet as pq

# Lowest and highest value of each column, (place,) each; None where it is not known.
Bounds = Mapping[str, tuple[Sequence[Any], Sequence[Any]]]
_COMPARISONS = ("Gt", "GtEq", "Lt", "LtEq")


@dataclass(frozen=True, slots=True)
class _Part:
    """One part of a condition; ``monotone`` where it compares one column with a constant."""

    condition: pl.Expr
    columns: tuple[str, ...]
    monotone: bool


class Chosen(NamedTuple):
    """Row groups that can hold rows that meet a condition, and those of them of which all do."""

    possible: list[int]
    certain: frozenset[int]


class Possible:
    """The parts of a condition that bounds can decide; ``columns`` are the types of all columns."""

    def __init__(self, condition: pl.Expr | None, columns: pl.Schema) -> None:
        self._columns = columns
        parts = (
            []
            if condition is None
            else list(_parts(json.loads(condition.meta.serialize(format="json"))))
        )
        self._parts = [part for part in parts if part.columns]
        self._decides = len(self._parts) == len(parts)

    def places(self, bounds: Bounds, number: int) -> Any:
        """Bool (place,): whether rows between the bounds of each place can meet the condition."""
        possible = np.ones(number, np.bool_)
        for part in self._parts:
            if number and all(name in bounds for name in part.columns):
                possible &= self._tried(part, bounds)[0]
        return possible

    def groups(self, about: pq.FileMetaData) -> Chosen:
        """Of a file, by the statistics in its footer."""
        names = {name for part in self._parts for name in part.columns}
        statistics = {
            name: [
                about.row_group(group).column(i).statistics for group in range(about.num_row_groups)
            ]
            for i, name in enumerate(about.schema.names)
            if name in names
        }
        bounds = {
            name: ([_low(s) for s in found], [_high(s) for s in found])
            for name, found in statistics.items()
        }
        holes = {name: np.array(list(map(_may_have_nulls, s))) for name, s in statistics.items()}
        possible = np.ones(about.num_row_groups, np.bool_)
        certain = np.full(about.num_row_groups, self._decides and names == statistics.keys())
        for part in self._parts:
            if about.num_row_groups and all(name in bounds for name in part.columns):
                some, every = self._tried(part, bounds)
                for name in part.columns:
                    some |= holes[name] & (not part.monotone)  # what it makes of a null is open
                    every &= ~holes[name]
                possible &= some
                certain &= every
        groups = np.flatnonzero(possible).tolist()
        return Chosen(groups, frozenset(np.flatnonzero(possible & certain).tolist()))

    def _tried(self, part: _Part, bounds: Bounds) -> tuple[Any, Any]:
        """Two bool (place,): whether a part can hold somewhere between the bounds, and whether it
        holds everywhere.
        """
        ends = pl.DataFrame(
            [pl.Series(n, [*bounds[n][0], *bounds[n][1]], self._columns[n]) for n in part.columns]
        )  # low ones, high ones
        low, high = (
            ends.select(part.condition.fill_null(value=False)).to_series().to_numpy().reshape(2, -1)
        )
        unknown = np.zeros(len(low), np.bool_)
        for name in part.columns:
            pairs = list(zip(*bounds[name], strict=True))
            unknown |= [one is None or other is None for one, other in pairs]
            if not part.monotone:
                unknown |= [one != other for one, other in pairs]
        return low | high | unknown, low & high & ~unknown


def _parts(tree: Any) -> Iterator[_Part]:
    """A condition's parts out of polars' own description of it."""
    binary = tree.get("BinaryExpr", {}) if isinstance(tree, dict) else {}
    op = binary.get("op")
    if op == "And":
        yield from _parts(binary["left"])
        yield from _parts(binary["right"])
        return
    sides = [next(iter(binary[side])) for side in ("left", "right")] if binary else []
    compares = sorted(sides) == ["Column", "Literal"]
    if (
        op == "Eq" and compares
    ):  # between the ends only if neither below the lowest nor above the highest
        for bound in ("GtEq", "LtEq"):
            yield from _parts({"BinaryExpr": {**binary, "op": bound}})
        return
    condition = pl.Expr.deserialize(json.dumps(tree).encode(), format="json")
    columns = tuple(dict.fromkeys(condition.meta.root_names()))
    yield _Part(condition, columns, monotone=compares and op in _COMPARISONS)


def _low(statistics: Any) -> Any:
    return _plain(statistics.min) if statistics is not None and statistics.has_min_max else None


def _high(statistics: Any) -> Any:
    return _plain(statistics.max) if statistics is not None and statistics.has_min_max else None


def _plain(value: Any) -> Any:
    """A bound as the table has it: fractions that a file keeps as decimals are floats. Those that
    it keeps as floats have none: bounds leave out NaN, for polars the greatest of all numbers.
    """
    if isinstance(value, float):
        return None
    return float(value) if isinstance(value, Decimal) else value


def _may_have_nulls(statistics: Any) -> bool:
    return statistics is None or not statistics.has_null_count or statistics.null_count > 0
