"""Compaction of a cluster's store in pieces: an hour of a table in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from pipeline.pieces.interface import Executor, Piece, results
from pipeline.store.keep.cluster import Cluster, Hour, Merged
from pipeline.store.remote.objects import open_objects
from pipeline.store.remote.upload_plan import Target


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
        cluster = Cluster(open_objects(target), now_us, Path(scratch))
        return cluster.compact(elsewhere if executor else None)


def added(task: Task) -> Merged:
    """In a worker: one hour."""
    with TemporaryDirectory(prefix="tocsin-compact-") as scratch:
        return Cluster(open_objects(task.target), task.now_us, Path(scratch)).add(task.hour)
