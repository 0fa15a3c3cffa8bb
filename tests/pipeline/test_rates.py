"""Counters to increments: resets, wraps, saturation, first samples, gaps.

Never an absolute difference.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.catalog import Field, Metric
from pipeline.clock import SECOND_NS
from pipeline.frame import Device, Frame, Increments, Schema, blank, frame_of, schema_of
from pipeline.rates import FIRST, GAP, IMPLAUSIBLE, MISSING, OK, RESET, SATURATED, Rates
from tests.fakes import START_NS

METRIC = Metric("tocsin_test_total", "counter", "A counter.")
FIELDS = (
    Field(1, "plain", "test", "counter", METRIC, ""),
    Field(2, "lifetime", "test", "counter", METRIC, "", lifetime=True),
    Field(3, "sticky16", "test", "counter", METRIC, "", width=16, overflow="sticks"),
    Field(4, "wrapping32", "test", "counter", METRIC, "", width=32, overflow="wraps"),
    Field(5, "limited", "test", "counter", METRIC, "", maximum_per_second=100.0),
)
SCHEMA = Schema("test", (), FIELDS, {}, {f.name: i for i, f in enumerate(FIELDS)})


class Meter:
    """One device with the counters above; each sample a second after the last unless said."""

    def __init__(self, period_s: float = 1.0) -> None:
        self.rates = Rates(SCHEMA, period_s)
        self.now = START_NS

    def sample(
        self,
        after_s: float = 1.0,
        boot: str = "b",
        epoch: str = "e",
        device: str = "d",
        **values: int | None,
    ) -> Increments:
        self.now += round(after_s * SECOND_NS)
        counters, observed = (
            np.zeros((len(FIELDS), 1), np.uint64),
            np.zeros((len(FIELDS), 1), np.bool_),
        )
        for name, value in values.items():
            if value is not None:
                counters[SCHEMA.counter_row[name], 0], observed[SCHEMA.counter_row[name], 0] = (
                    value,
                    True,
                )
        devices = (Device("n1", "test", device, {"epoch": epoch}),)
        frame = Frame(
            SCHEMA,
            self.now,
            0,
            devices,
            np.zeros((0, 1)),
            counters,
            observed,
            np.zeros(1, np.int64),
        )
        increments = self.rates.add(frame, boot).increments
        assert increments is not None
        return increments


def of(increments: Increments, name: str) -> tuple[float, int]:
    """(delta, quality) of one counter."""
    row = SCHEMA.counter_row[name]
    return float(increments.delta[row, 0]), int(increments.quality[row, 0])


def test_the_first_sample_gives_no_increment() -> None:
    """A counter at 500 when first seen has not just risen by 500."""
    delta, quality = of(Meter().sample(plain=500), "plain")
    assert np.isnan(delta)
    assert quality == FIRST


def test_increments_are_exact_above_2_to_the_53() -> None:
    """Subtraction happens in integers: one joule more at the top of the range is one, not zero."""
    meter = Meter()
    meter.sample(plain=2**64 - 3)
    assert of(meter.sample(plain=2**64 - 1), "plain") == (2.0, OK)


def test_a_reload_from_500_to_0_is_an_increment_of_0() -> None:
    """DCGM's |end - start| would say 500."""
    meter = Meter()
    meter.sample(plain=500)
    assert of(meter.sample(plain=0, epoch="reloaded"), "plain") == (0.0, RESET)


def test_a_reset_counts_what_came_after_it() -> None:
    """A new epoch (driver load, boot) makes the value itself the increment."""
    meter = Meter()
    meter.sample(plain=10**9)
    assert of(meter.sample(plain=10**6, epoch="reloaded"), "plain") == (1e6, RESET)
    assert of(meter.sample(plain=5, boot="b2", epoch="reloaded"), "plain") == (5.0, RESET)


def test_a_fall_to_a_large_value_without_a_new_epoch_is_missing() -> None:
    """A glitch is no increment, in neither direction."""
    meter = Meter()
    meter.sample(plain=10**9)
    delta, quality = of(meter.sample(plain=10**8), "plain")
    assert np.isnan(delta)
    assert quality == RESET


def test_an_external_reset_to_a_few_is_counted_as_a_few() -> None:
    """Perfquery -R by another tool, then three errors before our next read."""
    meter = Meter()
    meter.sample(plain=4000)
    assert of(meter.sample(plain=3), "plain") == (3.0, RESET)


def test_a_reset_may_show_as_much_as_a_few_of_its_own_increments() -> None:
    """A busy counter that restarts shows thousands at once, and that is what it counted."""
    meter = Meter()
    for i in range(400):
        meter.sample(plain=10**7 + i * 1000)
    assert of(meter.sample(plain=1500), "plain") == (1500.0, RESET)


def test_a_lifetime_counter_that_falls_is_not_explained_by_a_reload() -> None:
    """Aggregate ECC survives a driver load: a fall is a misread or another board."""
    meter = Meter()
    meter.sample(lifetime=10**6)
    delta, _ = of(meter.sample(lifetime=10**5, epoch="reloaded"), "lifetime")
    assert np.isnan(delta)


def test_a_wrapping_counter_goes_on_over_its_end() -> None:
    """A 32-bit counter that wraps adds 2^32."""
    meter = Meter()
    meter.sample(wrapping32=2**32 - 10)
    assert of(meter.sample(wrapping32=5), "wrapping32") == (15.0, OK)


def test_a_counter_at_its_maximum_is_saturated_and_its_increment_a_lower_bound() -> None:
    """65535 is an end of sight, not a rate of zero."""
    meter = Meter()
    meter.sample(sticky16=65000)
    assert of(meter.sample(sticky16=65535), "sticky16") == (535.0, SATURATED)
    assert of(meter.sample(sticky16=65535), "sticky16") == (0.0, SATURATED)


def test_a_saturated_counter_that_is_reset_counts_again() -> None:
    """After perfquery -R the port can be judged again."""
    meter = Meter()
    meter.sample(sticky16=65535)
    assert of(meter.sample(sticky16=2), "sticky16") == (2.0, RESET)


def test_a_gap_keeps_the_count_and_makes_no_rate() -> None:
    """Errors of an outage are not lost and not averaged into a rate."""
    meter = Meter()
    meter.sample(plain=10)
    increments = meter.sample(after_s=60.0, plain=13)
    assert of(increments, "plain") == (3.0, GAP)
    assert np.isnan(increments.rate(0)[0])


def test_a_node_of_a_fleet_has_a_period_of_its_own() -> None:
    """Read every 15 s where once a second is usual it has rates, also after a snapshot; what is
    longer than ten of its own steps is a gap.
    """

    def sample(rates: Rates, second: int, passed_s: float) -> tuple[float, int]:
        gpus = [(Device("n", "gpu", "g"), {"energy_millijoules": 100 * second})]
        at_ns = START_NS + second * SECOND_NS
        frame = replace(frame_of("gpu", gpus, at_ns, at_ns), passed_s=np.array([passed_s]))
        made = rates.add(frame).increments
        assert made is not None
        row = frame.schema.counter_row["energy_millijoules"]
        return float(made.rate(row)[0]), int(made.quality_of(row)[0])

    rates = Rates(schema_of("gpu"), 1.0)
    assert sample(rates, 0, 0.0)[1] == FIRST
    assert sample(rates, 15, 15.0) == (100.0, OK)
    again = Rates(schema_of("gpu"), 1.0)
    again.restore(rates.state())
    assert sample(again, 30, 15.0) == (100.0, OK)
    assert sample(again, 230, 200.0)[1] == GAP
    assert sample(again, 245, 15.0) == (100.0, OK)


def test_an_unobserved_sample_holds_the_last_value() -> None:
    """Missing is not zero: the next observed sample counts from the last observed one."""
    meter = Meter()
    meter.sample(plain=10)
    assert of(meter.sample(plain=None), "plain")[1] == MISSING
    increments = meter.sample(plain=16)
    assert of(increments, "plain") == (6.0, OK)
    assert increments.rate(0)[0] == pytest.approx(3.0)


def test_a_rate_beyond_physics_is_missing() -> None:
    """A misread that is above the field's maximum by more than 5 % is no increment."""
    meter = Meter()
    meter.sample(limited=0)
    delta, quality = of(meter.sample(limited=106), "limited")
    assert np.isnan(delta)
    assert quality == IMPLAUSIBLE
    assert of(meter.sample(limited=206), "limited") == (100.0, OK)


def test_a_swapped_part_starts_cold() -> None:
    """State is keyed by identity: another GPU in the same slot has no history."""
    meter = Meter()
    meter.sample(plain=10**6)
    assert of(meter.sample(plain=10**6 + 5, device="other"), "plain")[1] == FIRST


def test_rates_use_the_sources_own_timestamps() -> None:
    """Where the driver says when it sampled, the rate is over that time."""
    rates = Rates(SCHEMA, 1.0)
    for stamp, value in ((1_000, 0), (1_500, 100)):
        _, counters, observed = (
            np.zeros((0, 1)),
            np.full((5, 1), value, np.uint64),
            np.ones((5, 1), np.bool_),
        )
        frame = Frame(
            SCHEMA,
            START_NS,
            0,
            (Device("n1", "test", "d"),),
            np.zeros((0, 1)),
            counters,
            observed,
            np.array([stamp * 1_000_000]),
        )
        out = rates.add(frame)
    assert out.increments is not None
    assert out.increments.rate(0)[0] == pytest.approx(200.0)


@pytest.mark.slow
@given(st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=20))
def test_increments_are_never_negative_or_infinite(values: list[int]) -> None:
    """Whatever a counter does, its increment is a count or missing."""
    meter = Meter()
    for value in values:
        delta, _ = of(meter.sample(plain=value), "plain")
        assert np.isnan(delta) or 0 <= delta <= 2**64


def test_an_empty_frame_gives_empty_increments() -> None:
    """No devices is a state, not an error."""
    gauges, counters, observed = blank("gpu", ())
    from_catalog = Rates(SCHEMA, 1.0)
    frame = Frame(
        SCHEMA,
        START_NS,
        0,
        (),
        np.zeros((0, 0)),
        np.zeros((5, 0), np.uint64),
        np.zeros((5, 0), np.bool_),
        np.zeros(0, np.int64),
    )
    out = from_catalog.add(frame).increments
    assert out is not None
    assert out.delta.shape == (5, 0)
    assert gauges.shape[1] == counters.shape[1] == observed.shape[1] == 0


def test_a_counter_that_appears_later_disturbs_no_other() -> None:
    """Another counter, before or behind it in the catalogue, is observed for the first time: the
    first one's increments go on.
    """
    meter = Meter()
    meter.sample(sticky16=10)
    assert of(meter.sample(sticky16=13, plain=7), "sticky16") == (3.0, OK)
    last = meter.sample(sticky16=14, plain=9, wrapping32=1)
    assert [of(last, name) for name in ("plain", "sticky16")] == [(2.0, OK), (1.0, OK)]
    assert [of(last, name)[1] for name in ("lifetime", "wrapping32")] == [MISSING, FIRST]


def test_devices_may_change_places() -> None:
    """Two devices swap their rows, one is left out for a while, and another comes between them:
    each keeps its own history.
    """
    rates, rows = Rates(SCHEMA, 1.0), {"a": 100, "b": 5000, "c": 70}

    def sample(order: str, at: int, more: int) -> list[float | None]:
        devices = tuple(Device("n1", "test", name) for name in order)
        values = np.array([[rows[name] + more for name in order]] * len(FIELDS), np.uint64)
        frame = Frame(
            SCHEMA,
            at,
            0,
            devices,
            np.zeros((0, len(order))),
            values,
            np.ones(values.shape, np.bool_),
            np.zeros(len(order), np.int64),
        )
        made = rates.add(frame).increments
        assert made is not None
        return [None if np.isnan(delta) else float(delta) for delta in made.delta[0]]

    sample("ab", START_NS, 0)
    assert sample("ba", START_NS + SECOND_NS, 3) == [3.0, 3.0]
    assert sample("b", START_NS + 2 * SECOND_NS, 4) == [1.0]
    assert sample("ab", START_NS + 3 * SECOND_NS, 9) == [6.0, 5.0]
    assert sample("acb", START_NS + 4 * SECOND_NS, 11) == [2.0, None, 2.0]
    assert sample("acb", START_NS + 5 * SECOND_NS, 12) == [1.0, 1.0, 1.0]
    assert sample("bca", START_NS + 6 * SECOND_NS, 14) == [2.0, 2.0, 2.0]


SAMPLES = st.fixed_dictionaries(
    {
        "after_s": st.sampled_from([0.1, 1.0, 60.0]),
        "boot": st.sampled_from("ab"),
        "device": st.sampled_from("de"),
    },
    optional={
        name: st.one_of(st.none(), st.integers(0, 2**16 - 1))
        for name in ("plain", "sticky16", "limited")
    },
)


@pytest.mark.slow
@given(st.lists(SAMPLES, max_size=12), st.integers(0, 11))
def test_a_restart_anywhere_changes_no_increment(samples: list[dict[str, Any]], cut: int) -> None:
    """Resets, gaps, swapped parts and counters that appear later: with the last samples restored in
    between the increments are the same.
    """
    one, other = Meter(), Meter()
    for number, sample in enumerate(samples):
        if number == cut:
            state, other.rates = other.rates.state(), Rates(SCHEMA, 1.0)
            other.rates.restore(state)
        mine, theirs = one.sample(**sample), other.sample(**sample)
        assert np.array_equal(mine.delta, theirs.delta, equal_nan=True)
        assert np.array_equal(mine.seconds, theirs.seconds, equal_nan=True)
        assert np.array_equal(mine.quality, theirs.quality)


def test_samples_of_another_catalogue_are_matched_by_field() -> None:
    """A counter that this version lacks is left out, the others keep their place."""
    meter = Meter()
    meter.sample(plain=5, limited=7)
    state = dict(meter.rates.state())
    state["counter"] = np.array(
        [999 if number == FIELDS[0].id else number for number in state["counter"].tolist()]
    )
    meter.rates = Rates(SCHEMA, 1.0)
    meter.rates.restore(state)
    increments = meter.sample(plain=6, limited=9)
    assert of(increments, "limited") == (2.0, OK)
    assert of(increments, "plain")[1] == FIRST


@pytest.mark.parametrize("name", ["host", "epoch", "counter", "last"])
def test_samples_that_do_not_fit_are_refused(name: str) -> None:
    """Another number of devices or counters: nothing is changed."""
    meter = Meter()
    meter.sample(plain=5)
    state = {key: array[:0] if key == name else array for key, array in meter.rates.state().items()}
    with pytest.raises((ValueError, IndexError)):
        Rates(SCHEMA, 1.0).restore(state)


def test_devices_without_counters_are_not_remembered() -> None:
    """Jobs come and go forever: memory and snapshots of a node hold none of those that went."""
    rates = Rates(schema_of("device_job"), 1.0)
    for number in range(1000):
        device = Device("n1", "device_job", f"GPU-1/slurm/{number}", {"job": str(number)})
        made = rates.add(
            frame_of(
                "device_job", [(device, {"processes": 1})], number * SECOND_NS, number * SECOND_NS
            )
        )
    assert made.increments is not None
    assert rates.state()["id"].tolist() == []
