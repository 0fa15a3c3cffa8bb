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

# What launchers say in several lines. Some versions of Open MPI break "... exited on signal 6
# (Aborted)." (github.com/adda-team/adda, issue 151). Its first process that failed and the exit
# code are the "non-zero-exit" of help-prun.txt (PRRTE; help-orterun.txt before Open MPI 5), the
# code of MPI_Abort that of help-mpi-api.txt, with the process between them since Open MPI 5.
# "RUNNING AT" is Hydra's, the launcher of MPICH and Intel MPI (pmiserv_cb.c).
_UNFINISHED = re.compile(
    r"(?: exited on|Process name: \[\S{1,300},\d{1,19}\]"
    r"|MPI_ABORT was invoked on rank \d{1,19} in communicator (?:(?! with |Errorcode:).){1,160}"
    r"|=\s{1,8}(?:RANK \d{1,19} )?PID \d{1,19} RUNNING AT \S{1,256})\s{0,2}$"
)
_UNFINISHED_WORDS = (" exited on", "Process name: [", "MPI_ABORT was invoked", " RUNNING AT ")
_END = 400  # characters in which they are looked for

# Kubernetes' container runtime interface: time, stream, P (the line goes on) or F (it ends), text.
_CRI = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) (stdout|stderr) "
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


class _Piece(NamedTuple):
    """A line with the stream that it was written to. ``redrawn``: what is before it on a terminal's
    line is overwritten; ``returns``: so is itself by what comes next.
    """

    line: Line
    stream: str = ""
    redrawn: bool = False
    returns: bool = False


def _piece(raw: str) -> _Piece:
    """Without its wrapper: CRI, docker's JSON, or none."""
    if match := _CRI.match(raw):
        text, goes_on = raw[match.end() :], match[3] == "P"
        return _of(text, Line(_plain(text), unix_ns(match[1]), goes_on), match[2])
    if raw.startswith('{"log":'):
        return _docker(raw)
    return _Piece(Line(_plain(raw)))


def _docker(raw: str) -> _Piece:
    """One object per line with ``log``, ``stream`` and ``time``; the text ends in a
    newline unless it goes on.
    """
    try:
        entry = json.loads(raw)
    except (ValueError, RecursionError):
        return _Piece(Line(_plain(raw)))
    text, time = entry.get("log"), entry.get("time")
    if not isinstance(text, str):
        return _Piece(Line(""))
    text = text.encode(errors="replace").decode()  # half a surrogate pair is no text
    time_ns = unix_ns(time) if isinstance(time, str) else 0
    stream = "stderr" if entry.get("stream") == "stderr" else "stdout"
    return _of(text, Line(_plain(text), time_ns, not text.endswith("\n")), stream)


def _of(text: str, line: Line, stream: str) -> _Piece:
    return _Piece(line, stream, "\r" in text.rstrip("\r\n"), text.endswith("\r"))


def _plain(text: str) -> str:
    text = text.rstrip("\r\n")
    if "\r" in text:
        text = text.rpartition("\r")[2]
    return _ESCAPES.sub("", text[:MAX_LINE]) if "\x1b" in text[:MAX_LINE] else text[:MAX_LINE]


def unix_ns(text: str) -> int:
    """Unix time of an ISO stamp; one without a zone is this machine's local time, as NCCL writes it
    (ncclDebugLog of debug.cc); 0 where it is none.

    >>> unix_ns("2026-11-20T10:00:00Z"), unix_ns("2026-11-20T12:00:00+02:00"), unix_ns("yesterday")
    (1795168800000000000, 1795168800000000000, 0)
    """
    match = _ISO.match(text)
    if match is None:
        return 0
    try:
        moment = datetime.fromisoformat(f"{match[1]}T{match[2]}{match[4] or ''}").astimezone(UTC)
    except (ValueError, OverflowError, OSError):  # the year 0, or 10000 in another zone
        return 0
    seconds = int(moment.timestamp())
    return unix_time(seconds * SECOND_NS + int((match[3] or "0").ljust(9, "0")))


def _goes_on(text: str) -> bool:
    """Whether a launcher says the rest in the next line."""
    end = text[-_END:]
    return any(words in end for words in _UNFINISHED_WORDS) and bool(_UNFINISHED.search(end))


class Joiner:
    r"""Takes the wrapper of a runtime off and puts lines together again that it has split, up to
    ``MAX_LINE`` characters: the rest of a longer one is dropped. Colours go; of a progress bar's
    redrawn line the last state counts. Standard output and error are apart: a progress bar on one
    of them is a line without end, beside complete lines on the other.

    >>> Joiner().add("2026-11-20T10:00:00.5Z stdout F n1:1:2 [0] NCCL WARN x")
    Line(text='n1:1:2 [0] NCCL WARN x', time_ns=1795168800500000000, partial=False)
    >>> Joiner().add('{"log":"hello\\n","stream":"stderr","time":"2026-11-20T10:00:00Z"}').text
    'hello'
    >>> Joiner().add(" 50%|#####     |\r100%|##########|n1:1:2 [0] NCCL WARN x").text
    '100%|##########|n1:1:2 [0] NCCL WARN x'
    """

    def __init__(self) -> None:
        self._held: dict[str, _Piece] = {}  # by stream

    def add(self, raw: str) -> Line | None:
        """The whole line, or None while it goes on."""
        piece = _piece(raw)
        line = piece.line
        held = self._held.pop(piece.stream, None)
        if held is not None and not piece.redrawn and not (held.returns and line.text):
            text = (held.line.text + line.text)[:MAX_LINE]
            line = Line(text, held.line.time_ns, line.partial)
        if _goes_on(line.text):
            line = line._replace(text=f"{line.text.rstrip()} ", partial=True)
        if line.partial:
            self._held[piece.stream] = piece._replace(line=line)
        return None if line.partial else line
