"""The engine: schedule, isolation, back-off, overdue reads, clock steps, shutdown."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import pytest

from pipeline.catalog import agent
from pipeline.engine import Engine, Schedule
from pipeline.interfaces import Detector, Source
from pipeline.judge import Judge
from pipeline.observation import Observation, Reading, Unread
from pipeline.selfmetrics import SelfMetrics
from tests.fakes import SECOND, FakeClock, FakeSink, FakeSource, gpu_frame


class House:
    """An engine over fakes, with the parts a test looks at."""

    def __init__(
        self,
        *sources: Source,
        detectors: tuple[Detector, ...] = (),
        period_s: float = 1.0,
        start_s: float = 0.0,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        self.clock, self.own, self.sink = FakeClock(), SelfMetrics(), FakeSink()
        self.clock.advance(start_s)
        self.judge = Judge(detectors, self.own, self.clock, periods_s={s.name: period_s for s in sources})
        self.engine = Engine(
            host="n1",
            boot_id="boot-1",
            clock=self.clock,
            schedules=[Schedule(s, period_s, 2.0) for s in sources],
            judge=self.judge,
            sinks=[self.sink],
            own=self.own,
            rng=random.Random(7),
            wait=wait or self.clock.advance,
        )

    def run(self, seconds: float) -> None:
        """Step through so much fake time."""
        end = self.clock.monotonic_ns() + seconds * SECOND
        while self.clock.monotonic_ns() <= end:
            self.clock.advance(max(self.engine.step(), 1e-9))


def test_a_source_is_read_on_the_multiples_of_its_period() -> None:
    """The first read is at once, every other on a whole second of the wall clock."""
    house = House(FakeSource("a"), start_s=0.3)
    house.run(3.0)
    assert [o.time_ns % SECOND for o in house.sink.observations] == [300_000_000, 0, 0, 0]


def test_slow_facts_are_read_at_the_start() -> None:
    """A source of once a minute does not leave the first minute blank."""
    house = House(FakeSource("host"), period_s=60.0, start_s=17.0)
    house.engine.step()
    assert len(house.sink.observations) == 1


def test_observations_are_numbered_over_all_sources() -> None:
    """The sequence number is the total order of what the agent saw."""
    house = House(FakeSource("a"), FakeSource("b"))
    house.run(2.0)
    assert [o.seq for o in house.sink.observations] == list(range(len(house.sink.observations)))
    assert {o.source for o in house.sink.observations} == {"a", "b"}


def test_a_failing_source_is_an_observation_and_the_others_go_on() -> None:
    """A dead backend is told, counted by cause, and hides nobody else."""
    house = House(FakeSource("bad", [OSError("gone")]), FakeSource("good"))
    house.engine.step()
    house.clock.advance(1.0)
    house.engine.step()
    bad = [o for o in house.sink.observations if o.source == "bad"]
    assert [(o.outcome, o.error) for o in bad] == [("failed", "OSError: gone")] * len(bad)
    assert any(o.source == "good" and o.outcome == "ok" for o in house.sink.observations)
    assert house.own.value(agent.STAGE_FAILURES, "source", "bad", "OSError") == len(bad)


def test_a_source_that_keeps_failing_is_tried_ever_more_rarely_and_recovers() -> None:
    """Back-off grows to a bound of a minute and ends with the first success."""
    source = FakeSource("bad", [*[OSError("gone")] * 20, Reading()])
    house = House(source)
    house.run(20.0)
    assert source.reads < 20
    house.run(3600.0)
    assert house.own.value(agent.SOURCE_BACKOFF, "bad") == 0.0
    assert house.sink.observations[-1].outcome == "ok"
    ages = [b.time_ns - a.time_ns for a, b in zip(house.sink.observations, house.sink.observations[1:], strict=False)]
    assert max(ages) <= 61 * SECOND


def test_a_failing_source_is_logged_once_and_its_recovery_once(caplog: pytest.LogCaptureFixture) -> None:
    """One line per change of state, not one per tick."""
    house = House(FakeSource("bad", [*[OSError("gone")] * 8, Reading()]))
    with caplog.at_level("INFO", "tocsin.engine"):
        house.run(600.0)
    assert [r.getMessage() for r in caplog.records] == [
        "source bad fails: OSError: gone",
        "source bad works again after 8 failures",
    ]


def test_ticks_missed_by_a_slow_read_are_skipped_and_counted() -> None:
    """A late read is never queued behind itself."""

    def late() -> Reading:
        house.clock.advance(3.5)
        return Reading()

    slow = FakeSource("slow", [late, Reading()])
    house = House(slow)
    house.engine.step()
    assert house.own.value(agent.SOURCE_SKIPPED, "slow") == 3
    house.run(1.0)
    assert slow.reads <= 3


def test_a_sink_that_raises_is_counted_and_the_others_still_get_everything() -> None:
    """Sinks are isolated from one another."""
    house = House(FakeSource("a"))
    broken = FakeSink("broken")
    broken.error = OSError(28, "No space left on device")
    house.engine._sinks = (broken, house.sink)
    house.engine._sink_health["broken"] = house.engine._sink_health["memory"]
    house.run(2.0)
    assert house.sink.observations
    assert house.own.value(agent.STAGE_FAILURES, "sink", "broken", "OSError") == len(house.sink.observations)


def test_a_wall_clock_step_is_an_event_and_realigns_the_ticks_once() -> None:
    """NTP steps by -90.25 s: one event with the size, and ticks on whole seconds again."""
    house = House(FakeSource("a"))
    house.run(2.0)
    house.clock.step(-90.25)
    house.run(5.0)
    steps = [e for o in house.sink.observations for e in o.events if e.kind == "clock_step"]
    assert [e.attributes["seconds"] for e in steps] == [-90.25]
    assert house.sink.observations[-1].time_ns % SECOND == 0
    assert house.own.value(agent.CLOCK_STEPS) == 1


def test_a_read_that_never_returns_costs_its_own_source_only() -> None:
    """The lane of a hanging read is left to it: the other sources go on in a fresh one, and the stuck source rejoins when freed."""
    entered, release, good_reads = threading.Event(), threading.Event(), threading.Semaphore(0)

    def hang() -> Reading:
        entered.set()
        release.wait(20)
        return Reading()

    def good() -> Reading:
        good_reads.release()
        return Reading()

    turn = threading.Semaphore(0)
    house = House(FakeSource("stuck", [hang, Reading()]), FakeSource("good", [good]), wait=lambda _: turn.acquire(timeout=20))
    house.engine.start()
    assert entered.wait(20)
    assert not house.engine.watch()  # not late yet
    house.clock.advance(2.5)
    assert house.engine.watch()
    assert good_reads.acquire(timeout=20)
    house.clock.advance(1.0)
    turn.release()
    assert good_reads.acquire(timeout=20)
    stuck = [o for o in house.sink.observations if o.source == "stuck"]
    assert [o.outcome for o in stuck] == ["overdue"]
    release.set()
    for _ in range(50):
        house.clock.advance(1.0)
        turn.release()
        if not good_reads.acquire(timeout=20) or len([o for o in house.sink.observations if o.source == "stuck"]) > 1:
            break
    assert [o.outcome for o in house.sink.observations if o.source == "stuck"][1] == "ok"
    house.engine._stopping.set()
    turn.release(10)
    house.engine.close(5.0)


def test_close_lets_go_of_every_source_and_is_safe_twice() -> None:
    """Shutdown closes what is open, once and again."""
    source = FakeSource("a")
    house = House(source)
    house.engine.step()
    house.engine.close()
    house.engine.close()
    assert source.closed == 1


class Fragile:
    """A detector that raises while told to."""

    name = "fragile"

    def __init__(self) -> None:
        self.broken = True

    def update(self, observation: Observation) -> list[object]:
        if self.broken:
            raise ZeroDivisionError("peers")
        return []


def test_a_detector_that_raises_becomes_a_finding_and_clears_when_it_works_again() -> None:
    """The watcher is watched: one onset, one clearance, and the frames still reach the sinks."""
    fragile = Fragile()
    house = House(FakeSource("a"), detectors=(fragile,))  # type: ignore[arg-type]
    house.run(3.0)
    fragile.broken = False
    house.run(2.0)
    assert [(f.fault, f.phase, f.severity) for f in house.sink.findings] == [
        ("detector_failed", "onset", "ticket"),
        ("detector_failed", "cleared", "ticket"),
    ]
    assert len({f.id for f in house.sink.findings}) == 1
    assert len(house.sink.observations) > 3


def test_sinks_get_frames_with_increments() -> None:
    """Counters are subtracted once, in the engine."""
    house = House(FakeSource("nvml"))
    source = FakeSource(
        "nvml",
        [
            lambda: Reading((gpu_frame(house.clock, {"energy_millijoules": 2**60}),)),
            lambda: Reading((gpu_frame(house.clock, {"energy_millijoules": 2**60 + 700_000}),)),
        ],
    )
    house = House(source)
    house.engine.step()
    house.clock.advance(1.0)
    house.engine.step()
    assert house.sink.observations[-1].frames[0].increase("energy_millijoules").tolist() == [700_000.0]


def test_what_could_not_be_read_is_shown_by_reason_and_vanishes_with_it() -> None:
    """The unread gauge follows the last reading."""
    house = House(FakeSource("a", [Reading(unread=(Unread("EINVAL", "d"), Unread("EINVAL", "e"))), Reading()]))
    house.engine.step()
    assert house.own.value(agent.SOURCE_UNREAD, "a", "EINVAL") == 2
    house.clock.advance(1.0)
    house.engine.step()
    assert house.own.value(agent.SOURCE_UNREAD, "a", "EINVAL") is None
