"""Rows of incidents and findings in the order in which they were judged, whatever the clock did."""

from __future__ import annotations

import polars as pl


def as_judged(rows: pl.DataFrame) -> pl.DataFrame:
    """Sorted by time, those of one id and boot by number: where a clock was ahead and was set back,
    a row counts from the earliest time of those that came after it. Columns time, boot_id, seq, id.
    """
    reached = pl.col("time").reverse().cum_min().reverse().over("boot_id", "id")
    numbered = rows.sort("boot_id", "seq", maintain_order=True)
    return numbered.sort(reached, "seq", maintain_order=True)
