"""A store from its first hour to its last, as stretches whose reads come in the order of their
numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

import numpy as np

from pipeline.catalog import KINDS
from pipeline.distinct import distinct
from pipeline.small_arrays import any_true
from pipeline.store.decode.groups import Piece
from pipeline.store.decode.machines import Machines, unique
from pipeline.store.decode.names import Names
from pipeline.store.decode.plan import Plan
from pipeline.store.decode.reads import Reads
from pipeline.store.decode.shelf import Shelf
from pipeline.store.decode.stretch import Stretch
from pipeline.store.files.layout import HOUR_US

# Incidents are made again, of the findings.
TABLES = (*KINDS, "reads", "events", "findings", "devices")


def stretches(
    root: Path,
    hours: Iterable[int],
    tables: Collection[str] = TABLES,
    hosts: Collection[str] = (),
    shelves: int = 1,
) -> Iterator[Stretch]:
    """Hours of the store below ``root``, unix time in microseconds of their begins, rising; frames
    and texts of some ``tables`` only, ``reads`` among them, and the reads of agents on ``hosts``
    (none means all): files and row groups that cannot hold rows of theirs are not read. Of
    ``shelves`` that are read in turn each may hold its share of open files.

    What cannot be read, or cannot be distinguished, is left out and named in the log.
    """
    with Shelf(root, hosts=hosts, shelves=shelves) as shelf:
        machines, order = Machines(shelf.name), _Order(shelf.name)
        for group in Plan(root, list(hours), hosts).groups():
            names = Names()
            found = [piece for hour in group for piece in shelf.hour("reads", hour)]
            reads = Reads.of(found, names, (group[0], group[-1] + HOUR_US))
            boots = None
            if hosts:  # files of a cluster have the reads of all
                reads = reads[np.isin(reads.host, [names.code(host) for host in hosts])]
                if not len(reads):
                    continue
                boots = frozenset(names[code].encode() for code in distinct(reads.boot).tolist())
            reads = unique(reads, names, shelf.name)
            held: dict[str, list[Piece]] = {table: [] for table in TABLES}
            for hour in group:
                for table in tables:
                    if table != "reads":
                        held[table] += shelf.hour(table, hour, boots)
            stretch = Stretch(held, order.after(reads, names), names, machines)
            del found, held  # it has what it needs, and may let go of it
            yield stretch


class _Order:
    """Drops what comes again or too late: detectors see each boot in the order it was read."""

    def __init__(self, warn: Callable[[str], object]) -> None:
        self._warn = warn
        self._last: dict[tuple[str, str, str], int] = {}

    def after(self, reads: Reads, names: Names) -> Reads:
        """Reads with higher numbers than those before of their boots."""
        kept = np.ones(len(reads), np.bool_)
        for scope, boot, host in np.unique(
            np.stack([reads.scope, reads.boot, reads.host]), axis=1
        ).T.tolist():
            own = (reads.scope == scope) & (reads.boot == boot) & (reads.host == host)
            key = (names[scope], names[boot], names[host])
            late = own & (reads.seq <= self._last.get(key, -1))
            if any_true(late):
                kept &= ~late
                self._warn(
                    f"{key[2]}: hours of boot {key[1]} are out of order, "
                    "what comes too late is left out"
                )
            self._last[key] = max(self._last.get(key, -1), int(reads.seq[own].max()))
        return reads[kept]
