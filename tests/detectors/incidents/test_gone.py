"""Incidents about devices that are not read any more: they end with the reason, and not before."""

from __future__ import annotations

import pytest

from pipeline.frame import Device, frame_of
from tests.detectors.incidents.story import Story, gpu, node, port
from tests.fakes import START_NS

HOUR_S = 3600.0


def watch(story: Story, seconds: float, *devices: Device) -> None:
    """These devices are read once a minute for so long, and no others."""
    kinds = {device.kind for device in devices}
    frames = [
        frame_of(kind, [(one, {}) for one in devices if one.kind == kind], START_NS, 0)
        for kind in sorted(kinds)
    ]
    end = story.seconds + seconds
    while story.seconds < end:
        story.seconds += 60.0
        story.see(frames=frames)


def test_an_incident_of_a_device_that_was_not_read_for_four_hours_ends_with_that_reason() -> None:
    """The card was taken out; the other GPU's incident stays open."""
    story = Story()
    watch(story, 60, gpu(0), gpu(1))
    story.finds(gpu(0), "ecc")
    story.wait(60)
    story.finds(gpu(1), "ecc")
    watch(story, 4 * HOUR_S - 120, gpu(1))
    assert set(story.open) == {gpu(0).id, gpu(1).id}
    watch(story, 600, gpu(1))
    assert set(story.open) == {gpu(1).id}
    last = story.updates[-1]
    assert (last.root, last.active) == (gpu(0), False)
    assert last.summary.startswith("Not read for 4 hours: ")


def test_a_device_that_is_listed_as_absent_is_not_gone() -> None:
    """The inventory keeps its row: it is named until it is repaired."""
    story = Story()
    watch(story, 60, gpu(0), gpu(1))
    story.finds(gpu(0), "gpu_absent")
    watch(story, 48 * HOUR_S, gpu(0), gpu(1))
    assert set(story.open) == {gpu(0).id}


def test_a_fault_that_comes_back_with_its_device_is_open_again() -> None:
    """Its detector never said that it ended."""
    story = Story()
    watch(story, 60, gpu(0), gpu(1))
    story.finds(gpu(0), "ecc")
    watch(story, 5 * HOUR_S, gpu(1))
    assert story.open == {}
    watch(story, 120, gpu(0), gpu(1))
    assert set(story.open) == {gpu(0).id}


def test_a_fault_that_ended_while_its_device_was_away_stays_closed() -> None:
    """Its detector says so."""
    story = Story()
    watch(story, 60, gpu(0), gpu(1))
    found = story.finds(gpu(0), "ecc")
    watch(story, 5 * HOUR_S, gpu(1))
    story.clears(found)
    watch(story, HOUR_S, gpu(0), gpu(1))
    assert story.open == {}


def test_a_gpu_that_is_read_at_another_node_ends_its_incident_here() -> None:
    """The card was moved, or the node has another name now; the reason names where it is."""
    story = Story()
    watch(story, 60, gpu(0), gpu(1))
    story.finds(gpu(0), "ecc")
    moved = Device("n2", "gpu", gpu(0).id)
    watch(story, 300, gpu(1), moved)
    assert set(story.open) == {gpu(0).id}, "it may be read at both for a moment"
    watch(story, 600, gpu(1), moved)
    assert story.open == {}
    assert story.updates[-1].summary.startswith("It is read at n2 now: ")


@pytest.mark.parametrize(
    "device", [gpu(0, "n2"), port(0, "n2"), node("n2"), Device("n2", "fs", "/")]
)
def test_incidents_of_a_node_that_is_gone_end(device: Device) -> None:
    """Whatever of it they are about, read by frames or not."""
    story = Story()
    watch(story, 60, gpu(0), gpu(0, "n2"), port(0), port(0, "n2"), node(), node("n2"))
    story.finds(device, "ecc")
    watch(story, 5 * HOUR_S, gpu(0), port(0), node())
    assert story.open == {}


@pytest.mark.parametrize("device", [Device("", "rack", "r1"), Device("", "job", "7"), node("n1")])
def test_what_no_frame_lists_is_not_gone(device: Device) -> None:
    """Racks and jobs are of no node, and this node is read."""
    story = Story()
    story.finds(device, "ecc")
    watch(story, 5 * HOUR_S, gpu(0))
    assert set(story.open) == {device.id}


def test_a_restart_does_not_begin_the_four_hours_again() -> None:
    """A node that is restarted each hour keeps no incident for ever."""
    story = Story()
    watch(story, 60, gpu(0), gpu(1))
    story.finds(gpu(0), "ecc")
    for _ in range(5):
        watch(story, HOUR_S, gpu(1))
        story.restart()
    assert story.open == {}


def test_the_root_that_is_gone_leaves_what_is_not() -> None:
    """The job still waits after the GPU that it waited for was taken out."""
    story = Story()
    watch(story, 60, gpu(0), gpu(1))
    story.happens("job_started", node(), job="7", gpus=f"{gpu(0).id} {gpu(1).id}", hosts=1)
    story.finds(gpu(0), "xid/gpu")
    story.finds(gpu(1), "hang")
    watch(story, 5 * HOUR_S, gpu(1))
    assert {one.root.id for one in story.fusion.open()} == {gpu(1).id}
