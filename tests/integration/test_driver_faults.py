"""From the driver's library to the incident: the real bindings over a C library that a test
scripts, the source, the detectors and the fusion.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.sources.nvml.worker import Deadlines
from detectors.availability import Availability
from detectors.incidents import Incidents
from detectors.nvlink_fabric import NvLinkFabric
from pipeline.catalog import agent
from pipeline.finding import Incident
from pipeline.observation import Observation
from tests.collector.sources.nvml.node import ScriptedNode, uuid
from tests.stub.library import compile_stub

pytestmark = [pytest.mark.slow, pytest.mark.integration]

GPUS, HANG, LOST = 8, -1, 15
HASTY = Deadlines(call_s=0.5, slow_s=5, silent_s=20, sweep_s=2)


class Watched:
    """A node of eight GPUs, read every second of its own clock, and its incidents."""

    def __init__(self, folder: Path) -> None:
        self.node = ScriptedNode(
            folder, compile_stub(folder.parent / "stub"), GPUS, deadlines=HASTY
        )
        self.detectors, self.incidents = (Availability(), NvLinkFabric()), Incidents()
        self.seconds = self._seq = 0

    def run(self, seconds: int, step: int = 1) -> list[tuple[int, Incident]]:
        """What is reported, and in which second since the start."""
        found: list[tuple[int, Incident]] = []
        for _ in range(0, seconds, step):
            self.seconds += step
            self._seq += 1
            reading = self.node.read(step)
            clock = self.node.clock
            observation = Observation(
                "nvml",
                "n1",
                "boot",
                self._seq,
                clock.time_ns(),
                clock.monotonic_ns(),
                0,
                reading.frames,
                reading.events,
            )
            findings = tuple(f for each in self.detectors for f in each.update(observation))
            found += [(self.seconds, i) for i in self.incidents.update(observation, findings)]
        return found

    def fabric(self, *gpus: int, **parts: int) -> None:
        """What NVML reports of the fabric for these GPUs, healthy where it is not given."""
        usual = {"state": 3, "status": 0, "healthMask": 0xAA, "healthSummary": 1}
        for gpu in gpus:
            for part, value in (usual | parts).items():
                self.node.table.set(f"{gpu}/nvmlDeviceGetGpuFabricInfoV().{part}", value)

    @property
    def open(self) -> set[tuple[str, str]]:
        """Root and fault of what is open."""
        return {(incident.root.id, incident.fault) for incident in self.incidents.open()}


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    """A node that was well for five seconds."""
    (tmp_path / "stub").mkdir()
    one = Watched(tmp_path / "node")
    assert one.run(5) == []
    yield one
    one.node.close()


def test_a_driver_that_hangs_is_one_incident_about_the_node(watched: Watched) -> None:
    """Within twenty seconds, without a page about any GPU before or after."""
    for gpu in range(GPUS):
        watched.node.table.fail(f"{gpu}/*", HANG)
    found = watched.run(60)
    paged = {incident.id for _, incident in found if incident.severity == "page"}
    assert len(paged) == 1
    assert watched.open == {("n1", "driver_hung")}
    assert found[0][0] - 5 <= 20
    assert watched.node.metrics.value(agent.NVML_BLIND) == 1


def test_two_lost_gpus_are_two_incidents(watched: Watched) -> None:
    """Fifty seconds apart, and each ends by itself."""
    watched.node.table.fail("5/*", LOST)
    watched.run(50)
    watched.node.table.fail("4/*", LOST)
    watched.run(30)
    both = {(uuid(5), "gpu_lost"), (uuid(4), "gpu_lost")}
    assert watched.open == both
    watched.node.table.fail("5/*", 0)
    watched.run(700, step=20)
    assert watched.open == {(uuid(4), "gpu_lost")}


def test_a_gpu_that_is_back_and_another_that_is_lost_are_two_incidents(watched: Watched) -> None:
    """The first is open for ten minutes after it is back; the second is not part of it."""
    watched.node.table.fail("5/*", LOST)
    watched.run(30)
    watched.node.table.fail("5/*", 0)
    watched.run(30)
    watched.node.table.fail("2/*", LOST)
    found = watched.run(30)
    assert [incident.root.id for _, incident in found] == [uuid(2)]
    assert (uuid(2), "gpu_lost") in watched.open


def test_lost_gpus_beside_one_that_hangs_do_not_blame_the_driver(watched: Watched) -> None:
    """It answers about seven of them, with an error."""
    watched.node.table.fail("0/*", HANG)
    for gpu in range(1, GPUS):
        watched.node.table.fail(f"{gpu}/*", LOST)
    watched.run(40)
    assert watched.open == {("n1", "gpu_lost"), (uuid(0), "gpu_hung")}


@pytest.fixture
def fabric(tmp_path: Path) -> Iterator[Watched]:
    """A node whose GPUs have been part of the NVLink fabric for five seconds."""
    (tmp_path / "stub").mkdir()
    one = Watched(tmp_path / "node")
    one.fabric(*range(GPUS))
    assert one.run(5) == []
    yield one
    one.node.close()


def test_an_unhealthy_fabric_is_one_incident_about_the_node(fabric: Watched) -> None:
    """In the thirtieth reading, with all of its GPUs; over when Fabric Manager has repaired it."""
    fabric.fabric(*range(GPUS), healthSummary=2, healthMask=0x9A)
    found = fabric.run(60)
    assert [second for second, incident in found if incident.severity == "page"] == [35]
    (_, incident), *_ = found
    assert (incident.root.kind, incident.root.id) == ("node", "n1")
    assert (incident.fault, incident.action) == ("nvlink_fabric/manager", "CONTACT_SUPPORT")
    assert "8 of 8 GPUs" in incident.summary
    assert fabric.open == {("n1", "nvlink_fabric/manager")}
    fabric.fabric(*range(GPUS))
    fabric.run(700, step=20)
    assert fabric.open == set()


def test_one_gpu_with_an_unhealthy_fabric_is_an_incident_about_it(fabric: Watched) -> None:
    """And a second one, whose registration failed, is another."""
    fabric.fabric(3, healthSummary=2)
    fabric.run(40)
    assert fabric.open == {(uuid(3), "nvlink_fabric/unhealthy")}
    fabric.fabric(6, status=999)
    fabric.run(40)
    assert fabric.open == {
        (uuid(3), "nvlink_fabric/unhealthy"),
        (uuid(6), "nvlink_fabric/registration"),
    }


def test_gpus_that_leave_the_fabric_one_by_one_end_as_one_incident_about_the_node(
    fabric: Watched,
) -> None:
    """The page about the first of them becomes that about the node when half have left."""
    pages = set()
    for gpu in range(GPUS):
        fabric.fabric(gpu, status=999)
        pages |= {i.id for _, i in fabric.run(10) if i.severity == "page" and i.active}
    fabric.run(60)
    assert fabric.open == {("n1", "nvlink_fabric/manager")}
    assert len(pages) <= GPUS // 2


def test_a_gpu_that_starts_up_is_silent_for_minutes(fabric: Watched) -> None:
    """It is reset by a tool, and registers again."""
    fabric.fabric(2, state=2)
    assert fabric.run(100) == []
    fabric.fabric(2)
    assert fabric.run(30) == []
