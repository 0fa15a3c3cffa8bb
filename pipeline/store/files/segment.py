"""Segments of the write-ahead log as bytes: records that are found again behind damage.

Version 2 opens with ``TOCWAL02``, a *marker* of 16 random bytes and the CRC-32 of both. A record is
the marker, u32 length, u32 CRC-32 of all that follows and of the length, u32 number of the record
in its segment, u8 type, payload; little endian. Behind a record that cannot be read the next marker
is looked for, and the numbers tell how many records are missing. The marker is random for each
segment, and only the agent's user and group read the file: no text that a job gets into a payload
can be taken for a record (Avro's object container files are made so, with the same 16 bytes).

Version 1 (``TOCWAL01``, before 0.6) has no markers: u32 length, u32 CRC-32 of type and payload, u8
type. A damaged record is skipped by its length where a good one follows; else the rest is lost.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from pipeline.store.files.record import CorruptError

NAME = b"TOCWAL"
MAGIC, MAGIC_1 = NAME + b"02", NAME + b"01"
MARKER_BYTES = 16
OPENING = struct.Struct(f"<8s{MARKER_BYTES}sI")
RECORD = struct.Struct(f"<{MARKER_BYTES}sIIIB")
COVERED = struct.Struct("<IIB")  # length, number, type: with the payload under the checksum
RECORD_1 = struct.Struct("<IIB")
HEADER, DEVICES, OBSERVATION, END = range(4)
MAX_BYTES = 64 << 20  # a length beyond this is damage, not a record
CHUNK = 1 << 20  # read at once while a marker is looked for

Record = tuple[int, bytes]  # type and payload
Numbered = tuple[int, int, bytes, bool]  # number, type, payload, whether its marker is whole


class NewerError(ValueError):
    """A segment, or a file, of a layout that this version does not know."""


@dataclass(slots=True)
class Damage:
    """What could not be read of a segment.

    ``records`` are missing by their numbers, or at least so many; ``size`` bytes were skipped.
    ``unended``: the last record is incomplete or is not the one that ends a segment, as a kill or a
    power cut leaves it; that is no damage.
    """

    records: int = 0
    size: int = 0
    unended: bool = False
    why: str = ""

    def __bool__(self) -> bool:
        return bool(self.records or self.size)

    def add(self, records: int, size: int, why: str) -> None:
        """More of it; the first reason is kept."""
        self.records, self.size, self.why = (
            self.records + records,
            self.size + size,
            self.why or why,
        )


def opening(marker: bytes) -> bytes:
    """The first bytes of a segment with this marker."""
    return OPENING.pack(MAGIC, marker, zlib.crc32(MAGIC + marker))


def is_newer(head: bytes) -> bool:
    """Whether a segment with these first bytes is of a layout that this version does not know.

    One flipped bit makes a later number of ours: that one has a wrong checksum.
    """
    if len(head) < OPENING.size or not head.startswith(NAME):
        return False
    magic, marker, crc = OPENING.unpack_from(head)
    return bool(magic != MAGIC and zlib.crc32(magic + marker) == crc)


def packed(marker: bytes, number: int, kind: int, payload: bytes) -> bytes:
    """A record. ValueError where it is longer than a reader accepts."""
    if len(payload) > MAX_BYTES:
        raise ValueError(f"an observation of {len(payload)} bytes is more than {MAX_BYTES}")
    crc = _crc(len(payload), number, kind, payload)
    return RECORD.pack(marker, len(payload), crc, number, kind) + payload


def records(file: BinaryIO, name: str, damage: Damage) -> Iterator[Record]:
    """Every record of a segment that can be read; what cannot is added to ``damage``.

    CorruptError where the file is not a segment at all, NewerError where a later version wrote it.
    """
    head = file.read(CHUNK)
    if len(head) < OPENING.size and (head[: len(NAME)] == NAME or NAME.startswith(head)):
        damage.unended = True  # killed while it was being opened: it holds nothing yet
        return
    magic, marker, crc = OPENING.unpack_from(head.ljust(OPENING.size, b"\0"))
    if is_newer(head):
        raise NewerError(f"{name}: written by a newer version (layout {magic!r})")
    if magic == MAGIC and zlib.crc32(magic + marker) == crc:
        pass
    elif magic == MAGIC_1 or _record_1(file, len(MAGIC_1)) is not None:
        if magic != MAGIC_1:
            damage.add(0, len(MAGIC_1), "the first bytes are damaged")
        yield from _chained(file, damage)
        return
    elif (repeated := _marker(head)) is not None:
        marker = repeated
        damage.add(0, OPENING.size, "the first bytes are damaged")
    elif magic == MAGIC:
        damage.add(1, _size(file), "the first bytes are damaged, and no record was found")
        return
    else:
        raise CorruptError(
            f"{name}: not a segment of the write-ahead log (begins with {head[:12]!r})"
        )
    yield from _marked(file, marker, damage)


def _marker(head: bytes) -> bytes | None:
    """The marker of a segment whose opening is damaged: one that its records repeat."""
    places = (len(MAGIC), OPENING.size)
    found = {head[place : place + MARKER_BYTES] for place in places}
    known = [m for m in found if len(m) == MARKER_BYTES and any(m) and head.count(m) > 1]
    return max(known, key=head.count, default=None)


def _marked(file: BinaryIO, marker: bytes, damage: Damage) -> Iterator[Record]:
    at, expected, ended = OPENING.size, 0, False
    while True:
        found = _record(file, marker, at, expected)
        if found is None:
            place, found = _behind(file, marker, at)
            if found is None:
                _end(file, at, RECORD.size, damage)
                damage.unended = damage.unended or not ended
                return
            damage.add(0, place - at, f"damaged from byte {at} on")
            at = place
        number, kind, payload, whole = found
        if not whole:
            damage.add(0, MARKER_BYTES, f"damaged at byte {at}")
        if number > expected:
            damage.add(number - expected, 0, f"records are missing before byte {at}")
        expected = number + 1
        at += RECORD.size + len(payload)
        ended = kind == END
        yield kind, payload


def _behind(file: BinaryIO, marker: bytes, at: int) -> tuple[int, Numbered | None]:
    """Where the next good record behind a place begins, and the record."""
    while (place := _find(file, marker, at + 1)) is not None:
        if (found := _record(file, marker, place)) is not None:
            return place, found
        at = place
    return at, None


def _record(file: BinaryIO, marker: bytes, at: int, expected: int | None = None) -> Numbered | None:
    """Number, type and payload of the record at a place, and whether its marker is whole.

    None where there is none. Without its marker a record is taken only where it must begin.
    """
    file.seek(at)
    head = file.read(RECORD.size)
    if len(head) < RECORD.size:
        return None
    given, length, crc, number, kind = RECORD.unpack(head)
    if length > MAX_BYTES or (given != marker and number != expected):
        return None
    payload = file.read(length)
    if len(payload) < length or _crc(length, number, kind, payload) != crc:
        return None
    return number, kind, payload, given == marker


def _find(file: BinaryIO, marker: bytes, at: int) -> int | None:
    """Where the next marker begins."""
    file.seek(at)
    window = b""
    while chunk := file.read(CHUNK):
        window += chunk
        place = window.find(marker)
        if place >= 0:
            return at + place
        kept = min(len(window), MARKER_BYTES - 1)
        at, window = at + len(window) - kept, window[len(window) - kept :]
    return None


def _chained(file: BinaryIO, damage: Damage) -> Iterator[Record]:
    """Records of version 1."""
    at = len(MAGIC_1)
    while True:
        found = _record_1(file, at)
        if found is not None:
            at += RECORD_1.size + len(found[1])
            yield found
            continue
        file.seek(at)
        head = file.read(RECORD_1.size)
        length = RECORD_1.unpack(head)[0] if len(head) == RECORD_1.size else MAX_BYTES
        if length >= MAX_BYTES or _record_1(file, at + RECORD_1.size + length) is None:
            _end(file, at, RECORD_1.size, damage)
            return
        damage.add(1, RECORD_1.size + length, f"damaged at byte {at}")
        at += RECORD_1.size + length


def _record_1(file: BinaryIO, at: int) -> Record | None:
    file.seek(at)
    head = file.read(RECORD_1.size)
    if len(head) < RECORD_1.size:
        return None
    length, crc, kind = RECORD_1.unpack(head)
    payload = file.read(length) if length <= MAX_BYTES and kind < END else b""
    return (kind, payload) if len(payload) == length and zlib.crc32(payload, kind) == crc else None


def _end(file: BinaryIO, at: int, head_bytes: int, damage: Damage) -> None:
    """Account for what is left behind the last good record: a torn record, or damage."""
    left = _size(file) - at
    if left <= 0:
        return
    file.seek(at)
    head = file.read(head_bytes)
    place = MARKER_BYTES if head_bytes == RECORD.size else 0
    length = int.from_bytes(head[place : place + 4], "little")
    incomplete = len(head) < head_bytes or left - head_bytes < length <= MAX_BYTES
    # zeros: in a power cut the size was kept and the bytes were not
    if incomplete or _zeros(file, at):
        damage.unended = True
    else:
        damage.add(1, left, f"damaged from byte {at} to the end")


def _zeros(file: BinaryIO, at: int) -> bool:
    file.seek(at)
    while chunk := file.read(CHUNK):
        if chunk.strip(b"\0"):
            return False
    return True


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def _crc(length: int, number: int, kind: int, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(COVERED.pack(length, number, kind)))
