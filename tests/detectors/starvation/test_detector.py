"""What a job waits for: learnt in the job, said after minutes, agreed on by its GPUs of a node."""

from __future__ import annotations

import numpy as np
import pytest

from detectors.kit.snapshot import dump, load
from detectors.starvation import Starvation
from pipeline.finding import Finding
from pipeline.frame import Device, Frame, blank, schema_of
from pipeline.observation import Observation
from pipeline.rates import Rates
from tests.detectors.feed import Feed, Number, open_findings

pytestmark = pytest.mark.slow

NODE = Device("n1", "node", "n1")
GPUS, PERIOD_S = 2, 20.0
Readings = dict[str, Number | list[Number]]
WORK: Readings = {
    "gpu_utilization_percent": 98,
    "tensor_activity_percent": 50,
    "power_milliwatts": 6e5,
    "sm_clock_megahertz": 1700,
    "throttled_sw_thermal_nanoseconds": 0,
}
# What the node's tasks wait for, microseconds of each second, or pages a second.
CALM = {
    "pressure_io_some_microseconds": 1e4,
    "pressure_cpu_some_microseconds": 1e4,
    "pressure_memory_full_microseconds": 0.0,
    "major_page_faults": 0.0,
}
READS = CALM | {"pressure_io_some_microseconds": 4e5}


class Node:
    """A node whose GPUs are read beside its kernel, and a job on all of them."""

    def __init__(self) -> None:
        self.feed = Feed(Starvation(), gpus=GPUS, period_s=PERIOD_S)
        self._rates, self._totals = Rates(schema_of("node"), PERIOD_S), dict.fromkeys(CALM, 1e6)
        self.job("42")

    def job(self, job: str) -> None:
        """The GPUs are given to a job."""
        gpus = " ".join(gpu.id for gpu in self.feed.gpus)
        self.feed.event(NODE, "job_started", source="jobs", job=job, gpus=gpus, hosts=1)

    def run(
        self, minutes: float, waits: dict[str, float] = CALM, **more: Number | list[Number]
    ) -> list[Finding]:
        """Readings of the node and of its GPUs, for so long."""
        found: list[Finding] = []
        for _ in range(round(minutes * 60 / PERIOD_S)):
            found += self.feed.observe(self._kernel(waits))
            found += self.feed.run(PERIOD_S, **(WORK | more))
        return found

    def _kernel(self, waits: dict[str, float]) -> Observation:
        schema = schema_of("node")
        gauges, counters, observed = blank("node", (NODE,))
        for name, each in waits.items():
            self._totals[name] += each * PERIOD_S
            row = schema.counter_row[name]
            counters[row, 0], observed[row, 0] = int(self._totals[name]), True
        clock = self.feed.clock
        now = (clock.time_ns(), clock.monotonic_ns())
        stamps = np.zeros(1, np.int64)
        frame = Frame(schema, *now, (NODE,), gauges, counters, observed, stamps)
        frames = (self._rates.add(frame, self.feed.boot),)
        return Observation("host", "n1", self.feed.boot, 0, *now, 0, frames)


def working() -> Node:
    """A node whose job has worked for ten minutes."""
    node = Node()
    assert node.run(10) == []
    return node


def all_wait(wait: str) -> list[tuple[str, str, str, str]]:
    """Findings about each GPU of the node."""
    return [("gpu", f"GPU-n1-{n}", f"starvation/{wait}", "record") for n in range(GPUS)]


def test_a_job_that_waits_for_its_data_is_advised_and_nobody_is_called() -> None:
    """After a few minutes, with what was read; over four minutes after it works again."""
    node = working()
    found = node.run(6, READS, gpu_utilization_percent=50)
    assert open_findings(found) == all_wait("data")
    assert {f.action for f in found} == {"NONE"}
    assert "Job 42 waits: it waits for data" in found[0].summary
    assert "40%" in found[0].summary
    assert found[0].value == pytest.approx(50)
    assert found[0].expected == pytest.approx(98)
    assert [f.phase for f in node.run(5)] == ["cleared"] * GPUS


def test_a_loader_that_catches_up_between_is_one_wait() -> None:
    """A minute of work and one of waiting by turns, or two and one: as long as that goes on."""
    for works in (1, 2):
        node, found = working(), list[Finding]()
        for _ in range(12):
            found += node.run(1, READS, gpu_utilization_percent=50)
            found += node.run(works)
        expected = all_wait("data") if works == 1 else []  # less than four of eight minutes
        assert open_findings(found) == expected
        assert {finding.phase for finding in found} <= {"onset"}


def test_a_save_of_two_minutes_is_no_wait() -> None:
    """Nor is a node that reads while its GPUs do their usual work."""
    node = working()
    assert node.run(2, READS, gpu_utilization_percent=10) == []
    assert node.run(30, READS) == []


def test_a_heat_that_holds_the_clock_back_is_a_wait_at_full_use() -> None:
    """The clock is lower, and the driver says why."""
    node = working()
    held: Readings = {"sm_clock_megahertz": 1300, "throttled_sw_thermal_nanoseconds": 9e8}
    assert open_findings(node.run(6, CALM, **held)) == all_wait("power")


def test_a_job_that_does_nothing_is_named_after_ten_minutes() -> None:
    """Not earlier: an evaluation or a save is as quiet."""
    node = working()
    idle: Readings = {"gpu_utilization_percent": 0, "tensor_activity_percent": 0}
    assert node.run(8, CALM, **idle) == []
    assert open_findings(node.run(5, CALM, **idle)) == all_wait("nothing")


def test_a_wait_too_small_to_be_named_does_not_become_the_usual() -> None:
    """Half an hour at nine tenths of the speed, then slower: compared with the time before."""
    node = Node()
    assert node.run(30) == []
    assert node.run(30, READS, gpu_utilization_percent=92) == []
    assert open_findings(node.run(6, READS, gpu_utilization_percent=85)) == all_wait("data")


def test_another_job_begins_again() -> None:
    """What is usual for one says nothing of the next, which always does half as much."""
    node = working()
    node.feed.event(NODE, "job_ended", source="jobs", job="42")
    node.job("43")
    assert node.run(30, READS, gpu_utilization_percent=50) == []


def test_the_next_step_of_a_job_is_compared_with_what_the_job_did_before() -> None:
    """As a training whose process starts again in its pod."""
    node = working()
    for step in ("42.0", "42.1"):
        node.feed.event(NODE, "job_ended", source="jobs", job="42.0")
        node.job(step)
        assert node.run(2) == []
    assert open_findings(node.run(6, READS, gpu_utilization_percent=50)) == all_wait("data")


def test_without_readings_of_the_node_no_wait_for_data_is_claimed() -> None:
    """A kernel without pressure information: less work has no known reason."""
    node = Node()
    assert node.run(10, {}) == []
    assert node.run(30, {}, gpu_utilization_percent=50) == []


def test_a_restart_of_the_agent_forgets_neither_the_usual_nor_the_wait() -> None:
    """It goes on with what it had learnt, and what it had reported is not reported twice."""
    node = working()
    found = node.run(6, READS, gpu_utilization_percent=50)
    again = Starvation()
    assert load(dump([node.feed.detector]), [again]) == ()
    node.feed.detector = again
    assert node.run(6, READS, gpu_utilization_percent=50) == []
    ended = node.run(5)
    assert {f.id for f in ended if f.phase == "cleared"} == {f.id for f in found}
