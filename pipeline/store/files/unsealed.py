"""What the write-ahead log has and no file does yet, as tables: for queries of a node's own
folder.
"""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa

from pipeline.store.files.record import CorruptError
from pipeline.store.files.segment import Damage, NewerError
from pipeline.store.files.tables import Gathered
from pipeline.store.files.wal import read_segment, segments

log = logging.getLogger("tocsin.store")


def unsealed(directory: Path) -> dict[str, pa.Table]:
    """Rows of the segments in a folder, by table.

    Read it before files are listed: a segment that is sealed meanwhile is among those.
    """
    gathered = Gathered()
    for segment in segments(directory):
        damage = Damage()
        try:
            for judged in read_segment(segment, damage):
                gathered.add(*judged)
            if damage:  # it is counted when it is sealed
                log.warning("%s: %d records missing: %s", segment, damage.records, damage.why)
        except FileNotFoundError:  # sealed meanwhile
            continue
        except (CorruptError, NewerError) as error:
            log.warning("skipped: %s", error)
    return dict(gathered.tables())
