"""The bounded queue between the engine and a slow sink."""

from __future__ import annotations

from pipeline.catalog import agent
from pipeline.outlet import Outlet
from pipeline.selfmetrics import SelfMetrics
from tests.fakes import FakeClock, FakeSink, observed


def outlet(most: int = 3) -> tuple[Outlet, FakeSink, SelfMetrics, FakeClock]:
    """An outlet of so many places with its parts."""
    clock, own, sink = FakeClock(), SelfMetrics(), FakeSink()
    return Outlet(sink, own, clock, most=most), sink, own, clock


def test_a_full_queue_drops_its_oldest_and_counts_it() -> None:
    """Five into three leaves the newest three and two counted."""
    queue, sink, own, clock = outlet()
    for seq in range(5):
        queue.write(observed(clock, seq=seq), ())
    queue.drain()
    assert [o.seq for o in sink.observations] == [2, 3, 4]
    assert own.value(agent.QUEUE_DROPPED, "memory") == 2


def test_close_drains_what_is_queued() -> None:
    """Shutdown loses nothing that fits the deadline."""
    queue, sink, own, clock = outlet()
    queue.start()
    for seq in range(3):
        queue.write(observed(clock, seq=seq), ())
    queue.close(10.0)
    assert [o.seq for o in sink.observations] == [0, 1, 2]
    assert own.value(agent.QUEUE_DROPPED, "memory") == 0


def test_a_sink_that_raises_does_not_stop_the_queue() -> None:
    """The next observation is delivered after one that failed."""
    queue, sink, own, clock = outlet()
    sink.error = OSError("full")
    queue.write(observed(clock, seq=1), ())
    queue.drain()
    sink.error = None
    queue.write(observed(clock, seq=2), ())
    queue.drain()
    assert [o.seq for o in sink.observations] == [2]
    assert own.value(agent.STAGE_FAILURES, "sink", "memory", "OSError") == 1
