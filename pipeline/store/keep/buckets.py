"""Samples into buckets: min, max, mean and last of gauges, increase and last of
counters, per device and bucket.

Column by column over whole devices: numpy over all rows of a column at once, never a
Python object per value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pipeline.catalog import Field, fields_of
from pipeline.store.files.layout import DAY_US
from pipeline.store.files.schema import BUCKETS_S, schema
from pipeline.store.keep.devicerows import DeviceRows
from pipeline.store.keep.increments import increments

if TYPE_CHECKING:
    from numpy.typing import NDArray


def roll(kind: str, day_us: int, rows: DeviceRows) -> dict[str, pa.Table]:
    """The roll-ups of these devices' rows of a day by table (``gpu_1m``, ``gpu_15m``), sorted
    by host, device and time.
    """
    buckets = {name: _Buckets(rows, day_us, seconds) for name, seconds in BUCKETS_S.items()}
    columns = {name: _arrays(f"{kind}_{name}", b.begin(rows)) for name, b in buckets.items()}
    for field in fields_of(kind):
        for name, made in _rolled(field, rows, buckets).items():
            columns[name] |= _arrays(
                f"{kind}_{name}", made
            )  # at once: hundreds of columns are not held twice
    return {f"{kind}_{name}": _table(f"{kind}_{name}", made) for name, made in columns.items()}


class _Buckets:
    """Which of the rows fall into which bucket of which device.

    Rows of the day before fall into none.

    A read just before midnight may bring a sample just after it: it counts into the day's last
    bucket, as its row lies in this day.
    """

    def __init__(self, rows: DeviceRows, day_us: int, seconds: int) -> None:
        size = seconds * 1_000_000
        number = np.clip((rows.time_us - day_us) // size, 0, DAY_US // size - 1)
        today = np.flatnonzero(rows.today)
        key = (rows.device * (DAY_US // size) + number)[today]
        order = np.argsort(key, kind="stable")  # the wall clock may have been set back
        self._rows, key = today[order], key[order]
        self._starts = np.flatnonzero(np.diff(key, prepend=-1))
        self._last = self._rows[np.append(self._starts[1:], len(key)) - 1]
        self.time_us = day_us + number[self._last] * size
        self.n = np.diff(np.append(self._starts, len(key)))

    def begin(self, rows: DeviceRows) -> dict[str, Any]:
        """The columns that every roll-up begins with."""
        device, boot = rows.device[self._last], rows.boot[self._last]
        return {
            "time": self.time_us,
            "host": [rows.identities[i][0] for i in device.tolist()],
            "device": [rows.identities[i][1] for i in device.tolist()],
            "boot_id": [rows.boots[i] for i in boot.tolist()],
            "mono_ns": rows.mono_ns[self._last],
            "seq": rows.seq[self._last],
            "n": self.n,
        }

    def gauge(self, values: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Statistics of a gauge per bucket, NaN where it was not observed."""
        values = values[self._rows]
        observed = ~np.isnan(values)
        with np.errstate(invalid="ignore"):
            mean = np.add.reduceat(np.where(observed, values, 0.0), self._starts) / np.add.reduceat(
                observed, self._starts, dtype=int
            )
        last = self._last_of(observed)
        return {
            "min": np.fmin.reduceat(values, self._starts),
            "max": np.fmax.reduceat(values, self._starts),
            "mean": mean,
            "last": np.where(last >= 0, values[last], np.nan),
        }

    def counter(
        self,
        values: NDArray[np.uint64],
        observed: NDArray[np.bool_],
        delta: NDArray[np.uint64],
        known: NDArray[np.bool_],
    ) -> dict[str, Any]:
        """Last value and sum of increments of a counter per bucket, masked where there are none."""
        last = self._last_of(observed[self._rows])
        total = np.add.reduceat(np.where(known, delta, 0)[self._rows], self._starts)
        return {
            "last": np.ma.masked_array(values[self._rows][last], last < 0),
            "increase": np.ma.masked_array(
                total, ~np.logical_or.reduceat(known[self._rows], self._starts)
            ),
        }

    def _last_of(self, observed: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Position of the last observed row of each bucket, -1 where there is none."""
        latest: NDArray[np.intp] = np.maximum.reduceat(
            np.where(observed, np.arange(len(observed)), -1), self._starts
        )
        return latest


def _rolled(
    field: Field, rows: DeviceRows, buckets: dict[str, _Buckets]
) -> dict[str, dict[str, Any]]:
    """Columns of one field by bucket; none where it was never observed."""
    if field.type == "gauge":
        gauge = rows.gauge(field.name)
        if gauge is None:
            return {}
        made: dict[str, dict[str, Any]] = {name: b.gauge(gauge) for name, b in buckets.items()}
    else:
        counter = rows.counter(field.name)
        if counter is None:
            return {}
        rise = increments(rows.series, field, *counter)
        made = {name: b.counter(*counter, *rise) for name, b in buckets.items()}
    return {
        name: {f"{field.name}_{what}": v for what, v in columns.items()}
        for name, columns in made.items()
    }


def _arrays(table: str, columns: dict[str, Any]) -> dict[str, pa.Array]:
    return {
        name: _array(values, schema(table).field(name).type) for name, values in columns.items()
    }


def _table(name: str, columns: dict[str, pa.Array]) -> pa.Table:
    n, wanted = len(columns["n"]), schema(name)
    return pa.table(
        [columns[c.name] if c.name in columns else pa.nulls(n, c.type) for c in wanted],
        schema=wanted,
    )


def _array(values: Any, kind: pa.DataType) -> pa.Array:
    """Masked and NaN values are null."""
    if isinstance(values, np.ma.MaskedArray):
        return pa.array(values.data, mask=np.ma.getmaskarray(values)).cast(kind)
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        missing = np.isnan(values)
        if pa.types.is_floating(kind):
            return pa.array(values, mask=missing)
        return pa.array(np.where(missing, 0.0, values).astype(np.int64), mask=missing)
    return (
        pa.array(values, kind.value_type).dictionary_encode()
        if pa.types.is_dictionary(kind)
        else pa.array(values).cast(kind)
    )
