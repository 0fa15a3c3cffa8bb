"""Rack, leaf and rail on the devices of any source."""

from __future__ import annotations

from pathlib import Path

from collector.node.topology import Topology
from collector.node.with_topology import WithTopology
from pipeline.observation import Reading
from tests.fakes import FakeClock, FakeSource, gpu_frame


def placed(folder: Path) -> tuple[WithTopology, Topology, Path]:
    """A source of one GPU behind a topology file."""
    file = folder / "topology.yaml"
    file.write_text("n1: {rack: r12, devices: {gpu0: {rail: '3'}}}\n", encoding="utf-8")
    topology = Topology.of_file(file, "n1")
    frame = gpu_frame(FakeClock(), {"power_milliwatts": 5})
    return WithTopology(FakeSource("nvml", [Reading((frame,))]), topology), topology, file


def test_devices_carry_where_they_stand_beside_their_own_facts(tmp_path: Path) -> None:
    """The values of the frame are untouched."""
    source, _, _ = placed(tmp_path)
    (frame,) = source.read().frames
    assert frame.devices[0].attributes.items() >= {"index": "0", "rack": "r12", "rail": "3"}.items()
    assert frame.value("power_milliwatts", 0) == 5.0


def test_devices_stay_the_same_objects_while_nothing_changes(tmp_path: Path) -> None:
    """The renderer and the store look at identity."""
    source, _, _ = placed(tmp_path)
    assert source.read().frames[0].devices is source.read().frames[0].devices


def test_a_changed_topology_shows_in_the_next_reading(tmp_path: Path) -> None:
    """A node that moved to another rack needs no restart."""
    source, topology, file = placed(tmp_path)
    source.read()
    file.write_text("n1: {rack: r13-new}\n", encoding="utf-8")
    topology.read()
    assert source.read().frames[0].devices[0].attributes["rack"] == "r13-new"


def test_the_source_behind_is_closed(tmp_path: Path) -> None:
    """Shutdown reaches it."""
    topology = Topology.of_file(placed(tmp_path)[2], "n1")
    source = FakeSource("nvml")
    WithTopology(source, topology).close()
    assert source.closed == 1
