"""Reads /dev/kmsg, or anything else with its semantics: one read(2), one record."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from collector.sources.kmsg.reader import Loss, UnavailableError, number
from collector.sources.kmsg.records import Record, parse_record

# Documentation/admin-guide/devices.txt; containers often put /dev/null in its place
KMSG_DEVICE = os.makedev(1, 11)
# the kernel's own readers use 8192 (PRINTK_MESSAGE_MAX is 2048); grown on EINVAL
BUFFER, MAX_BUFFER = 8192, 65536


def open_device(path: Path) -> int:
    """A descriptor of the kernel's log device.

    UnavailableError where it is missing, forbidden, or another device.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UnavailableError(f"{path}: {error.strerror}") from error
    status = os.fstat(fd)
    if not stat.S_ISCHR(status.st_mode) or status.st_rdev != KMSG_DEVICE:
        os.close(fd)
        raise UnavailableError(f"{path}: not the kernel's log device")
    return fd


class DeviceReader:
    """Owns a non-blocking descriptor on which each read gives one record.

    ``after`` is the position to go on from; positions of another boot are void,
    because the numbers start again.
    """

    mode = "kmsg"

    def __init__(
        self,
        fd: int,
        boot_id: str,
        after: Mapping[str, Any] | None = None,
        read: Callable[[int, int], bytes] = os.read,
    ) -> None:
        self.stream = boot_id
        self._fd = fd
        self._read = read
        self._buffer = BUFFER
        after = after if after and after.get("stream") == boot_id else {}
        self._seq, self._usec = number(after, "seq", -1), number(after, "usec", -1)
        # why records may be missing before the next one
        self._gap = "down" if self._seq >= 0 else ""
        self._losses: list[Loss] = []

    def read(self, most: int) -> list[Record]:
        """See Reader.

        EPIPE (overrun) and EINVAL (buffer too small) lose records and nothing else.
        """
        records: list[Record] = []
        while len(records) < most:
            try:
                raw = self._read(self._fd, self._buffer)
            except BlockingIOError:
                break
            except OSError as error:
                self._survive(error)
                continue
            if not raw:
                break
            if record := parse_record(raw):
                self._take(record, records)
            else:
                self._losses.append(Loss("malformed", 1))
        return records

    def _take(self, record: Record, records: list[Record]) -> None:
        if record.seq <= self._seq:
            return  # known from before a restart
        if self._gap and self._seq >= 0 and record.seq > self._seq + 1:
            self._losses.append(Loss(self._gap, record.seq - self._seq - 1))
        self._gap = ""
        self._seq, self._usec = record.seq, record.usec
        records.append(record)

    def _survive(self, error: OSError) -> None:
        if error.errno == errno.EPIPE:
            self._gap = self._gap or "overrun"
        elif error.errno == errno.EINVAL and self._buffer < MAX_BUFFER:
            self._buffer *= 2
            self._gap = self._gap or "oversize"  # the kernel has stepped over the record
        elif error.errno != errno.EINTR:
            raise UnavailableError(f"kernel log: {error.strerror}") from error

    def position(self) -> dict[str, Any]:
        """See Reader."""
        return {"stream": self.stream, "seq": self._seq, "usec": self._usec}

    def losses(self) -> list[Loss]:
        """See Reader."""
        taken, self._losses = self._losses, []
        return taken

    def close(self) -> None:
        """See Reader."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
