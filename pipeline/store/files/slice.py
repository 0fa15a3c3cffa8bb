"""Rows of a window of time out of a store, table by table, each once: sealed files and what the
write-ahead log still holds.

Works on the directory of a running agent: the log is read first and files are listed after it, so
nothing falls between the two; what is in both is taken from the files.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.store.files.layout import DAY_US, EVENT_LATE_US, HOUR_US
from pipeline.store.files.live import TRIES, live_files
from pipeline.store.files.parquet import ForeignError, read
from pipeline.store.files.unsealed import unsealed

log = logging.getLogger("tocsin.export")


@dataclass(frozen=True, slots=True)
class Window:
    """From ``since_us`` up to but not including ``until_us``, unix time in microseconds."""

    since_us: int
    until_us: int

    def hours(self, table: str) -> list[int]:
        """Hours whose files may hold rows of the window."""
        first = (
            self.since_us // DAY_US * DAY_US
            if table == "devices"
            else self.since_us // HOUR_US * HOUR_US
        )
        # rows lie in the hour of the read that brought them
        late = EVENT_LATE_US if table == "events" else HOUR_US
        return [*range(first, self.until_us + late, HOUR_US)]

    def rows(self, table: str) -> pc.Expression:
        """Which rows belong to it.

        Slow facts hold until they change, so those of the whole day before count too.
        """
        since = self.since_us // DAY_US * DAY_US if table == "devices" else self.since_us
        return (pc.field("time") >= _time(since)) & (pc.field("time") < _time(self.until_us))


class Slice:
    """A window of the store below ``root``.

    What the write-ahead log holds is read once, at the beginning.
    """

    def __init__(self, root: Path, window: Window | None = None) -> None:
        self._root, self._window = root, window
        self._logged = unsealed(root / "wal")
        self.left_out: list[str] = []  # files that could not be read, and why

    def parts(self, table: str, where: pc.Expression | None = None) -> Iterator[pa.Table]:
        """Rows of a table that also meet ``where``, a file at a time, in pieces that are
        sorted by device and time.

        FileNotFoundError where files were replaced while they were read: begin again.
        """
        wanted = _and(self._window.rows(table) if self._window else None, where)
        logged = self._logged.get(table)
        logged = logged.filter(wanted) if logged is not None and wanted is not None else logged
        seen: set[tuple[str, int]] = set()
        first_seq = pc.min(logged["seq"]).as_py() if logged is not None and len(logged) else None
        for path in live_files(
            self._root, table, self._window.hours(table) if self._window else None
        ):
            part = self._read(path, table, wanted)
            if part is not None and len(part):
                if first_seq is not None:
                    seen |= _reads(part.filter(pc.field("seq") >= first_seq))
                yield part
        if logged is not None and first_seq is not None:
            fresh = [
                key not in seen
                for key in zip(
                    logged["boot_id"].to_pylist(), logged["seq"].to_pylist(), strict=True
                )
            ]
            yield logged.filter(pa.array(fresh))

    def table(self, table: str, where: pc.Expression | None = None) -> pa.Table | None:
        """All those rows at once, None where there are none: for the small tables."""
        for _ in range(TRIES):
            with contextlib.suppress(FileNotFoundError):
                parts = [part for part in self.parts(table, where) if len(part)]
                return pa.concat_tables(parts).unify_dictionaries() if parts else None
        raise FileNotFoundError(f"{self._root / table}: its files keep changing")

    def _read(self, path: Path, table: str, wanted: pc.Expression | None) -> pa.Table | None:
        try:
            return read(path, table, wanted)
        except (ForeignError, PermissionError) as error:
            if str(error) not in self.left_out:
                log.warning("skipped: %s", error)
                self.left_out.append(str(error))
            return None


def _reads(rows: pa.Table) -> set[tuple[str, int]]:
    """Boot and number of the observations that rows came with."""
    return set(zip(rows["boot_id"].to_pylist(), rows["seq"].to_pylist(), strict=True))


def _and(*conditions: pc.Expression | None) -> pc.Expression | None:
    given = [c for c in conditions if c is not None]
    if not given:
        return None
    whole = given[0]
    for condition in given[1:]:
        whole &= condition
    return whole


def _time(time_us: int) -> pa.Scalar:
    return pa.scalar(time_us, pa.timestamp("us", tz="UTC"))


def one_of(column: str, values: Sequence[str]) -> pc.Expression:
    """Rows whose column holds one of these."""
    return pc.field(column).isin(pa.array(values, pa.string()))
