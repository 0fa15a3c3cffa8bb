"""Quarters of an hour of all GPUs of a store, as arrays."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from pipeline.store.keep.compact import compact
from pipeline.store.query.quarters import gpu_quarters
from pipeline.store.query.store import Store
from tests.pipeline.store.days import MIDNIGHT_NS, at, later, seen
from tests.pipeline.store.keep.test_seal import store as write

FIRST_DAY = datetime.fromtimestamp(MIDNIGHT_NS / 1e9, UTC)


@pytest.mark.slow
def test_each_value_is_in_its_quarter_and_column(tmp_path: Path) -> None:
    """What the roll-up has, no more and no less."""
    write(tmp_path, list(seen(at(1), 20, 0, ("gpu",))), at(1))
    compact(later(tmp_path))
    store, until = Store(tmp_path), FIRST_DAY + timedelta(days=2)
    gauges, counters = ("power_milliwatts",), ("energy_millijoules",)
    found = gpu_quarters(store, FIRST_DAY, until, gauges, counters)
    rows = store.table("gpu_15m").collect()
    assert len(rows) > 0
    assert [one[0] for one in found.devices] == sorted(set(rows["device"].to_list()))
    for name, column in (
        ("power_milliwatts", "power_milliwatts_mean"),
        ("energy_millijoules", "energy_millijoules_increase"),
    ):
        values = found.values[name]
        assert values.shape == (2 * 96, len(found.devices))
        assert np.isfinite(values).sum() == rows[column].count()
        assert np.isclose(np.nansum(values), float(rows[column].cast(float).sum() or 0))


def test_a_store_without_roll_ups_has_no_gpus(tmp_path: Path) -> None:
    """The day that goes on has none."""
    found = gpu_quarters(Store(tmp_path), FIRST_DAY, FIRST_DAY + timedelta(days=1), ("state",), ())
    assert found.devices == ()
    assert found.values["state"].shape == (96, 0)
