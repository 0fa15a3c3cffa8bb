"""Where nodes are joined, nothing that compares devices reaches beyond a node."""

from __future__ import annotations

import numpy as np
import pytest

from detectors.infiniband.ports import Links
from detectors.kit.columns import Columns
from detectors.kit.groups import Groups, rack_of
from detectors.kit.peers import Peers
from detectors.kit.roll import Roll
from pipeline.frame import Device, frame_of
from pipeline.observation import Event

FACTS = {"rack": "r1", "name": "H100", "leaf": "leaf-1"}
NODES = ("n1", "n2")


def gpus(*nodes: str) -> tuple[Device, ...]:
    """Four of each node, all in one rack."""
    return tuple(Device(node, "gpu", f"{node}-{n}", FACTS) for node in nodes for n in range(4))


def test_a_rack_ends_at_the_node() -> None:
    """Two nodes of one rack are two groups of that name, and one is left in sight of one node."""
    racks, columns, roll = Groups(rack_of), Columns(x=0.0), Roll()
    racks.join(roll)
    columns.join(roll)
    with roll.showing(NODES):
        columns.place(gpus(*NODES))
        assert racks.of(columns.devices).tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
        assert racks.names == ("r1", "r1")
        with roll.among(np.array([1])):
            assert racks.of(columns.devices).tolist() == [0, 0, 0, 0]
            assert len(racks.names) == 1


def test_a_link_between_nodes_has_no_other_end() -> None:
    """Its far end is another agent's to see."""
    ports = tuple(
        Device(node, "ib_port", node, {"peer": other, "leaf": "leaf-1"})
        for node, other in (("n1", "n2"), ("n2", "n1"))
    )
    seen, joined = Links(), Links()
    joined.join(Roll())
    seen.look(ports)
    joined.look(ports)
    assert (seen.other.tolist(), joined.other.tolist()) == ([1, 0], [-1, -1])
    assert joined.of_leaf(np.array([True, True])).tolist() == [1, 1]


def test_a_job_of_two_nodes_has_peers_on_each() -> None:
    """GPUs of one job are compared within their node."""
    columns, roll = Columns(**Peers.fills()), Roll()
    peers = Peers(columns)
    columns.join(roll)
    devices = gpus(*NODES)
    for node in NODES:
        facts: dict[str, str | int] = {
            "job": "7",
            "gpus": " ".join(f"{node}-{n}" for n in range(4)),
            "hosts": 2,
        }
        peers.jobs.take([Event(0, 0, Device(node, "node", node), "job_started", facts)])
    with roll.showing(NODES):
        columns.place(devices)
        peers.look(frame_of("gpu", [(device, {}) for device in devices], 0, 0))
        assert peers.group.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


def test_rows_of_nodes_in_sight_are_changed_and_no_others() -> None:
    """Also where one of them gets another device meanwhile."""
    columns, roll = Columns(x=0.0), Roll()
    columns.join(roll)
    with roll.showing(NODES):
        columns.place(gpus(*NODES))
    with roll.showing(("n2",)):
        columns.place((*gpus("n2"), Device("n2", "gpu", "new")))
        columns["x"] = np.arange(5.0)
    with roll.showing(NODES):
        assert columns["x"].tolist() == [0, 0, 0, 0, 0, 1, 2, 3, 4]


def test_a_frame_of_nodes_out_of_sight_is_refused() -> None:
    """It would be taken for that of others."""
    columns, roll = Columns(x=0.0), Roll()
    columns.join(roll)
    with roll.showing(NODES):
        columns.place(gpus(*NODES))
    with roll.showing(("n2",)), pytest.raises(ValueError, match="not in sight"):
        columns.place(gpus(*NODES))


def test_a_detector_that_has_judged_cannot_hold_several_nodes() -> None:
    """Whose its devices were is not known."""
    columns = Columns(x=0.0)
    columns.place(gpus("n1"))
    with pytest.raises(ValueError, match="cannot hold several"):
        columns.join(Roll())
