"""The service of Fabric Manager under GPUs that work on without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.sources.host import HostSource
from detectors.kit.snapshot import dump, load
from detectors.nvlink_fabric import NvLinkFabric
from detectors.nvlink_fabric.service import STOPPED
from pipeline.finding import Finding
from pipeline.frame import Device, frame_of
from simulator.injection import inject
from simulator.rendering import Rendering
from tests.detectors.feed import Feed, open_findings
from tests.detectors.nvlink_fabric.test_detector import MANAGER, NOT_SUPPORTED, fabric
from tests.fakes import FakeClock

NODE = Device("n1", "node", "n1")
OLDER = {"fabric_state": None, "fabric_health": None, "fabric_health_mask": None}


class Node(Feed):
    """Eight GPUs, and the node's frame once a minute."""

    def __init__(self) -> None:
        super().__init__(NvLinkFabric(), period_s=30)
        self.gpus_show = fabric()

    def minutes(self, n: int, runs: float | None) -> list[Finding]:
        """So long its service runs, or does not, or is not shown."""
        findings = []
        for _ in range(n):
            findings += self.run(60, **self.gpus_show)
            now = self.clock.time_ns(), self.clock.monotonic_ns()
            shown = frame_of("node", [(NODE, {"fabric_manager_running": runs})], *now)
            findings += self.observe(self._observation("host", frames=(shown,)))
        return findings


@pytest.fixture
def node() -> Node:
    """Whose Fabric Manager has run for five minutes."""
    one = Node()
    assert one.minutes(5, 1) == []
    return one


def test_registered_gpus_whose_manager_stopped_are_a_ticket_about_the_node(node: Node) -> None:
    """After two minutes; over when it runs again."""
    assert node.minutes(2, 0) == []
    findings = node.minutes(1, 0)
    assert open_findings(findings) == [("node", "n1", STOPPED, "ticket")]
    assert findings[0].summary.startswith("Node n1: Fabric Manager has stopped: its jobs go on")
    assert findings[0].action == "CONTACT_SUPPORT"
    assert [f.phase for f in node.minutes(1, 1)] == ["cleared"]


@pytest.mark.parametrize("state", [None, NOT_SUPPORTED])
def test_gpus_that_do_not_register_need_it_for_each_job(state: float | None) -> None:
    """Those before Hopper: a page, as no new job of the node starts."""
    node = Node()
    node.gpus_show = fabric(8, **{**OLDER, "fabric_state": state})
    node.minutes(2, 1)
    findings = node.minutes(4, 0)
    assert open_findings(findings) == [("node", "n1", STOPPED, "page")]
    assert "new ones fail" in findings[0].summary


def test_a_restart_of_the_service_is_silent(node: Node) -> None:
    """It takes a minute or two."""
    assert node.minutes(2, 0) == []
    assert node.minutes(10, 1) == []


def test_a_service_that_never_ran_is_not_missed() -> None:
    """It runs in a container, in another virtual machine, on the switches of the rack, or is not
    needed; or it is not shown at all.
    """
    for runs in (0, None):
        assert Node().minutes(20, runs) == []


def test_a_boot_starts_again(node: Node) -> None:
    """Of the boot before nothing is known: what registers in this one is judged by the GPUs."""
    node.boot = "boot-2"
    assert node.minutes(20, 0) == []


def test_gpus_that_are_not_read_need_none(node: Node) -> None:
    """Their driver is being replaced: it is stopped for that."""
    node.gpus_show = fabric(8, nvlinks_up=None, nvlinks_down=None, fabric_state=None)
    assert [f for f in node.minutes(20, 0) if f.fault == STOPPED] == []


def test_gpus_without_nvlinks_or_in_mig_mode_need_none() -> None:
    """Nothing connects them."""
    for shows in ({"nvlinks_up": 0}, {"mig_mode_current": 1}):
        node = Node()
        node.gpus_show = fabric(8, **shows)
        assert node.minutes(2, 1) == node.minutes(20, 0) == []


def test_a_node_in_maintenance_is_silent(node: Node) -> None:
    """An operator stops it for an upgrade."""
    node.event(NODE, "maintenance_started", reason="driver")
    assert node.minutes(10, 0) == []
    node.event(NODE, "maintenance_ended")
    assert [f.fault for f in node.minutes(2, 0)] == [STOPPED]


def test_a_node_whose_gpus_left_the_fabric_too_has_both(node: Node) -> None:
    """Each ends by itself."""
    node.gpus_show = fabric(8, fabric_state=2)
    findings = node.minutes(5, 0)
    assert {(MANAGER, "onset"), (STOPPED, "onset")} <= {(f.fault, f.phase) for f in findings}
    node.gpus_show = fabric()
    findings = node.minutes(5, 0)
    assert (MANAGER, "cleared") in {(f.fault, f.phase) for f in findings}
    assert STOPPED not in {f.fault for f in findings}


def test_a_restart_of_the_agent_forgets_nothing(node: Node) -> None:
    """The service stopped before it, and is found when the time has passed."""
    node.minutes(1, 0)
    fresh = NvLinkFabric()
    assert load(dump([node.detector]), [fresh]) == ()
    node.detector = fresh
    assert [f.fault for f in node.minutes(2, 0)] == [STOPPED]


@pytest.mark.slow
@pytest.mark.parametrize(("profile", "runs"), [("hgx-h100", 1), ("hgx-a100", 1), ("gb200", 0)])
def test_the_simulated_node_shows_its_service(tmp_path: Path, profile: str, runs: int) -> None:
    """By the control group below its /sys; of a rack it runs on the trays of the switches."""
    rendering = Rendering(tmp_path, profile, seed=1, clock=FakeClock())
    source = HostSource(tmp_path / "proc", tmp_path / "sys", "n1", FakeClock())

    def shown() -> float | None:
        return source.read().frames[0].value("fabric_manager_running", 0)

    rendering.step(1)
    assert shown() == runs
    inject(rendering.node, "fabric_manager:lasts=60s")
    rendering.step(5)
    assert shown() == 0
    rendering.step(60)
    assert shown() == runs
    rendering.close()
