"""A batch: all observations of one host in a few seconds, whole in itself.

Layout, little endian: magic ``TOCB``, u8 version, u32 length of the body before compression, u32
CRC-32 of what follows, then the body, compressed (zlib, level 1). The body: u32 length of the head,
the head (JSON), then the blocks of each stack. A stack is all frames of one kind about the same
devices: times and gaps of the host's clocks, masks, then its columns as pipeline/bus/arrays.py
packs them; columns that nobody observed are left out. Columns are named, so that agents and
gateways of different versions understand each other.

A lost batch loses only itself; ``previous`` says which observation came before it.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Any

import orjson

from pipeline.bus.observations import (
    device_from,
    incident_of,
    judged_from,
    plain_judged,
    text,
    whole,
)
from pipeline.bus.stack import decode_stack, encode_stack, stacks_of
from pipeline.finding import Incident
from pipeline.frame import Frame
from pipeline.judged import JudgedObservation
from pipeline.plain import plain

MAGIC, VERSION = b"TOCB", 1
PREFIX = struct.Struct("<4sBII")
HEAD = struct.Struct("<I")
# A batch of 16 GPUs, 64 ports and 300 links over a minute is 3 MB before compression: docs/bus.md.
MAX_BYTES = 16 << 20
# Readings of one device at one instant; each becomes a row of all columns of its kind, 2.6 kB for a
# GPU. A minute of 16 GPUs, 64 ports and 288 NVLinks every five seconds is 8,300.
MAX_ROWS = 32_768


class BatchError(ValueError):
    """Bytes that are no batch of ours, or that claim more than a batch may hold."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What one host observed, in the order of ``seq``.

    ``start`` is random per start of the agent, ``number`` counts its batches; ``previous`` is the
    ``seq`` of the observation before the first one, -1 at the beginning. ``sent_ns`` is the host's
    unix time when it was made. ``open`` are the incidents that are open then: a state that is
    repeated is not lost with a message.
    """

    host: str
    start: str
    number: int
    previous: int
    sent_ns: int
    judged: tuple[JudgedObservation, ...]
    open: tuple[Incident, ...] = ()


def encode(batch: Batch) -> bytes:
    """The batch as bytes. BatchError where it is larger than a batch may be."""
    stacks = stacks_of([judged.observation for judged in batch.judged])
    heads, blocks = [], []
    for stack in stacks:
        head, block = encode_stack(stack)
        heads.append(head)
        blocks.append(block)
    head_bytes = orjson.dumps(
        {
            "host": batch.host,
            "start": batch.start,
            "number": batch.number,
            "previous": batch.previous,
            "sent_ns": batch.sent_ns,
            "observations": [plain_judged(judged) for judged in batch.judged],
            "open": [plain(incident) for incident in batch.open],
            "stacks": heads,
        }
    )
    body = b"".join([HEAD.pack(len(head_bytes)), head_bytes, *blocks])
    if len(body) > MAX_BYTES:
        raise BatchError(f"a batch of {len(body)} bytes; {MAX_BYTES} at most")
    packed = zlib.compress(body, 1)
    return PREFIX.pack(MAGIC, VERSION, len(body), zlib.crc32(packed)) + packed


def decode(raw: bytes) -> Batch:
    """The batch that ``encode`` was given, at most ``MAX_BYTES`` of memory for its body.

    Columns that this version's catalogue lacks are left out. BatchError for all other bytes.
    """
    body = memoryview(_body(raw))
    try:
        (size,) = HEAD.unpack_from(body)
        head = orjson.loads(body[HEAD.size : HEAD.size + size])
        frames = _frames(head, body[HEAD.size + size :])
        judged = tuple(
            judged_from(about, head["host"], frames.get(n, {}))
            for n, about in enumerate(head["observations"])
        )
        return Batch(
            text(head["host"]),
            text(head["start"]),
            whole(head["number"]),
            whole(head["previous"], least=-1),
            whole(head["sent_ns"]),
            judged,
            tuple(map(incident_of, head["open"])),
        )
    except (ArithmeticError, LookupError, TypeError, ValueError, struct.error) as damage:
        raise BatchError(f"does not decode: {type(damage).__name__}: {damage}") from damage


def _body(raw: bytes) -> bytes:
    if len(raw) < PREFIX.size or raw[: len(MAGIC)] != MAGIC:
        raise BatchError("no batch: the first bytes are not ours")
    _, version, length, crc = PREFIX.unpack_from(raw)
    if version != VERSION:
        raise BatchError(f"format {version}; this version reads {VERSION}")
    if length > MAX_BYTES:
        raise BatchError(f"claims {length} bytes; {MAX_BYTES} at most")
    packed = memoryview(raw)[PREFIX.size :]
    if zlib.crc32(packed) != crc:
        raise BatchError("checksum differs: torn or damaged")
    reader = zlib.decompressobj()
    try:
        body = reader.decompress(packed, length + 1)
    except zlib.error as damage:
        raise BatchError(f"does not decompress: {damage}") from damage
    if len(body) != length or not reader.eof:
        raise BatchError(f"is not the {length} bytes that it claims")
    return body


def _frames(head: Any, blocks: memoryview) -> dict[int, dict[int, Frame]]:
    """Frames by the observation and the place in it that they belong to."""
    found: dict[int, dict[int, Frame]] = {}
    at = 0
    rows = sum(len(stack["places"]) * max(1, len(stack["devices"])) for stack in head["stacks"])
    if rows > MAX_ROWS:
        raise ValueError(f"{rows} readings of devices; {MAX_ROWS} at most")
    for about in head["stacks"]:
        devices = tuple(device_from(device, head["host"]) for device in about["devices"])
        stack, used = decode_stack(about, devices, blocks[at:])
        at += used
        for (observation, place), frame in zip(stack.places, stack.frames, strict=True):
            found.setdefault(observation, {})[place] = frame
    if at != len(blocks):
        raise ValueError(f"{len(blocks) - at} bytes too many")
    return found
