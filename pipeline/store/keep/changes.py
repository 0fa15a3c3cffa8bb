"""The table ``devices`` of a day: the first row of each device and boot,
then one row per change.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline.store.files.merge import in_order, sortable
from pipeline.store.files.parquet import conform, opened
from pipeline.store.files.schema import schema

SERIES = ("boot_id", "source", "kind", "host", "device")  # what an attribute's history is kept for


def changes_only(paths: Sequence[Path]) -> pa.Table:
    """Rows of these files of the table ``devices`` without those that
    repeat the row before, sorted.

    ForeignError names a damaged file.
    """
    wanted = schema("devices")
    tables = []
    for path in paths:
        with opened(path, "devices") as file:
            rows = conform(file.read(), "devices")
        place = wanted.get_field_index("attributes")
        tables.append(
            rows.set_column(place, "attributes", rows["attributes"].dictionary_encode())
        )  # a day repeats them a lot
    table = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    order = np.lexsort([sortable(table["seq"]), *(sortable(table[c]) for c in SERIES)])
    codes = np.stack([sortable(table[c])[order] for c in (*SERIES, "attributes")])
    kept = np.ones(len(order), np.bool_)
    kept[1:] = (np.diff(codes, axis=1) != 0).any(axis=0)
    return in_order(table.take(pa.array(order[kept])).cast(wanted))
