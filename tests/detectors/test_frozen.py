"""Readings that stopped or stay what they were: reported for the node; lost readings, restarts and
whole nodes that are away are not.
"""

from __future__ import annotations

import numpy as np
import pytest

from detectors.frozen import Frozen
from detectors.kit.snapshot import dump, load
from pipeline.finding import Finding
from pipeline.frame import Device, frame_of, schema_of
from pipeline.observation import Observation
from pipeline.rates import Rates
from tests.detectors.feed import Feed, Number, a_gpu, relapse, updates

GPUS = 4
READ: dict[str, Number] = {
    "state": 0,
    "power_milliwatts": 500_000,
    "energy_millijoules": 500_000,
    "gpu_utilization_percent": 99,
}
STILL = {**READ, "energy_millijoules": 0}
NOTHING: dict[str, Number] = {}
NODE = Device("n1", "node", "n1")


class Node:
    """A node with four GPUs and a port, each read every ten seconds."""

    def __init__(self, *, ports: bool = True) -> None:
        self.feed = Feed(Frozen(), gpus=[a_gpu("n1", index) for index in range(GPUS)])
        self._ports = Rates(schema_of("ib_port"), 10.0)
        self._other = (
            ("infiniband", Device("n1", "ib_port", "0x1"), {"state": 4})
            if ports
            else ("host", NODE, {"gpus_visible": 4})
        )
        self.polls(10, READ)

    def polls(self, number: int, shows: dict[str, Number], *, other: bool = True) -> list[Finding]:
        """So many polls in which the GPUs show this, and whether the
        other source gives something.
        """
        findings: list[Finding] = []
        for _ in range(number):
            findings += self.feed.run(10, **shows)
            findings += self.other(read=other)
        return findings

    def other(self, *, read: bool) -> list[Finding]:
        """The other source."""
        source, device, shows = self._other
        wall, mono = self.feed.clock.time_ns(), self.feed.clock.monotonic_ns()
        frame = frame_of(device.kind, [(device, shows if read else {})], wall, mono)
        frame = self._ports.add(frame, "boot-1") if source == "infiniband" else frame
        return self.feed.observe(Observation(source, "n1", "boot-1", 0, wall, mono, 0, (frame,)))


def test_a_node_whose_readings_repeat_is_a_ticket_about_the_node_within_ten_polls() -> None:
    """The collector shows again and again what it read once."""
    assert updates(Node().polls(10, STILL)) == [
        ("node", "n1", "observability/frozen", "ticket", "onset")
    ]


def test_four_equal_polls_are_silent() -> None:
    """A driver that updates its energy counter slowly."""
    assert Node().polls(4, STILL) == []


def test_fast_polls_that_repeat_are_silent_for_half_a_minute() -> None:
    """At one poll a second five are soon together."""
    node = Node()
    node.feed.period_s = 1.0
    assert node.polls(0, STILL) == []
    findings = [finding for _ in range(29) for finding in node.feed.once(**STILL)]
    assert findings == []


def test_one_gpu_that_stands_still_while_its_peers_move_is_told_by_itself() -> None:
    """Not the collector's fault, but the sensor's."""
    findings = Node().polls(10, {**READ, "energy_millijoules": [500_000, 0, 500_000, 500_000]})  # type: ignore[dict-item] # one each
    assert updates(findings) == [("gpu", "GPU-n1-1", "observability/frozen", "ticket", "onset")]


def test_gpus_without_an_energy_counter_are_not_judged_by_it() -> None:
    """Older boards."""
    assert (
        Node().polls(
            100, {name: value for name, value in READ.items() if name != "energy_millijoules"}
        )
        == []
    )


def test_gpus_that_are_lost_are_read_and_not_frozen() -> None:
    """The driver says so of each: another detector's business."""
    assert Node().polls(100, {"state": 1}) == []


def test_a_node_none_of_whose_gpus_is_read_is_a_ticket_within_ten_polls() -> None:
    """NVML does not answer, the ports of the same node do."""
    assert updates(Node().polls(10, NOTHING)) == [
        ("node", "n1", "observability/unread", "ticket", "onset")
    ]


def test_of_a_node_without_ports_the_host_says_whether_it_lives() -> None:
    """Its own facts come from files, which no driver can hold up."""
    assert updates(Node(ports=False).polls(10, NOTHING)) == [
        ("node", "n1", "observability/unread", "ticket", "onset")
    ]


def test_a_node_of_which_nothing_is_read_is_away_and_no_blind_collector() -> None:
    """It boots, or the network to it is down."""
    node = Node()
    assert node.polls(100, NOTHING, other=False) == []


@pytest.mark.slow
def test_lost_readings_are_silent_even_where_a_third_is_lost() -> None:
    """A day of polls over a bad network: chance makes runs of misses, and the
    detector knows how long.
    """
    node, rng = Node(), np.random.default_rng(2)
    findings = [
        finding
        for lost in (rng.random(8640) < 0.3).tolist()
        for finding in node.polls(1, NOTHING if lost else READ)
    ]
    assert findings == []


def test_maintenance_is_silent() -> None:
    """The driver is being replaced."""
    node = Node()
    node.feed.event(NODE, "maintenance_started", reason="new driver")
    assert node.polls(100, NOTHING) == []
    node.feed.event(NODE, "maintenance_ended")
    assert len(node.polls(10, NOTHING)) == 1


def test_both_clear_after_three_good_polls() -> None:
    """With the id of the onset."""
    for bad in (STILL, NOTHING):
        node = Node()
        (onset,) = node.polls(10, bad)
        (cleared,) = node.polls(5, READ)
        assert (cleared.id, cleared.phase) == (onset.id, "cleared")


def test_a_restart_in_the_middle_of_a_run_changes_nothing() -> None:
    """Seven missed polls before, one after."""
    node = Node()
    node.polls(7, NOTHING)
    fresh = Frozen()
    assert load(dump([node.feed.detector]), [fresh]) == ()
    node.feed.detector = fresh
    assert len(node.polls(1, NOTHING)) == 1


@pytest.mark.slow
def test_what_comes_back_and_goes_again_within_the_rest_is_not_told_after_it() -> None:
    """A collector that hung twice within the hour, and runs."""
    node = Node()
    assert (
        relapse(node.feed.clock, lambda: node.polls(10, STILL), lambda: node.polls(5, READ)) == []
    )
