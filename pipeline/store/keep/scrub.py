"""Reads sealed files again, a few at each run, so that a disk that forgets is found out before the
day on which it is asked for.

A damaged file stays where it is: queries of columns that can be read still answer. It is named once
and counted until it is gone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.store.files.layout import dates_of, write_whole
from pipeline.store.files.live import live_of_day
from pipeline.store.files.parquet import ForeignError, NewerFileError, named, opened
from pipeline.store.files.schema import ROLLUPS, TABLES

FILE = "state/scrub.json"
# At every run, each quarter of an hour: a node of 8 GPUs, 100 MB a day kept for 30, is through in a
# week, for about a quarter of a CPU second a run.
RUN_BYTES = 4 << 20
COLUMNS_AT_ONCE = 16  # decoded; a row group of all of them would need 70 MiB


@dataclass(slots=True)
class Scrubbed:
    """What is known now: damaged files below the root with the reason; ``fresh`` ones were found in
    this run; ``cursor``: the file that was read last; ``found_s``: unix time of the newest find.
    """

    damaged: dict[str, str] = field(default_factory=dict)
    fresh: list[str] = field(default_factory=list)
    cursor: str = ""
    found_s: float = 0.0


def scrub(root: Path, most_bytes: int = RUN_BYTES, now_s: float = 0.0) -> Scrubbed:
    """Read the next files, at least one; OSError where the disk refuses."""
    state = _load(root)
    state.damaged = {name: why for name, why in state.damaged.items() if (root / name).is_file()}
    files = sorted(_files(root))
    names = [name for name, _ in files]
    turn = sum(name <= state.cursor for name in names)
    read = 0
    for name, table in files[turn:] + files[:turn]:
        if read >= most_bytes:
            break
        with suppress(FileNotFoundError):  # replaced meanwhile
            read += (root / name).stat().st_size
            why = _damage(root / name, table)
            if why and name not in state.damaged:
                state.fresh.append(why)
            if why:
                state.damaged[name] = why
            else:
                state.damaged.pop(name, None)
        state.cursor = name
    state.found_s = now_s if state.fresh else state.found_s
    kept = {"cursor": state.cursor, "damaged": state.damaged, "found_s": state.found_s}
    text = json.dumps(kept).encode()
    write_whole(root / FILE, lambda scratch: scratch.write_bytes(text))
    return state


def _files(root: Path) -> Iterator[tuple[str, str]]:
    """Names below the root of the files that count, with their table."""
    for table in (*TABLES, *ROLLUPS):
        for date in dates_of(root, table):
            for path in live_of_day(date):
                yield path.relative_to(root).as_posix(), table


def _damage(path: Path, table: str) -> str:
    """Why a file cannot be read in full; empty where it can, or is of a newer version."""
    try:
        with opened(path, table) as file, named(path):
            names = file.schema_arrow.names
            for group in range(file.num_row_groups):
                for start in range(0, len(names), COLUMNS_AT_ONCE):
                    file.read_row_group(group, columns=names[start : start + COLUMNS_AT_ONCE])
    except NewerFileError:
        return ""
    except ForeignError as error:
        return str(error)
    return ""


def _load(root: Path) -> Scrubbed:
    with suppress(OSError, ValueError, KeyError, TypeError):
        known = json.loads((root / FILE).read_bytes())
        damaged, found_s = dict(known["damaged"]), float(known["found_s"])
        return Scrubbed(damaged, cursor=str(known["cursor"]), found_s=found_s)
    return Scrubbed()  # the first run, or damaged: it begins at the beginning
