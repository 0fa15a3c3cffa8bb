"""Stored rows of an hour or a day as observations again.

Speed comes from whole blocks: one sort per table, then slices.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.catalog import KINDS
from pipeline.finding import Finding
from pipeline.frame import Device, Frame, schema_of
from pipeline.observation import Event, Observation, Unread, Value

Key = tuple[str, str, int]  # host of the agent, boot id, sequence number
Seen = tuple[Observation, tuple[Finding, ...]]


def observations(tables: Mapping[str, pa.Table]) -> Iterator[Seen]:
    """Observations of these tables (name to rows, as one hour's or day's files hold them), by host,
    boot and sequence number.

    A frame whose rows are not there is left out, and ``unread`` says so: reason ``not_stored``,
    field the kind of device.
    """
    reads = tables["reads"].to_pylist() if "reads" in tables else []
    hosts = {(r["boot_id"], r["seq"]): r["host"] for r in reads}
    devices = _Devices(tables["devices"].to_pylist() if "devices" in tables else [])
    blocks = {
        kind: _Blocks(kind, rows, devices)
        for kind, rows in tables.items()
        if "row" in rows.column_names
    }
    events, findings = (_by_read(tables.get(name), hosts) for name in ("events", "findings"))
    began: dict[str, Any] = {}
    for row in reads:
        began[row["boot_id"]] = min(row["time"], began.get(row["boot_id"], row["time"]))
    for row in sorted(
        reads, key=lambda r: (r["host"], began[r["boot_id"]], r["boot_id"], r["seq"])
    ):
        key = (row["host"], row["boot_id"], row["seq"])
        listed = orjson.loads(row["frames"])
        frames = [_frame(blocks, key, row["source"], *frame) for frame in listed]
        lost = tuple(
            Unread("not_stored", field=kind)
            for (kind, *_), frame in zip(listed, frames, strict=True)
            if frame is None
        )
        observation = Observation(
            row["source"],
            *key,
            _ns(row["time"]),
            row["mono_ns"],
            row["duration_ns"],
            frames=tuple(frame for frame in frames if frame is not None),
            events=tuple(_event(e) for e in events.get(key, ())),
            unread=tuple(Unread(*u) for u in orjson.loads(row["unread"])) + lost,
            outcome=row["outcome"],
            error=row["error"],
        )
        yield observation, tuple(_finding(f) for f in findings.get(key, ()))


def _frame(  # noqa: PLR0917 - a row of what was stored
    blocks: Mapping[str, _Blocks],
    key: Key,
    source: str,
    kind: str,
    n: int,
    time_us: int,
    mono_ns: int,
) -> Frame | None:
    """The frame that a read lists; None where its rows are not stored."""
    if kind not in KINDS:  # of a newer catalogue
        return None
    if not n:
        return _empty(kind, time_us, mono_ns)
    return blocks[kind].frame(key, source, n, time_us, mono_ns) if kind in blocks else None


class _Devices:
    """Attributes of each device as they were: the newest row at or before a sequence number."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._history: dict[tuple[str, str, str, str], list[tuple[int, Mapping[str, str]]]] = (
            defaultdict(list)
        )
        for row in sorted(rows, key=lambda r: r["seq"]):
            self._history[row["boot_id"], row["source"], row["kind"], row["device"]].append(
                (row["seq"], orjson.loads(row["attributes"]))
            )
        self._made: dict[tuple[str, str, str, int], Device] = {}

    def at(self, boot_id: str, source: str, kind: str, host: str, device: str, seq: int) -> Device:  # noqa: PLR0917 - the whole key
        """The device as the frame with this number saw it."""
        history = self._history.get((boot_id, source, kind, device), [])
        position = bisect_right(history, seq, key=lambda entry: entry[0])
        made = (boot_id, kind, device, position)
        if made not in self._made:
            self._made[made] = Device(
                host, kind, device, history[position - 1][1] if position else {}
            )
        return self._made[made]


class _Blocks:
    """One kind's rows in the order of reads and frame rows, as blocks that frames are cut from."""

    def __init__(self, kind: str, rows: pa.Table, devices: _Devices) -> None:
        boots = np.array(rows["boot_id"].to_pylist(), dtype=np.str_)
        order = np.lexsort((rows["row"].to_numpy(), rows["seq"].to_numpy(), boots))
        rows = rows.take(pa.array(order))
        self._schema, self._devices = schema_of(kind), devices
        self._ids, self._hosts = rows["device"].to_pylist(), rows["host"].to_pylist()
        self._sampled = rows["sampled_ns"].to_numpy()
        self._gauges = np.empty((len(self._schema.gauges), len(rows)))
        for i, field in enumerate(self._schema.gauges):
            self._gauges[i] = rows[field.name].cast(pa.float64()).to_numpy()
        self._counters = np.empty((len(self._schema.counters), len(rows)), np.uint64)
        self._observed = np.empty(self._counters.shape, np.bool_)
        for i, field in enumerate(self._schema.counters):
            self._observed[i] = rows[field.name].is_valid().to_numpy()
            self._counters[i] = pc.fill_null(rows[field.name], 0).to_numpy()
        self._span = _spans(boots[order], rows["seq"].to_numpy())
        self._generation: tuple[Device, ...] = ()

    def frame(self, key: Key, source: str, n: int, time_us: int, mono_ns: int) -> Frame | None:
        """The frame of one read; its devices are the same tuple as before while nothing changed.

        None where not all its rows are there.
        """
        _, boot_id, seq = key
        a, b = self._span.get((boot_id, seq), (0, 0))
        if b - a != n:
            return None
        devices = tuple(
            self._devices.at(boot_id, source, self._schema.kind, h, d, seq)
            for h, d in zip(self._hosts[a:b], self._ids[a:b], strict=True)
        )
        if len(devices) == len(self._generation) and all(
            x is y for x, y in zip(devices, self._generation, strict=True)
        ):
            devices = self._generation
        self._generation = devices
        gauges, counters = self._gauges[:, a:b].copy(), self._counters[:, a:b].copy()
        observed, sampled = self._observed[:, a:b].copy(), self._sampled[a:b].copy()
        return Frame(
            self._schema, time_us * 1000, mono_ns, devices, gauges, counters, observed, sampled
        )


def _spans(boots: Any, seqs: Any) -> dict[tuple[str, int], tuple[int, int]]:
    """Where the rows of each read begin and end, in sorted rows."""
    if not len(boots):
        return {}
    edges = np.flatnonzero((seqs[1:] != seqs[:-1]) | (boots[1:] != boots[:-1])) + 1
    starts = [0, *edges.tolist()]
    ends = [*edges.tolist(), len(boots)]
    return {(str(boots[a]), int(seqs[a])): (a, b) for a, b in zip(starts, ends, strict=True)}


def _empty(kind: str, time_us: int, mono_ns: int) -> Frame:
    schema = schema_of(kind)
    counters = np.zeros((len(schema.counters), 0), np.uint64)
    return Frame(
        schema,
        time_us * 1000,
        mono_ns,
        (),
        np.zeros((len(schema.gauges), 0)),
        counters,
        counters.astype(np.bool_),
        np.zeros(0, np.int64),
    )


def _by_read(
    rows: pa.Table | None, hosts: Mapping[tuple[str, int], str]
) -> dict[Key, list[dict[str, Any]]]:
    """Rows of events or findings by the read they came with, in their order there."""
    grouped: dict[Key, list[dict[str, Any]]] = defaultdict(list)
    for row in sorted(rows.to_pylist() if rows is not None else [], key=lambda r: r["n"]):
        read = (row["boot_id"], row["seq"])
        if read in hosts:
            grouped[hosts[read], *read].append(row)
    return grouped


def _ns(time: Any) -> int:
    return int(np.datetime64(time.replace(tzinfo=None), "us").astype(np.int64)) * 1000


def _value(value: Any) -> Value:
    return float(value[0]) if isinstance(value, list) else value


def _device(row: Mapping[str, Any]) -> Device:
    host, attributes = orjson.loads(row["device_attributes"])
    return Device(host, row["device_kind"], row["device"], attributes)


def _event(row: Mapping[str, Any]) -> Event:
    attributes = {k: _value(v) for k, v in orjson.loads(row["attributes"]).items()}
    return Event(_ns(row["time"]), row["mono_ns"], _device(row), row["kind"], attributes)


def _finding(row: Mapping[str, Any]) -> Finding:
    named: dict[str, Any] = {
        k: row[k] for k in ("detector", "fault", "phase", "severity", "summary", "action", "unit")
    }
    named |= {k: float("nan") if row[k] is None else row[k] for k in ("value", "expected")}
    named |= {"onset_ns": _ns(row["onset"]), "time_ns": _ns(row["said"])}
    return Finding(device=_device(row), evidence=tuple(row["evidence"]), **named)
