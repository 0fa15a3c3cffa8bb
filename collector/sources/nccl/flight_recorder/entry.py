"""One entry of a dump: one operation that the rank called.

A field of the wrong type is a missing field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from collector.foreign_text import printable
from collector.sources.bounds import unix_time
from pipeline.nccl.member import Operation, Transfer

MAX_TENSORS = 16  # of one operation that are kept; an all_to_all has as many as ranks
MAX_DIMENSIONS = 8
MAX_FRAMES = 200


@dataclass(frozen=True, slots=True)
class Entry:
    """``group`` is the same on all ranks, ``local_id`` only in this dump.

    ``completed`` and ``started`` are as far as the entry shows.
    """

    group: str
    description: str
    local_id: str
    seq: int
    p2p: bool
    started: bool
    completed: bool
    found: Mapping[str, Any]

    @property
    def batch(self) -> int:
        """Number of the batch of sends and receives that the entry belongs to, -1 for none."""
        return number_of(self.found.get("p2p_seq_id"), -1) if self.p2p else -1

    def transfer(self) -> Transfer | None:
        """The send or receive, None where the entry is none (``nccl:send 1->2``)."""
        match = _TRANSFER.fullmatch(_text(self.found.get("profiling_name")))
        if match is None:
            return None
        created_ns = number_of(self.found.get("time_created_ns"), 0)
        return Transfer(match["kind"], int(match["peer"]), created_ns)

    def operation(self) -> Operation:
        """What was called, for comparison with other ranks."""
        name = _text(self.found.get("profiling_name"))
        sizes = _list(self.found.get("input_sizes"))
        return Operation(
            self.seq,
            name.partition(":")[2] or name,
            dtypes=tuple(
                _text(t) for t in islice(_list(self.found.get("input_dtypes")), MAX_TENSORS)
            ),
            sizes=tuple(
                tuple(number_of(n, -1) for n in _list(s)[:MAX_DIMENSIONS])
                for s in sizes[:MAX_TENSORS]
            ),
            started=self.started,
            completed=self.completed,
            created_ns=unix_time(number_of(self.found.get("time_created_ns"), 0)),
            frame=_frame(self.found.get("frames")),
        )


_TRANSFER = re.compile(r"\w{1,16}:(?P<kind>send|recv) \d{1,7}(?:->|<-)(?P<peer>\d{1,7})")


def entry_of(item: Any) -> Entry | None:
    """The entry, None where it is none.

    Dumps of PyTorch 2.2 have ``seq_id`` and no ``process_group``.
    """
    if not isinstance(item, dict):
        return None
    seq = number_of(item.get("collective_seq_id", item.get("seq_id")), -1)
    if seq < 0:
        return None
    local_id = str(number_of(item.get("pg_id"), 0))
    group = item.get("process_group")
    names = [_text(n) for n in group[:2]] if isinstance(group, list | tuple) else []
    call = _text(item.get("profiling_name"))
    state = item.get("state")
    completed = state == "completed" or bool(number_of(item.get("time_discovered_completed_ns"), 0))
    # gloo never leaves "scheduled"; what is retired is done. NCCL also retires what was given up.
    completed = completed or (call.startswith("gloo:") and item.get("retired") is True)
    started = (
        completed
        or state == "started"
        or bool(number_of(item.get("time_discovered_started_ns"), 0))
    )
    is_p2p = item.get("is_p2p")
    p2p = is_p2p if isinstance(is_p2p, bool) else call.startswith(("nccl:send", "nccl:recv"))
    return Entry(
        names[0] if names and names[0] else local_id,
        names[1] if len(names) > 1 else "",
        local_id,
        seq,
        p2p,
        started,
        completed,
        item,
    )


def number_of(value: Any, default: int) -> int:
    """A whole number given as such or, as JSON dumps do, as text; the default for anything else,
    and for those beyond 64 bits.

    >>> number_of("12", 0), number_of(True, 0), number_of(None, 3), number_of(2**80, 0)
    (12, 0, 3, 0)
    """
    if (
        isinstance(value, str)
        and len(value) <= 20
        and value.removeprefix("-").isdecimal()
        and value.isascii()
    ):
        value = int(value)
    return value if type(value) is int and -(1 << 63) <= value < 1 << 63 else default


def _frame(frames: Any) -> str:
    """The innermost line that is not PyTorch's own: the innermost is first."""
    for frame in islice(_list(frames), MAX_FRAMES):
        if isinstance(frame, dict):
            file = _text(frame.get("filename"))
            if file and "/torch/" not in file:
                return f"{file}:{number_of(frame.get('line'), 0)} {_text(frame.get('name'))}"
    return ""


def _text(value: Any) -> str:
    return printable(value) if isinstance(value, str) else ""


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
