"""A process whose disk takes every write and never ends a sync: what it acknowledges is on its
standard output.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from pipeline.outlet import Outlet
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.keep.writer import StoreWriter
from tests.pipeline.store.days import at, seen


def main() -> None:
    """Write as the agent does, until killed."""
    os.fdatasync = lambda _: threading.Event().wait()  # type: ignore[assignment]
    clock, metrics = at(1), SelfMetrics()
    store = StoreWriter(Path(sys.argv[1]), "n1", clock, metrics, seal=lambda _: None, fsync_s=0.0)
    outlet = Outlet(store, metrics, clock, patience_s=60.0)
    outlet.start()
    for observation, findings in seen(clock, 100_000, 0, ("node",)):
        outlet.write(observation, findings)
        sys.stdout.write(f"{observation.seq}\n")
        sys.stdout.flush()
