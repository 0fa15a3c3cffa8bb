"""Stored reads as the observations they were, node by node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from pipeline.catalog import KINDS
from pipeline.finding import Finding
from pipeline.frame import Frame, schema_of
from pipeline.observation import Observation, Unread
from pipeline.small_arrays import all_true
from pipeline.store.decode.cells import Cells
from pipeline.store.decode.patches import patches, runs
from pipeline.store.decode.reads import times
from pipeline.store.decode.stretch import Placed, Stretch
from pipeline.store.decode.texts import Texts
from pipeline.store.decode.ticks import Ticks
from pipeline.store.decode.tuples import Known, Tuples

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Longs = NDArray[np.int64]

Seen = tuple[Observation, tuple[Finding, ...]]
# Of a node, decoded at a time: ten minutes of an agent that reads two sources each second. Of an
# hour of eight GPUs, frames are 50 MiB; those of ten minutes eight.
READS_AT_ONCE = 1200


def nodes(stretch: Stretch) -> Iterator[tuple[str, Iterator[Seen]]]:
    """The name of each machine and its observations with the findings that were reported then, by
    boot and number. Its rows are decoded with the first of them.

    A frame whose rows are not there is left out, and ``unread`` says so: reason ``not_stored``,
    field the kind of device.
    """
    names = [stretch.names[int(code)] for code in stretch.machine]
    order = sorted(
        range(len(stretch.reads)),
        key=lambda i: (names[i], int(stretch.began[i]), int(stretch.boots.of_read[i]), i),
    )
    begin = 0
    for end in range(1, len(order) + 1):
        if end == len(order) or names[order[end]] != names[order[begin]]:
            reads = np.array(order[begin:end], np.int64)
            yield names[order[begin]], _of_node(stretch, reads)
            begin = end


def _of_node(stretch: Stretch, reads: Longs) -> Iterator[Seen]:
    known: dict[str, Known] = {kind: {} for kind in stretch.placed}
    for begin in range(0, len(reads), READS_AT_ONCE):
        some = reads[begin : begin + READS_AT_ONCE]
        is_last = begin + READS_AT_ONCE >= len(reads)
        yield from _Node(stretch, some, known, is_last=is_last).observations()


class _Node:
    """Some of one machine's reads of a stretch, in order. ``known``: devices of frames before, by
    kind.
    """

    def __init__(
        self, stretch: Stretch, reads: Longs, known: Mapping[str, Known], *, is_last: bool
    ) -> None:
        self._stretch, self._reads = stretch, reads
        self._host = stretch.names[int(stretch.machine[reads[0]])]
        self._frames = {
            kind: _Frames(stretch, kind, reads, (self._host, known[kind]), is_last=is_last)
            for kind in stretch.placed
        }
        self._texts = Texts(stretch, self._host)

    def observations(self) -> Iterator[Seen]:
        """Each read as it was."""
        reads, word = self._stretch.reads[self._reads], self._stretch.names
        columns = (
            getattr(reads, name).tolist()
            for name in (
                *("source", "boot", "seq", "time_us", "mono_ns", "duration_ns"),
                *("outcome", "error", "unread", "frames"),
            )
        )
        unread: dict[int, tuple[Unread, ...]] = {}
        for read, row in zip(self._reads.tolist(), zip(*columns, strict=True), strict=True):
            source, boot, seq, time_us, mono_ns, duration_ns, outcome, error, why, empty = row
            if why not in unread:
                unread[why] = tuple(Unread(*one) for one in orjson.loads(word[why]))
            frames, lost = self._made(read, word[source], word[empty])
            observation = Observation(
                word[source],
                self._host,
                word[boot],
                seq,
                time_us * 1000,
                mono_ns,
                duration_ns,
                frames=frames,
                events=self._texts.events(read),
                unread=unread[why] + lost,
                outcome=word[outcome],  # type: ignore[arg-type] # one of three words
                error=word[error],
            )
            yield observation, self._texts.findings(read)

    def _made(
        self, read: int, source: str, empty: str
    ) -> tuple[tuple[Frame, ...], tuple[Unread, ...]]:
        """Frames of a read, and those that are not stored."""
        frames: list[Frame] = []
        lost: list[Unread] = []
        for kind, n in self._stretch.made(read):
            frame = None
            if kind in KINDS:  # else of a newer catalogue
                if not n:
                    time_us, mono_ns = times(empty)[kind]
                    frame = Cells(schema_of(kind), 1, 0, ()).frame(0, time_us * 1000, mono_ns, ())
                elif kind in self._frames:
                    frame = self._frames[kind].frame(read, source, n)
            if frame is None:
                lost.append(Unread("not_stored", field=kind))
            else:
                frames.append(frame)
        return tuple(frames), tuple(lost)


class _Frames:
    """Frames of one kind of some of one machine's reads; the columns of its files are dropped
    with the last.
    """

    def __init__(
        self,
        stretch: Stretch,
        kind: str,
        reads: Longs,
        named: tuple[str, Known],
        *,
        is_last: bool,
    ) -> None:
        host, known = named
        with_frame = reads[stretch.with_frame(kind)[reads]]
        self._ticks = Ticks(with_frame)
        placed = stretch.placed[kind].get(int(stretch.machine[reads[0]]), [])
        found = [run for one in placed for run in self._runs(one)]
        rows = 1 + max((run.row for run in found), default=-1)
        self._cells = Cells(
            schema_of(kind), len(with_frame), rows, list(patches(schema_of(kind), found))
        )
        self._rows = self._cells.present.sum(axis=1).tolist()
        self._whole = self._cells.whole.tolist()
        shape = len(with_frame), rows
        self._tuples = Tuples(stretch, placed, (kind, host, known), self._ticks, shape)
        for one in placed:
            if is_last and len(one.rows) == one.piece.size:  # of no other machine
                one.piece.forget()

    def frame(self, read: int, source: str, n: int) -> Frame | None:
        """The frame of a read; None where not all its rows are there."""
        tick = self._ticks.number[read]
        cells = self._cells
        if self._rows[tick] != n or not (self._whole[tick] or all_true(cells.present[tick, :n])):
            return None
        return cells.frame(
            tick,
            int(cells.time_us[tick, 0]) * 1000,
            int(cells.mono_ns[tick, 0]),
            self._tuples.at(tick, read, source, n),
        )

    def _runs(self, placed: Placed) -> Iterator[Any]:
        """Runs of a piece: a device's row may change with its frame's devices."""
        row = placed.piece.longs("row")[placed.rows]
        both = placed.devices * (int(row.max(initial=0)) + 1) + row
        return runs(placed.piece, placed.rows, self._ticks.of(placed.reads), both, row)
