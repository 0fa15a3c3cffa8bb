"""Children that cannot be killed, and other things no scripted driver can do."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import cast

import pytest

from collector.sources.nvml import wire
from collector.sources.nvml.callboard import NO_DEVICE, QUICK, Running
from collector.sources.nvml.candidate import rows
from collector.sources.nvml.supervisor import DRIVER_S, MAX_ABANDONED, Supervisor, Sweep
from collector.sources.nvml.wire import Message, Stream, pack, pack_document
from collector.sources.nvml.worker import ChildLostError, Worker
from pipeline.catalog import agent
from pipeline.selfmetrics import SelfMetrics
from tests.fakes import FakeClock

pytestmark = pytest.mark.slow


class FakeWorker:
    """A child of which a test decides how each sweep ends, and whether SIGKILL ends it."""

    def __init__(self, number: int, house: House) -> None:
        self.pid, self.count = 1000 + number, 2
        self._clock, self._loaded_ns = house.clock, round(house.loads_s * 1e9)
        self._loaded_ns += house.clock.monotonic_ns()
        ends, immortal = house.ends, house.immortal
        self.ready = self.busy = False
        self.stuck = False
        self.closed = False
        self.starved_ns = house.starved_ns
        self._known, self._house = house.answering, house
        self._read, self._done_ns = frozenset[int](), 0
        self._sweeps_ns = round(house.sweeps_s * 1e9)
        self._ends, self._immortal = ends, immortal
        self._killed = False

    def sweep(self, *, links: bool, facts: bool) -> None:
        self.busy = True
        self._read = self._known & self._house.answering
        self._done_ns = self._clock.monotonic_ns() + self._sweeps_ns

    def collect(self, wait_s: float, messages: list[Message], *, until: str = "done") -> None:
        if self._clock.monotonic_ns() < self._loaded_ns:
            return
        if not self.ready:
            self.ready = True
            messages += Stream().feed(
                pack_document(wire.FOUND, 0, id="GPU-0") + pack_document(wire.READY, count=2)
            )
        if until == "done" and self.busy and self._clock.monotonic_ns() >= self._done_ns:
            end = self._ends.pop(0) if self._ends else None
            if end is not None:
                raise end
            values = b"".join(pack(wire.VALUES, gpu, b"") for gpu in sorted(self._read))
            messages += Stream().feed(values + pack_document(wire.DONE, seconds=0.0))
            self.busy = False

    def kill(self) -> None:
        self._killed = True
        self.stuck = self._immortal

    def ended(self, wait_s: float = 0.0) -> bool:
        return self._killed and not self.stuck

    def close(self) -> None:
        self.closed = True


class House:
    """A supervisor over fake workers."""

    def __init__(self) -> None:
        self.clock, self.metrics = FakeClock(), SelfMetrics()
        self.workers: list[FakeWorker] = []
        self.ends: list[ChildLostError | None] = []
        self.immortal = False
        self.refused = False
        self.loads_s = 0.0
        self.starved_ns = 0
        self.answering = frozenset({0})  # a child knows those that answer when it starts
        self.sweeps_s = 0.0
        self.supervisor = Supervisor(
            self._start,
            self.clock,
            self.metrics,
            random.Random(3),
            wait_s=1.0,
            uuid_at=lambda index: f"GPU-{index}",
        )

    def _start(self, *, skip: Sequence[int], events: bool) -> Worker:
        if self.refused:
            raise OSError(11, "Resource temporarily unavailable")
        self.workers.append(FakeWorker(len(self.workers), self))
        return cast("Worker", self.workers[-1])

    def sweep(self, seconds: float = 1.0, *, missing: bool = False) -> Sweep:
        self.clock.advance(seconds)
        return self.supervisor.sweep(links=False, facts=False, missing=missing)


def hung(gpu: int) -> ChildLostError:
    """A call that did not return on this GPU."""
    return ChildLostError(
        "hung", "nvmlX did not return for 0.5 s", Running("nvmlX", gpu, 1, QUICK), seconds=0.5
    )


@pytest.fixture
def house() -> House:
    """A supervisor over fake workers."""
    return House()


def test_three_children_stuck_in_the_kernel_are_put_up_with(house: House) -> None:
    """A child that survives SIGKILL is abandoned and counted; after the third no other is
    started, until one ends.
    """
    house.immortal = True
    for number in range(MAX_ABANDONED):
        house.ends[:] = [hung(number)]
        house.sweep()
    started = len(house.workers)
    blind = house.sweep(1000)
    assert len(house.workers) == started == MAX_ABANDONED
    assert blind.trouble.startswith("blind")
    assert not blind.complete
    assert house.metrics.value(agent.NVML_ABANDONED) == MAX_ABANDONED
    assert house.metrics.value(agent.NVML_BLIND) == 1
    house.workers[0].stuck = False
    house.immortal = False
    assert house.sweep().complete
    assert house.metrics.value(agent.NVML_ABANDONED) == MAX_ABANDONED - 1
    assert house.metrics.value(agent.NVML_BLIND) == 0


def test_a_hung_gpu_is_not_tried_at_the_price_of_the_last_child(house: House) -> None:
    """With two children stuck, a GPU that is left out is not tried: the
    third would blind the source.
    """
    house.immortal = True
    for number in range(MAX_ABANDONED - 1):
        house.ends[:] = [hung(number)]
        house.sweep()
    house.sweep()
    started = len(house.workers)
    for _ in range(5):
        assert house.sweep(1000).complete
    assert len(house.workers) == started


def test_a_child_that_cannot_be_started_is_a_state(house: House) -> None:
    """No room for another process is trouble that is said, and tried again later."""
    house.refused = True
    assert "cannot be started" in house.sweep().trouble
    house.refused = False
    assert house.sweep(1000).complete


def test_pauses_grow_to_five_minutes(house: House) -> None:
    """A GPU that hangs every time it is tried is tried ever more rarely,
    at most each five minutes.
    """
    house.ends[:] = [None, hung(1)]
    house.sweep()
    house.sweep()
    house.sweep()
    tries: list[int] = []
    for second in range(7200):
        before = len(house.workers)
        house.ends[:] = (
            [hung(1)] if house.supervisor.quarantine.due(house.clock.monotonic_ns() + 10**9) else []
        )
        house.sweep()
        if len(house.workers) > before:
            tries.append(second)
    assert 7200 / 300 <= len(tries) <= 7200 / 60
    assert 1 in house.supervisor.quarantine


def test_a_child_that_lacks_a_gpu_does_not_take_over_when_another_is_lost(house: House) -> None:
    """GPU 1 is lost; while a candidate that cannot find it sweeps, GPU 0 is lost too, and the
    candidate, which still read GPU 0, gains nothing.
    """
    house.answering = frozenset({0, 1, 2})
    house.sweep()
    serving = house.supervisor.pid
    house.answering, house.sweeps_s = frozenset({0, 2}), 2.5
    house.sweep()
    house.sweep(10, missing=True)
    house.answering = frozenset({2})
    for _ in range(4):
        house.sweep(missing=True)
    assert len(house.workers) >= 2
    assert house.supervisor.pid == serving
    house.answering = frozenset({1, 2})
    assert rows(house.sweep().messages) == {1, 2}


def test_garbage_from_a_child_replaces_it(house: House) -> None:
    """A child that writes nonsense is replaced at once; nobody is left out for it."""
    house.ends[:] = [None, ChildLostError("garbage", "wrote nonsense")]
    house.sweep()
    assert not house.sweep().complete
    assert house.sweep().complete
    assert len(house.workers) == 2
    assert house.supervisor.quarantine.indices() == []
    assert house.metrics.value(agent.NVML_CHILD_ENDS, "garbage") == 1


def test_a_child_that_dies_at_once_again_and_again_is_not_started_each_second(house: House) -> None:
    """A library that kills its child at every start is tried ever more rarely."""
    house.ends[:] = [
        ChildLostError("died", "ended", Running("nvmlInit", NO_DEVICE, 1, QUICK))
        for _ in range(1000)
    ]
    for _ in range(120):
        house.sweep()
    assert 2 < len(house.workers) < 30


def test_dead_children_are_let_go_of(house: House) -> None:
    """Shared memory of a child is freed once the child has ended."""
    house.ends[:] = [hung(0)]
    house.sweep()
    house.sweep()
    assert house.workers[0].closed


def test_a_hang_after_which_no_gpu_answers_is_the_driver_s(house: House) -> None:
    """Five seconds later; the first values say that it is over."""
    house.sweep()
    house.ends[:] = [hung(0)] * 20
    house.sweep()
    assert house.sweep(DRIVER_S - 0.5).trouble == "hung in nvmlX"
    assert house.sweep(0.5).trouble == "the driver hangs: no call returns"
    assert house.supervisor.driver_hung
    assert house.metrics.value(agent.NVML_BLIND) == 1
    house.ends.clear()
    assert house.sweep().trouble == ""
    assert house.metrics.value(agent.NVML_BLIND) == 0


def test_a_child_without_a_processor_says_nothing_about_the_driver(house: House) -> None:
    """The one after a hang is starved: what it missed does not count."""
    house.sweep()
    house.ends[:] = [hung(0)]
    house.loads_s, house.starved_ns = 60.0, 20 * 10**9
    house.sweep()
    house.sweep(DRIVER_S + 15)
    assert not house.supervisor.driver_hung
    house.sweep(6)
    assert house.supervisor.driver_hung


def test_a_driver_that_loads_slowly_does_not_hang(house: House) -> None:
    """The first child needed a quarter of a minute for its values; the next one may need three
    times as long.
    """
    house.loads_s = 15.0
    house.sweep()
    house.sweep(16)
    house.ends[:] = [hung(0)]
    house.sweep()
    assert house.sweep(10).trouble == "starting"
