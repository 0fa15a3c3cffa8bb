"""A day's roll-ups, made from its compacted file of measurements and named like it: what is
there need not be made again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa

from pipeline.store.files.columns import of_rollup
from pipeline.store.files.epochs import Epochs
from pipeline.store.files.layout import DayName, dates_of, day_folder, owner_of, write_whole
from pipeline.store.files.live import live_of_day
from pipeline.store.files.parquet import Writer, columns_in, read
from pipeline.store.files.schema import BUCKETS_S
from pipeline.store.keep.buckets import roll
from pipeline.store.keep.devicerows import batches
from pipeline.store.keep.generations import Pass, about, sweep

# of the finest roll-up: two devices' day; smaller groups of its many columns would
# be footer more than values
GROUP_ROWS = 2 * 1440
# days in which the day before is looked for: what a counter rose by meanwhile belongs
# to the day it is seen in
LOOK_BACK = 40


def roll_up(over: Pass, kind: str, day_us: int, whole: Path) -> int:
    """Write the roll-ups of a kind's compacted file where they are not there yet; the
    number of files written.

    ForeignError names a damaged file.
    """
    finest, *coarser = (
        over.root / day_folder(f"{kind}_{bucket}", day_us) / whole.name for bucket in BUCKETS_S
    )
    if all(target.exists() for target in (finest, *coarser)):
        for target in (finest, *coarser):  # a run may have been killed before it did
            sweep(over, target.parent)
        return 0
    before = _before(over.root, kind, whole)
    day = columns_in(whole, kind)
    epochs = Epochs(kind, _devices(over.root, whole, before))
    kept: dict[Path, list[pa.Table]] = {target: [] for target in coarser}

    def write_finest(path: Path) -> None:
        with Writer(_table(finest), path, of_rollup(_table(finest), day), _about(finest)) as file:
            group: list[pa.Table] = []
            for rows in batches(kind, whole, epochs, before):
                rolled = roll(kind, day_us, rows)
                group.append(rolled[_table(finest)])
                if sum(map(len, group)) >= GROUP_ROWS:
                    file.write(pa.concat_tables(group).unify_dictionaries())
                    group = []
                for target, tables in kept.items():  # few rows: held until the finest is written
                    tables.append(rolled[_table(target)])
            if group:
                file.write(pa.concat_tables(group).unify_dictionaries())

    def write_kept(target: Path, path: Path) -> None:
        with Writer(_table(target), path, of_rollup(_table(target), day), _about(target)) as file:
            file.write(pa.concat_tables(kept[target]).unify_dictionaries())

    writes: dict[Path, Callable[[Path], None]] = {finest: write_finest}
    writes |= {target: partial(write_kept, target) for target in coarser}
    for target, write in writes.items():
        over.step(f"write {target}")
        write_whole(target, write)
        sweep(over, target.parent)
    return 1 + len(coarser)


def _table(target: Path) -> str:
    return target.parents[1].name


def _about(target: Path) -> dict[str, str]:
    """A roll-up replaces those of earlier generations."""
    name = DayName.of(target.name)
    older = [
        path
        for path in target.parent.glob("*.parquet")
        if (other := DayName.of(path.name)) and name and _older(other, name)
    ]
    return about(target.parent, older)


def _older(one: DayName, other: DayName) -> bool:
    return one.owner == other.owner and one.generation < other.generation


def _before(root: Path, kind: str, whole: Path) -> Path | None:
    """The same owner's latest compacted file of a day before."""
    name = DayName.of(whole.name)
    for date in reversed(
        [date for date in dates_of(root, kind) if date.name < whole.parent.name][-LOOK_BACK:]
    ):
        for path in reversed(live_of_day(date)):
            other = DayName.of(path.name)
            if other and name and other.owner == name.owner:
                return path
    return None


def _devices(root: Path, *days: Path | None) -> list[pa.Table]:
    """The tables ``devices`` of the same owner and the same days as these files."""
    files = [day for day in days if day is not None]
    dates = {root / "devices" / day.parent.name for day in files}
    owners = {owner_of(day.name) for day in files}
    return [
        read(path, "devices")
        for date in sorted(dates)
        for path in live_of_day(date)
        if owner_of(path.name) in owners
    ]
