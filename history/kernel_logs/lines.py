"""Lines of a kept kernel log, with the node that each is of, as records of the kernel log.

Spelt as any program spells them (collector/sources/kmsg/spellings.py), or as JSON of journald.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from collector.sources.kmsg.records import KERNEL, MAX_TEXT, Record, clean, parse_journal
from collector.sources.kmsg.spellings import Kind, parse_head
from collector.sources.kmsg.stamps import stamp_at

# The words for `origin` in the catalogue of events. A syslog daemon's file, and what it sends on,
# holds what any program logged in the kernel's name.
JOURNAL, FILE, SYSLOG = "journal", "file", "syslog"
# An entry of journalctl -o export, json-sse or json-seq, whose lines are no lines of a log.
_OF_ENTRY = re.compile(r"__CURSOR=|__REALTIME_TIMESTAMP=|data: \{| \{")
_PRIORITY = re.compile(r"<\d{1,4}>(?:1 )?")
_HOST = re.compile(r" ([^ \[\]]{1,255}) (?:kernel(?:\[\d{1,9}\])?:? )")


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line: what may name its node, best first (the line's own word alone, where it has one);
    where it was; the record, with its unix time in nanoseconds (0: it says none). ``is_foreign``:
    it has a form that is not known, and its record says nothing.
    """

    nodes: tuple[str, ...]
    origin: str
    record: Record
    is_foreign: bool = False


FOREIGN = LogLine((), "", Record(""), is_foreign=True)


def of_text(text: str, nodes: tuple[str, ...], now_ns: int) -> LogLine | None:
    """A line of a file; None where it is no line of the kernel. ``now_ns``, unix time, gives the
    year of times without one: the last such day until then.

    >>> text = "2026-11-24T08:53:50+0000 gpu7 kernel: NVRM: Xid (PCI:0000:18:00): 79, GPU is lost"
    >>> line = of_text(text, ("archive",), 0)
    >>> line.nodes, line.origin, line.record.text[:9]
    (('gpu7',), 'syslog', 'NVRM: Xid')
    """
    cleaned = clean(text)
    line = parse_head(cleaned, now_ns)
    if line.kind is Kind.FOREIGN or _OF_ENTRY.match(cleaned):
        return FOREIGN
    if line.kind not in (Kind.HEADED, Kind.BARE) or line.record.facility != KERNEL:
        return None
    host = host_of(text, now_ns)
    return LogLine((host,) if host else nodes, SYSLOG if host else FILE, line.record)


def of_journal(entry: Mapping[str, Any], nodes: tuple[str, ...]) -> LogLine | None:
    """An entry of ``journalctl -o json``; None where it is none of the kernel's own."""
    record = parse_journal(entry)
    if record is None or record.facility != KERNEL:
        return None
    host = entry.get("_HOSTNAME")
    named = (host,) if isinstance(host, str) and host else nodes
    # journald knows who wrote an entry; one without a transport came by another way
    return LogLine(named, JOURNAL if "_TRANSPORT" in entry else SYSLOG, record)


def host_of(text: str, now_ns: int) -> str:
    """The host that a syslog daemon wrote behind the time; empty where there is none."""
    text = text[:MAX_TEXT]
    priority = _PRIORITY.match(text)
    at = priority.end() if priority else 0
    stamp = stamp_at(text, at, now_ns)
    if stamp is None:
        return ""
    found = _HOST.match(text, stamp[1])
    return found[1] if found else ""
