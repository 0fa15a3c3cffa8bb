"""An agent that has never read a GPU: lines of its first minutes still name the GPUs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from collector.node.inventory import Inventory
from collector.node.state import State
from pipeline.clock import SECOND_NS
from tests.collector.sources.kmsg.logs import GPUS, XID_79, Node, events

AWAITS_NS = 30 * SECOND_NS


@pytest.fixture
def new() -> Iterator[Node]:
    """A node whose agent starts for the first time."""
    made = Node()
    made.state = State(None)
    made.inventory = Inventory("n1", made.state)
    yield made
    made.close()


def test_an_xid_before_the_first_read_is_its_gpus(new: Node) -> None:
    """The line waits in the log: on the node it would be an incident of its own."""
    new.ring.print(XID_79)
    source = new.source(awaits_gpus_ns=AWAITS_NS)
    new.clock.advance(5.0)
    assert events(source) == []
    new.inventory.learn("gpu", GPUS.values())
    (event,) = events(source)
    assert (event.device, event.attributes["code"]) == (GPUS["0000:1b:00"], 79)
    new.ring.print(XID_79.replace("79", "48"))
    assert [event.attributes["code"] for event in events(source)] == [48]


def test_a_node_whose_driver_lists_no_gpu_is_not_waited_for_longer(new: Node) -> None:
    """Then the event is the node's, with the address."""
    new.ring.print(XID_79)
    source = new.source(awaits_gpus_ns=AWAITS_NS)
    new.clock.advance(29.0)
    assert events(source) == []
    new.clock.advance(1.0)
    (event,) = events(source)
    assert (event.device.kind, event.attributes["pci"]) == ("node", "0000:1b:00")


def test_a_node_with_known_gpus_waits_for_nothing(node: Node) -> None:
    """From the second start on the inventory has them."""
    node.ring.print(XID_79)
    assert len(events(node.source(awaits_gpus_ns=AWAITS_NS))) == 1
