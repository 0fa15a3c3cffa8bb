"""The store that a process writes on its own disk, as its configuration asks for it."""

from __future__ import annotations

from pathlib import Path

from collector.config.settings import Config
from pipeline.clock import Clock
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.keep.maintenance import MaintenanceScheduler, upkeep_in_child
from pipeline.store.keep.writer import StoreWriter, seal_in_child


def local_store(config: Config, host: str, clock: Clock, metrics: SelfMetrics) -> StoreWriter:
    """Writes below ``storage.path``; children seal, upload and compact."""
    storage = config.storage
    root, plan = Path(storage.path), storage.upload.plan
    return StoreWriter(
        root,
        host,
        clock,
        metrics,
        seal=seal_in_child(root, storage.cluster, plan),
        uploads=plan is not None,
        maintenance_scheduler=MaintenanceScheduler(
            clock, metrics, upkeep_in_child(root, storage.policy)
        ),
    )
