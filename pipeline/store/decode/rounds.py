"""Stored reads of many machines in rounds: each round's frames come joined from the columns, and no
object is made for a node of which nothing but readings is stored.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import orjson

from pipeline.catalog import KINDS
from pipeline.frame import blank, schema_of
from pipeline.observation import Unread
from pipeline.round import JoinedRows, Round
from pipeline.store.decode.joined import Known, Rows
from pipeline.store.decode.reads import sizes, times
from pipeline.store.decode.stretch import Stretch
from pipeline.store.decode.texts import Texts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Longs = NDArray[np.int64]

# Decoded at a time, of all machines: of eight GPUs each some 100 MiB. Fewer of one machine would
# cost more than they save.
READS_AT_ONCE, READS_OF_ONE = 24_000, 60


class _Shape(NamedTuple):
    """Of a read: its source, its frames by kind with whether they have devices, and the kinds whose
    rows are not there.
    """

    source: int
    frames: tuple[tuple[str, bool], ...]
    lost: tuple[str, ...]


def ordered(stretch: Stretch, name: str) -> Longs:
    """The reads of a machine in their order, by boot and number."""
    own = np.flatnonzero(stretch.machine == stretch.names.code(name))
    keys = (own, stretch.boots.of_read[own], stretch.began[own])
    found: Longs = own[np.lexsort(keys)]
    return found


def rounds(
    stretch: Stretch,
    names: Sequence[str],
    wanted: Callable[[Longs], NDArray[np.bool_]] = lambda time_us: np.ones(len(time_us), np.bool_),
) -> Iterator[Round]:
    """Rounds of these machines, their rows in this order; ``wanted`` says, by unix times in
    microseconds, which reads. Their rows are gone afterwards.

    What each machine's observations are, and their order, is that of ``nodes.nodes``.
    """
    of_each = []
    for name in names:
        own = ordered(stretch, name)
        of_each.append(own[wanted(stretch.reads.time_us[own])])
    known: dict[str, Known] = defaultdict(dict)
    step = max(READS_OF_ONE, READS_AT_ONCE // max(1, len(names)))
    texts = [Texts(stretch, name) for name in names]
    for begin in range(0, max(map(len, of_each), default=0), step):
        some = [own[begin : begin + step] for own in of_each]
        yield from _Window(stretch, names, some, texts, known).rounds()
    stretch.forget([stretch.names.code(name) for name in names])


class _Window:
    """Some reads of each machine."""

    def __init__(
        self,
        stretch: Stretch,
        names: Sequence[str],
        of_each: Sequence[Longs],
        texts: Sequence[Texts],
        known: dict[str, Known],
    ) -> None:
        self._stretch, self._names, self._texts = stretch, tuple(names), texts
        self._reads = reads = np.concatenate(of_each)
        self._counts = [len(own) for own in of_each]
        self._of = np.repeat(np.arange(len(of_each)), self._counts)
        local = np.full(len(stretch.reads), -1, np.int64)
        local[reads] = np.arange(len(reads))
        machines = [stretch.names.code(name) for name in names]
        made = stretch.reads.made[reads]
        self._made_of = np.unique(made)
        self._rows: dict[str, Rows] = {}
        for kind in stretch.placed:
            of_code = [dict(sizes(stretch.names[int(code)])).get(kind, 0) for code in self._made_of]
            of_read = np.array(of_code, np.int64)[np.searchsorted(self._made_of, made)]
            if of_read.any():
                rows = self._rows[kind] = Rows(stretch, kind, machines, (reads, local), of_read)
                rows.name(known[kind])
        self._shapes: list[_Shape] = []
        self._shape = self._shaped(made)

    def _shaped(self, made: Longs) -> Longs:
        """The shape of each read, by number."""
        source = self._stretch.reads.source[self._reads]
        columns = [source, made, *(rows.whole.astype(np.int64) for rows in self._rows.values())]
        distinct, where = np.unique(np.stack(columns), axis=1, return_inverse=True)
        numbers: dict[_Shape, int] = {}
        found = []
        for one, code, *whole in distinct.T.tolist():
            there = dict(zip(self._rows, whole, strict=True))
            listed = sizes(self._stretch.names[code])
            lost = tuple(k for k, n in listed if k not in KINDS or (n and not there.get(k)))
            frames = tuple((kind, bool(n)) for kind, n in listed if kind not in lost)
            found.append(numbers.setdefault(_Shape(one, frames, lost), len(numbers)))
        self._shapes = list(numbers)
        shape: Longs = np.array(found, np.int64)[where.reshape(-1)]
        return shape

    def rounds(self) -> Iterator[Round]:
        """Each in its order."""
        plan = list(_meets(self._shape, self._counts, self._shapes))
        for kind, rows in self._rows.items():
            tick = np.full(len(self._reads), -1, np.int64)
            ticks = 0
            for shape, reads in plan:
                if (kind, True) in self._shapes[shape].frames:
                    tick[reads] = ticks
                    ticks += 1
            rows.fill(tick, ticks)
        ticks_of = dict.fromkeys(self._rows, 0)
        for shape, reads in plan:
            yield self._round(self._shapes[shape], np.array(reads, np.int64), ticks_of)

    def _round(self, shape: _Shape, local: Longs, ticks: dict[str, int]) -> Round:
        machines, word = self._of[local], self._stretch.names
        numbers = self._reads[local]
        reads = self._stretch.reads[numbers]
        names = self._names
        if len(local) < len(names):
            names = tuple(names[place] for place in machines.tolist())
        frames = []
        for kind, some in shape.frames:
            if some:
                frames.append(self._rows[kind].frame(ticks[kind], local, machines))
                ticks[kind] += 1
            else:
                frames.append(_empty(kind, [word[code] for code in reads.frames.tolist()]))
        texts = list(zip(numbers.tolist(), machines.tolist(), strict=True))
        return Round(
            word[shape.source],
            names,
            tuple(word[code] for code in reads.boot.tolist()),
            reads.seq,
            reads.time_us * 1000,
            reads.mono_ns,
            reads.duration_ns,
            [word[code] for code in reads.outcome.tolist()],  # type: ignore[misc] # of three words
            [word[code] for code in reads.error.tolist()],
            tuple(frames),
            self._written("events", texts),
            self._unread(reads.unread.tolist(), shape.lost),
            self._written("findings", texts),
        )

    def _written(self, table: str, reads: Sequence[tuple[int, int]]) -> dict[int, tuple[Any, ...]]:
        """Events or findings, by place."""
        rows = self._stretch.texts[table]
        if not rows:
            return {}
        return {
            place: getattr(self._texts[machine], table)(read)
            for place, (read, machine) in enumerate(reads)
            if read in rows
        }

    def _unread(self, why: Sequence[int], lost: Sequence[str]) -> dict[int, tuple[Unread, ...]]:
        more = tuple(Unread("not_stored", field=kind) for kind in lost)
        of_code = {
            code: tuple(Unread(*one) for one in orjson.loads(self._stretch.names[code]))
            for code in set(why)
        }
        return {
            place: of_code[code] + more for place, code in enumerate(why) if of_code[code] or more
        }


def _meets(
    shape: Longs, counts: Sequence[int], shapes: Sequence[_Shape]
) -> Iterator[tuple[int, list[int]]]:
    """The shape and the reads of each round: each machine's in their order, as many machines at
    once as have reads of one shape. Those without frames go first, so that the others meet.
    """
    ends = np.cumsum(counts).tolist()
    at = [end - count for end, count in zip(ends, counts, strict=True)]
    of = [*shape.tolist(), -1]
    heads = [of[place] if place < end else -1 for place, end in zip(at, ends, strict=True)]
    while True:
        met = Counter(heads)
        met.pop(-1, None)
        if not met:
            return
        chosen = max(met, key=lambda one: (not shapes[one].frames, met[one]))
        reads = []
        for number, head in enumerate(heads):
            if head == chosen:
                place = at[number]
                reads.append(place)
                at[number] = place = place + 1
                heads[number] = of[place] if place < ends[number] else -1
        yield chosen, reads


def _empty(kind: str, frames: Sequence[str]) -> JoinedRows:
    """Frames without a device; ``frames`` is the text of each read's."""
    instants = np.array([times(text)[kind] for text in frames], np.int64).reshape(-1, 2)
    return JoinedRows(
        schema_of(kind),
        ((),) * len(frames),
        instants[:, 0] * 1000,
        instants[:, 1],
        *blank(kind, ()),
        np.zeros(0, np.int64),
    )
