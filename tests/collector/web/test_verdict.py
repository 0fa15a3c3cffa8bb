"""The node in one sentence."""

from __future__ import annotations

import pytest

from collector.web.verdict import verdict
from pipeline.catalog import agent
from pipeline.frame import Device
from tests.collector.web.scene import Scene
from tests.fakes import gpu


def said(scene: Scene) -> tuple[str, str]:
    """Level and sentence."""
    made = verdict(scene.status())
    return made["level"], made["text"]


def test_a_node_that_is_well() -> None:
    """Says what was looked at: good news of nothing read would be none."""
    assert said(Scene().play()) == (
        "ok",
        "Healthy. 2 GPUs and 2 ports monitored, no open findings.",
    )


def test_a_node_of_which_nothing_was_seen() -> None:
    """Is not well, it is unknown."""
    assert said(Scene()) == ("blind", "No GPU and no port found.")


def test_the_gravest_incident_is_told() -> None:
    """A page before a ticket, whichever came first, and how many others there are."""
    scene = Scene().play()
    scene.blame(scene.say(gpu(0), "Warm.", severity="ticket"))
    scene.clock.advance(1)
    scene.blame(scene.say(gpu(1), "Gone.", severity="page"))
    assert said(scene) == ("bad", "GPU 1 on n1 (serial 165216901): Gone. 1 more incident is open.")


def test_what_nobody_has_taken_on_is_told_first() -> None:
    """Of two as grave, the one that waits for somebody."""
    scene = Scene().play()
    scene.blame(
        scene.say(gpu(0), "Gone."),
        acknowledged_ns=scene.clock.time_ns(),
        acknowledged_by="ada",
        note="on it",
    )
    scene.clock.advance(1)
    scene.blame(scene.say(gpu(1), "Gone too."))
    assert said(scene)[1].startswith("GPU 1 on n1 (serial 165216901): Gone too.")


def test_an_incident_that_somebody_took_on_says_who() -> None:
    """So that a second person need not start."""
    scene = Scene().play()
    scene.blame(
        scene.say(gpu(0), "Gone."),
        acknowledged_ns=scene.clock.time_ns(),
        acknowledged_by="ada",
        note="on it",
    )
    assert said(scene)[1] == "GPU 0 on n1 (serial 165216900): Gone. Acknowledged by ada."


def test_an_incident_has_a_next_step() -> None:
    """The one of the incident that is told."""
    scene = Scene().play()
    scene.blame(scene.say(gpu(0), "Gone."), reason="Power-cycle it.")
    assert verdict(scene.status())["action"] == "Power-cycle it."


def test_an_incident_of_records_blames_and_pages_nobody() -> None:
    """A finding in shadow mode is shown and does not change the verdict."""
    scene = Scene().play()
    scene.blame(scene.say(scene.ports[1][0], "It flaps.", severity="record"))
    assert said(scene) == ("note", "Port mlx5_1/1 on n1 (info, no alert): It flaps.")


def test_a_port_that_is_down_is_told_though_no_detector_pages_for_it() -> None:
    """What everybody can see in a cell is not called well."""
    scene = Scene()
    scene.ports[1][1].update(state=1)
    assert said(scene.play()) == ("bad", "No incident is open, but port mlx5_1/1 is down.")


def test_a_port_that_nobody_expects_to_be_up_is_no_news() -> None:
    """A port without a cable is not a fault."""
    scene = Scene()
    scene.ports[1][1].update(state=1, expected=0)
    assert said(scene.play())[0] == "ok"


def test_a_blind_source_is_no_good_news() -> None:
    """What is not seen may be broken."""
    scene = Scene().play()
    scene.source("nvml", reads=False)
    assert said(scene) == ("blind", "Incomplete view of this node: no data from nvml.")


def test_a_source_that_is_late_is_no_good_news() -> None:
    """Its last read succeeded, and that was too long ago: the table says late."""
    scene = Scene().play()
    scene.metrics.set(agent.SOURCE_LATE, 1, "nvml")
    assert said(scene) == ("blind", "Incomplete view of this node: no data from nvml.")
    assert [one["late"] for one in scene.status()["sources"]] == [True, False]
    assert "no read succeeded for more than three periods" in scene.page()


def test_an_agent_that_begins_says_what_it_waits_for() -> None:
    """Nothing is said of the node before."""
    scene = Scene()
    scene.missing = "the source nvml has given nothing yet"
    assert said(scene) == (
        "blind",
        "No verdict yet: the source nvml has given nothing yet.",
    )


@pytest.mark.slow
def test_an_agent_that_is_not_well_itself_is_told() -> None:
    """What the node's own watchman cannot see or keep is no good news."""
    scene = Scene().play()
    scene.metrics.set(agent.KERNEL_LOG_MODE, 1, "none")
    assert said(scene) == (
        "warn",
        "No incident is open, but the agent itself is degraded: kernel log.",
    )


def test_a_link_is_called_by_its_gpu() -> None:
    """Nobody knows a GPU by its UUID."""
    scene = Scene().play()
    scene.blame(scene.say(Device("n1", "nvlink", f"{gpu(1).id}/5"), "It is down."))
    assert said(scene)[1] == "NVLink 5 of GPU 1 on n1: It is down."


def test_a_node_out_of_service_says_why() -> None:
    """Its faults are then somebody's work, unless an incident is open all the same."""
    scene = Scene().play()
    node = Device("n1", "node", "n1")
    scene.take_out(node, "new firmware")
    assert said(scene) == ("out", "This node is out of service: new firmware")


def test_gpus_of_virtual_machines_are_not_called_read() -> None:
    """They are well as far as anybody here can know."""
    scene = Scene()
    scene.gpus[1][1].clear()
    scene.gpus[1][1].update(state=5)
    assert said(scene.play()) == (
        "ok",
        "Healthy. 1 GPU and 2 ports monitored, no open findings.",
    )


def test_readings_that_stopped_are_not_called_well() -> None:
    """A minute without a reading makes the devices unknown."""
    scene = Scene().play()
    scene.clock.advance(60)
    assert said(scene)[0] == "blind"


def test_of_many_devices_three_are_named() -> None:
    """A sentence, not a list."""
    scene = Scene()
    for device, row in scene.ports:
        row.update(state=1)
        scene.ports = [
            *scene.ports,
            (Device("n1", "ib_port", device.id + "x", device.attributes), row),
        ]
    for _, row in scene.gpus:
        row.update(state=1)
    assert said(scene.play())[1].endswith("and 3 more.")
