"""RAS's MONITOR stream (NCCL 2.29.2 and later), in text and JSON: peers of the RAS network
that come, falter and die.
"""

from __future__ import annotations

import re
from datetime import tzinfo

import msgspec

from collector.foreign_text import printable
from collector.sources.bounds import int32
from collector.sources.nccl.fields import Int32
from collector.sources.nccl.ras.words import local_time_ns
from collector.sources.nccl.sanitize import FormatError, Unread
from pipeline.nccl.report import Discard, PeerEvent, Process, Report

MAX_LINE = 4096
MAX_OBJECT = 1 << 16  # bytes; an event of NCCL takes some hundred
MAX_LINES = 1_000_000
MAX_EVENTS = 10_000  # of one saved stream

# Facts of the job; all other events are of group TRACE and also name healthy peers whose
# link is being re-routed.
LIFECYCLE = frozenset({"PEER_NEW", "PEER_DEAD"})

_TEXT = re.compile(
    r"\[(?P<time>[0-9: -]{19})\] (?P<event>[A-Z_]{1,40}): (?:Process (?P<pid>\d{1,10}) on node "
    r"(?P<host>\S{1,64}) managing GPUs? (?P<gpus>\d{1,9}(?:,\d{1,9}){0,64})(?: \(NVML "
    r"[\d,]{1,256}\))?|(?P<address>\S{1,80}<\d{1,5}>)) (?P<details>.*)"
)


class _Peer(msgspec.Struct, frozen=True):
    host: str = ""
    pid: Int32 = -1
    cuda_devs: tuple[Int32, ...] = ()
    addr: str = ""


class _Event(msgspec.Struct, frozen=True):
    event: str
    timestamp: str = ""
    group: str = ""
    peer: _Peer = _Peer()
    details: str = ""


class MonitorStream:
    """Takes the stream as it comes and returns the complete events.

    What is no event is counted in ``unread``.

    Memory is bounded by one line, or one object, of the longest kind.
    """

    def __init__(self, zone: tzinfo | None = None) -> None:
        self.unread = Unread()
        self._zone = zone
        self._rest = b""
        self._object: list[bytes] = []
        self._size = 0  # of it, with the ends of its lines
        self._skipping = False

    def feed(self, data: bytes) -> list[PeerEvent]:
        """The events that end in this piece."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        found = [event for line in lines if (event := self._line(line.rstrip(b"\r")))]
        if len(self._rest) > MAX_LINE:
            self._rest, self._skipping = b"", True
        return found

    def _line(self, line: bytes) -> PeerEvent | None:
        if self._skipping or len(line) > MAX_LINE:
            self._skipping, self._object = False, []
            self.unread.add("a line without end")
            return None
        if line in (b"{", b"}{"):
            event = (
                self._take(b"\n".join((*self._object, b"}")))
                if line == b"}{" and self._object
                else None
            )
            self._object, self._size = [b"{"], 2
            return event
        if self._object:
            self._object.append(line)
            self._size += len(line) + 1
            if line == b"}":
                document, self._object = b"\n".join(self._object), []
                return self._take(document)
            if self._size > MAX_OBJECT:
                self._object = []
                self.unread.add("an object without end")
            return None
        return None if line in (b"", b"OK") else self._text(line.decode(errors="replace"))

    def _take(self, document: bytes) -> PeerEvent | None:
        try:
            found = msgspec.json.decode(document, type=_Event)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self.unread.add(document.decode(errors="replace"))
            return None
        peer = Process(
            printable(found.peer.host, 64),
            found.peer.pid,
            found.peer.cuda_devs[:64],
            printable(found.peer.addr, 96),
        )
        group = found.group.lower() or _group(found.event)
        time_ns = local_time_ns(found.timestamp, self._zone)
        return PeerEvent(
            time_ns,
            printable(group, 16),
            printable(found.event, 40),
            peer,
            printable(found.details),
        )

    def _text(self, line: str) -> PeerEvent | None:
        match = _TEXT.fullmatch(line)
        if match is None:
            self.unread.add(line)
            return None
        gpus = tuple(int32(n) for n in match["gpus"].split(",")) if match["gpus"] else ()
        peer = Process(match["host"] or "", int32(match["pid"]), gpus, match["address"] or "")
        details = printable(match["details"].strip())
        return PeerEvent(
            local_time_ns(match["time"], self._zone),
            _group(match["event"]),
            match["event"],
            peer,
            details,
        )


def parse_monitor(data: bytes, origin: str = "", zone: tzinfo | None = None) -> Report:
    """The events of a saved stream.

    FormatError where there are none, or more than ``MAX_EVENTS``.
    """
    if data.count(b"\n") > MAX_LINES:
        raise FormatError(f"a RAS monitor stream of more than {MAX_LINES} lines")
    stream = MonitorStream(zone)
    events = stream.feed(data + (b"" if data.endswith(b"\n") else b"\n"))
    if not events:
        raise FormatError("no RAS monitor stream: there is no event in it")
    others = (
        (Discard("events", f"more than {MAX_EVENTS}", len(events) - MAX_EVENTS),)
        if len(events) > MAX_EVENTS
        else ()
    )
    events = events[-MAX_EVENTS:]
    discarded = (*stream.unread.discards("not understood"), *others)
    return Report(
        "ras",
        origin,
        time_ns=events[-1].time_ns,
        peers=tuple(events),
        dead=tuple(dict.fromkeys(e.peer for e in events if e.event == "PEER_DEAD")),
        parsed=(("event", len(events)),),
        discarded=discarded,
    )


def _group(event: str) -> str:
    return "lifecycle" if event in LIFECYCLE else "trace"
