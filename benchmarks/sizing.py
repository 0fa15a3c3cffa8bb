"""All figures of docs/fleet.md's table of sizes in one run of one machine, as docs/sizing.json:
whole gateways with a real NATS server at several sizes (benchmarks/fleet_run.py), and decoding.

Large clusters at a pace of their own: ``2000 12500@0.1``. The file is written after each run, so
that one which fails costs itself only. ``make docs`` writes the table.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks._replayed import recorded
from benchmarks.fleet_run import run
from benchmarks.gateway import batch_s
from tests.sources import ROOT

TARGET = ROOT / "docs" / "sizing.json"


def _asked(text: str) -> tuple[int, float]:
    """Nodes and pace."""
    nodes, _, pace = text.partition("@")
    return int(nodes), float(pace or 1)


def _git(*words: str) -> str:
    argv = ["git", "-C", str(ROOT), *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def _machine() -> str:
    """Its processor, as the kernel calls it."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    models = [line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line]
    return models[0] if models else platform.machine()


def measured(sizes: Sequence[tuple[int, float]], seconds: float) -> Iterator[dict[str, Any]]:
    """Everything, as plain values: after each run, with all runs so far."""
    batches = recorded(seconds)
    found: dict[str, Any] = {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _git("rev-parse", "--short", "HEAD")
        + ("+" if _git("status", "--porcelain", "--untracked-files=no") else ""),
        "machine": _machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[1], 1),
        "batch_us": round(1e6 * batch_s(batches), 1),
        "runs": [],
    }
    for nodes, pace in sizes:
        found["runs"].append(asdict(run(batches, nodes, pace)))
        yield found


def main() -> int:
    """0 where everything was measured; goals are those of the single benchmarks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", default=["2000", "12500@0.1"], metavar="NODES[@PACE]")
    parser.add_argument("--seconds", type=float, default=60.0, help="of messages")
    parser.add_argument("--json", type=Path, default=TARGET)
    args = parser.parse_args()
    for found in measured([*map(_asked, args.sizes)], args.seconds):
        args.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        last = found["runs"][-1]
        print(
            f"  {last['nodes']} nodes: {last['cores']['gateway']:.2f} cores, {last['gib']:.2f} GiB"
        )
    print(f"  {args.json}: a batch {found['batch_us']} us")
    return 0


if __name__ == "__main__":
    sys.exit(main())
