"""Which machine an observation is of. A host's name does not say: a golden image or a careless
set-up gives ten nodes one name, and containers on one kernel share its boot id.

A name's boots that overlap in time are of several machines, unless they share a GPU or a port. The
first keeps the name, others get a number: ``n1~2``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pipeline.small_arrays import any_true

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pipeline.store.decode.names import Names
    from pipeline.store.decode.reads import Reads

# Boots of one machine may overlap by so much: a clock is set right after the start.
OVERLAP_US = 60_000_000

Boot = tuple[str, str, str]  # scope, host, boot id


class Seen(NamedTuple):
    """A boot in an hour: first and last read, unix time in microseconds, and its hardware."""

    boot: Boot
    first_us: int
    last_us: int
    hardware: frozenset[str]


@dataclass(slots=True)
class _Machine:
    name: str
    boots: set[Boot] = field(default_factory=set)
    hardware: set[str] = field(default_factory=set)
    busy: list[tuple[int, int]] = field(default_factory=list)  # in this hour

    def take(self, seen: Seen) -> None:
        self.boots.add(seen.boot)
        self.hardware |= seen.hardware
        self.busy.append((seen.first_us, seen.last_us))

    def free(self, seen: Seen) -> bool:
        return all(
            min(seen.last_us, last) - max(seen.first_us, first) <= OVERLAP_US
            for first, last in self.busy
        )


class Machines:
    """Names of machines, hour by hour.

    >>> machines = Machines(print)
    >>> boots = [("c1-a", "n1", "x"), ("c1-b", "n1", "y")]
    >>> hour = [Seen(boot, 0, 3600 * 10**6, frozenset()) for boot in boots]
    >>> list(machines.names(hour).values())
    several nodes are named n1: boot y is judged as n1~2
    ['n1', 'n1~2']
    """

    def __init__(self, warn: Callable[[str], object]) -> None:
        self._warn = warn
        self._of_host: dict[str, list[_Machine]] = {}

    def names(self, hour: Iterable[Seen]) -> Mapping[Boot, str]:
        """The machine of each boot of an hour."""
        found: dict[Boot, str] = {}
        new: list[Seen] = []
        for machines in self._of_host.values():
            for machine in machines:
                machine.busy = []
        for seen in sorted(hour, key=lambda seen: (seen.first_us, seen.boot)):
            known = [m for m in self._of_host.get(seen.boot[1], ()) if seen.boot in m.boots]
            if known:
                known[0].take(seen)
                found[seen.boot] = known[0].name
            else:
                new.append(seen)
        for seen in new:
            found[seen.boot] = self._place(seen)
        return found

    def _place(self, seen: Seen) -> str:
        host = seen.boot[1]
        machines = self._of_host.setdefault(host, [])
        same = [m for m in machines if m.hardware & seen.hardware]
        free = same or [m for m in machines if m.free(seen)]
        if not free:
            name = host if not machines else f"{host}~{len(machines) + 1}"
            if machines:
                self._warn(
                    f"several nodes are named {host}: boot {seen.boot[2]} is judged as {name}"
                )
            free = [_Machine(name)]
            machines.append(free[0])
        free[0].take(seen)
        return free[0].name


def unique(reads: Reads, names: Names, warn: Callable[[str], object]) -> Reads:
    """Reads with each number once per boot; boots in which two nodes count are left out, named."""
    order = np.lexsort((reads.seq, reads.host, reads.boot, reads.scope))
    reads = reads[order]
    again = np.zeros(len(reads), np.bool_)
    if len(reads) > 1:
        again[1:] = _same(reads, ("scope", "boot", "host", "seq"))
    if not any_true(again):
        return reads
    equal = np.zeros(len(reads), np.bool_)
    equal[1:] = _same(reads, ("time_us", "mono_ns", "source"))
    kept = ~(again & equal)
    for i in np.flatnonzero(again & ~equal).tolist():
        if kept[i]:
            boot = (reads.scope == reads.scope[i]) & (reads.boot == reads.boot[i])
            kept &= ~(boot & (reads.host == reads.host[i]))
            warn(
                f"several nodes write as {names[int(reads.host[i])]} with boot "
                f"{names[int(reads.boot[i])]} and the same numbers: left out"
            )
    return reads[kept]


def _same(reads: Reads, columns: Collection[str]) -> NDArray[np.bool_]:
    """Which reads but the first have the values of the one before."""
    same = np.ones(len(reads) - 1, np.bool_)
    for name in columns:
        values = getattr(reads, name)
        same &= values[1:] == values[:-1]
    return same
