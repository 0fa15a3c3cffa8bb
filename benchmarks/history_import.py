"""Import of a large site: microseconds of CPU per sample, and memory, for 50 million samples.

64 nodes with 8 GPUs and 24 series each, scraped every 15 s: 17 hours are 50 million samples.
``python -m benchmarks.history_import 3`` takes so many hours, ``--nodes`` so many nodes: of 1,088
an hour has 50 million. The site is made up as it is asked, so that what is measured is the import
(without the site's own network and decoding); ``--streamed``: it is a server that streams remote
read as Prometheus does, and its network and decoding are measured too.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import islice
from pathlib import Path

import numpy as np

from benchmarks import _streaming_site
from history.importing import bring, find
from history.meaning import dcgm_exporter
from history.remembered import HOUR_MS
from history.site.http import Http
from history.site.open import site_of
from history.site.series import Series, Site

NODES, GPUS, METRICS, STEP_MS = 64, 8, 24, 15_000
BEGIN_MS = 1_795_266_000_000
MAX_MIB, MAX_US = 1024, 1.6
"""Goals of docs/performance.md: for import and judging together."""


def names() -> list[str]:
    """Metrics that are understood, one for each column."""
    known = (name for name in dcgm_exporter.columns() if name.startswith("DCGM_FI_"))
    by_column = {dcgm_exporter.columns()[name].name: name for name in known}
    return sorted(islice(by_column.values(), METRICS))


class MadeUp:
    """A ``history.site.series.Site`` without end."""

    about, how = "made up", "in memory"

    def __init__(self, nodes: int) -> None:
        self._names, self._nodes = names(), nodes

    def names(self, begin_ms: int, end_ms: int) -> list[str]:  # noqa: ARG002 - of the protocol
        """See ``Site``."""
        return self._names

    def read(self, name: str, begin_ms: int, end_ms: int) -> Iterator[Series]:
        """See ``Site``."""
        for node in range(self._nodes):
            first = begin_ms + (node * 997) % STEP_MS
            times = np.arange(first, end_ms, STEP_MS, dtype=np.int64)
            for gpu in range(GPUS):
                values = (times // STEP_MS + gpu) % 101 + 1.0
                yield Series(labels(name, node, gpu), times.copy(), values.astype(np.float64))


def labels(name: str, node: int, gpu: int) -> dict[str, str]:
    """Of a series."""
    host = f"node-{node:04d}"
    made = {"__name__": name, "gpu": str(gpu), "UUID": f"GPU-{node}-{gpu}"}
    return made | {"Hostname": host, "instance": f"{host}:9400", "job": "dcgm"}


def main() -> int:
    """Print what it took; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("hours", nargs="?", type=int, default=17)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--streamed", action="store_true")
    args = parser.parse_args()
    span = (BEGIN_MS, BEGIN_MS + args.hours * HOUR_MS)
    serving = _streaming_site.streaming(args.nodes) if args.streamed else nullcontext("")
    with tempfile.TemporaryDirectory() as folder, serving as url:
        site: Site = site_of(Http(url), span[1]) if url else MadeUp(args.nodes)
        found = find(site, *span, None)
        began = time.process_time()
        done = bring(site, found, Path(folder), span)
        us = (time.process_time() - began) / done.account.samples * 1e6
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{done.account.samples:,} samples: {us:.2f} us of CPU each, at most {mib:.0f} MiB")
    return int(us > MAX_US or mib > MAX_MIB)


if __name__ == "__main__":
    sys.exit(main())
