"""One line of an Inspector log: one completed operation of one rank.

Source: ext-profiler/inspector (NCCL 2.28.3 to 2.29.3) and plugins/profiler/inspector (from 2.29.7),
json.cc and inspector.cc.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import msgspec

from collector.foreign_text import printable
from collector.sources.nccl.fields import Count, Int32, Microseconds, Sequence
from collector.sources.nccl.sanitize import FormatError
from pipeline.nccl.member import Timing

# The plugin writes infinity as a bare word, and not-a-number as "nan".
_INFINITE = re.compile(rb"(:\s{0,4})-?inf(?=\s{0,4}[,}])")

_Real = float | str
_HASH = re.compile("(?:0x)?([0-9a-f]{1,16})")


class _Header(msgspec.Struct, frozen=True, gc=False):
    id: str
    rank: Int32
    n_ranks: Int32
    nnodes: Int32 = -1


class _Metadata(msgspec.Struct, frozen=True, gc=False):
    hostname: str = ""
    pid: Int32 = -1
    dump_timestamp_us: Microseconds = 0


class _Collective(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename=lambda name: name if name == "coll" else f"coll_{name}",
):
    coll: str
    sn: Sequence
    msg_size_bytes: Count = 0
    exec_time_us: _Real = math.nan
    busbw_gbs: _Real = math.nan


class _Line(msgspec.Struct, frozen=True, gc=False):
    header: _Header
    metadata: _Metadata = _Metadata()
    coll_perf: _Collective | None = None


@dataclass(frozen=True, slots=True)
class Completed:
    """Who completed what.

    ``timing`` is None for a send or receive, which have a sequence of their own.

    Its ``microseconds`` may be infinite or no number, as the plugin wrote it. ``communicator`` is
    the hash as RAS has it, 16 digits. ``time_ns`` is when the plugin wrote the line, by the clock
    of its node.
    """

    communicator: str
    rank: int
    size: int
    host: str
    pid: int
    time_ns: int
    timing: Timing | None


def parse_line(line: bytes) -> Completed:
    """FormatError where the line is no Inspector line."""
    try:
        found = msgspec.json.decode(_INFINITE.sub(rb'\1"inf"', line), type=_Line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"no Inspector line: {error}") from error
    match = _HASH.fullmatch(found.header.id)
    if match is None or not 0 <= found.header.rank < found.header.n_ranks:
        raise FormatError("no Inspector line: its header names no communicator and rank")
    metadata = found.metadata
    return Completed(
        match[1].zfill(16),
        found.header.rank,
        found.header.n_ranks,
        printable(metadata.hostname, 64),
        metadata.pid,
        metadata.dump_timestamp_us * 1000,
        _timing(found.coll_perf) if found.coll_perf else None,
    )


def _timing(found: _Collective) -> Timing | None:
    if found.sn < 0:
        raise FormatError("no Inspector line: its sequence number is negative")
    speed = _real(found.busbw_gbs)
    return Timing(
        printable(found.coll, 32),
        found.sn,
        found.msg_size_bytes,
        _real(found.exec_time_us),
        speed if math.isfinite(speed) else None,
    )


def _real(value: _Real) -> float:
    """A number, given as such or as the words of the plugin.

    >>> _real(1.5), _real("inf"), _real("nan"), _real("soon")
    (1.5, inf, nan, nan)
    """
    if isinstance(value, str):
        return math.inf if value == "inf" else math.nan
    return value
