"""Nodes that are slow as a whole: among the other nodes of their job, and against their own past;
and what makes nodes differ for good reason.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from detectors.slow_node import SlowNode
from detectors.slow_node.others import above_others
from pipeline.finding import Finding
from pipeline.frame import Device
from tests.detectors.feed import Feed, Number, a_gpu, open_findings

pytestmark = pytest.mark.slow

MHZ, GPUS = 1800.0, 8
SPREAD = np.array([0.06, 0.03, 0.01, 0.005, -0.005, -0.01, -0.03, -0.06])
SLOW = 2  # the faulty node


class Fleet:
    """Nodes of one job (two, where ``jobs`` says so) at work; values are given by node."""

    def __init__(self, nodes: int, jobs: int = 1) -> None:
        self.nodes = nodes
        gpus = [a_gpu(f"n{n}", g) for n in range(nodes) for g in range(GPUS)]
        self.feed = Feed(SlowNode(), gpus=gpus, period_s=20.0)
        for job in range(jobs):
            self.start(f"job{job}", range(job * nodes // jobs, (job + 1) * nodes // jobs))

    def start(self, job: str, nodes: Sequence[int]) -> None:
        """Nodes are given to a job."""
        for n in nodes:
            gpus = " ".join(gpu.id for gpu in self.feed.gpus if gpu.host == f"n{n}")
            node = Device(f"n{n}", "node", f"n{n}")
            self.feed.event(
                node, "job_started", source="jobs", job=job, gpus=gpus, hosts=len(nodes)
            )

    def run(
        self,
        minutes: float,
        *,
        keeps: Sequence[float] = (),
        load: Sequence[float] = (),
        capped: float = 0.0,
        **more: Number | list[Number],
    ) -> list[Finding]:
        """Each node keeps a share of its clock, with a share of the usual load."""
        keeps, load = keeps or [1.0] * self.nodes, load or [1.0] * self.nodes
        clocks: list[Number] = [float(x) for k in keeps for x in MHZ * (1 + SPREAD) * k]
        tensor: list[Number] = [float(40 * x) for x in load for _ in range(GPUS)]
        values: dict[str, Number | list[Number]] = {
            "gpu_utilization_percent": 99,
            "sm_clock_megahertz": clocks,
            "tensor_activity_percent": tensor,
            "dram_activity_percent": [0.5 * float(x or 0) for x in tensor],
            "temperature_celsius": 60,
            "throttled_power_cap_nanoseconds": capped * 1e9,
        }
        return self.feed.run(minutes * 60, **(values | more))

    def but(self, keeps: float, node: int = SLOW) -> list[float]:
        """One node keeps this share, the others all."""
        return [keeps if n == node else 1.0 for n in range(self.nodes)]


def fleet(nodes: int, jobs: int = 1) -> Fleet:
    """Nodes that have worked for half an hour."""
    made = Fleet(nodes, jobs)
    assert made.run(30) == []
    return made


def test_a_node_a_tenth_slow_among_the_nodes_of_its_job_is_paged() -> None:
    """Within five minutes, by its name and with what it lost; it ends within ten minutes."""
    one = fleet(6)
    findings = one.run(5, keeps=one.but(0.9))
    assert open_findings(findings) == [("node", "n2", "straggler/node", "page")]
    assert findings[0].value == pytest.approx(-10.0, abs=0.5)
    assert [f.phase for f in one.run(10)] == ["cleared"]


def test_a_node_a_twentieth_slow_is_a_ticket() -> None:
    """Within ten minutes."""
    one = fleet(6)
    assert open_findings(one.run(10, keeps=one.but(0.95))) == [
        ("node", "n2", "straggler/node", "ticket")
    ]


def test_a_clock_that_falls_in_two_minutes_of_three_is_like_that() -> None:
    """Readings a minute apart show one phase of each step or the other; after an hour of that some
    minutes in a row are no fault.
    """
    one = fleet(6)
    for phase in [0.9, 0.9, 1.0] * 20 + [0.9] * 5:
        assert one.run(1, keeps=one.but(phase)) == []


@pytest.mark.parametrize("hours", [3, 6])
def test_a_tenth_lost_at_once_is_found_in_a_clock_that_wanders(hours: int) -> None:
    """By 2.5 percent in hours, as rooms make them: at its highest it loses as much as it wanders by
    in five hours of its past, but within a minute.
    """
    one, period = Fleet(6), hours * 60
    wander = 1 + 0.025 * np.sin(2 * np.pi * np.arange(2.5 * period) / period)
    before = period + period // 4
    for keeps in wander[:before]:
        assert one.run(1, keeps=one.but(keeps)) == []
    findings = [
        finding
        for keeps in wander[before : before + 8]
        for finding in one.run(1, keeps=one.but(0.9 * keeps))
    ]
    assert open_findings(findings) == [("node", "n2", "straggler/node", "page")]
    assert findings[0].value == pytest.approx(-10.0, abs=2.5)


def test_more_load_than_in_the_last_half_hour_is_no_sudden_loss() -> None:
    """At the power limit a fifth more load takes a tenth of the clock."""
    one = Fleet(6)
    for minutes, load, keeps in ((240, 1.2, 0.91), (40, 1.0, 1.0), (30, 1.2, 0.91)):
        assert one.run(minutes, keeps=one.but(keeps), load=one.but(load), capped=0.9) == []


def test_a_minute_alone_does_not_end_what_is_learnt_among_others() -> None:
    """While the other node paused this one was slow for a minute. What it then loses in half a day,
    as rooms warm up, is learnt as before.
    """
    one = fleet(2)
    paused: list[Number] = [99 if gpu < GPUS else 0 for gpu in range(2 * GPUS)]
    assert one.run(1, keeps=[0.93, 1.0], gpu_utilization_percent=paused) == []
    for keeps in np.linspace(1.0, 0.92, 720):
        assert one.run(1, keeps=[float(keeps), 1.0]) == []


def test_two_percent_are_within_what_rooms_and_wear_do() -> None:
    """For as long as it lasts."""
    one = fleet(6)
    assert one.run(120, keeps=one.but(0.98)) == []


def test_of_two_nodes_the_one_that_lost_is_named() -> None:
    """The other is 10 % ahead then, and has lost nothing."""
    one = fleet(2)
    assert open_findings(one.run(5, keeps=[0.9, 1.0])) == [("node", "n0", "straggler/node", "page")]
    other = fleet(2)
    assert other.run(60, keeps=[1.0, 1.12]) == []


def test_a_job_that_is_slow_as_a_whole_accuses_no_node() -> None:
    """Nor where half of its nodes are, or a quarter of many: a stage, a rack, a policy."""
    one = fleet(8)
    assert one.run(60, keeps=[0.9] * 8) == []
    another = fleet(8)
    assert another.run(60, keeps=[0.9] * 4 + [1.0] * 4) == []
    a_rack = fleet(16)
    assert a_rack.run(60, keeps=[0.85] * 4 + [1.0] * 12) == []


def test_stages_of_a_pipeline_keep_their_places() -> None:
    """The last one has twice the load and half a fifth less clock, from the first minute on."""
    one = Fleet(4)
    stages = {"keeps": [1.0, 1.0, 1.0, 0.8], "load": [1.0, 1.0, 1.0, 2.0], "capped": 0.9}
    assert one.run(120, **stages) == []  # type: ignore[arg-type] # by name


def test_experts_that_get_more_tokens_are_no_fault() -> None:
    """At the power limit the node with a third more to do has an eighth less clock."""
    one = Fleet(6)
    one.run(30, capped=0.9)
    assert one.run(60, keeps=one.but(0.88), load=one.but(1.33), capped=0.9) == []


def test_less_clock_at_no_more_load_is_found_at_the_power_limit_too() -> None:
    """What all nodes of the job have is no excuse."""
    one = Fleet(6)
    one.run(30, capped=0.9)
    findings = one.run(5, keeps=one.but(0.88), load=one.but(1.02), capped=0.9)
    assert open_findings(findings) == [("node", "n2", "straggler/node", "page")]


def test_where_the_load_cannot_be_read_the_power_limit_excuses() -> None:
    """GPUs without activity counters: nobody knows whether they do more."""
    one = Fleet(6)
    one.run(30, capped=0.9, tensor_activity_percent=None)
    assert one.run(60, keeps=one.but(0.88), capped=0.9, tensor_activity_percent=None) == []


def test_nodes_of_different_jobs_are_not_compared() -> None:
    """One job of three nodes runs 10 % slower than it did, the other does not."""
    one = fleet(6, jobs=2)
    assert one.run(60, keeps=[0.9] * 3 + [1.0] * 3) == []


@pytest.mark.parametrize("reason", ["hw_thermal", "hw_power_brake", "sw_thermal"])
def test_what_a_reason_explains_is_left_to_its_detector(reason: str) -> None:
    """The whole chassis is held back a fifth of the time."""
    one = fleet(6)
    held: list[Number] = [0.2e9 if n == SLOW else 0.0 for n in range(6) for _ in range(GPUS)]
    keeps = one.but(0.9)
    by_reason = {f"throttled_{reason}_nanoseconds": held}
    assert one.run(60, keeps=keeps, **by_reason) == []  # type: ignore[arg-type] # by name


def test_a_node_alone_that_lost_a_sixteenth_is_a_ticket() -> None:
    """As its own agent sees it: at equal load, after ten minutes."""
    one = fleet(1)
    assert one.run(9, keeps=[0.94]) == []
    findings = one.run(5, keeps=[0.94])
    assert open_findings(findings) == [("node", "n0", "straggler/node", "ticket")]


@pytest.mark.parametrize(
    "changed",
    [
        {"load": [1.3], "capped": 0.9},
        {"power_limit_enforced_milliwatts": 500_000},
        {"sm_application_clock_megahertz": 1600},
        {"clock_event_reasons": 0x2},
        {"sm_clock_megahertz": 1600},  # all alike: locked, though the driver does not say so
    ],
)
def test_a_node_alone_with_other_work_or_settings_is_no_fault(
    changed: dict[str, Number | list[Number]],
) -> None:
    """Another phase of the job, a cap, a lock: shown by the driver or not."""
    one = Fleet(1)
    settings: dict[str, Number | list[Number]] = {
        "power_limit_enforced_milliwatts": 700_000,
        "sm_application_clock_megahertz": 1980,
        "clock_event_reasons": 0,
    }
    one.run(30, **settings)  # type: ignore[arg-type] # by name
    assert one.run(90, keeps=[0.9], **(settings | changed)) == []  # type: ignore[arg-type]


def test_another_job_is_learnt_anew_and_no_repair() -> None:
    """A node that is slow stays so in its next job; one that was never slow begins again."""
    one = fleet(6)
    one.run(10, keeps=one.but(0.9))
    one.start("next", range(6))
    assert one.run(60, keeps=[0.8 if n == 4 else k for n, k in enumerate(one.but(0.9))]) == []
    assert [f.device.id for f in one.run(10)] == ["n2"]


def test_a_restart_takes_nothing_from_what_was_learnt() -> None:
    """The same is found as without one."""
    one = fleet(6)
    again = SlowNode()
    again.restore(one.feed.detector.state())  # type: ignore[attr-defined] # it remembers
    one.feed.detector = again
    assert open_findings(one.run(5, keeps=one.but(0.9))) == [
        ("node", "n2", "straggler/node", "page")
    ]


def test_one_slow_node_after_another_is_each_named() -> None:
    """Three of four in the end: those that are reported are no measure for the others."""
    one = fleet(4)
    keeps, found = [1.0] * 4, []
    for node in (2, 0, 3):
        keeps[node] = 0.85
        found += [f.device.id for f in one.run(20, keeps=keeps) if f.phase == "onset"]
    assert found == ["n2", "n0", "n3"]


def test_clocks_that_were_always_alike_are_no_sign_of_a_lock() -> None:
    """All GPUs at their highest clock, then all alike at a lower one, now and then a step apart."""
    one = Fleet(5)
    rng = np.random.default_rng(3)

    def clocks(slow: float) -> list[Number]:
        steps = 15.0 * (rng.random(5 * GPUS) < 0.1)
        return [
            float((1980.0 - step) * (slow if row // GPUS == SLOW else 1.0))
            for row, step in enumerate(steps)
        ]

    for _ in range(30):
        assert one.run(1, sm_clock_megahertz=clocks(1.0)) == []
    findings = [f for _ in range(5) for f in one.run(1, sm_clock_megahertz=clocks(0.85))]
    assert open_findings(findings) == [("node", "n2", "straggler/node", "page")]


def test_the_others_of_a_group_are_its_median_without_one() -> None:
    """As by hand, whatever the order, the groups and what is missing."""
    rng = np.random.default_rng(0)
    x, group = rng.normal(size=40), rng.integers(-1, 5, 40)
    x[::7] = np.nan
    sound = rng.random(40) < 0.8
    above, count = above_others(x, group, 5, 2, sound)
    for row in range(40):
        peers = x[(group == group[row]) & (np.arange(40) != row) & np.isfinite(x) & sound]
        if group[row] < 0 or np.isnan(x[row]) or len(peers) < 2:
            assert np.isnan(above[row])
        else:
            assert above[row] == pytest.approx(x[row] - np.median(peers))
            assert count[row] == len(peers)
