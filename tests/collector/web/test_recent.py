"""The last minutes: means of five seconds, bounded, with gaps where nothing was read."""

from __future__ import annotations

import math

import pytest

from collector.web.recent import BLOCK_S, BLOCKS, Recent
from tests.fakes import FakeClock, gpu, gpu_frame, observed

BEGIN_S = 100  # where the fake monotonic clock begins: a multiple of BLOCK_S


def power(recent: Recent, clock: FakeClock, device: int = 0) -> list[float | None]:
    """The last minutes of a GPU's power, None = nothing was read."""
    past = recent.of("gpu", gpu(device).id, clock.monotonic_ns())["power_watts"]
    return [None if math.isnan(value) else float(value) for value in past]


def test_a_block_is_the_mean_of_what_was_read_in_it() -> None:
    """In base units; the newest comes last."""
    recent, clock = Recent(), FakeClock(mono_ns=BEGIN_S * 10**9)
    for watts in (100, 200, 300, 400, 500):
        recent.write(observed(clock, gpu_frame(clock, {"power_milliwatts": watts * 1000})))
        clock.advance(1)
    assert power(recent, clock)[-2:] == [300.0, None]


def test_a_value_that_is_missing_does_not_pull_the_mean() -> None:
    """Missing is not zero."""
    recent, clock = Recent(), FakeClock()
    for watts in (None, 200):
        recent.write(
            observed(clock, gpu_frame(clock, {"power_milliwatts": watts and watts * 1000}))
        )
    assert power(recent, clock)[-1] == 200.0


def test_silence_is_a_gap() -> None:
    """A minute in which nothing was read is drawn as one, and what came before stays."""
    recent, clock = Recent(), FakeClock()
    recent.write(observed(clock, gpu_frame(clock, {"power_milliwatts": 100_000})))
    clock.advance(60)
    recent.write(observed(clock, gpu_frame(clock, {"power_milliwatts": 300_000})))
    blocks = 60 // BLOCK_S
    assert power(recent, clock)[-blocks - 1 :] == [100.0, *[None] * (blocks - 1), 300.0]


def test_it_forgets_after_ten_minutes() -> None:
    """The ring holds as many blocks as it says, however long it runs and
    however long nobody reads.
    """
    recent, clock = Recent(), FakeClock()
    recent.write(observed(clock, gpu_frame(clock, {"power_milliwatts": 100_000})))
    clock.advance(BLOCKS * BLOCK_S)
    assert power(recent, clock) == [None] * BLOCKS


def test_devices_that_come_later_have_lines_of_their_own() -> None:
    """A GPU that was not there has no past, and disturbs nobody's."""
    recent, clock = Recent(), FakeClock()
    recent.write(observed(clock, gpu_frame(clock, {"power_milliwatts": 100_000})))
    clock.advance(BLOCK_S)
    recent.write(
        observed(
            clock, gpu_frame(clock, {"power_milliwatts": 110_000}, {"power_milliwatts": 500_000})
        )
    )
    assert power(recent, clock)[-2:] == [100.0, 110.0]
    assert power(recent, clock, 1)[-2:] == [None, 500.0]


def test_a_stranger_has_no_past() -> None:
    """A device that was never read has no lines."""
    assert Recent().of("gpu", "GPU-x", FakeClock().monotonic_ns()) == {}


def test_twenty_readings_a_second_do_not_overflow() -> None:
    """The sum of a block is exact enough for a line of twenty pixels."""
    recent, clock = Recent(), FakeClock()
    for _ in range(BLOCK_S * 20):
        recent.write(observed(clock, gpu_frame(clock, {"memory_used_bytes": 80 * 2**30})))
    (*_, last) = recent.of("gpu", gpu().id, clock.monotonic_ns())["memory_used_bytes"]
    assert last == pytest.approx(80 * 2**30, rel=1e-5)
