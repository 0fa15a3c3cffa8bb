"""Increments of whole columns are those of Rates, sample by sample, whatever a counter does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.catalog import FIELDS, Field
from pipeline.frame import Device, Frame, blank, schema_of
from pipeline.increments import column_increments
from pipeline.rates import Rates
from tests.fakes import SECOND, START_NS

COUNTERS = [field for field in FIELDS if field.type == "counter"]
# One of each behaviour: resets, sticks in few and in many bits, lifetime, with a physical maximum.
KINDS = list({(f.overflow, f.width, f.lifetime, bool(f.maximum_per_second)): f for f in COUNTERS}.values())

# (what the counter does next, seconds to the next sample, whether a new life begins with it)
MOVES = st.tuples(
    st.one_of(
        st.just(None),
        st.integers(0, 12),
        st.integers(0, 2**34),
        st.sampled_from([-1, -2, -3]),  # to zero, to something small, to the top
    ),
    st.sampled_from([1.0, 1.0, 1.0, 0.1, 3.0, 11.0, 100.0]),
    st.sampled_from([False, False, False, True]),
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(KINDS), st.lists(MOVES, min_size=1, max_size=40), st.integers(0, 2**20))
def test_whole_columns_are_what_rates_makes_frame_by_frame(
    field: Field, moves: list[tuple[int | None, float, bool]], start: int
) -> None:
    """Increment and quality of each sample agree bit for bit: rises, resets, wraps, saturation, gaps, double reads, what is missing."""
    value, observed, now, begins = _samples(field, moves, start)
    delta, quality = column_increments(field, value, observed, now, begins, period=1.0)
    expected = list(_by_frames(field, value, observed, now, begins))
    np.testing.assert_array_equal(delta, np.array([d for d, _ in expected]))
    assert quality.tolist() == [q for _, q in expected]


def test_a_fall_of_a_fast_counter_is_a_reset_once_its_pace_is_known() -> None:
    """A value as small as a few usual increments came after a reset; the same value of a slow counter is a glitch and gives nothing."""
    field = next(f for f in KINDS if f.overflow == "resets" and not f.maximum_per_second and not f.lifetime)
    slow, fast = np.arange(300, dtype=np.uint64), np.arange(300, dtype=np.uint64) * 1000
    ones, now = np.ones(301, np.bool_), np.arange(301) * SECOND
    for rising, known in ((slow, False), (fast, True)):
        value = np.append(rising + np.uint64(10_000), np.uint64(900))
        delta, _ = column_increments(field, value, ones, now, ~ones, period=1.0)
        assert np.isfinite(delta[-1]) == known


@pytest.mark.parametrize("field", KINDS, ids=lambda f: f.name)
def test_nothing_observed_gives_nothing(field: Field) -> None:
    """A counter that was never read has no increments."""
    none = np.zeros(5, np.bool_)
    delta, _ = column_increments(field, np.zeros(5, np.uint64), none, np.arange(5) * SECOND, none, period=1.0)
    assert np.isnan(delta).all()


def _samples(field: Field, moves: list[tuple[int | None, float, bool]], start: int) -> tuple[np.ndarray, ...]:
    top, at, time = 2**field.width - 1, min(start, 2**field.width - 1), START_NS
    rows: list[tuple[int, bool, int, bool]] = []
    for move, seconds, begins in moves:
        time += round(seconds * SECOND)
        if move is not None:
            at = {-1: 0, -2: min(5, top), -3: top}.get(move, min(at + move, top))
        rows.append((at, move is not None, time, begins and bool(rows)))
    value, observed, now, life = zip(*rows, strict=True)
    return np.array(value, np.uint64), np.array(observed), np.array(now, np.int64), np.array(life)


def _by_frames(
    field: Field, value: np.ndarray, observed: np.ndarray, now: np.ndarray, begins: np.ndarray
) -> list[tuple[float, int]]:
    rates, schema, made, life = Rates(schema_of(field.kind), 1.0), schema_of(field.kind), [], 0
    row = schema.counter_row[field.name]
    for i in range(len(value)):
        life += int(begins[i])
        device = Device("n1", field.kind, "d", {"epoch": str(life)})
        gauges, counters, mask = blank(field.kind, [device])
        counters[row, 0], mask[row, 0] = value[i], observed[i]
        frame = rates.add(Frame(schema, int(now[i]), 0, (device,), gauges, counters, mask, np.zeros(1, np.int64)), "boot")
        assert frame.increments is not None
        made.append((float(frame.increments.delta[row, 0]), int(frame.increments.quality[row, 0])))
    return made
