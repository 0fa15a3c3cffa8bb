"""Observations of several nodes become one, and each row keeps its node's times."""

from __future__ import annotations

import pytest

from pipeline.frame import Device, frame_of
from pipeline.joined import Joiner, rounds
from pipeline.observation import Observation
from pipeline.rates import OK, Rates

SECOND = 10**9


def observed(
    host: str, second: int, *, boot: str = "b", kind: str = "gpu", slot: str = "0"
) -> Observation:
    """One reading of a node with two devices; its clock is ahead by the length of its name."""
    now = (second + 100 * len(host)) * SECOND
    values = {"energy_millijoules": 1000 * second} if kind == "gpu" else {}
    gpus = [(Device(host, kind, f"{host}-{n}", {"slot": slot}), values) for n in range(2)]
    return Observation("nvml", host, boot, second, now, now, 0, (frame_of(kind, gpus, now, now),))


def test_rows_have_the_times_and_boots_of_their_nodes() -> None:
    """However far apart these are."""
    whole = Joiner().join([observed("a", 5), observed("bb", 7, boot="c")])
    times = whole.frames[0].nodes
    assert times is not None
    assert [d.host for d in whole.frames[0].devices] == ["a", "a", "bb", "bb"]
    assert times.row_times_ns.tolist() == [105 * SECOND] * 2 + [207 * SECOND] * 2
    assert times.row_boots() == ["b", "b", "c", "c"]
    assert whole.nodes is not None
    assert whole.nodes.names == ("a", "bb")


def test_devices_stay_one_object_while_those_of_the_nodes_do() -> None:
    """Detectors compare identity: also of devices that were read from a message or file again,
    until one has other attributes.
    """
    joiner, first = Joiner(), [observed("a", 5), observed("bb", 7)]
    devices = joiner.join(first).frames[0].devices
    for again in (first, [observed("a", 6), observed("bb", 8)]):
        assert joiner.join(again).frames[0].devices is devices
    moved = joiner.join([observed("a", 7, slot="1"), observed("bb", 9)]).frames[0].devices
    assert [device.attributes["slot"] for device in moved] == ["1", "1", "0", "0"]
    fewer = joiner.join([observed("a", 8)]).frames[0].devices
    assert [device.id for device in fewer] == ["a-0", "a-1"]


def test_increments_are_over_each_nodes_own_time() -> None:
    """One node was read ten seconds later, the other two."""
    joiner = Joiner()
    first, then = (
        joiner.join([observed("a", 10 * n), observed("bb", 2 * n)]).frames[0] for n in range(2)
    )
    rates, counter = Rates(first.schema, 2.0), first.schema.counter_row["energy_millijoules"]
    rates.add(first)
    made = rates.add(then).increments
    assert made is not None
    assert made.quality_of(counter).tolist() == [OK] * 4
    assert made.rate(counter).tolist() == [1000.0] * 4
    assert made.seconds[counter].tolist() == [10.0, 10.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("batch", "says"),
    [
        ([observed("a", 1), observed("a", 2)], "twice"),
        ([observed("a", 1), observed("b", 1, kind="node")], "several shapes"),
    ],
)
def test_what_cannot_be_joined_is_refused(batch: list[Observation], says: str) -> None:
    """Rather than joined wrongly."""
    with pytest.raises(ValueError, match=says):
        Joiner().join(batch)


def test_rounds_bring_nodes_together_at_one_source() -> None:
    """An event that one node has alone is judged before, and each node's order is kept."""
    event = Observation("kmsg", "a", "b", 1, 0, 0, 0)
    nodes = [[event, observed("a", 1), observed("a", 2)], [observed("bb", 1), observed("bb", 2)]]
    batches = [[(one.source, one.host, one.seq) for one in batch] for batch in rounds(nodes)]
    assert batches == [
        [("kmsg", "a", 1)],
        [("nvml", "a", 1), ("nvml", "bb", 1)],
        [("nvml", "a", 2), ("nvml", "bb", 2)],
    ]
