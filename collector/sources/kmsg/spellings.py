"""One line of a file that holds a kernel log, as any of the usual programs writes it: dmesg and
journalctl with their options, syslog daemons (RFC 3164, RFC 5424, with priority or not), Talos.

What precedes the text is read in order: priority, facility and level, stamps, host and program,
caller ids of printk. A line without any of these is bare: ``dmesg -t`` or ``journalctl -o cat``.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from collector.sources.kmsg.records import KERNEL, USER, Record
from collector.sources.kmsg.stamps import ISO, When, iso_time, stamp_at

MAX_STAMPS = 3  # of one line: a syslog daemon's, the kernel's, and a second of dmesg


class Kind(Enum):
    """How a line was understood."""

    HEADED = 1  # its head is one that we know
    BARE = 2  # text alone
    FOREIGN = 3  # it has a head that we do not know
    NOTE = 4  # a remark of the program that wrote the file


class Line(NamedTuple):
    """One line; ``since_last_usec`` is the time since the line before where only that is given."""

    kind: Kind
    record: Record = Record("")
    since_last_usec: int = -1


_FACILITIES = (
    r"kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local[0-7]|res\d{1,2}"
)
_LEVELS = r"emerg|alert|crit|err|error|warn|warning|notice|info|debug"
_PRIORITY = re.compile(r"<(\d{1,4})>(?P<version>1 (?=\d{4}-|- ))?")
_VERSION = re.compile(r"1 (?=\d{4}-\d\d-\d\dT)")
# Talos prints the node's address first where several are asked.
_LEVEL = re.compile(
    rf"(?:[0-9a-fA-F.:]{{3,45}}: )?({_FACILITIES})\s{{0,6}}:\s{{0,9}}(?:{_LEVELS})\s{{0,4}}: ?"
)
_TAGGED = re.compile(r" ?[^ ]{0,254}[^ :] ([^ :\[\]]{1,64})(?:\[[^ \]]{1,32}\])?: ?")
_KERNEL_TAG = re.compile(r"(?:[^ \[]{1,255} )?kernel: ")
# RFC 5424: host, app, process id, message id, structured data or "-", text that may begin with BOM
_RFC5424 = re.compile(
    r" [^ ]{1,255} ([^ ]{1,48}) [^ ]{1,128} [^ ]{1,32} "
    r"(?:-|(?:\[(?:[^\]\\]|\\.){0,1024}\]){1,8})(?: \ufeff?|$)"
)
_CALLERS = re.compile(r"(?: ?\[ {0,9}[TC]\d{1,10}\])+ ?")
_REMARK = re.compile(r" ?[^ ]{1,255} (?:-- MARK --|last message repeated \d)")
_NOTE = re.compile(r"-- (?:Boot |Reboot|Logs begin|Journal begins|No entries|Subject)")
# A head of some other form: a time of day, a program's name, or binary data.
_FOREIGN = re.compile(
    r"[^:]{0,40}?(?<![0-9a-fA-F:.])\d\d?:\d\d:\d\d(?![0-9a-fA-F:])"
    r"|\d{9,19}\b|[^:]{0,120}\bkernel(?:\[\d{1,9}\])?: |[^ :\[\]]{1,120} NVRM: (?:Xid|GPU|The) "
    r"|\{(?!\d)|[}\"]|[^\ufffd]{0,200}\ufffd",
    re.DOTALL,
)


# The two most frequent spellings at once; a bracket that follows may be a further stamp.
_PLAIN = re.compile(
    r"\[ *(\d{1,12})\.(\d{6})\] (?!\[|kernel: |[^ \[]{1,255} kernel: )(.*)", re.DOTALL
)
_SYSLOG = re.compile(
    rf"({ISO}) [^ ]{{0,254}}[^ :] kernel: (?:\[ *\d{{1,12}}\.\d{{3,9}}\] )?(?!\[)(.*)", re.DOTALL
)


def parse_head(text: str, now_ns: int = 0, seq: int = -1) -> Line:
    """One line that is no record of /dev/kmsg and no JSON.

    Of a program's own line the record has facility ``USER``. ``now_ns`` (unix) gives the year of
    times without one.
    """
    if match := _PLAIN.match(text):
        usec = int(match[1]) * 1_000_000 + int(match[2])
        return Line(Kind.HEADED, Record(match[3], seq, usec))
    if (match := _SYSLOG.match(text)) and (time_ns := iso_time(match[1])):
        return Line(Kind.HEADED, Record(match[2], seq, -1, KERNEL, time_ns))
    line = _parse_head(text, now_ns)
    return line._replace(record=line.record._replace(seq=seq))


def _parse_head(text: str, now_ns: int) -> Line:
    at, facility, version = _facility(text)
    if text.startswith("kernel: ", at):
        at += len("kernel: ")
    when, wall, end = _stamps(text, at, now_ns)
    headed = at > 0 or end > at
    rest = _RFC5424 if version else _TAGGED if wall else None
    if rest is not None:
        end += version and text.startswith("-", end)  # RFC 5424 without a time
        tagged = rest.match(text, end)
        if tagged is None:
            return _untagged(text, end, when)
        facility = facility or (KERNEL if tagged[1] == "kernel" else USER)
        if facility != KERNEL:  # its own words, whatever they begin with
            return Line(Kind.HEADED, Record(text[tagged.end() :], -1, -1, facility, when.time_ns))
        end = _inner(text, tagged.end(), now_ns)
    elif end > at and (tagged := _KERNEL_TAG.match(text, end)):
        end = tagged.end()
    if not headed:
        return Line(_headless(text), Record(text))
    if callers := _CALLERS.match(text, end):
        end = callers.end()
    # the wall clock of a syslog daemon is believed more than a stamp that follows it
    usec = -1 if when.time_ns else when.usec
    record = Record(text[end:], -1, usec, facility or KERNEL, when.time_ns)
    return Line(Kind.HEADED, record, when.since_last_usec)


def _facility(text: str) -> tuple[int, int, bool]:
    """Where priority or facility end, the facility, and whether RFC 5424 follows."""
    if text[:1] == "<" and (match := _PRIORITY.match(text)):
        return match.end(), int(match[1]) >> 3, bool(match["version"])
    if match := _LEVEL.match(text):
        return match.end(), KERNEL if match[1] == "kern" else USER, False
    if text[:2] == "1 " and _VERSION.match(text):
        return 2, KERNEL, True
    return 0, KERNEL, False


def _stamps(text: str, at: int, now_ns: int) -> tuple[When, bool, int]:
    """Stamps from ``at`` on as one, whether a host and a program follow, and where they end."""
    usec, time_ns, since_last, wall = -1, 0, -1, False
    for _ in range(MAX_STAMPS):
        found = stamp_at(text, at, now_ns)
        if found is None:
            break
        when, at = found
        usec = when.usec if when.usec >= 0 else usec
        time_ns = when.time_ns or time_ns
        since_last = when.since_last_usec if when.since_last_usec >= 0 else since_last
        wall = when.wall
        if wall:
            break
        at += text.startswith(" ", at)
    return When(usec, time_ns, since_last), wall, at


def _inner(text: str, at: int, now_ns: int) -> int:
    """Where the kernel's own stamp ends that a syslog daemon left in the text."""
    return _stamps(text, at, now_ns)[2] if text.startswith("[", at) else at


def _untagged(text: str, end: int, when: When) -> Line:
    """A wall clock without a program: a remark of the syslog daemon, the kernel's own stamp, or a
    form that we do not know.
    """
    if _REMARK.match(text, end):
        return Line(Kind.NOTE)
    at = end + text.startswith(" ", end)
    inner = stamp_at(text, at, 0) if text.startswith("[", at) else None
    if inner is None or inner[0].usec < 0:
        return Line(Kind.FOREIGN, Record(text))
    at = inner[1] + text.startswith(" ", inner[1])
    if callers := _CALLERS.match(text, at):
        at = callers.end()
    return Line(Kind.HEADED, Record(text[at:], time_ns=when.time_ns))


def _headless(text: str) -> Kind:
    if _NOTE.match(text):
        return Kind.NOTE
    return Kind.FOREIGN if _FOREIGN.match(text) else Kind.BARE
