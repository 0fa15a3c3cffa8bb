"""What launchers, container runtimes and log shippers wrap around a line, taken off again."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import NamedTuple

from collector.sources.bounds import unix_time
from pipeline.clock import SECOND_NS

# characters that are looked at: a real line of NCCL ends near 1024, one of c10d near 2048
MAX_LINE = 4096

# Kubernetes' container runtime interface: time, stream, P (the line goes on) or F (it ends), text.
_CRI = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) (?:stdout|stderr) "
    r"([PF])(?::\S{0,16})? ?"
)
_ISO = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:?\d\d)?")
_ESCAPES = re.compile(r"\x1b\[[0-9;]{0,16}[A-Za-z]")  # colours


class Line(NamedTuple):
    """One line of the program's own: its text, the unix time that the wrapper gives (0: none), and
    whether it goes on in the next.
    """

    text: str
    time_ns: int = 0
    partial: bool = False


def unwrap(raw: str) -> Line:
    r"""Take the wrapper off: CRI, docker's JSON, or none.

    Colours go; of a progress bar's redrawn line the last state counts.

    >>> unwrap("2026-11-20T10:00:00.5Z stdout F n1:1:2 [0] NCCL WARN x")
    Line(text='n1:1:2 [0] NCCL WARN x', time_ns=1795168800500000000, partial=False)
    >>> unwrap('{"log":"hello\\n","stream":"stderr","time":"2026-11-20T10:00:00Z"}').text
    'hello'
    >>> unwrap(" 50%|#####     |\r100%|##########|n1:1:2 [0] NCCL WARN x").text
    '100%|##########|n1:1:2 [0] NCCL WARN x'
    """
    if match := _CRI.match(raw):
        return Line(_plain(raw[match.end() :]), unix_ns(match[1]), match[2] == "P")
    if raw.startswith('{"log":'):
        return _docker(raw)
    return Line(_plain(raw))


def _docker(raw: str) -> Line:
    """One object per line with ``log``, ``stream`` and ``time``; the text ends in a
    newline unless it goes on.
    """
    try:
        entry = json.loads(raw)
    except (ValueError, RecursionError):
        return Line(_plain(raw))
    text, time = entry.get("log"), entry.get("time")
    if not isinstance(text, str):
        return Line("")
    text = text.encode(errors="replace").decode()  # half a surrogate pair is no text
    return Line(
        _plain(text), unix_ns(time) if isinstance(time, str) else 0, not text.endswith("\n")
    )


def _plain(text: str) -> str:
    text = text.rstrip("\r\n")
    if "\r" in text:
        text = text.rpartition("\r")[2]
    return _ESCAPES.sub("", text[:MAX_LINE]) if "\x1b" in text[:MAX_LINE] else text[:MAX_LINE]


def unix_ns(text: str) -> int:
    """Unix time of an ISO stamp; one without a zone is taken as UTC; 0 where it is none.

    >>> unix_ns("2026-11-20 10:00:00"), unix_ns("2026-11-20T12:00:00+02:00"), unix_ns("yesterday")
    (1795168800000000000, 1795168800000000000, 0)
    """
    match = _ISO.match(text)
    if match is None:
        return 0
    zone = match[4] or "Z"
    try:
        moment = datetime.fromisoformat(f"{match[1]}T{match[2]}{zone}").astimezone(UTC)
    except (ValueError, OverflowError):  # the year 0, or 10000 in another zone
        return 0
    seconds = int(moment.timestamp())
    return unix_time(seconds * SECOND_NS + int((match[3] or "0").ljust(9, "0")))


class Joiner:
    """Puts lines together again that a runtime has split, up to ``MAX_LINE`` characters: the rest
    of a longer one is dropped.
    """

    def __init__(self) -> None:
        self._held: Line | None = None

    def add(self, raw: str) -> Line | None:
        """The whole line, or None while it goes on."""
        line = unwrap(raw)
        if self._held is not None:
            line = Line((self._held.text + line.text)[:MAX_LINE], self._held.time_ns, line.partial)
        self._held = line if line.partial else None
        return None if line.partial else line
