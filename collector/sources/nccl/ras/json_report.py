"""The JSON report (NCCL 2.28.7 and later), decoded strictly and believed only
where its sums are right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import tzinfo

import msgspec

from collector.foreign_text import printable
from collector.sources.nccl.fields import Count, Int32
from collector.sources.nccl.ras.words import ADDRESS_UNKNOWN, OPERATIONS, local_time_ns
from collector.sources.nccl.sanitize import FormatError
from pipeline.nccl.member import NO_ERROR, Counts, Member, State
from pipeline.nccl.report import Communicator, Discard, Report

# Three for each rank of each communicator: 1,024 ranks in 65 communicators. It bounds memory: what
# is not in the classes below is skipped.
MAX_OBJECTS = 200_000
MAX_DOUBTS = 5

# 2.28.7 to 2.28.9 leave out this one comma, in missing_ranks.
_NO_COMMA = re.compile(rb'("nvml_dev": {0,4}-?[0-9]{1,9})([ \t\r]{0,8}\n[ \t]{0,64}"status")')


class _Status(msgspec.Struct, frozen=True, gc=False):
    init_state: Int32 = 0
    async_error: Int32 = 0
    finalize_called: bool = False
    destroy_flag: bool = False
    abort_flag: bool = False
    unresponsive: bool = False
    considered_dead: bool = False


class _Counts(msgspec.Struct, frozen=True, gc=False):
    Broadcast: Count | None = None
    Reduce: Count | None = None
    AllGather: Count | None = None
    ReduceScatter: Count | None = None
    AllReduce: Count | None = None


class _Rank(msgspec.Struct, frozen=True, gc=False):
    rank: Int32
    status: _Status
    host: str = ""
    pid: Int32 = -1
    cuda_dev: Int32 = -1
    nvml_dev: Int32 = -1
    collective_counts: _Counts = _Counts()


class _Communicator(msgspec.Struct, frozen=True, gc=False):
    hash: str
    size: Int32
    ranks_count: Int32
    missing_ranks_count: Int32
    ranks: list[_Rank]
    missing_ranks: list[_Rank]
    secondary_hash: str = ""


class _Ras(msgspec.Struct, frozen=True, gc=False):
    collection_time_sec: float | None = None
    timeouts_count: Count = 0


class _Report(msgspec.Struct, frozen=True, gc=False):
    nccl_version: str
    communicators: list[_Communicator]
    timestamp: str = ""
    communicators_count: Int32 = -1
    ras: _Ras = _Ras()


def parse_json(data: bytes, origin: str = "", zone: tzinfo | None = None) -> Report:
    """The report in a JSON document, and the refusals before it.

    Impossible sums give a report with ``distrust``; FormatError where it is no report or is cut
    off. ``zone`` as in ``words.local_time_ns``.
    """
    begin = data.find(b"{")
    if begin < 0:
        raise FormatError("no JSON report: there is no object in it")
    before, body = data[:begin], data[begin:]
    if body.count(b"{") > MAX_OBJECTS:
        raise FormatError(f"a JSON report of more than {MAX_OBJECTS} objects")
    repaired, repairs = _NO_COMMA.subn(rb"\1,\2", body)
    try:
        found = msgspec.json.decode(repaired, type=_Report)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"no JSON report, or cut off: {error}") from error
    doubts = list(_doubts(found))
    counts: dict[Counts, Counts] = {}
    communicators = tuple(_communicator(c, counts) for c in found.communicators)
    refused = tuple(Discard(printable(line), "a command was refused") for line in _refusals(before))
    commas = (
        (Discard("a missing comma", "put in, as NCCL 2.28.7 to 2.28.9 leave it out", repairs),)
        if repairs
        else ()
    )
    members = [m for c in communicators for m in c.members]
    return Report(
        "ras",
        origin,
        time_ns=local_time_ns(found.timestamp, zone),
        nccl=printable(found.nccl_version, 32),
        distrust="; ".join(doubts[:MAX_DOUBTS]),
        communicators=communicators,
        processes=len({(m.host, m.pid) for m in members}),
        nodes=len({m.host for m in members}),
        timeouts=found.ras.timeouts_count,
        collection_seconds=found.ras.collection_time_sec,
        parsed=(("communicator", len(communicators)), ("rank", len(members))),
        discarded=(*refused, *commas),
    )


def _refusals(before: bytes) -> list[str]:
    lines = before[:4096].decode(errors="replace").splitlines()
    return [line for line in lines if line.startswith("ERROR: ")]


def _doubts(found: _Report) -> Iterator[str]:
    """Reasons why nothing in a report may be believed: NCCL 2.29.7 to 2.30.7 print zeroed and lose
    ranks (NVIDIA/nccl#2346).
    """
    if found.communicators_count not in (-1, len(found.communicators)):
        yield (
            f"{found.communicators_count} communicators are announced and "
            f"{len(found.communicators)} given"
        )
    for c in found.communicators:
        name = printable(c.hash, 24)
        numbers = {r.rank for r in c.ranks} | {r.rank for r in c.missing_ranks}
        if _hash(c.hash) in ("", "0" * 16) or c.size <= 0:
            yield f"communicator {name} is empty: one was being initialised"
        elif c.ranks_count + c.missing_ranks_count != c.size:
            yield (
                f"communicator {name} of {c.size} ranks has {c.ranks_count} and misses "
                f"{c.missing_ranks_count}"
            )
        elif (c.ranks_count, c.missing_ranks_count) != (len(c.ranks), len(c.missing_ranks)):
            yield f"communicator {name} announces other numbers of ranks than it lists"
        elif len(numbers) != c.size or min(numbers) < 0 or max(numbers) >= c.size:
            yield f"communicator {name} of {c.size} ranks lists a rank twice, or one that cannot be"


def _communicator(c: _Communicator, counts: dict[Counts, Counts]) -> Communicator:
    members = [_member(r, _state(r.status), counts) for r in c.ranks]
    members += [_member(r, _absence(r.status), counts) for r in c.missing_ranks]
    members.sort(key=lambda m: m.rank)
    return Communicator(
        _hash(c.hash) or printable(c.hash, 24),
        c.size,
        tuple(members),
        second=printable(c.secondary_hash, 48),
    )


def _member(r: _Rank, state: State, counts: dict[Counts, Counts]) -> Member:
    """``counts`` keeps one tuple for all ranks that count alike: in a job at work nearly all do."""
    counted = zip(OPERATIONS, msgspec.structs.astuple(r.collective_counts), strict=True)
    launched = tuple((name, count) for name, count in counted if count is not None)
    return Member(
        r.rank,
        host="" if r.host == ADDRESS_UNKNOWN else printable(r.host, 64),
        pid=r.pid,
        gpu=r.cuda_dev,
        nvml=r.nvml_dev,
        state=state,
        error=r.status.async_error if r.status.init_state in NO_ERROR else r.status.init_state,
        launched=counts.setdefault(launched, launched),
    )


def _state(status: _Status) -> State:
    """NCCL's own order of precedence (client_support.cc)."""
    if status.abort_flag:
        return "abort"
    if status.finalize_called or status.destroy_flag:
        return "finalize"
    return "init" if status.init_state else "ok"


def _absence(status: _Status) -> State:
    if status.considered_dead:
        return "dead"
    return "unresponsive" if status.unresponsive else "left"


def _hash(text: str) -> str:
    """16 digits, as text reports have them; empty where it is none.

    >>> _hash("0x7fd09050d5ca928a"), _hash("0x1"), _hash("x")
    ('7fd09050d5ca928a', '0000000000000001', '')
    """
    digits = text.removeprefix("0x")
    return digits.zfill(16) if re.fullmatch("[0-9a-f]{1,16}", digits) else ""
