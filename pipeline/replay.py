"""Stored files back into Observations, bit for bit what the engine saw: the source of replay."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline.distinct import distinct
from pipeline.round import Round
from pipeline.store.decode.nodes import Seen, nodes
from pipeline.store.decode.reads import usual_steps
from pipeline.store.decode.rounds import ordered, rounds
from pipeline.store.decode.stretch import Stretch
from pipeline.store.decode.stretches import TABLES, stretches
from pipeline.store.files.layout import HOUR_US
from pipeline.store.files.live import hours_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Longs = NDArray[np.int64]

    Wanted = Callable[[Longs], NDArray[np.bool_]]  # by unix times in microseconds


def replay(
    root: Path, *, since_us: int | None = None, until_us: int | None = None
) -> Iterator[Seen]:
    """Every observation below ``root`` with the findings that were said then; an hour is
    held in memory at a time.

    Within an hour the order is host, boot, sequence number. ``since_us`` and ``until_us`` bound the
    start of the reads, unix time in microseconds. A file that cannot be read is named in the log
    and left out; frames whose rows are gone (given up, quarantined) are left out of their
    observation, which says so in ``unread``.
    """
    for part in parts(root, since_us=since_us, until_us=until_us):
        for _, seen in part.nodes:
            yield from seen


@dataclass(frozen=True, slots=True)
class Part:
    """An hour, or several that cannot be separated, up to ``end_us``, unix time in microseconds:
    the observations of each node, by its name. They may be read in turn. ``periods``: seconds
    between two reads, as most are, by node and source. ``stretch``: what it is made of.
    """

    end_us: int
    nodes: Iterator[tuple[str, Iterator[Seen]]]
    periods: Mapping[tuple[str, str], float]
    stretch: Stretch
    wanted: Wanted

    def names(self) -> list[str]:
        """Its nodes, as ``nodes`` has them."""
        codes = distinct(self.stretch.machine).tolist()
        return sorted(self.stretch.names[code] for code in codes)

    def rounds(self, names: Sequence[str]) -> Iterator[Round]:
        """The observations of some nodes joined, in place of ``nodes``."""
        return rounds(self.stretch, names, self.wanted)

    def last(self, names: Sequence[str]) -> dict[tuple[str, str], int]:
        """The number of the last observation of each boot of some nodes, by node and boot id."""
        stretch, found = self.stretch, dict[tuple[str, str], int]()
        for name in names:
            own = ordered(stretch, name)
            own = own[self.wanted(stretch.reads.time_us[own])]
            boots, seqs = stretch.reads.boot[own].tolist(), stretch.reads.seq[own].tolist()
            found.update(((name, stretch.names[b]), s) for b, s in zip(boots, seqs, strict=True))
        return found


def parts(
    root: Path,
    *,
    since_us: int | None = None,
    until_us: int | None = None,
    tables: Collection[str] = TABLES,
    hosts: Collection[str] = (),
    shelves: int = 1,
) -> Iterator[Part]:
    """As ``replay``, hour by hour and node by node; of some ``tables`` only, ``reads`` among
    them. Files that can only hold rows of others than ``hosts`` (none means all) are not read.
    ``shelves``: so many such iterators are read in turn.
    """
    hours = [
        hour
        for hour in hours_of(root)
        if (since_us is None or hour + HOUR_US > since_us) and (until_us is None or hour < until_us)
    ]

    def spanned(node: Iterator[Seen]) -> Iterator[Seen]:
        for seen in node:
            at = seen[0].time_ns // 1000
            if (since_us is None or at >= since_us) and (until_us is None or at < until_us):
                yield seen

    def wanted(time_us: Longs) -> NDArray[np.bool_]:
        found = np.ones(len(time_us), np.bool_)
        if since_us is not None:
            found &= time_us >= since_us
        if until_us is not None:
            found &= time_us < until_us
        return found

    for stretch in stretches(root, hours, tables, hosts, shelves):
        end_us = int(stretch.reads.time_us.max(initial=0)) // HOUR_US * HOUR_US + HOUR_US
        yield Part(
            end_us,
            ((name, spanned(node)) for name, node in nodes(stretch)),
            usual_steps(stretch.reads, stretch.machine, stretch.names),
            stretch,
            wanted,
        )
