"""Which boot a stored row belongs to, and which observation of it."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from pipeline.small_arrays import all_true
from pipeline.store.decode.names import Names
from pipeline.store.decode.reads import Reads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Longs = NDArray[np.int64]

NOBODY = -1


class Boots:
    """Boots of some reads, numbered: a boot id of one host in the files of one node.

    Rows are found by file and boot id. Where several nodes share both (containers on one kernel, in
    a cluster's files), the row's host decides; where that says nothing either, nobody gets it.
    """

    def __init__(self, reads: Reads, names: Names) -> None:
        """``reads`` are sorted by scope, boot, host and number."""
        self._names, self._seq = names, reads.seq
        edges = np.zeros(len(reads), np.bool_)
        if len(reads):
            edges[0] = True
            for column in (reads.scope, reads.boot, reads.host):
                edges[1:] |= column[1:] != column[:-1]
        self.first: Longs = np.flatnonzero(edges)
        self.of_read: Longs = np.cumsum(edges) - 1
        self.end: Longs = np.append(self.first[1:], len(reads))
        self.keys = [
            (int(reads.scope[i]), int(reads.boot[i]), int(reads.host[i]))
            for i in self.first.tolist()
        ]
        self._by_boot: dict[int, list[int]] = defaultdict(list)
        for number, (_, boot, _) in enumerate(self.keys):
            self._by_boot[boot].append(number)
        self._found: dict[tuple[int, int, int], int] = {}

    def find(self, scope: int, boot: int, host: int) -> int:
        """The boot of a row, by numbers of names; NOBODY where it is not known."""
        key = (scope, boot, host)
        if key not in self._found:
            some = self._by_boot.get(boot, [])
            own = [number for number in some if self.keys[number][0] == scope] or some
            if len(own) > 1:
                own = [number for number in own if self.keys[number][2] == host]
            self._found[key] = own[0] if len(own) == 1 else NOBODY
        return self._found[key]

    def of_rows(self, scope: int, boot: Longs, host: Longs) -> Longs:
        """As ``find`` for many rows of one file, (row,)."""
        both = boot * len(self._names) + host
        if len(both) and all_true(both == both[0]):
            return np.full(len(both), self.find(scope, int(boot[0]), int(host[0])))
        distinct, where = np.unique(both, return_inverse=True)
        found = [self.find(scope, *divmod(int(key), len(self._names))) for key in distinct]
        return np.array(found, np.int64)[where]

    def reads(self, boots: Longs, seq: Longs) -> Longs:
        """Which read each row of these boots came with, (row,); NOBODY where it is none of them."""
        found = np.full(len(seq), NOBODY, np.int64)
        if not len(seq):
            return found
        one = all_true(boots == boots[0])
        for boot in [int(boots[0])] if one else np.unique(boots).tolist():
            if boot == NOBODY:
                continue
            begin, end = int(self.first[boot]), int(self.end[boot])
            numbers = self._seq[begin:end]
            rows = slice(None) if one else boots == boot
            wanted = seq[rows]
            place = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
            found[rows] = np.where(numbers[place] == wanted, place + begin, NOBODY)
        return found
