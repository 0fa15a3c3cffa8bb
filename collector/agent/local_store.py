"""The store that a process writes on its own disk, as its configuration asks for it."""

from __future__ import annotations

from pathlib import Path

from collector.config.settings import Config
from pipeline.clock import Clock
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.keep.maintenance import MaintenanceScheduler, upkeep_in_child
from pipeline.store.keep.writer import StoreWriter, seal_in_child


def local_store(
    config: Config, host: str, clock: Clock, metrics: SelfMetrics, *, writer: str = ""
) -> StoreWriter:
    """Writes below ``storage.path``; children seal, upload and compact.

    ``writer``: who of several that store under the name of one host. It is in the names of files,
    so that what is compacted by one does not replace what is by another in a common bucket.
    """
    storage = config.storage
    root, plan = Path(storage.path), storage.upload.plan
    return StoreWriter(
        root,
        host,
        clock,
        metrics,
        seal=seal_in_child(root, ".".join(filter(None, (storage.cluster, writer))), plan),
        uploads=plan is not None,
        maintenance_scheduler=MaintenanceScheduler(
            clock, metrics, upkeep_in_child(root, storage.policy)
        ),
    )
