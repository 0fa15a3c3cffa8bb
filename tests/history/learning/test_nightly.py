"""The nightly list: what is odd comes first, and says why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.learning.measure_nightly import Ill, Watched, rows_of
from history.learning.gpu_days import COUNTERS, GAUGES, NUMBERS, PER_DAY, Floats, Quarters, gpu_days
from history.learning.nightly import LENGTH, WAYS, Listed, nightly

HOSTS, PER_HOST, DAYS = 4, 8, 6
GPUS = HOSTS * PER_HOST
NODES = np.repeat(np.arange(HOSTS), PER_HOST)
ONE_MODEL = np.zeros(GPUS, np.intp)


def fleet(seed: int = 1) -> Quarters:
    """Healthy GPUs that all work, each a little of its own."""
    rng = np.random.default_rng(seed)
    shape = (DAYS * PER_DAY, GPUS)
    own = 1 + 0.02 * rng.standard_normal(GPUS)
    usual: dict[str, Floats] = {
        "sm_clock_megahertz": 1_600 * own * (1 + 0.002 * rng.standard_normal(shape)),
        "power_milliwatts": 600_000 * own**3 * (1 + 0.003 * rng.standard_normal(shape)),
        "temperature_celsius": 60 + 3 * rng.standard_normal(GPUS) + rng.standard_normal(shape),
        "memory_temperature_celsius": 70 + rng.standard_normal(shape),
        "gpu_utilization_percent": np.full(shape, 98.0),
        "power_limit_enforced_milliwatts": np.full(shape, 700_000.0),
        **{name: np.zeros(shape) for name in COUNTERS},
    }
    hosts = tuple(f"n{host}" for host in NODES.tolist())
    gpus = tuple(f"GPU-{number}" for number in range(GPUS))
    return Quarters(usual, gpus, hosts, ("H100",) * GPUS, 0)


def changed(found: Quarters, name: str, gpu: int, days: slice, change: Any) -> Quarters:
    """With other readings of a GPU on some days."""
    values = found.values[name].copy()
    rows = slice(days.start * PER_DAY, days.stop * PER_DAY)
    values[rows, gpu] = change(values[rows, gpu])
    return replace(found, values={**found.values, name: values})


def listed(found: Quarters) -> list[Listed]:
    """The list of the last night."""
    return nightly(gpu_days(found), ONE_MODEL, NODES)


@pytest.mark.parametrize(
    ("name", "change", "why"),
    [
        ("temperature_celsius", lambda c: c + np.linspace(0, 8, len(c)), "heat"),
        ("sm_clock_megahertz", lambda f: f * 0.97, "clock"),
        ("power_milliwatts", lambda p: p * 0.9, "power"),
        ("ecc_corrected_volatile", lambda n: n + 1, "corrected"),
        ("pcie_replays", lambda n: n + 3, "replays"),
        ("throttled_hw_thermal_nanoseconds", lambda n: n + 2e10, "hot_slowed"),
        ("power_limit_enforced_milliwatts", lambda w: w * 0.7, "limit"),
    ],
)
def test_a_gpu_that_changes_is_first_and_the_list_says_in_what(
    name: str, change: Any, why: str
) -> None:
    """Each kind of change, over the last days."""
    first = listed(changed(fleet(), name, 13, slice(3, 6), change))[0]
    assert first.row == 13
    assert first.why[0][0].startswith(why)


def test_an_hour_of_a_slow_clock_is_seen_days_later() -> None:
    """A day's median hides it; the list says how many days ago it was."""

    def slow(values: Floats) -> Floats:
        made = values.copy()
        made[20:26] *= 0.95
        return made

    found = changed(fleet(), "sm_clock_megahertz", 5, slice(3, 4), slow)
    for _ in range(3):  # power goes with the cube of the clock
        found = changed(found, "power_milliwatts", 5, slice(3, 4), slow)
    first = listed(found)[0]
    assert (first.row, first.why[0][0], first.why[0][3]) == (5, "clock_hour", 2)


def test_two_odd_gpus_of_a_node_make_the_others_suspect() -> None:
    """One thing after the other on one node: a lemon."""
    found = changed(fleet(), "pcie_replays", 8, slice(3, 4), lambda n: n + 50)
    found = changed(found, "ecc_uncorrected_volatile", 11, slice(4, 5), lambda n: n + 5)
    rows = [one.row for one in listed(found)]
    assert set(rows[:2]) == {8, 11}
    assert {NODES[row] for row in rows[:8]} == {1}


def test_a_node_that_changes_as_a_whole_is_not_listed() -> None:
    """A roll-out of another driver: all of its GPUs are slower and draw more alike."""
    found = fleet()
    for gpu in range(8):
        found = changed(found, "sm_clock_megahertz", gpu, slice(3, 6), lambda f: f * 0.95)
        found = changed(found, "power_milliwatts", gpu, slice(3, 6), lambda p: p * 1.05)
    before = {one.row: one.score for one in listed(fleet())}
    for one in listed(found):
        assert one.score <= before.get(one.row, 0.0) + 5.0


def test_a_gpu_that_was_replaced_lists_neither_itself_nor_the_new_one() -> None:
    """Nor its node, as one with two odd GPUs; one that is dead and still there is first."""
    found, half = fleet(), DAYS * PER_DAY // 2
    dead = {name: values.copy() for name, values in found.values.items()}
    for values in dead.values():
        values[half:, 13] = np.nan
    assert listed(replace(found, values=dead))[0].row == 13
    new = {name: values[:, 13:14].copy() for name, values in found.values.items()}
    for values in new.values():
        values[: half + 8] = np.nan
    exchanged = replace(
        found,
        values={name: np.hstack([dead[name], new[name]]) for name in dead},
        gpus=(*found.gpus, "GPU-new"),
        hosts=(*found.hosts, found.hosts[13]),
        models=(*found.models, "H100"),
    )
    names = list(NUMBERS).index("unread")
    assert not np.nan_to_num(gpu_days(exchanged)[:, :, names]).any()


def test_readings_that_are_missing_list_nothing_and_break_nothing() -> None:
    """A month of NaN, a single GPU in a node, no reading at all of a field."""
    found = fleet()
    nothing = {name: np.full_like(found.values[name], np.nan) for name in (*GAUGES, *COUNTERS)}
    assert listed(replace(found, values=nothing)) == []
    alone = replace(found, hosts=tuple(f"n{i}" for i in range(GPUS)))
    assert nightly(gpu_days(alone), ONE_MODEL, np.arange(GPUS)) == []
    fewer = {"gpu_utilization_percent": found.values["gpu_utilization_percent"]}
    assert listed(replace(found, values=fewer)) == []


@pytest.mark.slow
def test_every_way_lists_at_most_ten_and_counts_what_is_ill() -> None:
    """The table of the ways, over a fleet with one ill GPU."""
    found = changed(fleet(), "temperature_celsius", 13, slice(3, 6), lambda c: c + 15)
    watched = Watched(gpu_days(found), ONE_MODEL, NODES, (Ill(3.0, 20.0, frozenset({13})),))
    rows = rows_of("F11", {"a": watched})
    assert [row["way"] for row in rows] == list(WAYS)
    for row in rows:
        assert row["last_night"]["of"] == LENGTH
        assert row["last_night"]["best"] == 1
        assert row["faults"] == {"listed": 1, "of": 1}
        assert row["lead_days"] > 10
