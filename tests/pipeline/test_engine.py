"""The engine: schedule, isolation, back-off, overdue reads, clock steps, shutdown."""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from collections.abc import Callable

import pytest

from pipeline.catalog import agent
from pipeline.clock import SECOND_NS
from pipeline.engine import Engine, Schedule
from pipeline.frame import Device
from pipeline.interfaces import Detector, Source
from pipeline.judge import Judge
from pipeline.observation import Event, Observation, Reading, Unread
from pipeline.selfmetrics import SelfMetrics
from tests.fakes import FakeClock, FakeSink, FakeSource, gpu_frame
from tests.wait import PATIENCE_S, until


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
        self.clock, self.metrics, self.sink = FakeClock(), SelfMetrics(), FakeSink()
        self.clock.advance(start_s)
        self.judge = Judge(
            detectors, self.metrics, self.clock, periods_s={s.name: period_s for s in sources}
        )
        self.engine = Engine(
            host="n1",
            boot_id="boot-1",
            clock=self.clock,
            schedules=[Schedule(s, period_s, 2.0) for s in sources],
            judge=self.judge,
            sinks=[self.sink],
            metrics=self.metrics,
            rng=random.Random(7),
            wait=wait or self.clock.advance,
        )

    def outcomes(self, source: str) -> list[str]:
        """How this source's reads ended so far."""
        return [o.outcome for o in self.sink.observations if o.source == source]

    def await_reads(self, source: str, number: int) -> None:
        """Until so many of this source's reads were published."""
        until(lambda: len(self.outcomes(source)) == number, what=f"read {number} of {source}")

    def run(self, seconds: float) -> None:
        """Step through so much fake time."""
        end = self.clock.monotonic_ns() + seconds * SECOND_NS
        while self.clock.monotonic_ns() <= end:
            self.clock.advance(max(self.engine.step(), 1e-9))


def test_a_source_is_read_on_the_multiples_of_its_period() -> None:
    """The first read is at once, every other on a whole second of the wall clock."""
    house = House(FakeSource("a"), start_s=0.3)
    house.run(3.0)
    assert [o.time_ns % SECOND_NS for o in house.sink.observations] == [300_000_000, 0, 0, 0]


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
    assert house.metrics.value(agent.STAGE_FAILURES, "source", "bad", "OSError") == len(bad)


def test_a_source_without_a_successful_read_for_three_periods_is_late() -> None:
    """And no longer once a read succeeds; the others are not."""
    house = House(
        FakeSource("slow", [Reading(), *[OSError("gone")] * 4, Reading()]), FakeSource("a")
    )
    late = []
    for _ in range(7):
        house.engine.step()
        late.append(house.metrics.value(agent.SOURCE_LATE, "slow"))
        house.clock.advance(1.0)
    assert late[:4] == [0, 0, 0, 0]
    assert late[4] == 1
    house.run(60.0)
    assert house.metrics.value(agent.SOURCE_LATE, "slow") == 0
    assert house.metrics.value(agent.SOURCE_LATE, "a") == 0


@pytest.mark.slow
def test_a_source_that_keeps_failing_is_tried_ever_more_rarely_and_recovers() -> None:
    """Back-off grows to a bound of a minute and ends with the first success."""
    source = FakeSource("bad", [*[OSError("gone")] * 20, Reading()])
    house = House(source)
    house.run(20.0)
    assert source.reads < 20
    house.run(3600.0)
    assert house.metrics.value(agent.SOURCE_BACKOFF, "bad") == 0.0
    assert house.sink.observations[-1].outcome == "ok"
    ages = [
        b.time_ns - a.time_ns
        for a, b in zip(house.sink.observations, house.sink.observations[1:], strict=False)
    ]
    assert max(ages) <= 61 * SECOND_NS


def test_a_failing_source_is_logged_once_and_its_recovery_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One line per change of state, not one per tick."""
    house = House(FakeSource("bad", [*[OSError("gone")] * 8, Reading()]))
    with caplog.at_level("INFO", "tocsin.engine"):
        house.run(600.0)
    assert [r.getMessage() for r in caplog.records] == [
        "source bad fails: OSError: gone",
        "source bad recovered after 8 failures",
    ]


def test_ticks_missed_by_a_slow_read_are_skipped_and_counted() -> None:
    """A late read is never queued behind itself."""

    def late() -> Reading:
        house.clock.advance(3.5)
        return Reading()

    slow = FakeSource("slow", [late, Reading()])
    house = House(slow)
    house.engine.step()
    assert house.metrics.value(agent.SOURCE_SKIPPED, "slow") == 3
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
    assert house.metrics.value(agent.STAGE_FAILURES, "sink", "broken", "OSError") == len(
        house.sink.observations
    )


def test_a_wall_clock_step_is_an_event_and_realigns_the_ticks_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """NTP steps by -90.25 s: one event and one line with the size, and
    ticks on whole seconds again.
    """
    house = House(FakeSource("a"))
    house.run(2.0)
    house.clock.step(-90.25)
    house.run(5.0)
    steps = [e for o in house.sink.observations for e in o.events if e.kind == "clock_step"]
    assert [e.attributes["seconds"] for e in steps] == [-90.25]
    assert house.sink.observations[-1].time_ns % SECOND_NS == 0
    assert house.metrics.value(agent.CLOCK_STEPS) == 1
    assert [r.getMessage() for r in caplog.records] == ["the wall clock was stepped by -90.250 s"]


class Lanes:
    """Lanes that take a turn when told: ``wait`` for an engine."""

    def __init__(self) -> None:
        self._turns: defaultdict[str, threading.Semaphore] = defaultdict(
            lambda: threading.Semaphore(0)
        )

    def wait(self, _seconds: float) -> bool:
        """How a lane waits."""
        return self._turns[threading.current_thread().name].acquire(timeout=PATIENCE_S)

    def turn(self, name: str) -> None:
        """Let this lane go on."""
        self._turns[f"lane-{name}"].release()

    def stop(self, engine: Engine) -> None:
        """Let all go on, and end them."""
        engine._stopping.set()
        for thread in engine._threads:
            self._turns[thread.name].release()
        engine.close(5.0)


class Stuck:
    """A source whose first read returns when told."""

    name = "stuck"

    def __init__(self) -> None:
        self.entered, self.release = threading.Event(), threading.Event()

    def read(self) -> Reading:
        """One reading."""
        self.entered.set()
        self.release.wait(PATIENCE_S)
        return Reading()


def test_a_read_that_waits_costs_the_other_sources_no_tick() -> None:
    """Every source has a lane of its own: while one waits for its driver, another is
    read on each of its ticks.
    """
    stuck, good, lanes = Stuck(), FakeSource("good"), Lanes()
    house = House(good, stuck, wait=lanes.wait)
    house.engine.start()
    assert stuck.entered.wait(PATIENCE_S)
    for tick in range(3):
        house.await_reads("good", tick + 1)
        house.clock.advance(1.0)
        lanes.turn("good")
    assert house.outcomes("stuck") == []
    assert house.metrics.value(agent.SOURCE_SKIPPED, "good") == 0
    stuck.release.set()
    lanes.stop(house.engine)


def test_a_read_past_its_deadline_is_told_once_and_its_source_rejoins_when_it_returns() -> None:
    """Overdue is published while the read still runs; what it brings then is too
    old, the next one counts.
    """
    stuck, lanes = Stuck(), Lanes()
    house = House(stuck, wait=lanes.wait)
    house.engine.start()
    assert stuck.entered.wait(PATIENCE_S)
    for _ in range(2):
        house.clock.advance(2.5)
        lanes.turn("watch")
    house.await_reads("stuck", 1)

    def rejoined() -> bool:
        stuck.release.set()
        house.clock.advance(1.0)
        lanes.turn("stuck")
        return house.outcomes("stuck")[:2] == ["overdue", "ok"]

    assert house.outcomes("stuck") == ["overdue"]
    until(rejoined, what="the source to rejoin")
    lanes.stop(house.engine)


def test_first_reads_go_in_the_order_of_the_schedules() -> None:
    """The kernel log asks for the GPUs, so they are looked for first."""
    stuck, after, lanes = Stuck(), FakeSource("after"), Lanes()
    house = House(stuck, after, wait=lanes.wait)
    house.engine.start()
    assert stuck.entered.wait(PATIENCE_S)
    assert after.reads == 0
    stuck.release.set()
    house.await_reads("after", 1)
    assert [o.source for o in house.sink.observations] == ["stuck", "after"]
    lanes.stop(house.engine)


def test_what_comes_after_the_close_is_not_published() -> None:
    """After a reload another engine numbers the observations: a read that returns late
    must not use a number again, nor show the source again, which may be switched off by then.
    """
    stuck, lanes = Stuck(), Lanes()
    house = House(stuck, wait=lanes.wait)
    house.engine.start()
    assert stuck.entered.wait(PATIENCE_S)
    house.engine.close(0.0)
    stuck.release.set()
    lanes.stop(house.engine)
    for lane in house.engine._threads:
        lane.join(PATIENCE_S)
    assert house.sink.observations == []
    assert house.metrics.value(agent.SOURCE_LAST_SUCCESS, "stuck") is None


def test_what_no_source_reads_is_published_as_an_observation_of_its_own() -> None:
    """What people say is numbered, judged and shown at once, between what the sources read."""
    house = House(FakeSource("nvml"))
    house.engine.step()
    event = Event(
        house.clock.time_ns(), 0, Device("n1", "node", "n1"), "maintenance_started", {"reason": "x"}
    )
    assert house.engine.publish("operator", (event,))
    (_, said) = house.sink.observations
    assert (said.source, said.events) == ("operator", (event,))
    assert said.seq == house.sink.observations[0].seq + 1


def test_nothing_is_published_after_the_close() -> None:
    """And whoever tried is told so."""
    house = House(FakeSource("nvml"))
    house.engine.close()
    assert not house.engine.publish("operator", ())
    assert house.sink.observations == []


def test_a_judge_or_sink_that_never_returns_is_unhealthy() -> None:
    """Nothing can be published any more: the one thing that a restart may mend."""
    entered, release, lanes = threading.Event(), threading.Event(), Lanes()
    house = House(FakeSource("a"), wait=lanes.wait)

    def hang(*_: object) -> None:
        entered.set()
        release.wait(PATIENCE_S)

    house.sink.write = hang  # type: ignore[method-assign,assignment]
    house.engine.start()
    assert entered.wait(PATIENCE_S)
    lanes.turn("watch")
    house.clock.advance(31.0)
    assert not house.engine.alive()
    release.set()
    lanes.stop(house.engine)


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
    assert house.sink.observations[-1].frames[0].increase("energy_millijoules").tolist() == [
        700_000.0
    ]


def test_what_could_not_be_read_is_shown_by_reason_and_vanishes_with_it() -> None:
    """The unread gauge follows the last reading."""
    house = House(
        FakeSource("a", [Reading(unread=(Unread("EINVAL", "d"), Unread("EINVAL", "e"))), Reading()])
    )
    house.engine.step()
    assert house.metrics.value(agent.SOURCE_UNREAD, "a", "EINVAL") == 2
    house.clock.advance(1.0)
    house.engine.step()
    assert house.metrics.value(agent.SOURCE_UNREAD, "a", "EINVAL") is None
