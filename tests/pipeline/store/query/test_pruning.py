"""What a footer decides about a row group is so for each of its rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from pipeline.store.query.pruning import Possible

GROUP = 10
COLUMNS = pl.Schema(
    {"time": pl.Int64(), "device": pl.String(), "seq": pl.Int64(), "x": pl.Float64()}
)


def _file(folder: Path, source: np.random.Generator) -> tuple[pq.ParquetFile, pl.DataFrame]:
    """Row groups that are often of one device, and sometimes have nulls and NaN."""
    groups = []
    for number in range(12):
        devices = source.choice(["GPU-a", "GPU-b", "GPU-c"], source.integers(1, 3))
        seq = source.integers(0, 4) + source.integers(0, source.integers(1, 4), GROUP)
        groups.append(
            pl.DataFrame(
                {
                    "time": number * GROUP + np.arange(GROUP),
                    "device": source.choice(devices, GROUP).tolist(),
                    "seq": [None if source.random() < 0.02 else int(one) for one in seq],
                    "x": np.where(source.random(GROUP) < 0.05, np.nan, source.normal(size=GROUP)),
                },
                schema=COLUMNS,
            )
        )
    rows = pl.concat(groups)
    pq.write_table(rows.to_arrow(), folder / "a.parquet", row_group_size=GROUP)
    return pq.ParquetFile(folder / "a.parquet"), rows


def _conditions(source: np.random.Generator) -> list[pl.Expr]:
    time, device, seq, x = (pl.col(name) for name in COLUMNS)
    at, number = int(source.integers(0, 120)), int(source.integers(0, 6))
    return [
        time >= at,
        device.is_in(["GPU-a"]),
        device == "GPU-b",
        device != "GPU-b",
        seq > number,
        seq == number,
        seq.is_null(),
        x <= float(source.normal()),
        x > -9.0,
        time % 2 == 0,
        pl.lit(value=False),
        pl.lit(value=True),
        (time < at) | (device == "GPU-c"),
    ]


@pytest.mark.parametrize("seed", range(40))
def test_a_group_that_is_left_out_has_no_such_row_and_a_certain_one_no_other(
    tmp_path: Path, seed: int
) -> None:
    """Whatever is asked, alone or together with something else."""
    source = np.random.default_rng(seed)
    file, rows = _file(tmp_path, source)
    some = _conditions(source)
    pairs = (some[a] & some[b] for a, b in enumerate(source.permutation(len(some)).tolist()))
    for condition in (*some, *pairs):
        chosen = Possible(condition, COLUMNS).groups(file.metadata)
        assert chosen.certain <= set(chosen.possible)
        for group in range(file.num_row_groups):
            whole = rows[group * GROUP : (group + 1) * GROUP]
            meet = len(whole.filter(condition))
            assert group in chosen.possible or not meet
            assert group not in chosen.certain or meet == len(whole)


def test_what_windows_and_devices_ask_is_decided_by_footers(tmp_path: Path) -> None:
    """A day of one device is read without the columns of the question."""
    rows = pl.DataFrame(
        {"time": range(40), "device": ["GPU-a"] * 20 + ["GPU-b"] * 20, "seq": 0, "x": 1.0},
        schema=COLUMNS,
    )
    pq.write_table(rows.to_arrow(), tmp_path / "a.parquet", row_group_size=GROUP)
    asked = (pl.col("time") >= 5) & pl.col("device").is_in(["GPU-a"])
    chosen = Possible(asked, COLUMNS).groups(pq.ParquetFile(tmp_path / "a.parquet").metadata)
    assert chosen == ([0, 1], frozenset({1}))
