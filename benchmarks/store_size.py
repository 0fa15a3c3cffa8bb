"""Bytes per reading: our compacted files beside Prometheus' blocks and VictoriaMetrics, the same
hours of the yardstick in all three.

Every value is read back from our files and compared before anything is printed. ``HOURS=24`` in the
environment takes another span than the first six hours.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import _yardstick
from benchmarks._peers import create_blocks, import_json, size_of, victoria, write_openmetrics
from pipeline.replay import replay
from pipeline.store.keep.compact import compact
from pipeline.store.keep.generations import Pass
from tests import node_day
from tests.node_day import MIDNIGHT_NS, checksum

VICTORIA_GOAL, PROMETHEUS_GOAL = 1.0, 0.33  # of their bytes per reading
HOURS = float(os.environ.get("HOURS", "6"))


def main() -> int:
    """Print the three sizes; 1 where a goal is missed."""
    print(
        f"Python {platform.python_version()}, pyarrow {pa.__version__}, polars "
        f"{pl.__version__}, HOURS={HOURS:g}"
    )
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        counted = node_day.write(root / "ours", _yardstick.observations(round(HOURS * 3600)))
        sealed = size_of(root / "ours" / "gpu")
        began = time.process_time()
        compact(Pass(root / "ours", MIDNIGHT_NS // 1000 + 3 * 86_400_000_000))
        spent = time.process_time() - began
        assert [checksum(o) for o, _ in replay(root / "ours")] == counted.sums, (
            "what comes back is not what was written"
        )
        ours = size_of(root / "ours" / "gpu")
        samples = write_openmetrics(_yardstick.series(root / "ours"), root / "day.txt")
        print(f"{samples / 1e6:.1f} M readings of 8 GPUs with 90 columns each")
        print(
            f"  ours, compacted      {ours / samples:.3f} bytes (sealed {sealed / samples:.3f}); "
            f"compaction with roll-ups {spent:.1f} s CPU"
        )
        _footers(root / "ours", "gpu")
        blocks = create_blocks(root / "day.txt", root / "blocks")
        (root / "day.txt").unlink()
        theirs = sum(size_of(p) for p in (root / "blocks").rglob("chunks")) + sum(
            p.stat().st_size for p in (root / "blocks").rglob("index")
        )
        print(f"  Prometheus, blocks   {theirs / samples:.3f} bytes; promtool {blocks:.1f} s CPU")
        with victoria(root / "victoria") as peer:
            import_json(peer, _yardstick.series(root / "ours"))
            cpu = peer.cpu_s()
        merged = size_of(root / "victoria" / "data") + size_of(root / "victoria" / "indexdb")
        print(f"  VictoriaMetrics      {merged / samples:.3f} bytes; {cpu:.1f} s CPU")
    print(
        f"ratio to Prometheus {ours / theirs:.2f}, goal {PROMETHEUS_GOAL}; to VictoriaMetrics "
        f"{ours / merged:.2f}, goal {VICTORIA_GOAL}"
    )
    return int(ours > PROMETHEUS_GOAL * theirs or ours > VICTORIA_GOAL * merged)


def _footers(root: Path, kind: str) -> None:
    """How much of a table's file is its footer, and the columns that take most."""
    path = next((root / kind).rglob("*.parquet"))
    about = pq.read_metadata(path)
    sizes = np.zeros(about.num_columns)
    for group in range(about.num_row_groups):
        sizes += [
            about.row_group(group).column(i).total_compressed_size for i in range(about.num_columns)
        ]
    most = sorted(zip(sizes.tolist(), about.schema.names, strict=True), reverse=True)[:6]
    shares = ", ".join(f"{name} {size / path.stat().st_size:.0%}" for size, name in most)
    print(f"    {kind}: footer {about.serialized_size / path.stat().st_size:.0%}, {shares}")


if __name__ == "__main__":
    sys.exit(main())
