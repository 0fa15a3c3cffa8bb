"""From a dump, pickle or JSON, of any schema, to what its rank launched and
completed in each group.

What is read is decided by the fields that are there, never by the version. Fields:
torch/csrc/distributed/c10d/FlightRecorder*.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import msgspec

from collector.foreign_text import printable
from collector.sources.nccl.flight_recorder.entry import Entry, entry_of, number_of
from collector.sources.nccl.flight_recorder.plain_pickle import load
from collector.sources.nccl.sanitize import FormatError
from pipeline.nccl.member import (
    KEPT_OPERATIONS,
    KEPT_TRANSFERS,
    WHOLE,
    Member,
    Operation,
    Transfer,
)
from pipeline.nccl.report import Communicator, Discard, Report

MAX_BYTES = 256 << 20
MAX_ENTRIES = 200_000
MAX_CONTAINERS, MAX_VALUES = 2_000_000, 20_000_000  # of a JSON dump; each entry has about 8 and 40
MAX_GROUPS = 10_000
MAX_RANKS = 1 << 20  # of one group
MAX_WORLD = 10_000_000  # ranks of a job

# comm_lib_trace_rank_3, fr_rank3.json, nccl_trace_rank_3.pickle
_RANK_IN_NAME = re.compile(r"(\d{1,7})(?:\.[A-Za-z]{1,12})*$")


def parse_dump(data: bytes, origin: str = "", *, world_rank: int = -1, time_ns: int = 0) -> Report:
    """What one rank's dump says.

    Its rank is ``world_rank``, or the number at the end of its file name.

    FormatError where it is no dump, too large, or a pickle that is more than data.
    """
    if len(data) > MAX_BYTES:
        raise FormatError(f"a dump of {len(data)} bytes: at most {MAX_BYTES} are read")
    found = _document(data)
    given = found.get("entries") if isinstance(found, dict) else found
    if not isinstance(given, list):
        raise FormatError("no Flight Recorder dump: it has no list of entries")
    entries = [entry for item in given[-MAX_ENTRIES:] if (entry := entry_of(item))]
    if given and not entries:
        raise FormatError("no Flight Recorder dump: none of its entries has a sequence number")
    top: Mapping[str, Any] = found if isinstance(found, dict) else {}
    if world_rank < 0 and (match := _RANK_IN_NAME.search(origin)):
        world_rank = int(match[1])
    dropped = len(given) - len(entries)
    return Report(
        "flight_recorder",
        origin,
        time_ns=time_ns,
        world_rank=world_rank,
        nccl=printable(str(top.get("comm_lib_version") or top.get("nccl_version") or ""), 32),
        communicators=tuple(_communicators(entries, top, world_rank)),
        parsed=(("entry", len(entries)),),
        discarded=(Discard("entries", "not understood, or too many", dropped),) if dropped else (),
    )


def _document(data: bytes) -> Any:
    if data[:1] in (b"{", b"["):
        if data.count(b"{") + data.count(b"[") > MAX_CONTAINERS or data.count(b",") > MAX_VALUES:
            raise FormatError(
                f"a JSON dump of more than {MAX_CONTAINERS} containers or {MAX_VALUES} values"
            )
        try:
            return msgspec.json.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise FormatError(f"no JSON, or cut off: {error}") from error
    if data[:1] != b"\x80":
        raise FormatError("no Flight Recorder dump: it is neither a pickle nor JSON")
    return load(data)


def _communicators(
    entries: list[Entry], top: Mapping[str, Any], world_rank: int
) -> Iterator[Communicator]:
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.group, []).append(entry)
    config = _mapping(top.get("pg_config"))
    for name in islice(config, MAX_GROUPS):
        if name:  # gloo keeps the default group under an empty name
            groups.setdefault(printable(name), [])
    status = _mapping(top.get("pg_status"))
    for name, own in islice(groups.items(), MAX_GROUPS):
        ranks = _ranks(config, name, alone=len(groups) == 1)
        place = ranks.index(world_rank) if world_rank in ranks else -1
        member = replace(_member(own, status), rank=place, world_rank=world_rank)
        label = next((e.description for e in own), "")
        yield Communicator(name, len(ranks) or -1, (member,), name=label, ranks=ranks)


def _member(entries: list[Entry], status: Mapping[str, Any]) -> Member:
    """The progress of the dumping rank in one group.

    ``pg_status`` may lag behind the entries, so the larger number counts. Where the group also
    sends and receives it is left alone: their numbers, which differ between ranks, are in it, too
    (ProcessGroupNCCL::workEnqueue).
    """
    own = [e for e in entries if not e.p2p]
    mixed = len(own) < len(entries)
    states = _mapping(status.get(entries[0].local_id) if entries and not mixed else None)
    enqueued, started, completed = (
        number_of(states.get(f"last_{word}_collective"), 0)
        for word in ("enqueued", "started", "completed")
    )
    before = _before(entries) if mixed else 0
    launched = max([before, enqueued, *(e.seq for e in own)])
    completed = max([before, completed, *(e.seq for e in own if e.completed)])
    started = max([started, completed, *(e.seq for e in own if e.started)])
    known = bool(own or before or not mixed)
    return Member(
        -1,
        state="ok",
        transfers=tuple(_transfers(entries)),
        launched=((WHOLE, launched),) if known else (),
        started=((WHOLE, started),) if known else (),
        completed=((WHOLE, completed),) if known else (),
        operations=tuple(_operations(own, completed)),
    )


def _operations(entries: list[Entry], completed: int) -> Iterator[Operation]:
    """The latest collectives, one of each number: of those that are called together the first. Of
    these only the last entry (``coalesced``) is ever marked as started or completed, and a rank
    that is stuck in the call has not made it yet.
    """
    calls: dict[int, list[Entry]] = {}
    for entry in entries:
        calls.setdefault(entry.seq, []).append(entry)
    for seq in sorted(calls)[-KEPT_OPERATIONS:]:
        started = any(entry.started for entry in calls[seq])
        call = calls[seq][0].operation()
        yield replace(call, started=started or seq <= completed, completed=seq <= completed)


def _before(entries: list[Entry]) -> int:
    """How many collectives were over before those that are kept; where none is kept, as many as the
    sends and receives came after: they bear that number beside their own.
    """
    own = [e.seq for e in entries if not e.p2p]
    return min(own) - 1 if own else max((e.seq for e in entries if e.batch >= 0), default=0)


def _transfers(entries: list[Entry]) -> list[Transfer]:
    """Sends and receives that have not ended. Of a batch (``coalesced``) only its last entry is
    marked as completed.
    """
    p2p = [entry for entry in entries if entry.p2p]
    over = {entry.batch for entry in p2p if entry.completed and entry.transfer() is None}
    unfinished = [e for e in p2p if not e.completed and (e.batch < 0 or e.batch not in over)]
    found = [transfer for e in unfinished if (transfer := e.transfer()) is not None]
    return found[:KEPT_TRANSFERS]


def _ranks(config: Mapping[str, Any], name: str, *, alone: bool) -> tuple[int, ...]:
    """World ranks of a group, empty where the dump does not say.

    Only digits are looked at: the text is never evaluated.
    """
    entry = _mapping(config.get(name) or (config.get("") if alone else None))
    text = entry.get("ranks")
    if isinstance(text, list):
        numbers = [n for n in text if type(n) is int and 0 <= n < MAX_WORLD]
    else:
        numbers = (
            [int(m[0]) for m in islice(re.finditer(r"\d{1,7}", text), MAX_RANKS)]
            if isinstance(text, str)
            else []
        )
    return tuple(dict.fromkeys(numbers[:MAX_RANKS]))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
