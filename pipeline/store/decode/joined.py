"""Rows of one kind of device of many machines, straight from columns into joined blocks: one array
per column that varies, (tick, row), with the rows of one machine after those of the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pipeline.frame import Device, blank, schema_of
from pipeline.round import JoinedRows
from pipeline.small_arrays import all_true, any_true
from pipeline.store.decode.patches import Converted
from pipeline.store.decode.stretch import Stretch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Longs = NDArray[np.int64]
    Array = NDArray[Any]

# By ids and hosts of the rows, boot, source, and changes of devices so far.
Known = dict[tuple[bytes, int, int, int], tuple[Device, ...]]


class _Found(NamedTuple):
    """Rows of a piece that came with one machine's reads, (row,): their numbers in the piece, the
    number of the read in the window, the frame's row, and the ids and hosts of the devices.
    """

    machine: int
    piece: Converted
    rows: Longs
    reads: Longs
    row: Longs
    ids: Longs
    hosts: Longs
    is_last: bool  # its last row is among them: columns need not be kept for later windows


class Rows:
    """One kind of device in a window of reads, of some machines' one after the other.

    ``reads`` (read,) are their numbers in the stretch, ``local`` the reverse (negative for others),
    ``sizes`` (read,) how many devices each frame has, 0 for none. ``whole`` (read,): all rows of
    the frame are there.
    """

    def __init__(
        self,
        stretch: Stretch,
        kind: str,
        machines: Sequence[int],
        numbers: tuple[Longs, Longs],
        sizes: Longs,
    ) -> None:
        self.schema = schema_of(kind)
        self._stretch, self._sizes = stretch, sizes
        self._reads, local = numbers
        self._found = list(_found(stretch, kind, machines, local))
        self._width = np.zeros(len(machines), np.int64)
        for found in self._found:
            width = int(found.row.max()) + 1
            self._width[found.machine] = max(int(self._width[found.machine]), width)
        self._begin = np.concatenate(([0], np.cumsum(self._width)))
        self._shape = len(sizes), int(self._width.max(initial=0))
        present = np.zeros(self._shape, np.bool_)
        for found in self._found:
            present[found.reads, found.row] = True
        wanted = np.arange(self._shape[1]) < sizes[:, None]
        self.whole = (sizes > 0) & (sizes <= self._shape[1]) & (present == wanted).all(axis=1)

    def name(self, known: Known) -> None:
        """Find the devices of each frame; ``known`` are those of earlier windows."""
        stretch, some = self._stretch, np.flatnonzero(self.whole)
        reads = self._reads[some]
        boot, source, seq = (
            stretch.boots.of_read[reads],
            stretch.reads.source[reads],
            stretch.reads.seq[reads],
        )
        changes = self._changes(boot, source, seq)
        ids, hosts = np.full((2, *self._shape), -1, np.int32)
        for found in self._found:
            ids[found.reads, found.row] = found.ids
            hosts[found.reads, found.row] = found.hosts
        ids, hosts = ids[some], hosts[some]
        new = np.ones(len(some), np.bool_)
        if len(some):
            new[1:] = ((ids[1:] != ids[:-1]) | (hosts[1:] != hosts[:-1])).any(axis=1)
            for column in (boot, source, changes):
                new[1:] |= column[1:] != column[:-1]
        made: list[tuple[Device, ...]] = []
        for place in np.flatnonzero(new).tolist():
            of = int(boot[place]), int(source[place]), int(changes[place])
            key = (ids[place].tobytes() + hosts[place].tobytes(), *of)
            if key not in known:
                pairs = zip(ids[place].tolist(), hosts[place].tolist(), strict=True)
                known[key] = self._devices(pairs, int(reads[place]), int(seq[place]))
            made.append(known[key])
        self._made = made
        self._part = np.full(len(self._sizes), -1, np.int64)
        self._part[some] = np.cumsum(new) - 1

    def _changes(self, boot: Longs, source: Longs, seq: Longs) -> Longs:
        """How many changes of attributes there were before each frame."""
        changes = np.zeros(len(seq), np.int64)
        for one, by in np.unique(np.stack([boot, source]), axis=1).T.tolist():
            listed = self._stretch.devices.changes(one, self._stretch.names[by], self.schema.kind)
            own = (boot == one) & (source == by)
            changes[own] = np.searchsorted(np.array(listed, np.int64), seq[own], side="right")
        return changes

    def _devices(self, pairs: Iterator[tuple[int, int]], read: int, seq: int) -> tuple[Device, ...]:
        stretch = self._stretch
        boot, names = int(stretch.boots.of_read[read]), stretch.names
        agent, name = stretch.boots.keys[boot][2], names[int(stretch.machine[read])]
        source = names[int(stretch.reads.source[read])]
        return tuple(
            stretch.devices.at(
                (boot, source, self.schema.kind, names[host], names[device]),
                seq,
                name if host == agent else names[host],
            )
            for device, host in pairs
            if device >= 0
        )

    def fill(self, tick: Longs, ticks: int) -> None:
        """Take in the values of frames: ``tick`` (read,) is where each goes, of so many; negative
        for those that have none.
        """
        width = int(self._begin[-1])
        self._still = blank(self.schema.kind, (None,) * width)
        placed = [
            _Target.of(found, tick[found.reads], int(self._begin[found.machine]))
            for found in self._found
        ]
        targets = [one for one in placed if one is not None]
        gauges, counters = self._settle(targets)
        self._at = np.flatnonzero(gauges), np.flatnonzero(counters)
        self._moving = np.full((len(self._at[0]), ticks, width), np.nan)
        self._counted = np.zeros((len(self._at[1]), ticks, width), np.uint64)
        self._seen = np.zeros((len(self._at[1]), ticks, width), np.bool_)
        self._times = np.zeros((3, ticks, width), np.int64)
        there = np.zeros((ticks, width), np.bool_)
        for target in targets:
            self._put(target, there)
        for found in self._found:
            if found.is_last:
                found.piece.forget()
        still = self._still[2]
        self._one_mask = True
        if ticks:  # mostly the same counters are observed all the time: one mask for all then
            first = there.argmax(axis=0)
            still[self._at[1]] = self._seen[:, first, np.arange(width)]
            same = self._seen == still[self._at[1]][:, None]
            self._one_mask = all_true(same | ~there)

    def _settle(self, targets: Sequence[_Target]) -> tuple[Array, Array]:
        """Take in what does not vary; which gauges and counters do, if only from one piece to the
        next.
        """
        gauges, counters, observed = self._still
        varying = np.zeros(len(gauges), np.bool_), np.zeros(len(counters), np.bool_)
        known = np.zeros(gauges.shape[1], np.bool_)
        for target in targets:
            piece, cols = target.found.piece, target.columns
            varying[0][list(piece.gauge_rows(self.schema))] = True
            varying[1][list(piece.counter_rows(self.schema))] = True
            old = cols[known[cols]]
            if len(old):
                before, now = gauges[:, old], piece.gauges[:, None]
                alike = (before == now) | (np.isnan(before) & np.isnan(now))
                varying[0][:] |= ~alike.all(axis=1)
                alike = (observed[:, old] == piece.observed[:, None]) & (
                    counters[:, old] == piece.counters[:, None]
                )
                varying[1][:] |= ~alike.all(axis=1)
            gauges[:, cols] = piece.gauges[:, None]
            counters[:, cols], observed[:, cols] = piece.counters[:, None], piece.observed[:, None]
            known[cols] = True
        return varying

    def _put(self, target: _Target, there: Array) -> None:
        """The values of a piece where they belong."""
        piece = target.found.piece
        target.put(there, True)
        for number, name in enumerate(("sampled_ns", "time", "mono_ns")):
            target.put(self._times[number], piece.some_longs(name, target.rows))
        has = piece.gauge_rows(self.schema)
        for place, i in enumerate(self._at[0].tolist()):
            block = self._moving[place]
            if i in has:
                target.put(block, piece.some_gauge(self.schema.gauges[i].name, target.rows))
            elif not np.isnan(piece.gauges[i]):
                target.put(block, piece.gauges[i])
            else:
                target.put(block, np.nan)
        has = piece.counter_rows(self.schema)
        for place, i in enumerate(self._at[1].tolist()):
            counted, seen = self._counted[place], self._seen[place]
            if i in has:
                values, valid = piece.some_counter(self.schema.counters[i].name, target.rows)
                target.put(counted, values)
                target.put(seen, True if valid is None else valid)
            else:
                target.put(counted, piece.counters[i])
                target.put(seen, piece.observed[i])

    def frame(self, tick: int, reads: Longs, machines: Longs) -> JoinedRows:
        """The frames of these reads of these machines, which are at one tick."""
        sizes = self._sizes[reads]
        begins = self._begin[machines]
        cols: slice | Longs = slice(None)
        if int(sizes.sum()) != int(self._begin[-1]):
            cols = np.repeat(begins - np.concatenate(([0], np.cumsum(sizes)[:-1])), sizes)
            cols += np.arange(len(cols))
        still = self._still
        gauges, counters = still[0][:, cols], still[1][:, cols]
        observed = still[2][:, cols]
        if isinstance(cols, slice):
            gauges, counters = gauges.copy(), counters.copy()
        gauges[self._at[0]] = self._moving[:, tick, cols]
        counters[self._at[1]] = self._counted[:, tick, cols]
        if not self._one_mask:
            observed = observed.copy()
            observed[self._at[1]] = self._seen[:, tick, cols]
        return JoinedRows(
            self.schema,
            tuple(self._made[number] for number in self._part[reads].tolist()),
            self._times[1, tick, begins] * 1000,
            self._times[2, tick, begins],
            gauges,
            counters,
            observed,
            self._times[0, tick, cols].copy(),
        )


def _found(stretch: Stretch, kind: str, machines: Sequence[int], local: Longs) -> Iterator[_Found]:
    for number, machine in enumerate(machines):
        for placed in stretch.placed.get(kind, {}).get(machine, ()):
            reads = local[placed.reads]
            at = np.flatnonzero(reads >= 0)
            if len(at):
                rows = placed.rows[at]
                row = placed.piece.longs("row")[rows]
                yield _Found(
                    number,
                    placed.piece,
                    rows,
                    reads[at],
                    row,
                    placed.devices[at],
                    placed.hosts[at],
                    int(placed.reads.max()) == int(placed.reads[at].max()),
                )


class _Target(NamedTuple):
    """Where rows of a piece go: ``rows`` of it to a rectangle of ``ticks`` by ``columns``, device
    by device, or each to its own place ``flat`` of a block.
    """

    found: _Found
    rows: slice | Longs
    columns: Longs
    where: tuple[slice, slice] | None
    flat: tuple[Longs, Longs]

    @classmethod
    def of(cls, found: _Found, tick: Longs, begin: int) -> _Target | None:
        """None where no row has a place."""
        rows, col = found.rows, found.row + begin
        if any_true(tick < 0):
            at = np.flatnonzero(tick >= 0)
            if not len(at):
                return None
            rows, col, tick = rows[at], col[at], tick[at]
        wide, high = int(col[-1] - col[0]) + 1, int(tick[-1] - tick[0]) + 1
        where = None
        if wide > 0 and high > 0 and wide * high == len(rows):
            shape = (wide, high)
            if all_true(
                (col.reshape(shape) == np.arange(col[0], col[0] + wide)[:, None])
                & (tick.reshape(shape) == np.arange(tick[0], tick[0] + high))
            ):
                where = (
                    slice(int(tick[0]), int(tick[0]) + high),
                    slice(int(col[0]), int(col[0]) + wide),
                )
        whole = int(rows[-1] - rows[0]) == len(rows) - 1 and all_true(np.diff(rows) == 1)
        some = slice(int(rows[0]), int(rows[-1]) + 1) if whole else rows
        return cls(found, some, np.unique(col), where, (tick, col))

    def put(self, block: Array, values: Any) -> None:
        """``values`` (row,), or one for all, into a block (tick, column)."""
        if self.where is None:
            block[self.flat] = values
        elif isinstance(values, np.ndarray):
            high = self.where[0].stop - self.where[0].start
            block[self.where] = values.reshape(-1, high).T
        else:
            block[self.where] = values
