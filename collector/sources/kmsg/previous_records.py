"""What is left of the boot before this one: in the journal, and in the firmware's memory
for crash records (pstore).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from collector.sources.kmsg.journal_reader import JournalReader, previous_arguments
from collector.sources.kmsg.kernel_time import saved_time
from collector.sources.kmsg.lines import Lines
from collector.sources.kmsg.reader import UnavailableError
from collector.sources.kmsg.records import Record
from pipeline.clock import Clock

# systemd-pstore moves the first into the second at boot
PSTORE = (Path("/sys/fs/pstore"), Path("/var/lib/systemd/pstore"))
MAX_LINES = 5000  # of the journal
MAX_FILES, MAX_BYTES = 64, 1 << 18  # of pstore: firmware holds tens of kilobytes in all
MAX_AGE_NS = 7 * 86_400_000_000_000  # older crash records are of another story
PATIENCE_NS = 60_000_000_000  # journalctl on a slow disk; then it is given up


class PreviousRecords:
    """Gives the records of the boot before, a few at each call, until ``finished``.

    ``known`` is the last position that was kept: what it covers was reported when it happened.
    ``done`` names what was read at an earlier start (this boot's look at the journal, each pstore
    file by content) and goes on to be kept by the caller.
    """

    def __init__(
        self,
        boot_id: str,
        clock: Clock,
        known: Mapping[str, Any],
        done: Iterable[str],
        *,
        journalctl: str = "journalctl",
        pstore: Sequence[Path] = PSTORE,
    ) -> None:
        self.finished = False
        self.done = list(done)[-2 * MAX_FILES :]
        self._mark = f"journal before {boot_id}"
        self._clock = clock
        self._known = known
        self._pstore = pstore
        self._started_ns = clock.monotonic_ns()
        self._seen: set[bytes] = set()
        self._reader: JournalReader | None = None
        if self._mark not in self.done:
            try:
                self._reader = JournalReader(
                    previous_arguments(journalctl, MAX_LINES), boot_id, follows=False
                )
            except UnavailableError:
                self.done.append(self._mark)

    def read(self, most: int) -> list[tuple[str, Record]]:
        """Origin and record of the next ones; empty while journalctl has nothing to
        say yet, and when finished.
        """
        if self._reader is not None:
            return [
                ("journal", record)
                for record in self._journal(self._reader, most)
                if self._is_news(record)
            ]
        self.finished = True
        return [("pstore", record) for record in self._files() if self._is_news(record)]

    def _journal(self, reader: JournalReader, most: int) -> list[Record]:
        try:
            records = reader.read(most)
            over = reader.finished or self._clock.monotonic_ns() - self._started_ns > PATIENCE_NS
        except UnavailableError:  # there is no journal of it
            records, over = [], True
        if over and not records:
            self.close()
            self.done.append(self._mark)
        return records

    def _is_news(self, record: Record) -> bool:
        key = hashlib.blake2b(f"{record.usec} {record.text}".encode(), digest_size=8).digest()
        if key in self._seen:
            return False
        self._seen.add(key)
        if record.boot_id and record.boot_id == self._known.get("stream"):
            return record.usec > int(self._known.get("usec", -1))
        return bool(record.boot_id) or record.time_ns > int(self._known.get("time_ns", 0))

    def _files(self) -> Iterator[Record]:
        files = sorted(
            (file for folder in self._pstore for file in _dumps(folder)), key=lambda dated: dated[0]
        )
        for modified_ns, file in files[-MAX_FILES:]:
            if self._clock.time_ns() - modified_ns > MAX_AGE_NS:
                continue
            try:
                with file.open("rb") as dump:
                    data = dump.read(MAX_BYTES)
            except OSError:
                continue
            mark = hashlib.blake2b(data, digest_size=8).hexdigest()
            if mark not in self.done:
                self.done = [*self.done, mark][-2 * MAX_FILES :]
                yield from _dated(data, modified_ns)

    def close(self) -> None:
        """End journalctl; safe to call twice."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def _dumps(folder: Path) -> Iterator[tuple[int, Path]]:
    """Kernel-log dumps below a folder with the time they were written; compressed
    ones are not for reading.
    """
    try:
        for file in folder.rglob("dmesg*"):
            if file.is_file() and ".enc" not in file.name:
                yield file.stat().st_mtime_ns, file
    except OSError:
        return


def _dated(data: bytes, written_ns: int) -> Iterator[Record]:
    """Records of one dump.

    It was written when its newest line was printed: that gives the others their time.

    Each part of a dump begins with a line such as ``Panic#1 Part2``, which has
    no time and is left out.
    """
    lines = Lines()
    found = [record for line in data.split(b"\n") for record in lines.feed(line, written_ns)]
    records = [record for record in found + lines.flush() if record.usec >= 0]
    newest = max((record.usec for record in records), default=0)
    for record in records:
        yield record._replace(seq=record.usec, time_ns=saved_time(record.usec, newest, written_ns))
