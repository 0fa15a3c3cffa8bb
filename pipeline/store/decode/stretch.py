"""An hour, or several that cannot be distinguished, of a store: its reads in order, and the rows
that came with each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pipeline.catalog import KINDS
from pipeline.frame import schema_of
from pipeline.store.decode.boots import NOBODY, Boots
from pipeline.store.decode.devices import Devices
from pipeline.store.decode.groups import Piece
from pipeline.store.decode.machines import Machines, Seen
from pipeline.store.decode.names import Names
from pipeline.store.decode.patches import Converted
from pipeline.store.decode.reads import Reads, scope_of, sizes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Longs = NDArray[np.int64]

TEXTS = ("events", "findings")  # tables of few rows, each made into an object of its own


@dataclass(frozen=True, slots=True)
class Placed:
    """Rows of a piece of a kind of device: their numbers there, and the read, the device and the
    host of each, (row,).
    """

    piece: Converted
    rows: Longs
    reads: Longs
    devices: Longs
    hosts: Longs


class Stretch:
    """Rows of some pieces by read. ``machine`` is the number of each read's machine in ``names``,
    ``began`` when its boot began.
    """

    def __init__(
        self,
        pieces: Mapping[str, Iterable[Piece]],
        reads: Reads,
        names: Names,
        machines: Machines,
    ) -> None:
        """``reads`` are those of the pieces, sorted by scope, boot, host and number."""
        self.names, self.reads = names, reads
        self.boots = Boots(self.reads, self.names)
        self.devices = Devices(pieces.get("devices", ()), self._boot)
        self.machine, self.began = self._machines(machines)
        self.placed = {
            kind: self._by_machine(self._place(piece, kind) for piece in pieces[kind])
            for kind in KINDS
            if pieces.get(kind)
        }
        self.texts = {name: self._by_read(pieces.get(name, ())) for name in TEXTS}
        self._made: dict[int, tuple[tuple[str, int], ...]] = {}
        self._with_frame: dict[str, NDArray[np.bool_]] = {}

    def forget(self, machines: Iterable[int]) -> None:
        """Let go of the rows of these machines: they have been read."""
        for kind in self.placed.values():
            for machine in machines:
                kind.pop(machine, None)

    def made(self, read: int) -> tuple[tuple[str, int], ...]:
        """Kind and size of each frame of a read, in order."""
        code = int(self.reads.made[read])
        if code not in self._made:
            self._made[code] = sizes(self.names[code])
        return self._made[code]

    def with_frame(self, kind: str) -> NDArray[np.bool_]:
        """Reads that gave a frame of a kind, (read,)."""
        if kind not in self._with_frame:
            codes, where = np.unique(self.reads.made, return_inverse=True)
            found = [
                any(made == kind and n for made, n in sizes(self.names[int(code)]))
                for code in codes
            ]
            self._with_frame[kind] = np.array(found, np.bool_)[where]
        return self._with_frame[kind]

    def _boot(self, scope: str, boot_id: str, host: str) -> int:
        return self.boots.find(*(self.names.code(word) for word in (scope, boot_id, host)))

    def _machines(self, machines: Machines) -> tuple[Longs, Longs]:
        """Machine and begin of the boot of each read."""
        first = [int(self.reads.time_us[i]) for i in self.boots.first]
        seen = []
        for number, (scope, boot, host) in enumerate(self.boots.keys):
            times = self.reads.time_us[self.boots.first[number] : self.boots.end[number]]
            words = (self.names[scope], self.names[host], self.names[boot])
            first[number] = int(times.min())
            seen.append(Seen(words, first[number], int(times.max()), self.devices.hardware(number)))
        found = machines.names(seen)
        codes = np.array([self.names.code(found[one.boot]) for one in seen], np.int64)
        return codes[self.boots.of_read], np.array(first, np.int64)[self.boots.of_read]

    def _place(self, piece: Piece, kind: str) -> Placed:
        rows, scope = piece.rows, self.names.code(scope_of(piece))
        hosts, boots = (self.names.codes(rows[name]) for name in ("host", "boot_id"))
        converted = Converted(piece, schema_of(kind))
        found = self.boots.reads(self.boots.of_rows(scope, boots, hosts), converted.longs("seq"))
        numbers = np.arange(len(found))
        return Placed(converted, numbers, found, self.names.codes(rows["device"]), hosts)

    def _by_machine(self, pieces: Iterable[Placed]) -> dict[int, list[Placed]]:
        """Each machine's rows of these pieces that are of a read, in their order: a node's are
        found without a look at those of all others.
        """
        found: dict[int, list[Placed]] = defaultdict(list)
        for one in pieces:
            known = np.flatnonzero(one.reads >= 0)
            machine = self.machine[one.reads[known]]
            order = known[np.argsort(machine, kind="stable")]
            codes, first = np.unique(np.sort(machine), return_index=True)
            for code, rows in zip(codes.tolist(), np.split(order, first[1:]), strict=False):
                own = (one.rows[rows], one.reads[rows], one.devices[rows], one.hosts[rows])
                found[code].append(Placed(one.piece, *own))
        return found

    def _by_read(self, pieces: Iterable[Piece]) -> Mapping[int, list[dict[str, Any]]]:
        """Rows of a table of events or findings by their read, in their order there."""
        grouped: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for piece in pieces:
            rows, scope = piece.rows, self.names.code(scope_of(piece))
            hosts, boots = (self.names.codes(rows[name]) for name in ("host", "boot_id"))
            seqs = rows["seq"].to_numpy()
            found = self.boots.reads(self.boots.of_rows(scope, boots, hosts), seqs)
            known = np.flatnonzero(found != NOBODY)
            some = rows if len(known) == len(rows) else rows.take(pa.array(known))
            for read, row in zip(found[known].tolist(), some.to_pylist(), strict=True):
                grouped[read].append(row)
        for listed in grouped.values():
            listed.sort(key=lambda row: row["n"])
        return grouped
