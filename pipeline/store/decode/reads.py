"""The table ``reads`` of some hours as arrays: which observations there are, in which order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Self

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.store.decode.groups import Piece
from pipeline.store.decode.names import Names
from pipeline.store.files.layout import hour_of, owner_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Longs = NDArray[np.int64]

# of a frame, behind its kind and size: they differ from read to read
TIMES = r",\s*-?\d+,\s*-?\d+\s*\]"


@dataclass(frozen=True, slots=True)
class Reads:
    """Observations, (read,) each; texts are numbers of ``Names``.

    ``scope`` is the cluster and node of the file's name, empty in a file of a whole cluster.
    ``made`` lists the frames with their sizes, ``frames`` with their times too.
    """

    scope: Longs
    host: Longs
    boot: Longs
    seq: Longs
    time_us: Longs
    mono_ns: Longs
    source: Longs
    duration_ns: Longs
    outcome: Longs
    error: Longs
    unread: Longs
    made: Longs
    frames: Longs

    @classmethod
    def of(cls, pieces: Iterable[Piece], names: Names, span_us: tuple[int, int]) -> Self:
        """Rows of these pieces, one after the other; of a day's file those of a span."""
        parts = [_columns(_within(piece, *span_us), names) for piece in pieces]
        empty = np.zeros(0, np.int64)
        return cls(
            *(
                np.concatenate([part[i] for part in parts]) if parts else empty
                for i in range(len(fields(cls)))
            )
        )

    def __getitem__(self, chosen: NDArray[np.intp] | NDArray[np.bool_]) -> Self:
        return type(self)(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def __len__(self) -> int:
        return len(self.seq)


def usual_steps(reads: Reads, machine: Longs, names: Names) -> dict[tuple[str, str], float]:
    """Seconds between two reads with frames, as most are, by machine and source; ``machine`` is
    that of each read. Sources that were read once in a boot are not there.
    """
    empty = [code for code in np.unique(reads.made).tolist() if not sizes(names[code])]
    some = np.flatnonzero(~np.isin(reads.made, empty))
    keys = (reads.mono_ns[some], reads.boot[some], reads.source[some], machine[some])
    order = some[np.lexsort(keys)]
    of, boot, mono_ns = machine[order], reads.boot[order], reads.mono_ns[order]
    source = reads.source[order]
    same = (of[1:] == of[:-1]) & (source[1:] == source[:-1])
    steps = np.where(boot[1:] == boot[:-1], np.diff(mono_ns), 0)
    found = {}
    edges = np.flatnonzero(~same) + 1
    for begin, end in pairwise([0, *edges.tolist(), len(order)]):
        own = steps[begin : end - 1]
        if (own > 0).any():
            key = names[int(of[begin])], names[int(source[begin])]
            found[key] = float(np.median(own[own > 0])) / 1e9
    return found


def scope_of(piece: Piece) -> str:
    """Cluster and node that a file's name gives its rows to; a cluster's files have all nodes."""
    name = piece.path.name
    sealed = hour_of(piece.path.parent) is not None and name.count("-") >= 3
    return owner_of(name) if sealed or "-day-" in name else ""


@cache
def sizes(made: str) -> tuple[tuple[str, int], ...]:
    """Kind and number of devices of each frame of a read, in order."""
    return tuple((kind, n) for kind, n in orjson.loads(made))


def times(frames: str) -> dict[str, tuple[int, int]]:
    """Unix time in microseconds and monotonic time in ns of each frame of a read, by kind."""
    return {kind: (time_us, mono_ns) for kind, _, time_us, mono_ns in orjson.loads(frames)}


def _within(piece: Piece, begin_us: int, end_us: int) -> Piece:
    """Reads of a span in a file of a day; those of an hour's file are the hour's, whatever clock
    they had.
    """
    if hour_of(piece.path.parent) is not None:
        return piece
    time = _longs(piece.rows["time"])
    inside = pa.array((time >= begin_us) & (time < end_us))
    return replace(piece, rows=piece.rows.filter(inside))


def _columns(piece: Piece, names: Names) -> Sequence[Longs]:
    rows = piece.rows
    scope = np.full(len(rows), names.code(scope_of(piece)), np.int64)
    made = pc.replace_substring_regex(rows["frames"], TIMES, "]")
    # only those of an empty frame are looked at again: others have their times in their rows
    frames = pc.if_else(pc.match_substring_regex(made, r",\s*0\]"), rows["frames"], "")
    return [
        scope,
        *(names.codes(rows[name]) for name in ("host", "boot_id")),
        *(_longs(rows[name]) for name in ("seq", "time", "mono_ns")),
        names.codes(rows["source"]),
        _longs(rows["duration_ns"]),
        *(names.codes(rows[name]) for name in ("outcome", "error", "unread")),
        *(names.codes(column) for column in (made, frames)),
    ]


def _longs(column: pa.ChunkedArray) -> Longs:
    found: Longs = column.cast(pa.int64()).to_numpy()
    return found
