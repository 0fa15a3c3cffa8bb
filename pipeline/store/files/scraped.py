"""Writes what a site's exporters recorded as files of a store: whole columns, never an observation
at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa

from pipeline.catalog import fields_of
from pipeline.frame import Device
from pipeline.observation import Event, Observation
from pipeline.store.files.layout import FileName, folder, write_whole
from pipeline.store.files.parquet import conform, write
from pipeline.store.files.schema import BEGIN, OF_FRAMES, arrow_type
from pipeline.store.files.tables import Gathered

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Numbers of observations: milliseconds of unix time, and room for the exporters of a host. So a
# host's hours can be written in any order, and again.
EXPORTERS = 8


@dataclass(frozen=True, slots=True)
class Sheet:
    """All devices of one kind at the scrapes of one exporter: values in native units by column,
    float64 (scrape, device), NaN = none.
    """

    kind: str
    devices: tuple[Device, ...]
    columns: Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Scrapes:
    """The scrapes of one exporter of one host within an hour; a kind of device has one exporter.

    ``number`` of the exporter on the host, below EXPORTERS; ``times_ms`` int64 (scrape,), rising;
    ``boots_ms`` int64 (scrape,), unix time of the host's boot, 0 = not known. An event belongs to
    the scrape at its time.
    """

    source: str
    number: int
    times_ms: NDArray[np.int64]
    boots_ms: NDArray[np.int64]
    sheets: Sequence[Sheet]
    events: Sequence[Event] = ()


def write_hour(
    root: Path, cluster: str, host: str, scrapes: Iterable[Scrapes], *, durable: bool = True
) -> list[Path]:
    """Write one hour of a host below ``root``; the files. Writing it again changes nothing. Those
    that are not yet ``durable`` are made so by ``pipeline.store.files.layout.settle``.
    """
    scrapes = [one for one in scrapes if len(one.times_ms)]
    if not scrapes:
        return []
    hour_us = int(min(one.times_ms[0] for one in scrapes)) * 1000
    first = min(int(_numbers(one)[0]) for one in scrapes)
    name = str(FileName(cluster, host, "imported", first))
    written = []
    for table, rows in _tables(host, scrapes):
        path = root / folder(table, hour_us) / name
        write_whole(path, partial(write, rows, table), durable=durable)
        written.append(path)
    return written


def boot_id(boot_ms: int) -> str:
    """Name of a boot that is known by its time only.

    >>> boot_id(1_795_266_000_000), boot_id(0)
    ('boot1795266000', 'boot0')
    """
    return f"boot{boot_ms // 1000}"


def _numbers(one: Scrapes) -> NDArray[np.int64]:
    return one.times_ms * EXPORTERS + one.number


def _mono_ns(one: Scrapes) -> NDArray[np.int64]:
    return (one.times_ms - one.boots_ms) * 1_000_000


def _tables(host: str, scrapes: Sequence[Scrapes]) -> Iterable[tuple[str, pa.Table]]:
    for one in scrapes:
        for sheet in one.sheets:
            yield sheet.kind, _sheet_table(host, one, sheet)
    yield "reads", _reads(host, scrapes)
    if any(one.events for one in scrapes):
        yield "events", _events(host, scrapes)
    yield "devices", _devices(host, scrapes)


def _sheet_table(host: str, one: Scrapes, sheet: Sheet) -> pa.Table:
    """A sheet, sorted by device and time."""
    n, m = len(one.times_ms), len(sheet.devices)
    order = np.array(sorted(range(m), key=lambda i: sheet.devices[i].id), np.int32)

    def each(values: NDArray[Any]) -> NDArray[Any]:
        return np.tile(values, m)

    boots, of_boot = np.unique(one.boots_ms, return_inverse=True)
    arrays = {
        "time": pa.array(each(one.times_ms * 1000), BEGIN[0][1]),
        "host": _repeated(host, n * m),
        "device": pa.DictionaryArray.from_arrays(
            pa.array(np.repeat(order, n)), [d.id for d in sheet.devices]
        ),
        "boot_id": pa.DictionaryArray.from_arrays(
            pa.array(each(of_boot.astype(np.int32))), [boot_id(int(boot)) for boot in boots]
        ),
        "mono_ns": pa.array(each(_mono_ns(one))),
        "seq": pa.array(each(_numbers(one))),
        "row": pa.array(np.repeat(order, n), OF_FRAMES[0][1]),
        "sampled_ns": pa.array(np.zeros(n * m, np.int64)),
    }
    for field in fields_of(sheet.kind):
        values = sheet.columns.get(field.name)
        if values is not None:
            arrays[field.name] = _native(values.T[order].reshape(-1), arrow_type(field))
    return conform(pa.table(arrays), sheet.kind)


def _native(values: NDArray[np.float64], kind: pa.DataType) -> Any:
    missing = np.isnan(values)
    if pa.types.is_floating(kind):
        return pa.array(values, mask=missing)
    missing |= ~((values >= (0 if kind == pa.uint64() else -(2.0**63))) & (values < 2.0**63))
    whole = np.rint(np.where(missing, 0.0, values))
    return pa.array(whole.astype(np.int64), mask=missing).cast(kind)


def _repeated(text: str, n: int) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), [text])


def _reads(host: str, scrapes: Sequence[Scrapes]) -> pa.Table:
    """Each scrape as a read, with the frames that it gave."""
    parts = []
    for one in scrapes:
        n, mono = len(one.times_ms), _mono_ns(one)
        sizes = [(sheet.kind, len(sheet.devices)) for sheet in one.sheets]
        parts.append(
            {
                "time": pa.array(one.times_ms * 1000, BEGIN[0][1]),
                "host": _repeated(host, n),
                "device": _repeated(host, n),
                "boot_id": pa.array([boot_id(boot) for boot in one.boots_ms.tolist()]),
                "mono_ns": pa.array(mono),
                "seq": pa.array(_numbers(one)),
                "source": _repeated(one.source, n),
                "duration_ns": pa.array(np.zeros(n, np.int64)),
                "outcome": _repeated("ok", n),
                "error": pa.array([""] * n),
                "unread": pa.array(["[]"] * n),
                "frames": pa.array(
                    orjson.dumps([[kind, size, us, ns] for kind, size in sizes]).decode()
                    for us, ns in zip((one.times_ms * 1000).tolist(), mono.tolist(), strict=True)
                ),
            }
        )
    tables = [conform(pa.table(part), "reads") for part in parts]
    return pa.concat_tables(tables).sort_by([("time", "ascending"), ("seq", "ascending")])


def _events(host: str, scrapes: Sequence[Scrapes]) -> pa.Table:
    """The events, each in the read of its time."""
    gathered = Gathered()
    for one in scrapes:
        at = {ms: i for i, ms in enumerate(one.times_ms.tolist())}
        numbers, mono, boots = _numbers(one), _mono_ns(one), one.boots_ms
        for ms, events in groupby(one.events, key=lambda event: event.time_ns // 1_000_000):
            i = at[ms]
            gathered.add(
                Observation(
                    one.source,
                    host,
                    boot_id(int(boots[i])),
                    int(numbers[i]),
                    ms * 1_000_000,
                    int(mono[i]),
                    0,
                    events=tuple(events),
                ),
                (),
            )
    return dict(gathered.tables())["events"]


def _devices(host: str, scrapes: Sequence[Scrapes]) -> pa.Table:
    rows = [
        (
            int(one.times_ms[0]) * 1000,
            host,
            device.id,
            boot_id(int(one.boots_ms[0])),
            int(_mono_ns(one)[0]),
            int(_numbers(one)[0]),
            device.kind,
            one.source,
            orjson.dumps(dict(device.attributes), option=orjson.OPT_SORT_KEYS).decode(),
        )
        for one in scrapes
        for sheet in one.sheets
        for device in sheet.devices
    ]
    names = [c[0] for c in BEGIN] + ["kind", "source", "attributes"]
    rows.sort(key=lambda row: (row[2], row[0], row[5]))
    return conform(
        pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))), "devices"
    )
