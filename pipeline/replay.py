"""Stored files back into Observations, bit for bit what the engine saw: the source of replay."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.store.decode.nodes import Seen, nodes
from pipeline.store.decode.reads import usual_steps
from pipeline.store.decode.stretches import TABLES, stretches
from pipeline.store.files.layout import HOUR_US
from pipeline.store.files.live import hours_of


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
    between two reads, as most are, by node and source.
    """

    end_us: int
    nodes: Iterator[tuple[str, Iterator[Seen]]]
    periods: Mapping[tuple[str, str], float]


def parts(
    root: Path,
    *,
    since_us: int | None = None,
    until_us: int | None = None,
    tables: Collection[str] = TABLES,
    hosts: Collection[str] = (),
) -> Iterator[Part]:
    """As ``replay``, hour by hour and node by node; of some ``tables`` only, ``reads`` among
    them. Files that can only hold rows of others than ``hosts`` (none means all) are not read.
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

    for stretch in stretches(root, hours, tables, hosts):
        end_us = int(stretch.reads.time_us.max(initial=0)) // HOUR_US * HOUR_US + HOUR_US
        yield Part(
            end_us,
            ((name, spanned(node)) for name, node in nodes(stretch)),
            usual_steps(stretch.reads, stretch.machine, stretch.names),
        )
