"""What lies in a store and is not ours: a folder where a file should be, another's name, a segment
of a newer version. It is named and left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pipeline.store.files.layout import Stranger, dates_of, hour_of, is_ours
from pipeline.store.files.schema import ROLLUPS, TABLES
from pipeline.store.files.wal import strangers as in_the_log


def strangers(root: Path) -> Iterator[tuple[Path, Stranger]]:
    """Each with what is wrong with it."""
    yield from in_the_log(root / "wal")
    for table in (*TABLES, *ROLLUPS):
        for date in dates_of(root, table):
            hours = {path for path in date.glob("hour=*") if hour_of(path) is not None}
            for folder in (date, *sorted(path for path in hours if path.is_dir())):
                for path in sorted(folder.glob("*")):
                    scratch = path.name.startswith(".") and path.name.endswith(".new")
                    if not (scratch or (path in hours and path.is_dir()) or is_ours(path)):
                        yield path, "name" if path.is_file() else "no_file"
