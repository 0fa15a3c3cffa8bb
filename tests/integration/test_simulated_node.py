"""The real sources read a simulated node in another process, and see its faults as
they would see hardware's.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.agent.environment import boot_id
from collector.node.inventory import Inventory
from collector.node.state import State
from collector.sources.host import HostSource
from collector.sources.infiniband import InfinibandSource
from collector.sources.kmsg import KernelLogSource
from collector.sources.nvml.source import NvmlSource
from pipeline.child import Child, python
from pipeline.clock import SystemClock
from pipeline.frame import Frame
from pipeline.observation import Event, Reading
from pipeline.selfmetrics import SelfMetrics
from simulator.simulate import inject
from tests.wait import PATIENCE_S, until

pytestmark = pytest.mark.integration

HOST = "n1"


class Readers:
    """The agent's sources over one simulated node."""

    def __init__(self, directory: Path) -> None:
        clock, metrics, state = SystemClock(), SelfMetrics(), State(None)
        inventory = Inventory(HOST, state)
        self.nvml = NvmlSource(
            f"simulator.nvml_client:open_client:{directory}",
            HOST,
            clock,
            inventory,
            metrics,
            links_every=1,
            proc=directory / "proc",
        )
        self.infiniband = InfinibandSource(
            directory / "sys", HOST, clock, inventory, metrics, perfquery=""
        )
        self.host = HostSource(directory / "proc", directory / "sys", HOST, clock)
        self.kmsg = KernelLogSource(
            HOST,
            clock,
            boot_id(directory / "proc"),
            inventory,
            state,
            metrics,
            path=directory / "dev" / "kmsg",
        )

    def close(self) -> None:
        """Let the sources go."""
        for source in (self.nvml, self.infiniband, self.kmsg):
            source.close()

    def gpus(self) -> Frame:
        """The next frame of GPUs."""
        return _frame(self.nvml.read(), "gpu")

    def ports(self) -> Frame:
        """The next frame of ports."""
        return _frame(self.infiniband.read(), "ib_port")


def _frame(reading: Reading, kind: str) -> Frame:
    return next(frame for frame in reading.frames if frame.kind == kind)


def _row(frame: Frame, attribute: str, value: str) -> int:
    return next(
        n for n, device in enumerate(frame.devices) if device.attributes[attribute] == value
    )


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Where a node lives that ``tocsin simulate`` plays ten times as fast as the clock."""
    node = tmp_path / "node"
    argv = python(
        "collector.cli",
        "simulate",
        str(node),
        "--profile",
        "hgx-h100",
        "--seed",
        "1",
        "--speed",
        "10",
        "--owned",
    )
    child = Child(argv)
    try:
        until((node / "ready").exists, "the simulated node")
        yield node
    finally:
        child.kill()
        child.wait(PATIENCE_S)


@pytest.fixture
def readers(directory: Path) -> Iterator[Readers]:
    """Sources that have seen the node once."""
    sources = Readers(directory)
    until(lambda: sources.gpus().value("state", 0) == 0, "the driver child")
    sources.ports()
    yield sources
    sources.close()


def test_every_device_is_seen(readers: Readers) -> None:
    """Eight GPUs with their facts, 144 links, eight active ports, one host."""
    reading = readers.nvml.read()
    gpus, links = _frame(reading, "gpu"), _frame(reading, "nvlink")
    assert [device.attributes["index"] for device in gpus.devices] == [str(n) for n in range(8)]
    assert {device.attributes["name"] for device in gpus.devices} == {"NVIDIA H100 80GB HBM3"}
    assert gpus.gauge("state").tolist() == [0.0] * 8
    assert len(links.devices) == 144
    ports = readers.ports()
    assert ports.gauge("rate_bits_per_second").tolist() == [400e9] * 8
    assert ports.gauge("state").tolist() == [4.0] * 8
    node = _frame(readers.host.read(), "node")
    assert node.devices[0].attributes["nvidia_driver"] == "580.95.05"


def test_nothing_healthy_is_unreadable(readers: Readers) -> None:
    """A healthy node leaves no question unanswered but those its hardware does not know."""
    assert readers.infiniband.read().unread == ()
    assert [
        u for u in readers.nvml.read().unread if "not supported" not in u.reason.replace("_", " ")
    ] == []


def test_lost_gpu_is_lost_in_every_source(directory: Path, readers: Readers) -> None:
    """The state of one GPU becomes lost, the others stay; 79 comes from the kernel log
    under the GPU's own identity.
    """
    inject(directory, "gpu_lost@gpu2")
    until(lambda: readers.gpus().value("state", 2) == 1, "the loss")
    assert [state for n, state in enumerate(readers.gpus().gauge("state").tolist()) if n != 2] == [
        0.0
    ] * 7
    event = until(lambda: _xid(readers.kmsg.read(), 79), "the kernel line")
    assert event is not None
    assert event.device.id == readers.gpus().devices[2].id


def test_hung_driver_costs_one_gpu(directory: Path, readers: Readers) -> None:
    """A GPU whose calls never return becomes hung; the others go on."""
    inject(directory, "driver_hang@gpu5")
    until(lambda: readers.gpus().value("state", 5) == 2, "the hang")
    until(lambda: readers.gpus().gauge("state").tolist().count(0.0) == 7, "the others")


def test_flapping_port_is_seen_flapping(directory: Path, readers: Readers) -> None:
    """A port goes down and comes back with link_downed raised by one."""
    inject(directory, "link_flap@mlx5_4:down=30s,times=1")
    row = _row(readers.ports(), "device", "mlx5_4")
    until(lambda: readers.ports().value("state", row) == 1, "the port to go down")
    until(lambda: readers.ports().value("state", row) == 4, "the port to come back")
    assert readers.ports().value("link_downed", row) == 1


def _xid(reading: Reading, code: int) -> Event | None:
    return next(
        (e for e in reading.events if e.kind == "xid" and e.attributes["code"] == code), None
    )
