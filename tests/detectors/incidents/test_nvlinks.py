"""Faults of NVLinks and of the GPUs at their ends."""

from __future__ import annotations

from detectors.incidents.summary import name_of
from pipeline.frame import Device, frame_of
from tests.detectors.incidents.story import Story, gpu, node
from tests.fakes import START_NS

GPU, SWITCH = "0", "2"  # what a link ends at (nvml.h, nvmlIntNvLinkDeviceType_t)


def address(number: int) -> str:
    """PCI address of a GPU."""
    return f"00000000:{number:02X}:00.0"


def link(number: int, name: str = "4", to: int | None = None) -> Device:
    """An NVLink of a GPU, to a switch or to another GPU of the node."""
    uuid = gpu(number).id
    facts = {"index": str(number), "link": name, "gpu_uuid": uuid, "remote_type": SWITCH}
    if to is not None:
        facts |= {"remote_type": GPU, "remote_pci_bus_id": address(to).lower()}
    return Device("n1", "nvlink", f"{uuid}/{name}", facts)


def a_node() -> Story:
    """Eight GPUs."""
    story = Story()
    gpus = [gpu(n, index=str(n), pci_bus_id=address(n)) for n in range(8)]
    story.see(frames=[frame_of("gpu", [(device, {}) for device in gpus], START_NS, 0)])
    return story


def test_the_xid_of_a_gpu_and_its_link_that_is_down_are_one_incident() -> None:
    """Whichever comes first, the GPU is the root, and the link is named."""
    for order in (1, -1):
        story = a_node()
        faults = [(gpu(2, index="2"), "xid/nvlink"), (link(2), "nvlink/link_down")]
        for device, fault in faults[::order]:
            story.finds(device, fault)
            story.wait(30)
        (incident,) = story.fusion.open()
        assert (incident.root.id, incident.fault) == (gpu(2).id, "xid/nvlink")
        assert "Affected: NVLink 4 of GPU 2." in incident.summary


def test_an_xid_long_after_its_link_went_down_is_explained_by_the_link() -> None:
    """A program used the link that is down; the GPU is named."""
    story = a_node()
    story.finds(link(2), "nvlink/link_down")
    story.wait(3600)
    story.finds(gpu(2, index="2"), "xid/nvlink")
    (incident,) = story.fusion.open()
    assert incident.root.id == link(2).id
    assert "Affected: GPU 2." in incident.summary


def test_links_of_one_gpu_are_one_incident() -> None:
    """They are one repair; each is named."""
    story = a_node()
    for name in "123":
        story.finds(link(2, name), "nvlink/link_down")
    (incident,) = story.fusion.open()
    assert "Affected: NVLink 2 of GPU 2, NVLink 3 of GPU 2." in incident.summary


def test_two_gpus_whose_links_fail_are_two_incidents() -> None:
    """Behind a switch nothing connects them, nor where each has another neighbour."""
    for first, second in ((link(2), link(3)), (link(2, to=4), link(3, to=5))):
        story = a_node()
        story.finds(first, "nvlink/link_down")
        story.finds(gpu(2, index="2"), "xid/nvlink")
        story.finds(second, "nvlink/link_down")
        number = int(second.attributes["index"])
        story.finds(gpu(number, index=str(number)), "xid/nvlink")
        assert {one.root.id for one in story.fusion.open()} == {gpu(2).id, gpu(number).id}


def test_a_gpu_with_a_failed_link_to_a_broken_gpu_is_named() -> None:
    """Its XID may be of that link; it has another one that is down, and is named as well."""
    story = a_node()
    story.finds(link(2, to=4), "nvlink/link_down")
    story.finds(gpu(2, index="2"), "xid/nvlink")
    story.finds(link(4, "1", to=5), "nvlink/link_down")
    story.finds(gpu(4, index="4"), "xid/nvlink")
    named = " ".join(f"{name_of(one.root, node())} {one.summary}" for one in story.fusion.open())
    assert all(name in named for name in ("GPU 2", "GPU 4", "NVLink 4 of GPU 2", "NVLink 1 of GPU"))


def test_both_ends_of_a_link_between_two_gpus_are_one_incident() -> None:
    """It names both GPUs."""
    story = a_node()
    story.finds(link(2, to=5), "nvlink/link_down")
    story.finds(link(5, "0", to=2), "nvlink/link_down")
    story.finds(gpu(5, index="5"), "xid/nvlink")
    (incident,) = story.fusion.open()
    assert incident.root.id == gpu(5).id
    assert "Affected: NVLink 4 of GPU 2, NVLink 0 of GPU 5." in incident.summary


def test_a_lost_gpu_takes_the_links_to_it_along() -> None:
    """The GPUs at their other ends are healthy, and no root."""
    story = a_node()
    story.finds(gpu(5, index="5"), "gpu_lost")
    story.wait(30)
    for number in (2, 3):
        story.finds(link(number, to=5), "nvlink/link_down")
    assert [one.root.id for one in story.fusion.open()] == [gpu(5).id]


def test_a_link_belongs_to_the_job_of_its_gpu() -> None:
    """Also where the node has several jobs."""
    story = a_node()
    for job, number in (("41", 2), ("42", 3)):
        story.happens("job_started", node(), job=job, gpus=gpu(number).id)
    story.finds(link(2), "nvlink/link_down")
    story.finds(gpu(3), "hang/rank_stuck")
    first, second = story.fusion.open()
    assert (first.jobs, second.jobs) == (("41",), ("42",))
    story.finds(gpu(2), "hang/rank_stuck")
    assert len(story.fusion.open()) == 2


def test_half_of_the_gpus_of_a_node_with_their_links_are_one_incident() -> None:
    """The node is the root: what each link adds does not keep its GPU apart."""
    story = a_node()
    for number in range(4):
        story.finds(gpu(number, index=str(number)), "xid/nvlink")
        story.finds(link(number), "nvlink/link_down")
    story.wait(180)
    (incident,) = story.fusion.open()
    assert incident.root.kind == "node"


def test_a_link_whose_other_end_is_unknown_has_one_gpu() -> None:
    """What the driver calls a GPU may be one that is not read, as in a virtual machine."""
    story = a_node()
    far = link(2, to=77)
    story.finds(far, "nvlink/link_down")
    story.finds(gpu(2, index="2"), "xid/nvlink")
    assert [one.root.id for one in story.fusion.open()] == [gpu(2).id]
