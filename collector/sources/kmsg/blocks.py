"""Records that a saved log spreads over several lines with field names: JSON of dmesg and of
journalctl, the journal's export format and its verbose one.

The export format: systemd.io/JOURNAL_EXPORT_FORMATS.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from collector.sources.kmsg.records import KERNEL, USER, Record, clean, parse_journal
from collector.sources.kmsg.stamps import CTIME, iso_time, local_time, zoned_time

MAX_BYTES = 1 << 18  # of one record; journald cuts a message at 48 KiB

_FIELD = re.compile(rb" {0,4}([A-Z_][A-Z0-9_]{0,63})=(.*)", re.DOTALL)
_BINARY = re.compile(rb"[A-Z_][A-Z0-9_]{0,63}")
_EXPORT = (b"__CURSOR=", b"__REALTIME_TIMESTAMP=")
_VERBOSE = re.compile(
    rb"[A-Z][a-z]{2} (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?) "
    rb"([A-Za-z]{2,6}|[+-]\d{2,4}) \[s="
)


class Blocks:
    """At most one block at a time; ``unread`` counts its lines that are not understood."""

    def __init__(self) -> None:
        self.unread = 0
        self._json: list[bytes] | None = None
        self._depth = 0
        self._size = 0  # of the object so far, in bytes
        self._fields: dict[str, Any] | None = None
        self._time_ns = 0  # from the head line of a verbose entry
        self._binary: tuple[str, bytearray] | None = None

    @property
    def open(self) -> bool:
        """Whether the next line belongs to the block."""
        return self._json is not None or self._fields is not None

    def start(self, raw: bytes) -> list[Record] | None:
        """The records of a line that is, or begins, such a record; None where it is another."""
        line = raw.strip(b"\x1e \t\r").removeprefix(b"data: ")
        if line.startswith((b'{"', b'{ "')) or line in (b"{", b"[", b"[{"):
            return self._json_line(line)
        if raw.startswith(_EXPORT) or _VERBOSE.match(raw):
            self._fields = {}
            return self.take(raw)
        return None

    def take(self, raw: bytes) -> list[Record]:
        """The records that the next line of the block completes."""
        if self._json is not None:
            return self._more_json(raw.strip())
        if self._binary is not None:
            self._more_binary(raw)
            return []
        if match := _VERBOSE.match(raw):
            records = self._entry()
            self._fields = {}
            self._time_ns = zoned_time(match[1].decode(), match[2].decode())
            return records
        if not raw.strip():
            return self._entry()
        if self._fields is not None and (match := _FIELD.fullmatch(raw)):
            self._fields[match[1].decode()] = match[2].decode("utf-8", "replace")
        elif _BINARY.fullmatch(raw):
            self._binary = (raw.decode(), bytearray())
        elif self._fields and raw.startswith(b"     "):  # a field of a verbose entry goes on
            name = next(reversed(self._fields))
            self._fields[name] = f"{self._fields[name]}\n{clean(raw).strip()}"[:MAX_BYTES]
        else:
            self.unread += 1
        return []

    def finish(self) -> list[Record]:
        """The end of the file."""
        records = self._entry()
        if self._json:
            self.unread += len(self._json)
        self._json = None
        return records

    def _entry(self) -> list[Record]:
        fields, self._fields, self._binary = self._fields, None, None
        record = parse_journal(fields) if fields else None
        time_ns, self._time_ns = self._time_ns, 0
        if record is None:
            return []
        return [record._replace(time_ns=time_ns) if time_ns else record]

    def _more_binary(self, raw: bytes) -> None:
        """A field with newlines: its length in eight bytes, then its bytes, then a newline."""
        assert self._binary is not None  # noqa: S101 - by the caller
        name, data = self._binary
        data += raw + b"\n"
        length = int.from_bytes(data[:8], "little")
        if len(data) >= 8 and (length > MAX_BYTES or len(data) > MAX_BYTES + 9):
            self._binary, self._fields = None, None
            self.unread += 1
        elif len(data) >= 8 and len(data) > 8 + length:
            if self._fields is not None:
                self._fields[name] = data[8 : 8 + length].decode("utf-8", "replace")
            self._binary = None

    def _json_line(self, line: bytes) -> list[Record]:
        if line in (b"{", b"[", b"[{"):
            self._json, self._depth = [], int(line != b"[")
            return []
        return self._object(line, 1)

    def _more_json(self, line: bytes) -> list[Record]:
        """An object ends where a line begins with a closing brace (dmesg -J, jq, json-pretty)."""
        assert self._json is not None  # noqa: S101 - by the caller
        records: list[Record] = []
        if line.startswith(b"}"):
            body, self._json = self._json, []
            records = self._object(b"{" + b"\n".join(body) + b"}", len(body)) if body else []
            self._depth -= 1
        elif line.endswith(b"{"):
            self._json = []
        elif line not in (b"]", b"],") or self._json:
            self._json.append(line)
        self._depth += line.endswith(b"{")
        self._size = self._size + len(line) + 1 if self._json else 0
        too_long = self._size > MAX_BYTES
        self.unread += len(self._json) if too_long else 0
        if self._depth <= 0 or too_long:
            self._json = None
        return records

    def _object(self, text: bytes, lines: int) -> list[Record]:
        try:
            entry = json.loads(text)
        except (ValueError, RecursionError):
            entry = None
        records = list(_records(entry))
        if not records:
            self.unread += lines
        return [record for record in records if record is not None]


def _records(entry: object) -> Iterator[Record | None]:
    """Records of a decoded object; None for one that is no kernel record, nothing for one that is
    not understood.
    """
    if not isinstance(entry, dict):
        return
    if isinstance(several := entry.get("dmesg"), list):
        for one in several:
            yield from _records(one)
    elif "MESSAGE" in entry or "__REALTIME_TIMESTAMP" in entry:
        yield parse_journal(entry)
    elif isinstance(entry.get("msg"), str) and "time" in entry:
        yield _dmesg(entry)


def _dmesg(entry: dict[str, Any]) -> Record:
    """One object of ``dmesg -J``: facility and level as one number, or by name with -x."""
    facility, time, usec, time_ns = entry.get("fac"), entry["time"], -1, 0
    if isinstance(entry.get("pri"), int):
        number = int(entry["pri"]) >> 3
    else:
        number = KERNEL if facility in (None, "kern") else USER
    if isinstance(time, int | float) and 0 <= time < 1e12:
        usec = round(time * 1_000_000)
    elif isinstance(time, str):
        time_ns = iso_time(time) or local_time(time, CTIME)
    return Record(clean(entry["msg"]), -1, usec, number, time_ns)
