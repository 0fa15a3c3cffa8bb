"""A clock that runs faster than the machine's."""

from __future__ import annotations

import time

from pipeline.clock import SECOND_NS, FastClock, SystemClock
from tests.wait import PATIENCE_S


def test_both_of_its_times_run_at_its_speed() -> None:
    """Ten seconds ago it was started; ten minutes have passed for it."""
    since = time.monotonic_ns() - 10 * SECOND_NS
    clock = FastClock(60, since)
    assert 600 <= (clock.monotonic_ns() - since) / SECOND_NS < 660
    assert 590 <= (clock.time_ns() - SystemClock().time_ns()) / SECOND_NS < 660


def test_it_may_begin_in_the_past_and_catch_up() -> None:
    """A day of ten minutes at ten times the speed, begun nine minutes ago, ends now."""
    clock = FastClock(10, time.monotonic_ns() - 60 * SECOND_NS, 540)
    assert abs(clock.time_ns() - SystemClock().time_ns()) < 20 * SECOND_NS


def test_processes_that_are_told_the_same_instant_agree() -> None:
    """The simulated node and the agent that reads it start at different times."""
    since = time.monotonic_ns() - 10 * SECOND_NS
    node, agent = FastClock(60, since), FastClock(60, since)
    before, now, after = node.time_ns(), agent.time_ns(), node.time_ns()
    assert before - SECOND_NS < now < after + SECOND_NS


def test_it_waits_by_its_own_seconds() -> None:
    """An hour at that speed is a moment for the machine."""
    began = time.monotonic()
    FastClock(1_000_000, time.monotonic_ns()).wait(3600)
    assert 0.003 < time.monotonic() - began < PATIENCE_S
