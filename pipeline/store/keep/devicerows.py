"""Rows of some devices out of compacted files, column by column, in the order in which
the engine saw each device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.store.files.epochs import Epochs, Identity
from pipeline.store.files.merge import Run, runs
from pipeline.store.files.parquet import conform, named, opened
from pipeline.store.keep.increments import Series, period_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

BATCH_ROWS = 1 << 16  # rows whose index is held at once: a device-day at 1 Hz


def batches(
    kind: str, path: Path, epochs: Epochs, before: Path | None = None
) -> Iterator[DeviceRows]:
    """All rows of a day's compacted file, some whole devices at a time; with each, the device's
    last row group of the day before.

    ForeignError names a damaged file.
    """
    tails = (
        {(run.host, run.device): run for run in runs(before, kind)} if before is not None else {}
    )
    batch: list[Run] = []
    with ExitStack() as stack:
        files = {p: stack.enter_context(opened(p, kind)) for p in (path, before) if p is not None}

        def made() -> DeviceRows:
            wanted = {(run.host, run.device) for run in batch}
            return DeviceRows(
                kind,
                files,
                [*(tails[d] for d in sorted(wanted & tails.keys())), *batch],
                path,
                epochs,
            )

        for run in runs(path, kind):
            begins = not batch or (batch[-1].host, batch[-1].device) != (run.host, run.device)
            if begins and sum(r.rows for r in batch) >= BATCH_ROWS:
                yield made()
                batch = []
            batch.append(run)
        if batch:
            yield made()


class DeviceRows:
    """Rows of whole devices, ordered by device, boot and number of the observation.

    All arrays (row,).

    ``device`` and ``boot`` are positions in ``identities`` (sorted) and ``boots`` (by their first
    row); ``today`` says which rows belong to the day itself.
    """

    def __init__(
        self,
        kind: str,
        files: dict[Path, pq.ParquetFile],
        wanted: Sequence[Run],
        day: Path,
        epochs: Epochs,
    ) -> None:
        self._kind, self._files = kind, files
        self._groups = {
            path: sorted({run.group for run in wanted if run.path == path}) for path in files
        }
        self.identities: list[Identity] = sorted({(run.host, run.device) for run in wanted})
        number = {identity: i for i, identity in enumerate(self.identities)}
        begins = self._begins()
        self._rows = np.concatenate(
            [np.arange(run.start, run.stop) + begins[run.path, run.group] for run in wanted]
        )
        sizes = [run.rows for run in wanted]
        self.device = np.repeat(
            np.array([number[run.host, run.device] for run in wanted], np.int64), sizes
        )
        self.today = np.repeat([run.path == day for run in wanted], sizes)
        self.time_us, self.seq = self._integers("time"), self._integers("seq")
        self.boots, self.boot = self._boots()
        self._order(np.lexsort((self.seq, self.boot, self.device)))
        self.mono_ns = self._integers("mono_ns")
        sampled = self._integers("sampled_ns")
        at_ns = np.where(sampled > 0, sampled, self.time_us * 1000)
        epoch = epochs.numbers(self.device, self.identities, self.boot, self.boots, self.seq)
        self.series = Series(self.device, at_ns, epoch, period_of(self.device, self.time_us * 1000))

    def gauge(self, name: str) -> NDArray[np.float64] | None:
        """A gauge, NaN = not observed; None where it never was."""
        column = self._observed(name)
        if column is None:
            return None
        values: NDArray[np.float64] = column.cast(pa.float64(), safe=False).to_numpy(
            zero_copy_only=False
        )
        return values

    def counter(self, name: str) -> tuple[NDArray[np.uint64], NDArray[np.bool_]] | None:
        """A counter and where it was observed; None where it never was."""
        column = self._observed(name)
        if column is None:
            return None
        return pc.fill_null(column, 0).to_numpy(), column.is_valid().to_numpy(zero_copy_only=False)

    def _observed(self, name: str) -> pa.Array | None:
        """A column; None where it has no value."""
        if not any(name in file.metadata.schema.names for file in self._files.values()):
            return None
        column = self._column(name)
        return None if column.null_count == len(column) else column

    def _column(self, name: str) -> pa.Array:
        parts = [self._part(path, groups, name) for path, groups in self._groups.items() if groups]
        column = pa.concat_tables(parts).unify_dictionaries().combine_chunks()[name]
        return column.take(pa.array(self._rows)).combine_chunks()

    def _part(self, path: Path, groups: list[int], name: str) -> pa.Table:
        with named(path):
            rows = self._files[path].read_row_groups(groups, columns=[name])
            return conform(rows, self._kind, [name])

    def _integers(self, name: str) -> NDArray[np.int64]:
        values: NDArray[np.int64] = pc.fill_null(self._column(name).cast(pa.int64()), 0).to_numpy()
        return values

    def _boots(self) -> tuple[list[str], NDArray[np.int64]]:
        """Boots by their first time, and the position of each row's boot among them."""
        column = self._column("boot_id")
        codes, names = pc.fill_null(column.indices, 0).to_numpy(), column.dictionary.to_pylist()
        first = np.full(len(names), np.iinfo(np.int64).max)
        np.minimum.at(first, codes, self.time_us)
        order = np.argsort(first, kind="stable")
        place = np.empty(len(names), np.int64)
        place[order] = np.arange(len(names))
        return [names[i] for i in order.tolist()], place[codes]

    def _order(self, order: Any) -> None:
        for name in ("_rows", "device", "today", "time_us", "seq", "boot"):
            setattr(self, name, getattr(self, name)[order])

    def _begins(self) -> dict[tuple[Path, int], int]:
        """Where the rows of each row group begin when all wanted groups of all files
        are concatenated.
        """
        begins, at = {}, 0
        for path, groups in self._groups.items():
            for group in groups:
                begins[path, group] = at
                at += self._files[path].metadata.row_group(group).num_rows
        return begins
