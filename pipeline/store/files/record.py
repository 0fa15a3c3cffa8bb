"""One observation with its findings as bytes and back: what the write-ahead log is made
of. numpy and JSON only.

Layout of a record's payload, little endian: u32 length of the head, the head (JSON), then for each
frame its blocks one after the other: sampled_ns int64[D], gauges float64[G, D], counters uint64[C,
D], observed as packed bits of [C, D], rows first. Devices are named by a *generation*: the tuple of
devices with their attributes, written once per segment in a record of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from pipeline.catalog import KINDS, fields_of
from pipeline.frame import Device, Frame, Schema, blank, schema_of
from pipeline.judged import JudgedObservation
from pipeline.observation import Event, Observation, Unread
from pipeline.plain import finding_from, incident_from, plain, plain_event, value_from
from pipeline.sound_json import sound_json

HEAD = struct.Struct("<I")


class CorruptError(ValueError):
    """Bytes that are not what the checksum or the layout promised."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of one kind as a segment's header names them: (field id, name) in
    the order of the blocks.
    """

    gauges: tuple[tuple[int, str], ...]
    counters: tuple[tuple[int, str], ...]


def columns_now() -> dict[str, Columns]:
    """The columns of every kind in this version's catalogue."""
    return {
        kind: Columns(
            tuple((f.id, f.name) for f in fields_of(kind) if f.type == "gauge"),
            tuple((f.id, f.name) for f in fields_of(kind) if f.type == "counter"),
        )
        for kind in KINDS
    }


def encode_devices(number: int, devices: Sequence[Device]) -> bytes:
    """The record that introduces a generation of devices."""
    return sound_json([number, [[d.host, d.kind, d.id, dict(d.attributes)] for d in devices]])


def decode_devices(payload: bytes) -> tuple[int, tuple[Device, ...]]:
    """(number, devices) of a generation."""
    number, devices = orjson.loads(payload)
    return number, tuple(Device(*device) for device in devices)


def encode(judged: JudgedObservation, generations: Sequence[int]) -> bytes:
    """Payload of an observation; ``generations`` are the numbers of its
    frames' devices, one per frame.
    """
    observation, findings, incidents = judged
    head = [
        [observation.source, observation.host, observation.boot_id, observation.seq],
        [
            observation.time_ns,
            observation.mono_ns,
            observation.duration_ns,
            observation.outcome,
            observation.error,
        ],
        [
            [f.kind, g, f.time_ns, f.mono_ns]
            for f, g in zip(observation.frames, generations, strict=True)
        ],
        [plain_event(e) for e in observation.events],
        [[u.reason, u.device, u.field] for u in observation.unread],
        [plain(f) for f in findings],
        [plain(i) for i in incidents],
    ]
    raw = sound_json(head)
    blocks = [HEAD.pack(len(raw)), raw]
    for f in observation.frames:
        blocks += [
            f.sampled_ns.tobytes(),
            f.gauges.tobytes(),
            f.counters.tobytes(),
            np.packbits(f.observed).tobytes(),
        ]
    return b"".join(blocks)


def decode(
    payload: bytes, generations: Mapping[int, tuple[Device, ...]], columns: Mapping[str, Columns]
) -> JudgedObservation:
    """The observation with its findings and incidents.

    Columns of the segment that this catalogue lacks are left out; new ones are unobserved.

    CorruptError where the payload is shorter or longer than its head says, or
    names an unknown generation.
    """
    try:
        (size,) = HEAD.unpack_from(payload)
        about, when, frames, events, unread, findings, *others = orjson.loads(
            payload[HEAD.size : HEAD.size + size]
        )
        cursor = _Cursor(payload, HEAD.size + size)
        source, host, boot_id, seq = about
        time_ns, mono_ns, duration_ns, outcome, error = when
        observation = Observation(
            source,
            host,
            boot_id,
            seq,
            time_ns,
            mono_ns,
            duration_ns,
            frames=tuple(
                _frame(cursor, *frame, generations=generations, columns=columns) for frame in frames
            ),
            events=tuple(
                Event(t, m, Device(*d), kind, {k: value_from(v) for k, v in a.items()})
                for t, m, d, kind, a in events
            ),
            unread=tuple(Unread(*u) for u in unread),
            outcome=outcome,
            error=error,
        )
    except (struct.error, orjson.JSONDecodeError, KeyError, TypeError, ValueError) as damage:
        raise CorruptError(f"record does not decode: {type(damage).__name__}: {damage}") from damage
    if cursor.at != len(payload):
        raise CorruptError(f"record has {len(payload) - cursor.at} bytes too many")
    incidents = others[0] if others else ()  # versions before 0.5 wrote none
    return JudgedObservation(
        observation, tuple(map(finding_from, findings)), tuple(map(incident_from, incidents))
    )


class _Cursor:
    """Takes arrays from a payload one after the other; each is a copy."""

    def __init__(self, payload: bytes, at: int) -> None:
        self._payload, self.at = payload, at

    def take(self, dtype: Any, *shape: int) -> Any:
        count = int(np.prod(shape))
        array = np.frombuffer(self._payload, dtype, count, self.at)
        self.at += array.nbytes
        return array.reshape(shape).copy()

    def bits(self, *shape: int) -> Any:
        count = int(np.prod(shape))
        packed = self.take(np.uint8, (count + 7) // 8)
        return np.unpackbits(packed, count=count).astype(np.bool_).reshape(shape)


def _frame(
    cursor: _Cursor,
    kind: str,
    number: int,
    time_ns: int,
    mono_ns: int,
    *,
    generations: Mapping[int, tuple[Device, ...]],
    columns: Mapping[str, Columns],
) -> Frame:
    devices, stored = generations[number], columns[kind]
    n = len(devices)
    sampled = cursor.take(np.int64, n)
    gauges = cursor.take(np.float64, len(stored.gauges), n)
    counters = cursor.take(np.uint64, len(stored.counters), n)
    observed = cursor.bits(len(stored.counters), n)
    schema = schema_of(kind)
    if stored != columns_of(schema):
        gauges, counters, observed = _moved(schema, stored, devices, (gauges, counters, observed))
    return Frame(schema, time_ns, mono_ns, devices, gauges, counters, observed, sampled)


def columns_of(schema: Schema) -> Columns:
    """The columns of a schema as a header names them."""
    return Columns(
        tuple((f.id, f.name) for f in schema.gauges), tuple((f.id, f.name) for f in schema.counters)
    )


def _moved(
    schema: Schema, stored: Columns, devices: tuple[Device, ...], blocks: tuple[Any, Any, Any]
) -> tuple[Any, Any, Any]:
    """Blocks of another version's catalogue in this one's order, matched by field id."""
    gauges, counters, observed = blank(schema.kind, devices)
    gauge_at = {f.id: i for i, f in enumerate(schema.gauges)}
    counter_at = {f.id: i for i, f in enumerate(schema.counters)}
    for row, (field_id, _) in enumerate(stored.gauges):
        if field_id in gauge_at:
            gauges[gauge_at[field_id]] = blocks[0][row]
    for row, (field_id, _) in enumerate(stored.counters):
        if field_id in counter_at:
            counters[counter_at[field_id]], observed[counter_at[field_id]] = (
                blocks[1][row],
                blocks[2][row],
            )
    return gauges, counters, observed
