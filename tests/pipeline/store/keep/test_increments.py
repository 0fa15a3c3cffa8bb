"""Increments of stored columns are those of pipeline/rates.py, frame by frame,
whatever a counter does.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.clock import SECOND_NS
from pipeline.frame import Device, Frame
from pipeline.rates import Rates
from pipeline.store.keep.increments import Series, increments, period_of
from tests.fakes import START_NS
from tests.pipeline.test_rates import FIELDS, SCHEMA

# How a counter goes on: stays, counts a little or a lot, restarts, falls to
# something, jumps to its end.
MOVES = ("stay", "few", "many", "restart", "fall", "end", "missing")


class History:
    """Samples of two devices, as frames for Rates and as columns for increments."""

    def __init__(
        self, seed: int, moves: list[str], steps_s: list[float], epochs: list[tuple[str, str]]
    ) -> None:
        rng = np.random.default_rng(seed)
        n, value, now = len(moves), np.zeros((len(FIELDS), 2), np.uint64), START_NS
        self.frames: list[tuple[Frame, str]] = []
        top = np.array([2**f.width - 1 for f in FIELDS], np.uint64)[:, None]
        for i in range(n):
            now += round(steps_s[i] * SECOND_NS)
            value = np.minimum(self._moved(rng, moves[i], value, top), top)
            observed = rng.random(value.shape) < (0.3 if moves[i] == "missing" else 0.97)
            boot, epoch = epochs[i]
            devices = tuple(Device("n1", "test", d, {"epoch": epoch}) for d in "ab")
            stamps = np.array([now + 1000, 0]) if i % 5 else np.zeros(2, np.int64)
            frame = Frame(SCHEMA, now, 0, devices, np.zeros((0, 2)), value.copy(), observed, stamps)
            self.frames.append((frame, boot))

    @staticmethod
    def _moved(
        rng: np.random.Generator, move: str, value: np.ndarray, top: np.ndarray
    ) -> np.ndarray:
        some = rng.random(value.shape) < 0.7
        few, many = (
            rng.integers(0, 9, value.shape, np.uint64),
            rng.integers(0, 5000, value.shape, np.uint64),
        )
        anything = rng.integers(0, 2**63, value.shape, np.uint64) * np.uint64(2)
        target = {
            "few": value + few,
            "many": value + many,
            "restart": few,
            "fall": anything % np.maximum(value, np.uint64(1)),
            "end": top - few,
        }
        return np.where(some, target.get(move, value), value)

    def by_frames(self, period_s: float) -> np.ndarray:
        """(counter, device, frame), NaN where there is no increment."""
        rates, found = Rates(SCHEMA, period_s), []
        for frame, boot in self.frames:
            made = rates.add(frame, boot).increments
            assert made is not None
            found.append(made.delta)
        return np.stack(found, axis=2)

    def by_columns(self, period_s: float) -> np.ndarray:
        """The same from columns: one device after the other."""
        n = len(self.frames)
        device = np.repeat(np.arange(2), n)
        at = np.concatenate(
            [[f.sampled_ns[d] or f.time_ns for f, _ in self.frames] for d in range(2)]
        )
        epochs: dict[tuple[str, str], int] = {}
        epoch = np.tile(
            [
                epochs.setdefault((boot, f.devices[0].attributes["epoch"]), len(epochs))
                for f, boot in self.frames
            ],
            2,
        )
        series = Series(device, at, epoch, period_s)
        found = []
        for row, field in enumerate(FIELDS):
            value = np.concatenate([[f.counters[row, d] for f, _ in self.frames] for d in range(2)])
            observed = np.concatenate(
                [[f.observed[row, d] for f, _ in self.frames] for d in range(2)]
            )
            delta, known = increments(series, field, value, observed)
            found.append(np.where(known, delta.astype(np.float64), np.nan).reshape(2, n))
        return np.stack(found)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, 2**32),
    st.lists(
        st.tuples(
            st.sampled_from(MOVES),
            st.sampled_from([1.0, 1.0, 1.0, 1.001, 0.1, 9.5, 60.0]),
            st.sampled_from("aaaab"),
            st.sampled_from("eeeef"),
        ),
        min_size=1,
        max_size=60,
    ),
)
def test_columns_give_what_frames_give(seed: int, story: list[tuple[str, float, str, str]]) -> None:
    """Resets, wraps, saturation, glitches, gaps, missing samples, new boots and
    driver loads, above 2^53 too.
    """
    history = History(
        seed, [s[0] for s in story], [s[1] for s in story], [(s[2], s[3]) for s in story]
    )
    np.testing.assert_array_equal(history.by_columns(1.0), history.by_frames(1.0))


@pytest.mark.slow
def test_long_histories_track_the_same_quantile() -> None:
    """A fall is judged by the counter's own busy past, however long: thousands
    of samples, several falls.
    """
    rng = np.random.default_rng(5)
    moves = rng.choice(
        ["many", "many", "many", "few", "stay", "fall", "restart"],
        3000,
        p=[0.3, 0.3, 0.3, 0.05, 0.03, 0.01, 0.01],
    )
    history = History(6, moves.tolist(), [1.0] * 3000, [("b", "e")] * 3000)
    columns = history.by_columns(1.0)
    np.testing.assert_array_equal(columns, history.by_frames(1.0))
    assert np.isnan(columns).sum() > 100  # some falls were explained by nothing


@pytest.mark.parametrize("period_s", [0.1, 1.0, 60.0])
def test_the_period_is_told_by_the_samples(period_s: float) -> None:
    """Most steps between samples of one device are its source's period; steps from one device
    to the next do not count.
    """
    at = np.concatenate(
        [
            START_NS + np.arange(50) * round(period_s * SECOND_NS),
            START_NS + np.arange(50) * round(period_s * SECOND_NS),
        ]
    )
    at[20:50] += 3600 * SECOND_NS
    assert period_of(np.repeat([0, 1], 50), at) == period_s


def test_no_samples_are_no_trouble() -> None:
    """An empty column has no increments, and a device seen once has no period."""
    nothing = np.zeros(0, np.int64)
    delta, known = increments(
        Series(nothing, nothing, nothing, 1.0),
        FIELDS[0],
        nothing.astype(np.uint64),
        nothing.astype(np.bool_),
    )
    assert (len(delta), len(known)) == (0, 0)
    assert period_of(np.array([0]), np.array([5])) == 1.0
