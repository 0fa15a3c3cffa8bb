"""Import of a large site: microseconds of CPU per sample, and memory, for 50 million samples.

64 nodes with 8 GPUs and 24 series each, scraped every 15 s: 17 hours are 50 million samples. The
site is made up as it is asked, so that what is measured is the import (without the site's own
network and decoding). ``python -m benchmarks.history_import 3`` takes so many hours.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from history.importing import bring, find
from history.meaning import dcgm_exporter
from history.remembered import HOUR_MS
from history.site.series import Series

NODES, GPUS, METRICS, STEP_MS = 64, 8, 24, 15_000
BEGIN_MS = 1_795_266_000_000
MAX_MIB, MAX_US = 1024, 1.6
"""Goals of docs/performance.md: for import and judging together."""


class MadeUp:
    """A ``history.site.series.Site`` without end."""

    about, how = "made up", "in memory"

    def __init__(self) -> None:
        known = (name for name in dcgm_exporter.columns() if name.startswith("DCGM_FI_"))
        by_column = {dcgm_exporter.columns()[name].name: name for name in known}
        self._names = sorted(islice(by_column.values(), METRICS))

    def names(self, begin_ms: int, end_ms: int) -> list[str]:  # noqa: ARG002 - of the protocol
        """See ``Site``."""
        return self._names

    def read(self, name: str, begin_ms: int, end_ms: int) -> Iterator[Series]:
        """See ``Site``."""
        for node in range(NODES):
            first = begin_ms + (node * 997) % STEP_MS
            times = np.arange(first, end_ms, STEP_MS, dtype=np.int64)
            for gpu in range(GPUS):
                values = (times // STEP_MS + gpu) % 101 + 1.0
                host = f"node-{node:04d}"
                labels = {"__name__": name, "gpu": str(gpu), "UUID": f"GPU-{node}-{gpu}"}
                labels |= {"Hostname": host, "instance": f"{host}:9400", "job": "dcgm"}
                yield Series(labels, times.copy(), values.astype(np.float64))


def main(hours: int) -> int:
    """Print what it took; 1 where a goal is missed."""
    site, span = MadeUp(), (BEGIN_MS, BEGIN_MS + hours * HOUR_MS)
    with tempfile.TemporaryDirectory() as folder:
        found = find(site, *span, None)
        began = time.process_time()
        done = bring(site, found, Path(folder), span)
        us = (time.process_time() - began) / done.account.samples * 1e6
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{done.account.samples:,} samples: {us:.2f} us of CPU each, at most {mib:.0f} MiB")
    return int(us > MAX_US or mib > MAX_MIB)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 17))
