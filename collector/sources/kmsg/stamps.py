"""Times as logs spell them: each row is one spelling, with the program that writes it.

All regular expressions are bounded and anchored where they are applied.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import NamedTuple

from pipeline.clock import SECOND_NS

DAY_NS = 86_400 * SECOND_NS
CTIME = "%a %b %d %H:%M:%S %Y"  # dmesg -T


class When(NamedTuple):
    """What a stamp says: microseconds since boot or -1, unix time or 0, microseconds since the line
    before or -1.

    ``wall``: a syslog-like stamp, after which a host and a program follow.
    """

    usec: int = -1
    time_ns: int = 0
    since_last_usec: int = -1
    wall: bool = False


class Stamp(NamedTuple):
    """One spelling; ``read`` gets the match and the time of now (unix ns)."""

    expression: re.Pattern[str]
    read: Callable[[re.Match[str], int], When]


def _kernel(match: re.Match[str], _now_ns: int) -> When:
    return When(int(match[1]) * 1_000_000 + _micro(match[2]))


def _since_last(match: re.Match[str], _now_ns: int) -> When:
    return When(since_last_usec=int(match[1]) * 1_000_000 + _micro(match[2]))


def _nothing(_match: re.Match[str], _now_ns: int) -> When:
    return When()


def _minute(match: re.Match[str], now_ns: int) -> When:
    return When(time_ns=without_year(f"{match[1]} {match[2]} {match[3]}:00", now_ns))


def _ctime(match: re.Match[str], _now_ns: int) -> When:
    return When(time_ns=local_time(match[1], CTIME))


def _iso(match: re.Match[str], _now_ns: int) -> When:
    return When(time_ns=iso_time(match[1]))


def _wall_iso(match: re.Match[str], _now_ns: int) -> When:
    return When(time_ns=iso_time(match[1]), wall="," not in match[1])


def _wall_classic(match: re.Match[str], now_ns: int) -> When:
    seconds = without_year(f"{match[1]} {match[2]} {match[3]}", now_ns)
    return When(time_ns=seconds + _micro(match[4] or "0") * 1000 if seconds else 0, wall=True)


def _wall_full(match: re.Match[str], _now_ns: int) -> When:
    return When(time_ns=zoned_time(match[1], match[2]), wall=True)


def _wall_unix(match: re.Match[str], _now_ns: int) -> When:
    return When(time_ns=int(match[1]) * SECOND_NS + _micro(match[2]) * 1000, wall=True)


_DELTA = r"(?: *<[^<>]{0,24}>| {1,24})?"  # dmesg -d, journalctl -o short-delta
ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_SECONDS = r"\d\d:\d\d:\d\d"


def _row(expression: str, read: Callable[[re.Match[str], int], When]) -> Stamp:
    return Stamp(re.compile(expression), read)


# By the first character of the line: "[", a digit, or a letter.
BRACKETS = (
    # the kernel's own; dmesg, dmesg -d, -r; journalctl -o short-monotonic, short-delta
    _row(rf"\[ *(\d{{1,12}})\.(\d{{3,9}}){_DELTA}\]", _kernel),
    _row(r"\[ *\+(\d{1,10})\.(\d{6})\]", _since_last),  # dmesg -e, -H
    _row(r"\[ *<[^<>]{0,24}>\]", _nothing),  # dmesg --time-format delta
    _row(r"\[([A-Z][a-z]{2}) {0,2}(\d{1,2}) (\d\d:\d\d)\]", _minute),  # dmesg -e, -H
    _row(rf"\[([A-Z][a-z]{{2}} [A-Z][a-z]{{2}} [ \d]\d {_SECONDS} \d{{4}}){_DELTA}\]", _ctime),
    _row(rf"\[({ISO})\]:?", _iso),  # Talos (siderolabs/go-kmsg)
)
DIGITS = (
    # rsyslog and journalctl -o short-iso with a point, dmesg --time-format iso with a comma
    _row(rf"({ISO})(?= )", _wall_iso),
    _row(r"(\d{9,11})\.(\d{1,9})(?= )", _wall_unix),  # journalctl -o short-unix
)
LETTERS = (
    # RFC 3164, journalctl -o short, short-precise
    _row(
        rf"([A-Z][a-z]{{2}}) {{1,2}}(\d{{1,2}}) ({_SECONDS})(?:\.(\d{{1,6}}))?(?= )", _wall_classic
    ),
    # journalctl -o short-full, with-unit, verbose
    _row(
        rf"[A-Z][a-z]{{2}} (\d{{4}}-\d\d-\d\d {_SECONDS}(?:\.\d{{1,6}})?) "
        r"([A-Z][A-Za-z]{1,5}|[+-]\d\d(?:\d\d)?)(?= )",
        _wall_full,
    ),
)


def stamp_at(text: str, start: int, now_ns: int) -> tuple[When, int] | None:
    """The stamp that begins at ``start``, and where it ends; None where none does."""
    first = text[start : start + 1]
    rows = BRACKETS if first == "[" else DIGITS if first.isdigit() else LETTERS
    for stamp in rows:
        if match := stamp.expression.match(text, start):
            return stamp.read(match, now_ns), match.end()
    return None


def _micro(fraction: str) -> int:
    return int(fraction[:6].ljust(6, "0"))


def iso_time(text: str) -> int:
    """Unix time of an ISO 8601 stamp, local where it has no zone; 0 where it is none.

    >>> iso_time("2025-01-21T04:41:44,285060+00:00")
    1737434504285060000
    """
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1e6) * 1000
    except (ValueError, OverflowError, OSError):
        return 0


# Hours east of UTC of the zone names that are not ambiguous; others are taken as local time.
_ZONES = {"UTC": 0, "GMT": 0, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "EST": -5, "EDT": -4}
_ZONES |= {"CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7, "JST": 9, "KST": 9}


def zoned_time(text: str, zone: str) -> int:
    """Unix time of ``2024-12-01 14:54:40.5`` in a zone by name or offset.

    >>> zoned_time("2024-12-01 14:54:40", "UTC")
    1733064880000000000
    """
    if zone[0] in "+-":
        return iso_time(f"{text}{zone}")
    if zone not in _ZONES:
        return iso_time(text)
    name = timezone(timedelta(hours=_ZONES[zone]))
    try:
        moment = datetime.fromisoformat(text).replace(tzinfo=name).astimezone(UTC)
    except (ValueError, OverflowError):
        return 0
    return iso_time(moment.isoformat())


def without_year(text: str, now_ns: int) -> int:
    """Unix time of ``Jan 21 04:41:44``: the last such day before tomorrow, in local time."""
    year = datetime.fromtimestamp(now_ns / 1e9).year  # noqa: DTZ006 - syslog writes local time
    time_ns = local_time(f"{year} {text}", "%Y %b %d %H:%M:%S")
    if 0 < time_ns <= now_ns + DAY_NS:
        return time_ns
    return local_time(f"{year - 1} {text}", "%Y %b %d %H:%M:%S")


@lru_cache(maxsize=64)  # many lines have the same second, and strptime is slow
def local_time(text: str, form: str) -> int:
    """Unix time of a local date in the form of strptime(3), 0 where it is none."""
    try:
        return int(datetime.strptime(text, form).timestamp()) * SECOND_NS  # noqa: DTZ007 - local
    except (ValueError, OverflowError, OSError):
        return 0
