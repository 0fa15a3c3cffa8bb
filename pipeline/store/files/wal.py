"""Write-ahead log: checksummed segments that describe themselves.

A kill loses at most what was not yet fsynced, never a record before.

A segment is a file ``<boot>-<number>.wal``: magic, then records. A record is u32 length, u32 CRC-32
of type and payload, u8 type, payload. Types: header (JSON: host, boot id, columns of every kind),
devices, observation. The header comes first.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import orjson

from pipeline.catalog import agent
from pipeline.clock import SECOND_NS, Clock
from pipeline.finding import Finding, Incident
from pipeline.frame import Device
from pipeline.judged import JudgedObservation
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files.layout import make_folder, sync_folder
from pipeline.store.files.record import (
    Columns,
    CorruptError,
    columns_now,
    decode,
    decode_devices,
    encode,
    encode_devices,
)

MAGIC = b"TOCWAL01"
RECORD = struct.Struct("<IIB")
HEADER, DEVICES, OBSERVATION = range(3)
LONGEST = 64 << 20  # a length beyond this is damage, not a record


class Wal:
    """The sink that appends every observation, with its findings, to the newest segment.

    ``fsync_s`` is the longest time that a written record stays unsynced while records keep coming;
    ``segment_bytes`` and ``segment_s`` close a segment; ``max_bytes`` bounds all segments together:
    the oldest go first, counted. A write that fails (disk full) leaves the segment as it was before
    and raises: the engine counts it, the next one tries again.
    """

    name = "wal"

    def __init__(
        self,
        directory: Path,
        clock: Clock,
        metrics: SelfMetrics,
        *,
        fsync_s: float = 1.0,
        segment_bytes: int = 64 << 20,
        segment_s: float = 900.0,
        max_bytes: int = 1 << 30,
    ) -> None:
        self._directory, self._clock, self._metrics = directory, clock, metrics
        self._fsync_ns, self._segment_ns = round(fsync_s * SECOND_NS), round(segment_s * SECOND_NS)
        self._segment_bytes, self._max_bytes = segment_bytes, max_bytes
        self.path: Path | None = None  # of the open segment
        self._fd: int | None = None
        self._size = 0
        self._opened_ns = self._synced_ns = 0
        self._generations: dict[str, tuple[tuple[Device, ...], int]] = {}
        metrics.add(agent.WAL_DROPPED_SEGMENTS, amount=0)

    def write(
        self,
        observation: Observation,
        findings: Sequence[Finding],
        incidents: Sequence[Incident] = (),
    ) -> None:
        """Append one observation. OSError where the disk refuses."""
        now = self._clock.monotonic_ns()
        if self._fd is None:
            self._open(observation, now)
        numbers, introductions = self._introduce(observation)
        self._append(
            [
                *introductions,
                _record(
                    OBSERVATION,
                    encode(
                        JudgedObservation(observation, tuple(findings), tuple(incidents)), numbers
                    ),
                ),
            ]
        )
        if now - self._synced_ns >= self._fsync_ns:
            self.sync()
        if self._size >= self._segment_bytes or now - self._opened_ns >= self._segment_ns:
            self.rotate()

    def sync(self) -> None:
        """Make everything written so far durable."""
        if self._fd is not None:
            os.fdatasync(self._fd)
            self._metrics.add(agent.WAL_SYNCS)
        self._synced_ns = self._clock.monotonic_ns()

    def rotate(self) -> None:
        """End the segment: what comes next begins another."""
        if self._fd is None:
            return
        fd, self._fd, self.path = self._fd, None, None
        try:
            os.fdatasync(fd)
        finally:
            os.close(fd)

    def close(self) -> None:
        """Make it durable and let go. Safe twice."""
        self.rotate()

    def _open(self, observation: Observation, now: int) -> None:
        make_folder(self._directory)
        self._drop_oldest()
        path = self._directory / f"{observation.boot_id or 'boot'}-{observation.seq:016d}.wal"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
        self._fd, self.path, self._size, self._generations = fd, path, 0, {}
        self._opened_ns = self._synced_ns = now
        columns = {kind: [c.gauges, c.counters] for kind, c in columns_now().items()}
        header = orjson.dumps(
            {"host": observation.host, "boot_id": observation.boot_id, "columns": columns}
        )
        try:
            self._append([MAGIC, _record(HEADER, header)])
            sync_folder(
                self._directory
            )  # else a power cut may take the name, and with it every record that was synced
        except OSError:
            self._fd = self.path = None
            os.close(fd)
            with contextlib.suppress(OSError):
                path.unlink()
            raise

    def _introduce(self, observation: Observation) -> tuple[list[int], list[bytes]]:
        """The generation number of each frame's devices, and the records
        that introduce new ones.
        """
        numbers, records = [], []
        for position, frame in enumerate(observation.frames):
            key = f"{observation.source}/{frame.kind}/{position}"
            known = self._generations.get(key)
            if known is None or known[0] is not frame.devices:
                known = (
                    frame.devices,
                    1 + max((n for _, n in self._generations.values()), default=0),
                )
                self._generations[key] = known
                records.append(_record(DEVICES, encode_devices(known[1], frame.devices)))
            numbers.append(known[1])
        return numbers, records

    def _append(self, parts: list[bytes]) -> None:
        """Write all parts or none: a half-written record is cut off again."""
        fd = self._fd
        if fd is None:
            raise ValueError("no segment is open")
        data = b"".join(parts)
        try:
            written = os.write(fd, data)
            if written != len(data):
                raise OSError(28, "the disk took only part of a record")
        except OSError:
            # introductions may be lost with the record: the next one introduces again
            self._generations = {}
            with contextlib.suppress(OSError):
                os.ftruncate(fd, self._size)
                os.lseek(fd, self._size, os.SEEK_SET)
            raise
        self._size += written

    def _drop_oldest(self) -> None:
        sizes = {path: stat.st_size for path, stat in _stats(self._directory)}
        for path in list(sizes):
            if sum(sizes.values()) + self._segment_bytes <= self._max_bytes:
                return
            path.unlink(missing_ok=True)
            del sizes[path]
            self._metrics.add(agent.WAL_DROPPED_SEGMENTS)


def segments(directory: Path) -> list[Path]:
    """Segments of a directory, oldest first."""
    return [path for path, _ in _stats(directory)]


def _stats(directory: Path) -> list[tuple[Path, os.stat_result]]:
    """Segments with their sizes and times, oldest first.

    One that is sealed and removed meanwhile is left out.
    """
    found = []
    for path in directory.glob("*.wal"):
        with contextlib.suppress(FileNotFoundError):
            found.append((path, path.stat()))
    return sorted(found, key=lambda pair: (pair[1].st_mtime_ns, pair[0].name))


def read_segment(path: Path) -> Iterator[JudgedObservation]:
    """What a segment holds, up to a torn or damaged record (which ends it, as what
    follows cannot be trusted).

    CorruptError where the file is not a segment at all.
    """
    with path.open("rb") as file:
        begin = file.read(len(MAGIC))
        if len(begin) < len(MAGIC) and MAGIC.startswith(
            begin
        ):  # killed while it was being opened: it holds nothing yet
            return
        if begin != MAGIC:
            raise CorruptError(
                f"{path}: not a segment of the write-ahead log (begins with {begin!r})"
            )
        yield from _judged(_records(file))


def _judged(records: Iterable[tuple[int, bytes]]) -> Iterator[JudgedObservation]:
    columns: dict[str, Columns] = {}
    generations: dict[int, tuple[Device, ...]] = {}
    for kind, payload in records:
        if kind == HEADER:
            columns = {
                k: Columns(*(tuple((i, n) for i, n in part) for part in c))
                for k, c in orjson.loads(payload)["columns"].items()
            }
        elif kind == DEVICES:
            number, devices = decode_devices(payload)
            generations[number] = devices
        elif kind == OBSERVATION:
            yield decode(payload, generations, columns)


def _record(kind: int, payload: bytes) -> bytes:
    return RECORD.pack(len(payload), zlib.crc32(payload, kind), kind) + payload


def _records(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Type and payload of each record from the file's position on, up to the first
    that is torn or damaged.
    """
    while len(head := file.read(RECORD.size)) == RECORD.size:
        length, crc, kind = RECORD.unpack(head)
        payload = file.read(length) if length <= LONGEST else b""
        if len(payload) < length or zlib.crc32(payload, kind) != crc:
            return
        yield kind, payload
