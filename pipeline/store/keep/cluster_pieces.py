"""Compaction of a cluster's store in pieces: an hour of a table in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from pipeline.pieces.interface import Executor, Piece, results
from pipeline.store.keep.cluster import Cluster, Hour, Merged
from pipeline.store.remote.objects import Objects, open_objects
from pipeline.store.remote.upload_plan import Target

# A merged file of 256 MB goes in one request, which the patience of an agent with its small files
# would end below 13 MB/s, at each run again.
MIN_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Task:
    """An hour of the store at ``target``; ``now_us`` is unix time."""

    target: Target
    now_us: int
    hour: Hour


def compact(target: Target, now_us: int, executor: Executor | None = None) -> Merged:
    """As ``Cluster.compact``. An hour whose worker died is done again under names of its own: where
    the first attempt had put its manifest, that counts and the second leaves nothing behind.

    RefusedError where the store refuses; PiecesError where a piece failed.
    """

    def elsewhere(hours: Sequence[Hour]) -> list[Merged]:
        assert executor is not None  # noqa: S101 - only then
        pieces = [Piece(hour.folder, Task(target, now_us, hour)) for hour in hours]
        return results(executor, added, pieces)

    with TemporaryDirectory(prefix="tocsin-compact-") as scratch:
        cluster = Cluster(_opened(target), now_us, Path(scratch))
        return cluster.compact(elsewhere if executor else None)


def added(task: Task) -> Merged:
    """In a worker: one hour."""
    with TemporaryDirectory(prefix="tocsin-compact-") as scratch:
        return Cluster(_opened(task.target), task.now_us, Path(scratch)).add(task.hour)


def _opened(target: Target) -> Objects:
    return open_objects(replace(target, timeout_s=max(target.timeout_s, MIN_TIMEOUT_S)))
