"""What people do about incidents: take them on, take devices out of service and bring them back."""

from __future__ import annotations

import pytest

from pipeline.frame import Device
from tests.detectors.incidents.story import Story, gpu, node
from tests.fakes import START_NS


def test_an_incident_that_is_taken_on_is_told_with_who_and_what() -> None:
    """It stays open, under the same id, with the note."""
    story = Story()
    story.finds(gpu(0), "ecc")
    story.wait(60)
    story.happens(
        "incident_acknowledged", gpu(0), incident=story.updates[0].id, note="RMA 4711", user="ada"
    )
    first, second = story.updates
    assert (second.id, second.note, second.acknowledged_by) == (first.id, "RMA 4711", "ada")
    assert second.acknowledged_ns == START_NS + 60 * 10**9
    assert story.open


def test_an_acknowledgement_of_what_is_not_open_changes_nothing() -> None:
    """It has ended meanwhile, or never was."""
    story = Story()
    story.happens("incident_acknowledged", gpu(0), incident="nowhere", note="x", user="ada")
    assert story.updates == []


def test_a_host_without_a_part_in_an_incident_cannot_acknowledge_it() -> None:
    """On a bus it can name any id: a page of another node would be silent."""
    story = Story()
    story.nodes("n1", "n2")
    story.finds(gpu(0), "ecc")
    incident = story.updates[0].id
    for device in (gpu(0, "n2"), node("n2")):
        story.happens("incident_acknowledged", device, incident=incident, note="x", user="eve")
    assert {one.acknowledged_ns for one in story.fusion.open()} == {0}


def test_the_note_stays_when_the_incident_is_told_again() -> None:
    """More evidence and the end come with it."""
    story = Story()
    found = story.finds(gpu(0), "ecc")
    story.happens(
        "incident_acknowledged", gpu(0), incident=story.updates[0].id, note="RMA 4711", user="ada"
    )
    story.finds(gpu(0), "xid/gpu", detector="another")
    assert [i.note for i in story.updates] == ["", "RMA 4711", "RMA 4711"]
    assert found.id in story.updates[-1].findings


def test_a_page_about_another_gpu_is_not_acknowledged() -> None:
    """It is an incident of its own, and the first one stays acknowledged."""
    story = Story()
    story.nodes("n1")
    story.finds(gpu(2), "xid/gpu")
    story.happens(
        "incident_acknowledged", gpu(2), incident=story.updates[0].id, note="rebooting", user="ada"
    )
    story.wait(60)
    story.finds(gpu(4), "xid/gpu")
    assert {i.root: i.acknowledged_ns > 0 for i in story.fusion.open()} == {
        gpu(2): True,
        gpu(4): False,
    }


def test_a_node_whose_other_gpus_fail_too_is_not_acknowledged() -> None:
    """Somebody acknowledged the first; half of them within two minutes is more than that."""
    story = Story()
    story.nodes("n1")
    story.finds(gpu(0), "xid/gpu")
    story.happens(
        "incident_acknowledged", gpu(0), incident=story.updates[0].id, note="on it", user="ada"
    )
    for number in range(1, 4):
        story.wait(30)
        story.finds(gpu(number), "xid/gpu")
    (one,) = story.fusion.open()
    assert (one.root, one.acknowledged_ns, one.note) == (node(), 0, "on it")


def test_a_ticket_that_becomes_a_page_is_not_acknowledged() -> None:
    """Who took on a ticket for the morning did not take on a page."""
    story = Story()
    story.finds(gpu(0), "ecc", "ticket")
    story.happens(
        "incident_acknowledged", gpu(0), incident=story.updates[0].id, note="tomorrow", user="ada"
    )
    story.finds(gpu(0), "xid/gpu", "page")
    assert (story.updates[-1].severity, story.updates[-1].acknowledged_ns) == ("page", 0)


def test_symptoms_and_what_the_root_explains_leave_the_acknowledgement() -> None:
    """The job that waits for the lost GPU, and one more page about it."""
    story = Story()
    story.nodes("n1")
    story.finds(gpu(0), "gpu_lost")
    story.happens(
        "incident_acknowledged", gpu(0), incident=story.updates[0].id, note="on it", user="ada"
    )
    story.finds(gpu(1), "hang")
    story.finds(gpu(0), "xid/gpu", detector="another")
    assert story.updates[-1].note == "on it"
    assert story.updates[-1].acknowledged_ns > 0
    assert len(story.open) == 1


def test_an_acknowledgement_of_one_is_none_of_what_turns_out_to_be_common() -> None:
    """Somebody took on the first of many; the others woke nobody yet."""
    story = Story()
    hosts = [f"n{number}" for number in range(12)]
    story.nodes(*hosts)
    story.finds(gpu(0, hosts[0]), "throttle")
    story.happens(
        "incident_acknowledged", gpu(0), incident=story.updates[0].id, note="mine", user="ada"
    )
    for host in hosts[1:]:
        story.finds(gpu(0, host), "throttle")
    (common,) = story.fusion.open()
    assert (len(common.findings), common.acknowledged_ns) == (12, 0)


@pytest.mark.parametrize("out", [gpu(0), node()])
def test_nobody_is_told_of_what_happens_out_of_service(out: Device) -> None:
    """Of the device itself, or of its whole node."""
    story = Story()
    story.happens("maintenance_started", out, reason="new firmware")
    story.finds(gpu(0), "gpu_lost")
    story.wait(3600)
    assert story.updates == []


def test_links_of_a_gpu_that_is_out_of_service_open_nothing() -> None:
    """They end at the GPU that is being swapped; those of another GPU are watched."""
    links = [Device("n1", "nvlink", f"{gpu(n).id}/4") for n in (0, 1)]
    story = Story()
    story.happens("maintenance_started", gpu(0), reason="swapped")
    story.finds(links[0], "nvlink/link_down")
    assert story.open == {}
    story.finds(links[1], "nvlink/link_down")
    assert set(story.open) == {links[1].id}


def test_neighbours_of_a_device_out_of_service_are_watched() -> None:
    """One GPU is out; another of the node pages."""
    story = Story()
    story.happens("maintenance_started", gpu(0), reason="swapped")
    story.finds(gpu(1), "gpu_lost")
    assert story.open == {gpu(1).id: ("gpu", "gpu_lost", "page")}


def test_what_is_still_wrong_when_a_device_is_back_is_told_then() -> None:
    """A detector tells a fault once; it must not be lost because that was during maintenance."""
    story = Story()
    story.happens("maintenance_started", node(), reason="new firmware")
    story.finds(gpu(0), "gpu_lost")
    story.wait(3600)
    story.happens("maintenance_ended", node())
    assert story.open == {gpu(0).id: ("gpu", "gpu_lost", "page")}


def test_what_was_mended_out_of_service_is_never_told() -> None:
    """It began and ended meanwhile."""
    story = Story()
    story.happens("maintenance_started", node(), reason="new firmware")
    story.clears(story.finds(gpu(0), "gpu_lost"))
    story.happens("maintenance_ended", node())
    assert story.updates == []


def test_an_open_incident_is_a_record_while_its_device_is_out_of_service() -> None:
    """Taking the device out stops the page; bringing it back with the fault
    still there starts it again.
    """
    story = Story()
    story.finds(gpu(0), "gpu_lost")
    story.happens("maintenance_started", gpu(0), reason="swapped")
    story.happens("maintenance_ended", gpu(0))
    assert [i.severity for i in story.updates] == ["page", "record", "page"]
    assert len({i.id for i in story.updates}) == 1


def test_what_is_in_service_is_a_page_though_the_first_part_is_not() -> None:
    """Four nodes of a rack are hot for one cause; one of them is taken out, the others still
    make their job wait.
    """
    story = Story()
    story.nodes("n1", "n2", "n3", "n4", rack="r1")
    for host in ("n1", "n2", "n3", "n4"):
        story.finds(gpu(0, host, rack="r1"), "throttle")
    story.happens("maintenance_started", node("n1"), reason="new cold plate")
    assert story.open == {"r1": ("rack", "throttle", "page")}
    (rack,) = story.fusion.open()
    assert gpu(0, "n1").id not in rack.summary


def test_a_lemon_is_taken_on_like_everything_else() -> None:
    """It has no finding of its own, and people see who looks after it all the same."""
    story = Story()
    for fault in ("xid/gpu", "ecc", "pcie/replays", "thermal/resistance"):
        story.clears(story.finds(gpu(0), fault))
        story.wait(1200)
    (lemon,) = [one for one in story.updates if one.fault == "lemon"]
    story.happens("incident_acknowledged", node(), incident=lemon.id, note="burning in", user="ada")
    assert (story.updates[-1].id, story.updates[-1].note) == (lemon.id, "burning in")


def test_what_waits_for_its_neighbours_opens_nothing_out_of_service() -> None:
    """The second GPU of a node is taken out while it is open whether the node is to blame; it is
    reported when it is back.
    """
    story = Story()
    story.nodes("n1")
    story.finds(gpu(0), "gpu_lost")
    story.finds(gpu(1), "gpu_lost")
    story.happens("maintenance_started", gpu(1), reason="swapped")
    story.wait(60)
    assert story.open.keys() == {gpu(0).id}
    story.happens("maintenance_ended", gpu(1))
    assert story.open.keys() == {gpu(0).id, gpu(1).id}
