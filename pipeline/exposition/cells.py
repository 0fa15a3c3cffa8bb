"""Cells: the values of one frame as texts, made again only where a value changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipeline.catalog import Field
from pipeline.exposition.numbers import float_texts, integer_text, whole_texts
from pipeline.frame import Frame, Schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

NO_CODE = float("nan")


@dataclass(frozen=True, slots=True)
class Column:
    """One field at one scale: ``native * times / per``, truncated where ``whole``; with ``code``, 1
    where the field equals it else 0.
    """

    field: Field
    times: int = 1
    per: int = 1
    whole: bool = False
    code: float = NO_CODE


class Cells:
    """Texts of columns over the devices of one frame layout; cell ``column * devices + device``.

    ``texts`` holds the text of every cell, ``present`` (cell,) whether it was observed, ``numbers``
    (cell,) float64 the value of a gauge's cell. An absent cell's text is stale.
    """

    def __init__(self, schema: Schema, columns: Sequence[Column], devices: int) -> None:
        self.columns = tuple(columns)
        self.devices = devices
        self.texts: list[bytes] = [b""] * (len(columns) * devices)
        self.present = np.zeros(len(columns) * devices, np.bool_)
        self.numbers = np.full(len(columns) * devices, np.nan)
        self._frame: Frame | None = None
        gauges = [i for i, c in enumerate(columns) if c.field.type == "gauge"]
        self._gauges = _Gauges(schema, [columns[i] for i in gauges], self._cells_of(gauges))
        counters = [i for i, c in enumerate(columns) if c.field.type == "counter"]
        self._counters = _Counters(
            schema, [columns[i] for i in counters], self._cells_of(counters), devices
        )

    def fill(self, frame: Frame) -> None:
        """Take over a frame of the same devices.

        The same frame again costs nothing: scrapes may be more frequent than readings.
        """
        if frame is self._frame:
            return
        self._frame = frame
        self._gauges.fill(frame, self)
        self._counters.fill(frame, self)

    def _cells_of(self, columns: Sequence[int]) -> NDArray[np.intp]:
        return (
            np.array(columns, np.intp)[:, None] * self.devices
            + np.arange(self.devices, dtype=np.intp)
        ).ravel()


class _Gauges:
    def __init__(self, schema: Schema, columns: Sequence[Column], cells: NDArray[np.intp]) -> None:
        self._rows = np.array([schema.gauge_row[c.field.name] for c in columns], np.intp)
        self._times = np.array([float(c.times) for c in columns])[:, None]
        self._per = np.array([float(c.per) for c in columns])[:, None]
        self._codes = np.array([c.code for c in columns])[:, None]
        self._coded = ~np.isnan(self._codes)
        self._whole = np.array([c.whole for c in columns], np.bool_)[:, None]
        self._cells = cells
        self._whole_cells = (
            np.repeat(self._whole.ravel(), len(cells) // len(columns))
            if len(columns)
            else np.zeros(0, np.bool_)
        )
        self._last = np.full(len(cells), np.nan)

    def fill(self, frame: Frame, into: Cells) -> None:
        if not len(self._cells):
            return
        native = frame.gauges[self._rows]
        scaled = native * self._times / self._per
        scaled = np.where(self._coded & ~np.isnan(native), native == self._codes, scaled)
        values = np.where(self._whole, np.trunc(scaled), scaled).ravel()
        into.present[self._cells] = ~np.isnan(values)
        into.numbers[self._cells] = values
        changed = (values != self._last) & ~np.isnan(values)
        self._last = np.where(np.isnan(values), self._last, values)
        for where, texts_of in (
            (changed & ~self._whole_cells, float_texts),
            (changed & self._whole_cells, _finite_wholes),
        ):
            picked = np.flatnonzero(where)
            for cell, text in zip(
                self._cells[picked].tolist(), texts_of(values[picked]), strict=True
            ):
                into.texts[cell] = text


class _Counters:
    def __init__(
        self, schema: Schema, columns: Sequence[Column], cells: NDArray[np.intp], devices: int
    ) -> None:
        self._rows = np.array([schema.counter_row[c.field.name] for c in columns], np.intp)
        self._columns = columns
        self._cells = cells
        self._devices = devices
        self._last = np.zeros(len(cells), np.uint64)
        self._shown = np.zeros(len(cells), np.bool_)

    def fill(self, frame: Frame, into: Cells) -> None:
        if not len(self._cells):
            return
        values = frame.counters[self._rows].ravel()
        observed = frame.observed[self._rows].ravel()
        into.present[self._cells] = observed
        changed = np.flatnonzero(observed & ((values != self._last) | ~self._shown))
        self._last[changed] = values[changed]
        self._shown[changed] = True
        for i, value in zip(changed.tolist(), values[changed].tolist(), strict=True):
            column = self._columns[i // self._devices]
            into.texts[self._cells[i]] = integer_text(
                value, column.times, column.per, whole=column.whole
            )


def _finite_wholes(values: NDArray[np.float64]) -> list[bytes]:
    """Whole numbers; an infinite one keeps its name, and is dropped where it may not be printed."""
    finite = np.isfinite(values)
    texts = whole_texts(np.where(finite, values, 0))
    for i in np.flatnonzero(~finite).tolist():
        texts[i] = b"+Inf" if values[i] > 0 else b"-Inf"
    return texts
