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
        self.availability, self.incidents = Availability(), Incidents()
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
            findings = tuple(self.availability.update(observation))
            found += [(self.seconds, i) for i in self.incidents.update(observation, findings)]
        return found

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
