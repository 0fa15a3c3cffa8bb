"""Reads the kernel log through systemd's journal: where /dev/kmsg is not to be had, and for
the boot before this one.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from typing import Any

from collector.sources.kmsg.reader import Loss, UnavailableError, number
from collector.sources.kmsg.records import Record, parse_journal
from pipeline.child import KILL_GRACE_S, Child

MAX_LINE = 1 << 18  # bytes of one entry; journald cuts a line at 48 KiB
# entries known in detail, against a journald that imports the kernel's ring again;
# older ones by their time
REMEMBERED = 4096


def follow_arguments(command: str, after: Mapping[str, Any] | None) -> list[str]:
    """The command for the records of this boot, from the cursor on if
    there is one, and forever.
    """
    cursor = (after or {}).get("cursor")
    return [
        command,
        "-k",
        "-o",
        "json",
        "-f",
        "--no-tail",
        "--no-pager",
        *([f"--after-cursor={cursor}"] if cursor else []),
    ]


def previous_arguments(command: str, lines: int) -> list[str]:
    """The command for the last records of the boot before this one."""
    return [command, "-k", "-b", "-1", "-o", "json", "-n", str(lines), "--no-pager"]


class JournalReader:
    """Owns a journalctl process.

    The same record is known by boot, kernel time and text: cursor and import time change.

    ``stream`` is the boot of the record given last. Numbers are microseconds since boot.
    ``finished`` shows that the process has ended well and everything was read; a process that
    follows never finishes: its end is a failure.
    """

    mode = "journal"

    def __init__(
        self,
        arguments: Sequence[str],
        boot_id: str,
        after: Mapping[str, Any] | None = None,
        *,
        follows: bool = True,
    ) -> None:
        self.stream = boot_id.replace("-", "")
        self.finished = False
        self._follows = follows
        after = after if after and after.get("stream") == self.stream else {}
        self._cursor = str(after.get("cursor", ""))
        self._floor = number(after, "usec", -1)  # kernel time up to which everything is known
        self._newest = self._floor
        self._known: OrderedDict[bytes, int] = OrderedDict()
        self._pending = b""
        self._lines: deque[bytes] = deque()
        self._losses: list[Loss] = []
        try:
            self._process: Child | None = Child(arguments)
        except OSError as error:
            raise UnavailableError(f"{arguments[0]}: {error.strerror}") from error

    def read(self, most: int) -> list[Record]:
        """See Reader."""
        records: list[Record] = []
        while len(records) < most and (self._lines or self._more()):
            record = self._entry(self._lines.popleft())
            if record is not None and self._is_new(record):
                records.append(record._replace(seq=record.usec))
        return records

    def _more(self) -> bool:
        """Read on from the process; False when it has nothing to say now."""
        while not self._lines:
            data = self._process.receive(0) if self._process else None
            if data is None:
                return False
            if not data:
                self._ended()
                return False
            *whole, self._pending = (self._pending + data).split(b"\n")
            self._lines.extend(whole)
            if len(self._pending) > MAX_LINE:
                self._losses.append(Loss("oversize", 1))
                self._pending = b""
        return True

    def _ended(self) -> None:
        # it has closed its output: its end is near
        code = self._process.wait(KILL_GRACE_S) if self._process else 0
        self.close()
        if self._follows or code != 0:
            raise UnavailableError(
                f"journalctl ended with {code}: no journal, no permission, or its cursor is gone"
            )
        self.finished = True

    def _entry(self, line: bytes) -> Record | None:
        if not line:
            return None
        try:
            return entry_of(line)
        except ValueError:
            self._losses.append(Loss("malformed", 1))
            return None

    def _is_new(self, record: Record) -> bool:
        """Remember a record; False for one that was given before.

        Changes boot when the record is of another.
        """
        if self._follows and record.boot_id != self.stream:
            return False
        if record.boot_id != self.stream:
            self.stream, self._floor, self._newest = record.boot_id, -1, -1
            self._known.clear()
        key = hashlib.blake2b(f"{record.usec} {record.text}".encode(), digest_size=12).digest()
        if record.usec <= self._floor or key in self._known:
            return False
        self._known[key] = record.usec
        if len(self._known) > REMEMBERED:
            self._floor = max(self._floor, self._known.popitem(last=False)[1])
        self._newest = max(self._newest, record.usec)
        self._cursor = record.cursor
        return True

    def position(self) -> dict[str, Any]:
        """See Reader."""
        return {"stream": self.stream, "cursor": self._cursor, "usec": self._newest}

    def losses(self) -> list[Loss]:
        """See Reader."""
        taken, self._losses = self._losses, []
        return taken

    def close(self) -> None:
        """See Reader."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(KILL_GRACE_S)
            self._process = None


def entry_of(line: bytes) -> Record | None:
    """The record in a line of ``journalctl -o json``; None where it holds another object.

    ValueError where it is no JSON.
    """
    try:
        entry = json.loads(line)
    except RecursionError as error:
        raise ValueError(str(error)) from error
    return parse_journal(entry) if isinstance(entry, dict) else None
