"""Stored files back into Observations, bit for bit what the engine saw: the source of replay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pipeline.store.decode.nodes import Seen, observations
from pipeline.store.decode.stretches import stretches
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
    hours = [
        hour
        for hour in hours_of(root)
        if (since_us is None or hour + HOUR_US > since_us) and (until_us is None or hour < until_us)
    ]
    for stretch in stretches(root, hours):
        for seen in observations(stretch):
            at = seen[0].time_ns // 1000
            if (since_us is None or at >= since_us) and (until_us is None or at < until_us):
                yield seen
