"""The bounded queue between the engine and a slow sink."""

from __future__ import annotations

import threading

import pytest

from pipeline.catalog import agent
from pipeline.finding import Finding
from pipeline.observation import Observation
from pipeline.outlet import MAX_OWED, Outlet
from pipeline.selfmetrics import SelfMetrics
from tests.fakes import FakeClock, FakeSink, gpu, observed
from tests.wait import PATIENCE_S, until


def outlet(most: int = 3) -> tuple[Outlet, FakeSink, SelfMetrics, FakeClock]:
    """An outlet of so many places with its parts."""
    clock, metrics, sink = FakeClock(), SelfMetrics(), FakeSink()
    return Outlet(sink, metrics, clock, most=most), sink, metrics, clock


def test_a_full_queue_drops_its_oldest_and_counts_it() -> None:
    """Five into three leaves the newest three and two counted."""
    queue, sink, metrics, clock = outlet()
    for seq in range(5):
        queue.write(observed(clock, seq=seq), ())
    queue.drain()
    assert [o.seq for o in sink.observations] == [2, 3, 4]
    assert metrics.value(agent.QUEUE_DROPPED, "memory") == 2


def test_close_drains_what_is_queued() -> None:
    """Shutdown loses nothing that fits the deadline."""
    queue, sink, metrics, clock = outlet()
    queue.start()
    for seq in range(3):
        queue.write(observed(clock, seq=seq), ())
    queue.close(10.0)
    assert [o.seq for o in sink.observations] == [0, 1, 2]
    assert metrics.value(agent.QUEUE_DROPPED, "memory") == 0


def test_a_sink_that_raises_does_not_stop_the_queue() -> None:
    """The next observation is delivered after one that failed."""
    queue, sink, metrics, clock = outlet()
    sink.error = OSError("full")
    queue.write(observed(clock, seq=1), ())
    queue.drain()
    sink.error = None
    queue.write(observed(clock, seq=2), ())
    queue.drain()
    assert [o.seq for o in sink.observations] == [2]
    assert metrics.value(agent.STAGE_FAILURES, "sink", "memory", "OSError") == 1


def found(onset: int) -> Finding:
    """A finding that began at some microsecond."""
    return Finding("d", gpu(), "f", "onset", "page", onset * 1000, onset * 1000, "s")


def test_findings_that_a_sink_refused_come_again_with_the_next_observation() -> None:
    """A detector says them once and its state has moved on: a disk that was full for a minute
    loses none and doubles none.
    """
    queue, sink, _, clock = outlet()
    sink.error = OSError("full")
    for seq in range(2):
        queue.write(observed(clock, seq=seq), (found(seq),))
        queue.drain()
    sink.error = None
    queue.write(observed(clock, seq=2), (found(2),))
    queue.write(observed(clock, seq=3), ())
    queue.drain()
    assert sink.findings == [found(0), found(1), found(2)]


def test_findings_of_an_observation_that_was_dropped_are_kept() -> None:
    """Readings may be dropped when a sink is too slow; what was found may not."""
    queue, sink, _, clock = outlet(most=1)
    for seq in range(3):
        queue.write(observed(clock, seq=seq), (found(seq),))
    queue.drain()
    assert sink.findings == [found(0), found(1), found(2)]


def test_what_is_owed_to_a_dead_sink_is_bounded() -> None:
    """The newest stay."""
    queue, sink, _, clock = outlet()
    sink.error = OSError("gone")
    for seq in range(MAX_OWED + 10):
        queue.write(observed(clock, seq=seq), (found(seq),))
        queue.drain()
    sink.error = None
    queue.write(observed(clock), ())
    queue.drain()
    assert sink.findings == [found(seq) for seq in range(10, MAX_OWED + 10)]


class Slow:
    """A sink that takes nothing until it may."""

    name = "slow"

    def __init__(self) -> None:
        self.may, self.taken = threading.Event(), list[int]()

    def write(self, observation: Observation, *_: object) -> None:
        """Wait, then take it."""
        self.may.wait(PATIENCE_S)
        self.taken.append(observation.seq)


def test_with_patience_a_write_returns_when_the_sink_has_it() -> None:
    """What is shown after it is kept already."""
    clock, sink = FakeClock(), Slow()
    sink.may.set()
    queue = Outlet(sink, SelfMetrics(), clock, patience_s=PATIENCE_S)
    queue.start()
    for seq in range(20):
        queue.write(observed(clock, seq=seq), ())
        assert sink.taken[-1] == seq
    assert queue.close(PATIENCE_S) == 0


def test_nobody_waits_for_a_sink_that_is_behind_until_it_has_caught_up() -> None:
    """A disk that hangs costs its patience once, however many observations come."""
    clock, sink = FakeClock(), Slow()
    queue = Outlet(sink, SelfMetrics(), clock, patience_s=0.01)
    queue.start()
    queue.write(observed(clock, seq=0), ())
    queue._patience_s = PATIENCE_S  # a wait would now be seen: nobody lets the sink go on
    for seq in range(1, 5):
        queue.write(observed(clock, seq=seq), ())
    assert sink.taken == []
    sink.may.set()
    until(lambda: sink.taken == [0, 1, 2, 3, 4] and not queue._behind, "the sink to catch up")
    queue.write(observed(clock, seq=5), ())
    assert sink.taken[-1] == 5
    assert queue.close(PATIENCE_S) == 0


@pytest.mark.parametrize("error", [TypeError("no UTF-8"), ValueError("negative"), KeyError("gpu")])
def test_what_a_sink_can_never_take_does_not_stop_what_comes_later(error: Exception) -> None:
    """It is dropped and counted, with its findings: with them each later write would fail too."""
    queue, sink, metrics, clock = outlet()
    sink.error = error
    queue.write(observed(clock, seq=0), (found(0),))
    queue.drain()
    sink.error = None
    queue.write(observed(clock, seq=1), (found(1),))
    queue.drain()
    assert (sink.findings, [o.seq for o in sink.observations]) == ([found(1)], [1])
    assert metrics.value(agent.QUEUE_DROPPED, "memory") == 1
