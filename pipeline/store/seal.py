"""Sealing: closed segments of the write-ahead log become immutable Parquet files. Runs in a short-lived child.

Idempotent: a segment's files have names made from the segment, so a second try after a crash writes the same files again.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from functools import partial
from pathlib import Path

from pipeline.store.layout import HOUR_US, FileName, folder, sync_folder, write_whole
from pipeline.store.parquet import write
from pipeline.store.record import CorruptError
from pipeline.store.tables import Gathered
from pipeline.store.wal import read_segment

log = logging.getLogger("tocsin.store")


def seal(segment: Path, root: Path, cluster: str = "") -> list[Path]:
    """Write what a segment holds below ``root`` and remove the segment; the files written.

    Rows lie in the hour of the read that brought them, so an hour is closed when the clock has left it, whatever old events
    (a previous boot's) come later. A segment that is damaged is set aside as ``.damaged`` once its good part is sealed.
    """
    hours: dict[int, Gathered] = defaultdict(Gathered)
    name: FileName | None = None
    damaged = False
    try:
        for observation, findings in read_segment(segment):
            name = name or FileName(cluster, observation.host, observation.boot_id, observation.seq)
            hours[observation.time_ns // 1000 // HOUR_US * HOUR_US].add(observation, findings)
    except CorruptError as error:
        log.warning("segment %s is damaged and set aside: %s", segment, error)
        damaged = True
    written = []
    for hour_us, gathered in hours.items():
        for table, rows in gathered.tables().items():
            path = root / folder(table, hour_us) / str(name)
            write_whole(path, partial(write, rows, table))
            written.append(path)
    if damaged:
        segment.replace(segment.with_suffix(".damaged"))
    segment.unlink(missing_ok=True)
    sync_folder(segment.parent)
    return written


def main(arguments: list[str]) -> int:
    """Entry of the sealing child: root, cluster, then the segments."""
    root, cluster, *paths = arguments
    for path in paths:
        seal(Path(path), Path(root), cluster)
    return 0
