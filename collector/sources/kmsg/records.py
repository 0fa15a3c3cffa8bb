"""One record of the kernel log as /dev/kmsg and the journal give it; lines of files: spellings.py.

The format of /dev/kmsg: Documentation/ABI/testing/dev-kmsg of the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

# syslog facilities: only the kernel itself can write 0; root can write any other
KERNEL, USER = 0, 1
MAX_TEXT = 8192  # characters kept of a line; the kernel's own limit is 1024 (LOG_LINE_MAX)


class Record(NamedTuple):
    """One record.

    ``seq`` is -1 where the log has no numbers, ``usec`` (since boot) -1 where it has no kernel
    time, ``time_ns`` (unix) 0 where only the kernel's time is known.
    """

    text: str
    seq: int = -1
    usec: int = -1
    facility: int = KERNEL
    time_ns: int = 0
    boot_id: str = ""
    cursor: str = ""


_ESCAPE = re.compile(rb"\\x([0-9a-fA-F]{2})")
_CONTROLS = dict.fromkeys((*range(10), *range(11, 32), 127), " ")
_KMSG = re.compile(rb"(\d{1,10}),(\d{1,18}),(\d{1,15}),[^;\n]{0,200};([^\n]*)")


def parse_record(raw: bytes) -> Record | None:
    r"""One record as read(2) of /dev/kmsg gives it: ``prio,seq,usec,flags;text``, then continuation
    lines; None where it is none.

    >>> parse_record(b"11,7,99,-;name=caf\\xc3\\xa9\n SUBSYSTEM=pci\n DEVICE=+pci:0000:00:00.0\n")
    Record(text='name=café', seq=7, usec=99, facility=1, time_ns=0, boot_id='', cursor='')
    """
    match = _KMSG.match(raw)
    if match is None:
        return None
    priority, seq, usec, text = match.groups()
    return Record(clean(_unescape(text)), int(seq), int(usec), int(priority) >> 3)


def _unescape(text: bytes) -> bytes:
    return _ESCAPE.sub(lambda m: bytes((int(m[1], 16),)), text) if b"\\x" in text else text


def clean(text: bytes | str) -> str:
    """Readable text from whatever was in the log: bad UTF-8 replaced, control characters (but
    newlines) blank, bounded.
    """
    if isinstance(text, bytes):
        text = text[:MAX_TEXT].decode("utf-8", "replace")
    text = text[:MAX_TEXT]
    if text.isprintable():  # nearly every line is; translate costs ten times that
        return text
    # half a surrogate pair, which JSON may hold, is no text that can be stored
    return text.translate(_CONTROLS).encode(errors="replace").decode()


def parse_journal(entry: Mapping[str, Any]) -> Record | None:
    """One entry of ``journalctl -o json``; None where it is no record of the kernel log.

    journald moves the prefix of user-facility lines into SYSLOG_IDENTIFIER; it is put back. A
    message that is not UTF-8 comes as a list of bytes. Wall time is the boot's wall time plus the
    kernel's: __REALTIME_TIMESTAMP is when journald read the line, and taken only without the other.
    """
    message = entry.get("MESSAGE")
    if isinstance(message, list):
        message = bytes(b for b in message if isinstance(b, int) and 0 <= b < 256)
    if not isinstance(message, str | bytes) or entry.get("_TRANSPORT", "kernel") != "kernel":
        return None
    text, identifier = clean(message), entry.get("SYSLOG_IDENTIFIER", "kernel")
    if identifier != "kernel" and isinstance(identifier, str):
        text = f"{clean(identifier)}: {text}"
    usec = _number(entry, "_SOURCE_MONOTONIC_TIMESTAMP", -1)
    read_usec = _number(entry, "__REALTIME_TIMESTAMP", 0)
    booted = read_usec - _number(entry, "__MONOTONIC_TIMESTAMP", 0)
    return Record(
        text,
        usec=usec,
        facility=_number(entry, "SYSLOG_FACILITY", KERNEL),
        time_ns=(booted + usec if booted > 0 and usec >= 0 else read_usec) * 1000,
        boot_id=str(entry.get("_BOOT_ID", "")),
        cursor=str(entry.get("__CURSOR", "")),
    )


def _number(entry: Mapping[str, Any], name: str, default: int) -> int:
    text = entry.get(name)
    return (
        int(text)
        if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 20
        else default
    )
