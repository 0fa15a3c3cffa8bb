"""Write-ahead log: checksummed segments that describe themselves.

A kill loses at most what was not yet written, a power cut what was not yet fsynced, never a record
before. A segment is a file ``<boot>-<number>.wal`` of records (``segment.py``): header (JSON: host,
boot id, columns of every kind), devices, observation, and an end where it was closed. What all
others need to be read, header (zlib) and devices, is in it twice, apart from one another.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from stat import S_ISREG

import orjson

from pipeline.catalog import agent
from pipeline.clock import SECOND_NS, Clock
from pipeline.finding import Finding, Incident
from pipeline.frame import Device
from pipeline.judged import JudgedObservation
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files.layout import Stranger, make_folder, sync_folder
from pipeline.store.files.record import (
    Columns,
    CorruptError,
    columns_now,
    decode,
    decode_devices,
    encode,
    encode_devices,
)
from pipeline.store.files.segment import (
    DEVICES,
    END,
    HEADER,
    MARKER_BYTES,
    OBSERVATION,
    OPENING,
    Damage,
    Record,
    is_newer,
    opening,
    packed,
    records,
)

Work = Callable[[], None]
_NAME = re.compile(r".+-\d{16,}\.wal")


def at_once(work: Work) -> None:
    """Do what waits for the disk here and now."""
    work()


class Wal:
    """The sink that appends every observation, with its findings, to the newest segment.

    ``fsync_s`` is the longest time that a written record stays unsynced while records keep coming;
    ``segment_bytes`` and ``segment_s`` close a segment; ``max_bytes`` bounds all segments together:
    the oldest go first, counted. A write that fails (disk full) leaves the segment as it was before
    and raises: the engine counts it, the next one tries again. ``later`` does what waits for the
    disk, in order; where it is a thread, no record waits for the sync of those before it.
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
        later: Callable[[Work], None] = at_once,
    ) -> None:
        self._directory, self._clock, self._metrics = directory, clock, metrics
        self._fsync_ns, self._segment_ns = round(fsync_s * SECOND_NS), round(segment_s * SECOND_NS)
        self._segment_bytes, self._max_bytes = segment_bytes, max_bytes
        self._later = later
        self.path: Path | None = None  # of the open segment
        self._fd: int | None = None
        self._fd_lock = threading.Lock()  # a descriptor is not closed while it is taken for a sync
        self._size = 0
        self._opened_ns = self._synced_ns = 0
        self._marker, self._number = b"", 0
        self._generations: dict[str, tuple[tuple[Device, ...], int]] = {}
        self._last_generation = 0
        self._again: list[Record] = []  # what comes a second time, with the next observation
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
            self._begin(observation, now)
        numbers, introductions = self._introduce(observation)
        judged = JudgedObservation(observation, tuple(findings), tuple(incidents))
        seen = (OBSERVATION, encode(judged, numbers))
        self._append([*self._again, *introductions, seen])
        self._again = introductions
        if now - self._synced_ns >= self._fsync_ns:
            self._synced_ns = now
            self._later(self.sync)
        if self._size >= self._segment_bytes or now - self._opened_ns >= self._segment_ns:
            self.rotate()

    def sync(self) -> None:
        """Make everything written so far durable. OSError where the disk refuses."""
        with self._fd_lock:
            if self._fd is None:
                return
            fd = os.dup(self._fd)
        try:
            os.fdatasync(fd)
        finally:
            os.close(fd)
        self._metrics.add(agent.WAL_SYNCS)

    def rotate(self) -> None:
        """End the segment: what comes next begins another."""
        if self._fd is None:
            return
        with contextlib.suppress(OSError):  # a full disk: it reads like that of a killed agent
            self._append([*self._again, (END, b"")])
        with self._fd_lock:
            fd, self._fd, self.path = self._fd, None, None

        def finish() -> None:
            try:
                os.fdatasync(fd)
            finally:
                os.close(fd)

        self._later(finish)

    def close(self) -> None:
        """Make it durable and let go. Safe twice."""
        self.rotate()

    def _begin(self, observation: Observation, now: int) -> None:
        make_folder(self._directory)
        self._drop_oldest()
        path = self._directory / f"{observation.boot_id or 'boot'}-{observation.seq:016d}.wal"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
        self._fd, self.path, self._size, self._generations = fd, path, 0, {}
        self._opened_ns = self._synced_ns = now
        self._marker, self._number, self._last_generation = os.urandom(MARKER_BYTES), 0, 0
        columns = {kind: [c.gauges, c.counters] for kind, c in columns_now().items()}
        about = {"host": observation.host, "boot_id": observation.boot_id, "columns": columns}
        header = (HEADER, zlib.compress(orjson.dumps(about)))
        try:
            self._append([header], opening(self._marker))
            # else a power cut may take the name, and with it every record that was synced
            self._later(lambda: sync_folder(self._directory))
        except OSError:
            self._fd = self.path = None
            os.close(fd)
            with contextlib.suppress(OSError):
                path.unlink()
            raise
        self._again = [header]

    def _introduce(self, observation: Observation) -> tuple[list[int], list[Record]]:
        """The generation number of each frame's devices, and the records
        that introduce new ones.
        """
        numbers: list[int] = []
        introductions: list[Record] = []
        for position, frame in enumerate(observation.frames):
            key = f"{observation.source}/{frame.kind}/{position}"
            known = self._generations.get(key)
            if known is None or known[0] is not frame.devices:
                self._last_generation += 1
                known = (frame.devices, self._last_generation)
                self._generations[key] = known
                introductions.append((DEVICES, encode_devices(known[1], frame.devices)))
            numbers.append(known[1])
        return numbers, introductions

    def _append(self, parts: Sequence[Record], before: bytes = b"") -> None:
        """Write all records or none: a half-written one is cut off again."""
        fd = self._fd
        if fd is None:
            raise ValueError("no segment is open")
        try:
            numbered = enumerate(parts, self._number)
            data = before + b"".join(packed(self._marker, n, *part) for n, part in numbered)
            written = os.write(fd, data)
            if written != len(data):
                raise OSError(errno.ENOSPC, "the disk took only part of a record")
        except (OSError, ValueError):
            # introductions may be lost with the record: the next one introduces again
            self._generations = {}
            with contextlib.suppress(OSError):
                os.ftruncate(fd, self._size)
                os.lseek(fd, self._size, os.SEEK_SET)
            raise
        self._size += written
        self._number += len(parts)

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


def strangers(directory: Path) -> Iterator[tuple[Path, Stranger]]:
    """What lies in the directory of the log and is none of its segments."""
    for path in sorted(directory.glob("*")):
        with contextlib.suppress(OSError):
            if reason := _stranger(path, path.lstat()):
                yield path, reason


def _stats(directory: Path) -> list[tuple[Path, os.stat_result]]:
    """Segments with their sizes and times, oldest first.

    One that is sealed and removed meanwhile is left out.
    """
    found = []
    for path in directory.glob("*.wal"):
        with contextlib.suppress(FileNotFoundError):
            stat = path.lstat()
            if not _stranger(path, stat):
                found.append((path, stat))
    return sorted(found, key=lambda pair: (pair[1].st_mtime_ns, pair[0].name))


def _stranger(path: Path, stat: os.stat_result) -> Stranger | None:
    if not S_ISREG(stat.st_mode):
        return "no_file"
    if not _NAME.fullmatch(path.name):
        return "name"
    return "newer" if _newer(path, stat.st_ino) else None


@lru_cache(maxsize=64)
def _newer(path: Path, _number: int) -> bool:
    try:
        with path.open("rb") as file:
            return is_newer(file.read(OPENING.size))
    except OSError:  # what reads it reports so
        return False


def read_segment(path: Path, damage: Damage | None = None) -> Iterator[JudgedObservation]:
    """What a segment holds; what cannot be read is left out and added to ``damage``.

    CorruptError where the file is not a segment at all, NewerError where a later version wrote it.
    """
    found = Damage() if damage is None else damage
    with path.open("rb") as file:
        known = _Known()
        for kind, payload in records(file, str(path), found):
            if kind != OBSERVATION:
                known.take(kind, payload)
                continue
            if found and not known.complete:  # a header or devices may be missing: they come again
                known.complete = True
                with path.open("rb") as again:
                    for record in records(again, str(path), Damage()):
                        known.take(*record, late=True)
            try:
                yield decode(payload, known.generations, known.columns)
            except CorruptError as error:
                found.add(1, len(payload), str(error))


class _Known:
    """What observations need to be read: columns, and the devices of each generation."""

    def __init__(self) -> None:
        self.columns: dict[str, Columns] = {}
        self.generations: dict[int, tuple[Device, ...]] = {}
        self.complete = False

    def take(self, kind: int, payload: bytes, *, late: bool = False) -> None:
        """Learn from a record that is not an observation; ``late``: it stands further behind, and
        only adds to what is known.
        """
        if kind == HEADER:
            self.columns = {
                k: Columns(*(tuple((i, n) for i, n in part) for part in c))
                for k, c in orjson.loads(_plain(payload))["columns"].items()
            }
        elif kind == DEVICES:
            number, devices = decode_devices(payload)
            if not late or number not in self.generations:
                self.generations[number] = devices


def _plain(header: bytes) -> bytes:
    """A header's JSON; version 1 did not compress it."""
    return header if header.startswith(b"{") else zlib.decompress(header)
