"""Disks as the kernel counts them: /proc/diskstats (Documentation/admin-guide/iostats.rst)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from collector.sources.waits.bounded import count
from pipeline.catalog import fields_of
from pipeline.catalog.storage import DISK

# Whole disks that jobs may read from. Partitions, paths of a multipath NVMe device (nvme0c1n1),
# loop devices and RAM disks are left out.
_DISK = re.compile(r"nvme\d+n\d+|(?:sd|vd|xvd)[a-z]{1,3}|dasd[a-z]{1,4}|md\d{1,4}|dm-\d{1,4}")
SECTOR = 512  # bytes, whatever the disk's own sectors are
_COLUMNS = {field.name: int(field.read) - 1 for field in fields_of(DISK)}


def disks(lines: Iterable[bytes]) -> list[tuple[str, dict[str, int]]]:
    """Disks that have read or written, by name, with the catalogue's fields.

    >>> disks([b" 259 0 nvme0n1 7 0 56 4 2 0 16 1 0 5 5", b" 259 1 nvme0n1p1 7 0 56 4 2 0 16 1 0"])
    [('nvme0n1', {'reads': 7, 'read_bytes': 28672, 'read_milliseconds': 4, 'writes': 2, \
'written_bytes': 8192, 'write_milliseconds': 1, 'io_milliseconds': 5})]
    """
    found = []
    for line in lines:
        words = line.split()
        if len(words) > max(_COLUMNS.values()) and _DISK.fullmatch(
            name := words[2].decode(errors="replace")
        ):
            read = {field: count(words[at]) for field, at in _COLUMNS.items()}
            values = {
                field: value * (SECTOR if field.endswith("_bytes") else 1)
                for field, value in read.items()
                if value is not None
            }
            if any(values.values()):
                found.append((name, values))
    return found
