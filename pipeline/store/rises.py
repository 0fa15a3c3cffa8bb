"""How much counters rose: the increments of all samples in a window by the rules of pipeline/rates.py, resets and saturation included.

Most counters of most devices stand still. The statistics in a file's footer say so: a counter whose lowest value is its highest did not
rise. Only the counters and devices that moved are decoded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from pipeline.catalog import field as field_of
from pipeline.store.epochs import Epochs
from pipeline.store.increments import Series, increments, period_of
from pipeline.store.query import Store, Window

Identity = tuple[str, str]  # host and device
WHO = ("host", "device")
ANYTHING = 2**64 - 1  # the highest value of any counter
LAST = "\U0010ffff"  # sorts after every name


class _Span(NamedTuple):
    """Samples of a counter between two values, of devices between two identities (files are sorted by them)."""

    first: Identity
    last: Identity
    low: int
    high: int
    samples: int


@dataclass(slots=True)
class _Seen:
    """What footers say of a window."""

    own: dict[tuple[str, Identity], list[_Span]] = field(default_factory=lambda: defaultdict(list))  # of one device
    shared: dict[str, list[_Span]] = field(default_factory=lambda: defaultdict(list))  # of several
    devices: set[Identity] = field(default_factory=set)
    count: bool = False  # whether there may be more devices, or fewer, than footers tell

    def add(self, name: str, span: _Span) -> None:
        """Samples of a counter."""
        (self.own[name, span.first] if span.first == span.last else self.shared[name]).append(span)

    def of(self, name: str, who: Identity) -> list[_Span]:
        """What may hold samples of a counter of a device."""
        return [*self.own.get((name, who), ()), *(s for s in self.shared.get(name, ()) if s.first <= who <= s.last)]


def rises(store: Store, kind: str, names: Sequence[str], window: Window) -> pl.DataFrame:
    """One row per device seen in the window, columns host, device and one per counter: uint64, null where none was observed twice."""
    seen = _seen(store, kind, names, window)
    devices = sorted(seen.devices)
    moving = {name: [who for who in devices if _moved(seen.of(name, who))] for name in names}
    rows = {who: {name: _still(seen.of(name, who)) for name in names} for who in devices}
    wanted = sorted({who for who_moves in moving.values() for who in who_moves})
    if wanted:
        columns = [name for name in names if moving[name]]
        for (host, device), name, delta, known, _ in rising(store, kind, columns, window, {d for _, d in wanted}):
            if (host, device) in rows:
                rows[host, device][name] = int(delta[known].sum(dtype=np.uint64)) if known.any() else None
    table = [{"host": host, "device": device, **values} for (host, device), values in rows.items()]
    return pl.DataFrame(table, schema={**dict.fromkeys(WHO, pl.String), **dict.fromkeys(names, pl.UInt64)})


def rising(
    store: Store, kind: str, names: Sequence[str], window: Window, devices: Iterable[str] = ()
) -> Iterable[tuple[Identity, str, Any, Any, Any]]:
    """(device, counter, increment (sample,), whether there is one (sample,), time in microseconds (sample,)) of these counters, decoded."""
    asked = store.table(kind, window).select(*WHO, "boot_id", "seq", "time", "sampled_ns", *names)
    if chosen := sorted(devices):
        asked = asked.filter(pl.col("device").is_in(chosen))
    rows = store.collect(asked)
    if rows.is_empty():
        return
    samples = _Samples(rows)
    counters = {
        name: (rows[name].fill_null(0).to_numpy()[samples.order], rows[name].is_not_null().to_numpy()[samples.order])
        for name in names
    }
    fell = any(samples.fell(*counter) for counter in counters.values())
    series = samples.series(_epochs(store, kind, window) if fell else Epochs(kind, []))  # only a fall asks for the device's life
    for name, (value, observed) in counters.items():
        delta, known = increments(series, field_of(kind, name), value, observed)
        for who, part in samples.parts:
            yield who, name, delta[part], known[part], samples.time_us[part]


class _Samples:
    """Rows ordered by device, boot and number of the observation, as the engine saw them."""

    def __init__(self, rows: pl.DataFrame) -> None:
        who = rows.select(pl.struct(WHO).rank("dense").cast(pl.Int64) - 1).to_series().to_numpy()
        names = rows.select(WHO).unique().sort(WHO).rows()
        boots = rows.group_by("boot_id").agg(pl.col("time").min()).sort("time")["boot_id"].to_list()
        boot = rows["boot_id"].replace_strict(boots, range(len(boots)), return_dtype=pl.Int64).to_numpy()
        seq, time_us = rows["seq"].to_numpy(), rows["time"].dt.timestamp("us").to_numpy()
        self.order = np.lexsort((seq, boot, who))
        self._who, self._boot, self._seq, self.time_us = (a[self.order] for a in (who, boot, seq, time_us))
        sampled = rows["sampled_ns"].to_numpy()[self.order]
        self._at_ns = np.where(sampled > 0, sampled, self.time_us * 1000)
        self._names, self._boots = names, boots
        edges = np.searchsorted(self._who, np.arange(len(names) + 1))
        self.parts = [(names[i], slice(edges[i], edges[i + 1])) for i in range(len(names))]

    def fell(self, value: Any, observed: Any) -> bool:
        """Whether a counter ever fell."""
        seen, who = value[observed], self._who[observed]
        return bool(np.any((seen[1:] < seen[:-1]) & (who[1:] == who[:-1])))

    def series(self, epochs: Epochs) -> Series:
        """The samples with the lives of their devices."""
        epoch = epochs.numbers(self._who, self._names, self._boot, self._boots, self._seq)
        return Series(self._who, self._at_ns, epoch, period_of(self._who, self._at_ns))


def _epochs(store: Store, kind: str, window: Window) -> Epochs:
    """Lives of the devices: their attributes hold from their row on, and every day's files begin with a row."""
    since = None if window.since is None else window.since - timedelta(days=1)
    rows = store.table("devices", Window(since, window.until, window.devices)).filter(pl.col("kind") == kind)
    return Epochs(kind, [store.collect(rows).to_arrow()])


def _moved(spans: Sequence[_Span]) -> bool:
    """Whether a counter with these samples may have risen."""
    return bool(spans) and min(span.low for span in spans) != max(span.high for span in spans)


def _still(spans: Sequence[_Span]) -> int | None:
    """The increase of a counter that did not move: 0, or nothing where it was not observed twice."""
    return 0 if sum(span.samples for span in spans) > 1 else None


def _seen(store: Store, kind: str, names: Sequence[str], window: Window) -> _Seen:
    seen = _Seen()
    logged = store.logged(kind, window).select(*WHO, *names)
    seen.devices |= set(logged.select(WHO).unique().rows())
    for name in names:
        column = pl.col(name)
        values = logged.group_by(WHO).agg(low=column.min(), high=column.max(), samples=column.count())
        for host, device, low, high, samples in values.filter(pl.col("samples") > 0).rows():
            seen.add(name, _Span((host, device), (host, device), low, high, samples))
    for about, groups in store.footers(kind, window):
        _of_file(seen, about, groups, names, window)
    if seen.count:
        seen.devices = set(store.collect(store.table(kind, window).select(WHO).unique()).rows())
    return seen


def _of_file(seen: _Seen, about: pq.FileMetaData, groups: Sequence[int], names: Sequence[str], window: Window) -> None:
    at = {name: place for place, name in enumerate(about.schema.names)}
    for number in groups:
        group = about.row_group(number)
        first, last = _devices(*(group.column(at[name]).statistics for name in WHO))
        seen.devices |= {first, last}
        seen.count |= first != last or not _within(group.column(at["time"]).statistics, window)
        for name in names:
            statistics = group.column(at[name]).statistics if name in at else None
            if name not in at or (statistics is not None and statistics.null_count == group.num_rows):
                continue
            if statistics is None or not statistics.has_min_max or (first != last and statistics.null_count):
                seen.add(name, _Span(first, last, 0, ANYTHING, 0))  # it must be decoded to be known
            else:
                seen.add(name, _Span(first, last, statistics.min, statistics.max, statistics.num_values))


def _devices(host: Any, device: Any) -> tuple[Identity, Identity]:
    """The first and the last device that a row group can hold."""
    if host is None or device is None or not host.has_min_max or not device.has_min_max:
        return ("", ""), (LAST, LAST)
    if host.min != host.max:
        return (host.min, ""), (host.max, LAST)
    return (host.min, device.min), (host.max, device.max)


def _within(time: Any, window: Window) -> bool:
    if time is None or not time.has_min_max:
        return False
    return (window.since is None or time.min >= window.since) and (window.until is None or time.max < window.until)
