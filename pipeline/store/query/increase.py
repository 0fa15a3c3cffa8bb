"""How much counters rose: the increments of all samples in a window by the rules of
pipeline/rates.py, resets and saturation included.

Most counters of most devices do not move, which the statistics in a file's footer show: a counter
whose lowest value is its highest did not rise. Only the counters and devices that moved are
decoded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.catalog import field as field_of
from pipeline.rates import MIN_PERIODS
from pipeline.small_arrays import all_true, any_true
from pipeline.store.files.epochs import Epochs
from pipeline.store.keep.increments import Series, increments, period_of
from pipeline.store.query.store import Store, Window

Identity = tuple[str, str]  # host and device
WHO = ("host", "device")
ANYTHING = 2**64 - 1  # the highest value of any counter
LAST = "\U0010ffff"  # sorts after every name


class _Span(NamedTuple):
    """Samples of a counter between two values, of devices between two identities
    (files are sorted by them).
    """

    first: Identity
    last: Identity
    low: int
    high: int
    samples: int


@dataclass(slots=True)
class _Seen:
    """What footers show of a window."""

    # of one device
    own: dict[tuple[str, Identity], list[_Span]] = field(default_factory=lambda: defaultdict(list))
    shared: dict[str, list[_Span]] = field(default_factory=lambda: defaultdict(list))  # of several
    devices: set[Identity] = field(default_factory=set)
    count: bool = False  # whether there may be more devices, or fewer, than in the footers
    # devices with rows elsewhere than in groups of their own
    mixed: list[tuple[Identity, Identity]] = field(default_factory=list)

    def add(self, name: str, span: _Span) -> None:
        """Samples of a counter."""
        (self.own[name, span.first] if span.first == span.last else self.shared[name]).append(span)

    def of(self, name: str, who: Identity) -> list[_Span]:
        """What may hold samples of a counter of a device."""
        return [
            *self.own.get((name, who), ()),
            *(s for s in self.shared.get(name, ()) if s.first <= who <= s.last),
        ]


def increases(store: Store, kind: str, names: Sequence[str], window: Window) -> pl.DataFrame:
    """One row per device seen in the window, columns host, device and one per counter: uint64, null
    where none was observed twice.
    """
    seen = _seen(store, kind, names, window)
    devices = sorted(seen.devices)
    moving = {name: [who for who in devices if _moved(seen.of(name, who))] for name in names}
    rows = {who: {name: _still(seen.of(name, who)) for name in names} for who in devices}
    found = _steady(store, kind, seen, moving, window)
    for (who, name), total in found.items():
        rows[who][name] = total
    left = {
        name: [who for who in moves if (who, name) not in found] for name, moves in moving.items()
    }
    wanted = sorted({device for moves in left.values() for _, device in moves})
    if wanted:
        samples = _samples(
            store,
            kind,
            [name for name in names if left[name]],
            replace(window, devices=tuple(wanted)),
        )
        for who, name, total in samples.totals():
            if who in rows:
                rows[who][name] = total
    table = [{"host": host, "device": device, **values} for (host, device), values in rows.items()]
    return pl.DataFrame(
        table, schema={**dict.fromkeys(WHO, pl.String), **dict.fromkeys(names, pl.UInt64)}
    )


class _Part(NamedTuple):
    """Observed values of a counter of one device in one file, in the order of their time; None
    where that is not the files' order.
    """

    first: datetime
    last: datetime
    values: Any


def _steady(
    store: Store, kind: str, seen: _Seen, moving: dict[str, list[Identity]], window: Window
) -> dict[tuple[Identity, str], int | None]:
    """Increases of counters that never fell, from their own columns alone: the
    last value less the first.

    Of devices whose rows lie in row groups of their own, in the order of time; whatever is not so
    simple is left to _Samples.
    """
    wanted: dict[Identity, list[str]] = defaultdict(list)
    for name, moves in moving.items():
        for who in moves if not field_of(kind, name).maximum_per_second else ():
            if not any(first <= who <= last for first, last in seen.mixed):
                wanted[who].append(name)
    if not wanted:
        return {}
    narrow = replace(window, devices=tuple(sorted({device for _, device in wanted})))
    before, parts = len(store.left_out), defaultdict[tuple[Identity, str], list[_Part]](list)
    for found in store.files(kind, lambda file, groups: _own(file, groups, wanted), narrow):
        for key, part in found:
            parts[key].append(part)
    if (
        len(store.left_out) > before
    ):  # some of it is damaged: what can be saved is found row group by row group
        return {}
    return {key: _rise(some) for key, some in parts.items() if _rises_only(some)}


def _own(
    file: pq.ParquetFile, groups: Sequence[int], wanted: dict[Identity, list[str]]
) -> list[tuple[tuple[Identity, str], _Part]]:
    about, found = file.metadata, []
    at = {name: place for place, name in enumerate(about.schema.names)}
    of: dict[Identity, list[int]] = defaultdict(list)
    for number in groups:
        first, last = _devices(
            *(about.row_group(number).column(at[name]).statistics for name in WHO)
        )
        if first == last and first in wanted:
            of[first].append(number)
    for who, own in of.items():
        names = [name for name in wanted[who] if name in at]
        rows = file.read_row_groups(own, columns=names)
        times = [about.row_group(number).column(at["time"]).statistics for number in own]
        begins, ends = [time.min for time in times], [time.max for time in times]
        in_order = all(end <= begin for end, begin in zip(ends, begins[1:], strict=False))
        found += [
            (
                (who, name),
                _Part(begins[0], ends[-1], rows[name].drop_null().to_numpy() if in_order else None),
            )
            for name in names
        ]
    return found


def _rises_only(parts: list[_Part]) -> bool:
    """Whether parts follow one another and the counter never falls in them."""
    parts.sort(key=lambda part: part.first)
    if any(part.values is None for part in parts) or any(
        a.last > b.first for a, b in pairwise(parts)
    ):
        return False
    values = np.concatenate([part.values for part in parts])
    return len(values) < 2 or bool(np.diff(values).max() < 2**63)  # a fall wraps to something huge


def _rise(parts: Sequence[_Part]) -> int | None:
    values = np.concatenate([part.values for part in parts])
    return int(values[-1] - values[0]) if len(values) > 1 else None


class Rising(NamedTuple):
    """Samples of one counter of one device, (sample,) each: increment, whether there is
    one, time in microseconds.
    """

    who: Identity
    name: str
    delta: Any
    known: Any
    time_us: Any


def rising(store: Store, kind: str, names: Sequence[str], window: Window) -> Iterator[Rising]:
    """Every increment of these counters, decoded: for plots."""
    return _samples(store, kind, names, window).rising()


def _samples(store: Store, kind: str, names: Sequence[str], window: Window) -> _Samples:
    columns = [*WHO, "boot_id", "seq", "time", "sampled_ns", *names]
    rows = (
        pa.concat_tables(store.pieces(kind, columns, window)).unify_dictionaries().combine_chunks()
    )
    return _Samples(_inside(rows, window), kind, names, lambda: _epochs(store, kind, window))


class _Samples:
    """Samples ordered by device, boot and number of the observation, as the engine saw them.

    ``epochs`` is asked only when one fell.
    """

    def __init__(
        self, rows: pa.Table, kind: str, names: Sequence[str], epochs: Callable[[], Epochs]
    ) -> None:
        self._kind, self._epochs = kind, epochs
        host, hosts = _codes(rows["host"])
        device, devices = _codes(rows["device"])
        boot, boots = _codes(rows["boot_id"])
        time_us, seq = _numbers(rows["time"]), _numbers(rows["seq"])
        boot, self._boots = _by_first(boot, boots, time_us)
        who = host * max(len(devices), 1) + device
        order = _order(who, boot, seq)
        who, self._boot, self._seq, self._time_us = (
            who[order],
            boot[order],
            seq[order],
            time_us[order],
        )
        sampled = _numbers(rows["sampled_ns"])[order]
        self._at_ns = np.where(sampled > 0, sampled, self._time_us * 1000)
        edges = (
            [0, *(np.flatnonzero(who[1:] != who[:-1]) + 1).tolist(), len(who)] if len(who) else [0]
        )
        self._who = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
        self._identities = [
            (hosts[i // len(devices)], devices[i % len(devices)]) for i in who[edges[:-1]].tolist()
        ]
        self._parts = [slice(a, b) for a, b in pairwise(edges)]
        self._counters = {name: _counter(rows[name], order) for name in names}

    def totals(self) -> Iterator[tuple[Identity, str, int | None]]:
        """(device, counter, increase) of all; nothing where it was not observed twice."""
        whole: dict[str, tuple[Any, Any]] = {}
        for name, (value, observed) in self._counters.items():
            for who, part in zip(self._identities, self._parts, strict=True):
                seen = value[part][observed[part]]
                if self._plain(name, seen):
                    yield who, name, int(seen[-1] - seen[0]) if len(seen) > 1 else None
                    continue
                if name not in whole:
                    whole[name] = self._increments(name)
                delta, known = (array[part] for array in whole[name])
                yield who, name, int(delta[known].sum(dtype=np.uint64)) if any_true(known) else None

    def rising(self) -> Iterator[Rising]:
        """Every increment."""
        for name in self._counters:
            delta, known = self._increments(name)
            for who, part in zip(self._identities, self._parts, strict=True):
                yield Rising(who, name, delta[part], known[part], self._time_us[part])

    def _plain(self, name: str, seen: Any) -> bool:
        """Whether a counter neither fell nor rose faster than it can: then what it rose by is the
        last value less the first.
        """
        limit = (
            field_of(self._kind, name).maximum_per_second * MIN_PERIODS * self._period or 2.0**63
        )
        return len(seen) < 2 or bool(np.diff(seen).max() <= limit)  # a fall wraps to something huge

    @cached_property
    def _period(self) -> float:
        return period_of(self._who, self._at_ns)

    @cached_property
    def _series(self) -> Series:
        fell = any(self._fell(*counter) for counter in self._counters.values())
        epochs = self._epochs() if fell else Epochs(self._kind, [])
        numbers = epochs.numbers(self._who, self._identities, self._boot, self._boots, self._seq)
        return Series(self._who, self._at_ns, numbers, self._period)

    def _increments(self, name: str) -> tuple[Any, Any]:
        return increments(self._series, field_of(self._kind, name), *self._counters[name])

    def _fell(self, value: Any, observed: Any) -> bool:
        seen, who = value[observed], self._who[observed]
        return bool(np.any((seen[1:] < seen[:-1]) & (who[1:] == who[:-1])))


def _inside(rows: pa.Table, window: Window) -> pa.Table:
    """Rows within the window: row groups at its edges hold others too."""
    time_us = _numbers(rows["time"])
    inside = np.ones(len(rows), np.bool_)
    if window.since is not None:
        inside &= time_us >= _us(window.since)
    if window.until is not None:
        inside &= time_us < _us(window.until)
    if window.devices:
        code, names = _codes(rows["device"])
        inside &= np.isin(code, [i for i, name in enumerate(names) if name in window.devices])
    return rows if all_true(inside) else rows.filter(pa.array(inside))


def _us(time: datetime) -> int:
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _numbers(column: pa.ChunkedArray) -> Any:
    return pc.fill_null(column.cast(pa.int64()), 0).to_numpy()


def _counter(column: pa.ChunkedArray, order: Any) -> tuple[Any, Any]:
    """Values and where they were observed, in order."""
    return pc.fill_null(column, 0).to_numpy()[order], column.is_valid().to_numpy()[order]


def _codes(column: pa.ChunkedArray) -> tuple[Any, list[str]]:
    """Positions in a list of names."""
    array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return pc.fill_null(array.indices, 0).to_numpy(zero_copy_only=False).astype(
        np.int64
    ), array.dictionary.to_pylist()


def _by_first(boot: Any, names: list[str], time_us: Any) -> tuple[Any, list[str]]:
    """Boots in the order of their first time."""
    if len(names) < 2:
        return boot, names
    first = np.full(len(names), np.iinfo(np.int64).max)
    np.minimum.at(first, boot, time_us)
    order = np.argsort(first, kind="stable")
    place = np.empty(len(names), np.int64)
    place[order] = np.arange(len(names))
    return place[boot], [names[i] for i in order.tolist()]


def _order(who: Any, boot: Any, seq: Any) -> Any:
    """Positions by device, boot and number; a slice where the rows are in this order
    already, as they are in files.
    """
    same = who[1:] == who[:-1]
    falls = (who[1:] < who[:-1]) | (
        same & ((boot[1:] < boot[:-1]) | ((boot[1:] == boot[:-1]) & (seq[1:] < seq[:-1])))
    )
    return np.lexsort((seq, boot, who)) if any_true(falls) else slice(None)


def _epochs(store: Store, kind: str, window: Window) -> Epochs:
    """Epochs of the devices: their attributes hold from their row on, and every
    day's files begin with a row.
    """
    since = None if window.since is None else window.since - timedelta(days=1)
    rows = store.table("devices", Window(since, window.until, window.devices)).filter(
        pl.col("kind") == kind
    )
    return Epochs(kind, [store.collect(rows).to_arrow()])


def _moved(spans: Sequence[_Span]) -> bool:
    """Whether a counter with these samples may have risen."""
    return bool(spans) and min(span.low for span in spans) != max(span.high for span in spans)


def _still(spans: Sequence[_Span]) -> int | None:
    """The increase of a counter that did not move: 0, or nothing where
    it was not observed twice.
    """
    return 0 if sum(span.samples for span in spans) > 1 else None


def _seen(store: Store, kind: str, names: Sequence[str], window: Window) -> _Seen:
    seen = _Seen()
    logged = store.logged(kind, window).select(*WHO, *names)
    seen.devices |= set(logged.select(WHO).unique().rows())
    for name in names:
        column = pl.col(name)
        values = logged.group_by(WHO).agg(
            low=column.min(), high=column.max(), samples=column.count()
        )
        for host, device, low, high, samples in values.filter(pl.col("samples") > 0).rows():
            seen.add(name, _Span((host, device), (host, device), low, high, samples))
    seen.mixed += [(who, who) for who in seen.devices]
    for _ in store.files(
        kind, lambda file, groups: _of_file(seen, file.metadata, groups, names, window), window
    ):
        pass
    if seen.count:
        seen.devices = set(store.collect(store.table(kind, window).select(WHO).unique()).rows())
    return seen


def _of_file(
    seen: _Seen, about: pq.FileMetaData, groups: Sequence[int], names: Sequence[str], window: Window
) -> None:
    at = {name: place for place, name in enumerate(about.schema.names)}
    for number in groups:
        group = about.row_group(number)
        first, last = _devices(*(group.column(at[name]).statistics for name in WHO))
        seen.devices |= {first, last}
        if first != last or not _within(group.column(at["time"]).statistics, window):
            seen.count = True
            seen.mixed.append((first, last))
        for name in names:
            statistics = group.column(at[name]).statistics if name in at else None
            if name not in at or (
                statistics is not None and statistics.null_count == group.num_rows
            ):
                continue
            if (
                statistics is None
                or not statistics.has_min_max
                or (first != last and statistics.null_count)
            ):
                seen.add(name, _Span(first, last, 0, ANYTHING, 0))  # it must be decoded to be known
            else:
                seen.add(
                    name, _Span(first, last, statistics.min, statistics.max, statistics.num_values)
                )


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
    return (window.since is None or time.min >= window.since) and (
        window.until is None or time.max < window.until
    )
