"""A batch: all observations of one host in a few seconds, complete in itself.

Layout, little endian: magic ``TOCB``, u8 version, u32 length of the body before compression, u32
CRC-32 of what follows; u16 number of stacks; for the description of each stack (pipeline/bus/
stack.py) u32 length before compression, u32 length, and its bytes, compressed; then the body,
compressed (zlib). The body: u32 length of the head, u32 length of the bits, the head (JSON), the
bits and the words of all stacks (pipeline/bus/taker.py). Columns are named, so that agents and
gateways of different versions understand each other.

Descriptions are compressed apart: they are the same bytes in every batch of a host, so that who
has read one reads it again by looking it up. A lost batch loses only itself; ``previous`` says
which observation came before it.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import orjson

from pipeline.arrival import Arrival
from pipeline.block import AnyBlock, Block
from pipeline.bus.observations import (
    arrivals_from,
    incident_of,
    plain_judged,
    text,
    whole,
    wholes,
)
from pipeline.bus.stack import (
    TIMES,
    About,
    Stack,
    decode_groups,
    encode_groups,
    encode_stack,
    read_about,
    stacks_of,
)
from pipeline.bus.taker import Taker, pack
from pipeline.finding import Finding, Incident
from pipeline.judged import JudgedObservation
from pipeline.observation import Observation
from pipeline.plain import plain
from pipeline.sound_json import sound_json

MAGIC, VERSION = b"TOCB", 3
PREFIX = struct.Struct("<4sBII")
COUNT, LENGTHS = struct.Struct("<H"), struct.Struct("<II")
# A batch of 16 GPUs, 64 ports and 300 links over a minute is 3 MB before compression: docs/bus.md.
MAX_BYTES = 16 << 20
# Readings of one device at one instant; each becomes a row of all columns of its kind, 2.6 kB for a
# GPU. A minute of 16 GPUs, 64 ports and 288 NVLinks every five seconds is 8,300.
MAX_ROWS = 32_768
MAX_VALUES = 8 << 20  # of a batch: rows times columns; that minute has 2 million
# Descriptions: of 144 NVLinks 21 kB, of 256 allocations 0.3 MB.
MAX_ABOUT = 2 << 20
# That are kept of a host: it has one for each kind of device.
MAX_KNOWN, MAX_KNOWN_BYTES = 32, 2 * MAX_ABOUT
MAX_OPEN = 256  # incidents that a batch repeats; the newest
# Of a head: 16 MiB of empty lists become 480 MiB once they are decoded. The ten seconds of a batch,
# with 2,000 lines of logs every five, have 100,000.
MAX_HEAD_VALUES = 1 << 18
_QUOTE = ord('"')
_TEXT_OR_VALUE = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[{,]', re.DOTALL)


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

    @property
    def arrivals(self) -> Sequence[Observation]:
        """The observations."""
        return [each.observation for each in self.judged]


class Received(NamedTuple):
    """A batch as a gateway reads it; ``verdicts`` on some observations, by their index."""

    host: str
    start: str
    number: int
    previous: int
    sent_ns: int
    arrivals: tuple[Arrival, ...]
    verdicts: Mapping[int, tuple[tuple[Finding, ...], tuple[Incident, ...]]]
    open: tuple[Incident, ...] = ()

    def batch(self) -> Batch:
        """The batch that ``encode`` was given."""
        judged = tuple(
            JudgedObservation(one.observation(), *self.verdicts.get(number, ((), ())))
            for number, one in enumerate(self.arrivals)
        )
        return Batch(*self[:5], judged, self.open)


def encode(batch: Batch) -> bytes:
    """The batch as bytes. BatchError where it is larger than a batch may be."""
    stacks = stacks_of([judged.observation for judged in batch.judged])
    encoded = [encode_stack(stack) for stack in stacks]
    bits, words = encode_groups(encoded)
    return assemble(
        sound_json(head_of(batch, stacks)),
        [each.about for each in encoded],
        pack(bits, words),
    )


def head_of(batch: Batch, stacks: Sequence[Stack]) -> dict[str, Any]:
    """The part of a batch that is no numbers, as plain values."""
    return {
        "host": batch.host,
        "start": batch.start,
        "number": batch.number,
        "previous": batch.previous,
        "sent_ns": batch.sent_ns,
        "observations": plain_judged(batch.judged),
        "open": [plain(incident) for incident in batch.open],
        "places": [stack.places for stack in stacks],
    }


def assemble(head: bytes, abouts: Sequence[bytes], values: Sequence[bytes]) -> bytes:
    """A batch of its parts: the head, descriptions, and the bits and words as ``pack`` made them.

    BatchError where it is larger than a batch may be.
    """
    body = b"".join([LENGTHS.pack(len(head), len(values[0])), head, *values])
    size = len(body) + sum(map(len, abouts))
    if size > MAX_BYTES:
        raise BatchError(f"a batch of {size} bytes; {MAX_BYTES} at most")
    described = map(_packed_about, abouts)
    packed = b"".join([COUNT.pack(len(abouts)), *described, zlib.compress(body, 1)])
    return PREFIX.pack(MAGIC, VERSION, len(body), zlib.crc32(packed)) + packed


def _fits(size: int) -> None:
    if size > MAX_ABOUT:
        raise BatchError(f"a description of {size} bytes; {MAX_ABOUT} at most")


@lru_cache(MAX_KNOWN)
def _packed_about(about: bytes) -> bytes:
    _fits(len(about))
    packed = zlib.compress(about)
    return LENGTHS.pack(len(about), len(packed)) + packed


class Opened(NamedTuple):
    """A batch of which all but the values was read: ``stacks``, of so many ``samples`` each, whose
    values are in ``bits`` and ``words``. ``head`` was read from ``head_json``, each stack from its
    ``described``: length before compression, and bytes.
    """

    host: str
    head: dict[str, Any]
    stacks: list[About]
    samples: list[int]
    bits: memoryview
    words: memoryview
    head_json: memoryview
    described: Sequence[tuple[int, bytes]]

    def received(self, blocks: Sequence[Iterable[AnyBlock]]) -> Received:
        """With the blocks of each stack."""
        head, about = self.head, self.head["observations"]
        return Received(
            self.host,
            text(head["start"]),
            whole(head["number"]),
            whole(head["previous"], least=-1),
            whole(head["sent_ns"]),
            *arrivals_from(about, self.host, _frames(blocks, head["places"], about["frames"])),
            tuple(map(incident_of, head["open"][-MAX_OPEN:])),
        )


class Decoder:
    """Reads the batches of one host, whose descriptions it knows again."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, bytes], About] = {}
        self._bytes = 0  # of those, before compression
        self.forgot = 0  # how often all of them were forgotten

    def decode(self, raw: bytes) -> Received:
        """What ``encode`` was given, at most ``MAX_BYTES`` of memory for its bytes.

        Columns that this version's catalogue lacks are left out. BatchError for all other bytes.
        """
        return read(self.open(raw))

    def open(self, raw: bytes) -> Opened:
        """All but the values. BatchError as ``decode``."""
        length, packed = _checked(raw)
        with damage_is_an_error():
            return self._opened(length, packed)

    def _opened(self, length: int, packed: memoryview) -> Opened:
        abouts, rest = _parts(packed)
        if sum(size for size, _ in abouts) + length > MAX_BYTES:
            raise BatchError(f"claims more than {MAX_BYTES} bytes")
        body = memoryview(_inflated(rest, length))
        head_size, bits_size = LENGTHS.unpack_from(body)
        bits_at = LENGTHS.size + head_size
        host, head = read_head(body[LENGTHS.size : bits_at])
        stacks = [self._about(host, *about) for about in abouts]
        samples = [len(its) for its in head["places"]]
        _bounded(stacks, samples, head["observations"]["frames"])
        words_at = bits_at + bits_size
        return Opened(
            host,
            head,
            stacks,
            samples,
            body[bits_at:words_at],
            body[words_at:],
            body[LENGTHS.size : bits_at],
            abouts,
        )

    def _about(self, host: str, size: int, packed: bytes) -> About:
        known = self._known.get((host, packed))
        if known is None:
            known = described(size, packed, host)
            if len(self._known) == MAX_KNOWN or self._bytes + size > MAX_KNOWN_BYTES:
                self._known.clear()  # its devices change all the time
                self._bytes, self.forgot = 0, self.forgot + 1
            self._known[host, packed] = known
            self._bytes += size
        return known


def read_head(raw: bytes | memoryview) -> tuple[str, dict[str, Any]]:
    """Host and head of a batch. ValueError, LookupError or TypeError where it is none."""
    raw = bytes(raw)
    if sum(map(raw.count, (b",", b"[", b"{"))) > MAX_HEAD_VALUES:  # texts have commas, too
        begins = map(re.Match.start, _TEXT_OR_VALUE.finditer(raw))
        values = (at for at in begins if raw[at] != _QUOTE)
        if next(islice(values, MAX_HEAD_VALUES, None), None) is not None:
            raise ValueError(f"more than {MAX_HEAD_VALUES} values in its head")
    head = orjson.loads(raw)
    return text(head["host"]), head


def described(size: int, packed: bytes, host: str) -> About:
    """The description of a stack of this host, of so many bytes before compression."""
    _fits(size)
    return read_about(_inflated(packed, size), host)


def read(opened: Opened) -> Received:
    """The batch with its values. BatchError where they are not those that it claims."""
    with damage_is_an_error():
        return opened.received(blocks_in(opened))


def blocks_in(opened: Opened) -> list[Iterable[Block]]:
    """The blocks of each stack. BatchError where the values are not those that it claims."""
    with damage_is_an_error():
        take = Taker(opened.bits, opened.words)
        blocks = decode_groups(opened.stacks, opened.samples, take)
        take.end()
        return blocks


@contextmanager
def damage_is_an_error() -> Iterator[None]:
    """Whatever bytes of strangers make of a decoder, as a BatchError."""
    try:
        yield
    except BatchError:
        raise
    except DAMAGE as damage:
        raise BatchError(f"does not decode: {type(damage).__name__}: {damage}") from damage


DAMAGE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, struct.error)


def decode(raw: bytes) -> Batch:
    """The batch, as a ``Decoder`` reads it that meets its host for the first time."""
    return Decoder().decode(raw).batch()


def claimed(raw: bytes) -> int:
    """Bytes that a message claims to be before compression; 0 where it is no batch."""
    return int(PREFIX.unpack_from(raw)[2]) if len(raw) >= PREFIX.size else 0


def _checked(raw: bytes) -> tuple[int, memoryview]:
    """Length of the body, and what follows the prefix."""
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
    return length, packed


def _parts(packed: memoryview) -> tuple[list[tuple[int, bytes]], memoryview]:
    """Descriptions with the lengths that they claim, and the body; all compressed."""
    (count,) = COUNT.unpack_from(packed)
    at, abouts = COUNT.size, []
    for _ in range(count):
        size, length = LENGTHS.unpack_from(packed, at)
        at += LENGTHS.size
        abouts.append((size, bytes(packed[at : at + length])))
        at += length
    return abouts, packed[at:]


def _inflated(packed: bytes | memoryview, length: int) -> bytes:
    reader = zlib.decompressobj()
    try:
        body = reader.decompress(packed, length + 1)
    except zlib.error as damage:
        raise BatchError(f"does not decompress: {damage}") from damage
    if len(body) != length or not reader.eof:
        raise BatchError(f"is not the {length} bytes that it claims")
    return body


def _bounded(stacks: Sequence[About], samples: Sequence[int], counts: Sequence[int]) -> None:
    """ValueError where a batch claims more than one may hold: before room is made for it."""
    sizes = [
        (count * max(1, len(about.devices)), about.columns + TIMES)
        for about, count in zip(stacks, samples, strict=True)
    ]
    if (rows := sum(rows for rows, _ in sizes)) > MAX_ROWS:
        raise ValueError(f"{rows} readings of devices; {MAX_ROWS} at most")
    if (values := sum(rows * columns for rows, columns in sizes)) > MAX_VALUES:
        raise ValueError(f"{values} values; {MAX_VALUES} at most")
    wholes(counts)  # a negative one would let another be as large as it likes
    if 0 in samples or sum(counts) != sum(samples):
        raise ValueError("frames that belong to no observation, or the other way round")


def _frames(
    blocks: Sequence[Iterable[AnyBlock]], places: Sequence[Any], counts: Sequence[int]
) -> list[tuple[AnyBlock, ...]]:
    """Frames of each observation, which has so many."""
    found: list[list[AnyBlock | None]] = [[None] * count for count in counts]
    for its, of_stack in zip(places, blocks, strict=True):
        for (observation, place), block in zip(its, of_stack, strict=True):
            found[observation][place] = block
    frames = [tuple(block for block in its if block is not None) for its in found]
    if [*map(len, frames)] != [*counts]:
        raise ValueError("two frames in one place")
    return frames
