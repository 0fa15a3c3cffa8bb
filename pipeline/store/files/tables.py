"""Observations as rows: one Arrow table per kind of device, and events,
findings, devices and reads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from pipeline.catalog import Field
from pipeline.finding import Finding, Incident
from pipeline.frame import Device, Frame, schema_of
from pipeline.observation import Event, Observation
from pipeline.store.files.parquet import conform
from pipeline.store.files.schema import BEGIN, OF_FRAMES, arrow_type, schema

FIELDS_AT_ONCE = 64  # of all frames of a kind, while columns are made of them
Begin = tuple[int, str, str, str, int, int]


class Gathered:
    """Takes observations in order and gives their tables, each sorted by device and time."""

    def __init__(self) -> None:
        self._frames: dict[str, list[tuple[Observation, Frame]]] = defaultdict(list)
        self._rows: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
        self._known: dict[tuple[str, Device], str] = {}
        self._generation: dict[tuple[str, str], tuple[Device, ...]] = {}

    def add(
        self,
        observation: Observation,
        findings: Sequence[Finding],
        incidents: Sequence[Incident] = (),
    ) -> None:
        """One observation with its findings and incidents."""
        for frame in observation.frames:
            self._frames[frame.kind].append((observation, frame))
            self._devices(observation, frame)
        self._rows["reads"].append((*_begin(observation, observation.host), *_read(observation)))
        for n, event in enumerate(observation.events):
            self._rows["events"].append(
                (
                    *_begin(observation, event.device.id, event.time_ns, event.mono_ns),
                    n,
                    *_event(event),
                )
            )
        for n, finding in enumerate(findings):
            self._rows["findings"].append(
                (*_begin(observation, finding.device.id, finding.time_ns), n, *_found(finding))
            )

        for incident in incidents:
            begin = _begin(observation, incident.root.id, host=incident.root.host)
            self._rows["incidents"].append((*begin, *_incident(incident)))

    def tables(self) -> Iterator[tuple[str, pa.Table]]:
        """Every table that has rows, with its name.

        What it was made of is let go: only one is held at a time.
        """
        while self._frames:
            kind, frames = self._frames.popitem()
            if any(f.devices for _, f in frames):
                yield kind, frames_table(kind, frames)
        while self._rows:
            table, rows = self._rows.popitem()
            yield table, _table(table, rows)

    def _devices(self, observation: Observation, frame: Frame) -> None:
        key = (observation.source, frame.kind)
        if self._generation.get(key) is frame.devices:
            return
        self._generation[key] = frame.devices
        for device in frame.devices:
            attributes = _json(dict(device.attributes))
            if self._known.get((observation.source, device)) != attributes:
                self._known[observation.source, device] = attributes
                begin = _begin(observation, device.id, frame.time_ns, frame.mono_ns, device.host)
                self._rows["devices"].append((*begin, device.kind, observation.source, attributes))


def frames_table(kind: str, frames: Sequence[tuple[Observation, Frame]]) -> pa.Table:
    """All frames of one kind as one table, sorted by device and time: whole blocks, never a
    Python object per value.
    """
    columns = schema_of(kind)
    sizes = np.array([len(f.devices) for _, f in frames])
    identity = _Identity(frames)
    time = np.repeat(np.array([f.time_ns // 1000 for _, f in frames]), sizes)
    order = np.lexsort((time, identity.rank))

    def per_frame(values: list[int]) -> Any:
        return pa.array(np.repeat(np.array(values, np.int64), sizes)[order])

    arrays = {
        "time": pa.array(time[order], BEGIN[0][1]),
        "host": identity.hosts(order),
        "device": identity.ids(order),
        "boot_id": pa.array([o.boot_id for o, _ in frames])
        .dictionary_encode()
        .take(np.repeat(np.arange(len(frames)), sizes)[order]),
        "mono_ns": per_frame([f.mono_ns for _, f in frames]),
        "seq": per_frame([o.seq for o, _ in frames]),
        "row": pa.array(
            np.concatenate([np.arange(n, dtype=np.int32) for n in sizes.tolist()])[order],
            OF_FRAMES[0][1],
        ),
        "sampled_ns": pa.array(np.concatenate([f.sampled_ns for _, f in frames])[order]),
    }
    for fields, rows in _blocks(columns.gauges):
        gauges = np.concatenate([f.gauges[rows] for _, f in frames], axis=1)
        for row in np.flatnonzero(~np.isnan(gauges).all(axis=1)).tolist():
            arrays[fields[row].name] = _gauge(gauges[row][order], arrow_type(fields[row]))
    for fields, rows in _blocks(columns.counters):
        counters = np.concatenate([f.counters[rows] for _, f in frames], axis=1)
        observed = np.concatenate([f.observed[rows] for _, f in frames], axis=1)
        for row in np.flatnonzero(observed.any(axis=1)).tolist():
            arrays[fields[row].name] = pa.array(counters[row][order], mask=~observed[row][order])
    return conform(pa.table(arrays), kind)


def _blocks(fields: Sequence[Field]) -> Iterator[tuple[Sequence[Field], slice]]:
    """Fields a few at a time, and where their rows are in a frame."""
    for start in range(0, len(fields), FIELDS_AT_ONCE):
        rows = slice(start, start + FIELDS_AT_ONCE)
        yield fields[rows], rows


class _Identity:
    """Devices of many frames: sorted ids as dictionaries, one index per row."""

    def __init__(self, frames: Sequence[tuple[Observation, Frame]]) -> None:
        distinct = sorted({d for _, f in frames for d in f.devices}, key=lambda d: (d.host, d.id))
        at = {device: i for i, device in enumerate(distinct)}
        by_generation: dict[int, Any] = {}
        ranks = []
        for _, frame in frames:
            if id(frame.devices) not in by_generation:
                by_generation[id(frame.devices)] = np.array(
                    [at[d] for d in frame.devices], np.int32
                )
            ranks.append(by_generation[id(frame.devices)])
        self.rank = np.concatenate(ranks)
        self._distinct = distinct

    def ids(self, order: Any) -> Any:
        """Dictionary array of device ids."""
        return pa.DictionaryArray.from_arrays(
            pa.array(self.rank[order]), pa.array([d.id for d in self._distinct])
        )

    def hosts(self, order: Any) -> Any:
        """Dictionary array of hosts."""
        return (
            pa.array([d.host for d in self._distinct])
            .dictionary_encode()
            .take(pa.array(self.rank[order]))
        )


def _gauge(values: Any, kind: pa.DataType) -> Any:
    """NaN becomes null before any cast.

    ValueError where a gauge that the catalogue calls whole has a fraction.
    """
    missing = np.isnan(values)
    if pa.types.is_floating(kind):
        return pa.array(values, mask=missing)
    whole = np.where(missing, 0.0, values)
    if not np.array_equal(whole, np.rint(whole)):
        raise ValueError(
            f"a whole-number gauge has fractions such as {whole[whole != np.rint(whole)][0]!r}"
        )
    return pa.array(whole.astype(np.int64), mask=missing)


def _table(table: str, rows: Iterable[tuple[Any, ...]]) -> pa.Table:
    wanted = schema(table)
    rows = sorted(rows, key=lambda r: (r[1], r[2], r[0], r[5]))
    return pa.table(
        [
            pa.array(column, c.type)
            for column, c in zip(zip(*rows, strict=True), wanted, strict=True)
        ],
        schema=wanted,
    )


def _begin(
    o: Observation,
    device: str,
    time_ns: int | None = None,
    mono_ns: int | None = None,
    host: str | None = None,
) -> Begin:
    return (
        (o.time_ns if time_ns is None else time_ns) // 1000,
        host or o.host,
        device,
        o.boot_id,
        o.mono_ns if mono_ns is None else mono_ns,
        o.seq,
    )


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _read(o: Observation) -> tuple[Any, ...]:
    frames = [[f.kind, len(f.devices), f.time_ns // 1000, f.mono_ns] for f in o.frames]
    return (
        o.source,
        o.duration_ns,
        o.outcome,
        o.error,
        _json([[u.reason, u.device, u.field] for u in o.unread]),
        _json(frames),
    )


def _event(event: Event) -> tuple[Any, ...]:
    # JSON has no NaN: it is kept as text, as in the write-ahead log.
    plain = {
        k: [str(v)] if isinstance(v, float) and not np.isfinite(v) else v
        for k, v in event.attributes.items()
    }
    return (
        event.device.kind,
        event.kind,
        _json(plain),
        _json([event.device.host, dict(event.device.attributes)]),
    )


def _found(f: Finding) -> tuple[Any, ...]:
    times = (f.onset_ns // 1000, f.time_ns // 1000)
    numbers = (None if np.isnan(f.value) else f.value, None if np.isnan(f.expected) else f.expected)
    about = _json([f.device.host, dict(f.device.attributes)])
    what = (f.id, f.detector, f.device.kind, f.fault, f.phase, f.severity)
    again = (f.times, f.again_ns // 1000 or None)
    return (*what, *times, f.summary, f.action, *numbers, f.unit, list(f.evidence), about, *again)


def _incident(i: Incident) -> tuple[Any, ...]:
    opened, cleared, acknowledged = (
        ns // 1000 or None for ns in (i.opened_ns, i.cleared_ns, i.acknowledged_ns)
    )
    what = (i.id, i.root.kind, i.fault, i.severity, i.action)
    return (
        *what,
        opened,
        cleared,
        list(i.findings),
        i.summary,
        i.reason,
        acknowledged,
        i.note,
        i.acknowledged_by,
        i.ended,
        list(i.jobs),
        i.times,
        i.again_ns // 1000 or None,
    )
