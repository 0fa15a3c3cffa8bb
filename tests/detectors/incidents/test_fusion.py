"""Fusion: one cause is told once, with the device to blame."""

from __future__ import annotations

import pytest

from detectors.incidents.joining import MAX_FINDINGS
from detectors.incidents.lemon import Lemons
from pipeline.finding import Finding, Severity
from pipeline.frame import Device, frame_of
from tests.detectors.incidents.story import Story, gpu, node, port
from tests.fakes import START_NS


def test_a_page_is_an_incident_that_blames_its_device() -> None:
    """Told once, with the finding's own words and action, and why."""
    story = Story()
    found = story.finds(gpu(3), "gpu_lost", action="RESTART_BM")
    story.wait(300)
    (updates,) = story.updates
    assert (updates.root, updates.fault, updates.severity, updates.action) == (
        gpu(3),
        "gpu_lost",
        "page",
        "RESTART_BM",
    )
    assert updates.findings == (found.id,)
    assert updates.summary == found.summary
    assert updates.reason.startswith("Drain the node and power-cycle it: ")


def test_records_open_nothing_and_join_what_is_open() -> None:
    """Nobody is told of a record; beside a page about the same device it is evidence."""
    story = Story()
    story.finds(gpu(1), "ecc", "record")
    page, later = story.finds(gpu(0), "gpu_lost"), story.finds(gpu(0), "ecc", "record", "late")
    assert [i.findings for i in story.updates] == [(page.id,), (page.id, later.id)]


def test_records_keep_nothing_open() -> None:
    """A job that still waits a little is no page about the rank that hung."""
    story = Story()
    hung = story.finds(gpu(0), "hang/rank_stuck")
    story.wait(60)
    story.finds(gpu(0), "starvation/communication", "record")
    story.wait(600)
    story.clears(hung)
    story.wait(1200)
    assert not story.open
    assert [incident.fault for incident in story.updates if not incident.active] == [
        "hang/rank_stuck"
    ]


def test_what_was_recorded_a_moment_before_is_the_first_evidence() -> None:
    """The kernel's line comes a second before the driver's state: the page has both, in their
    order, and the words of the page.
    """
    story = Story()
    first = story.finds(gpu(0), "xid/gpu", "record", "early")
    story.wait(2, step=1)
    page = story.finds(gpu(0), "gpu_lost")
    (updates,) = story.updates
    assert (updates.findings, updates.fault) == ((first.id, page.id), "gpu_lost")


@pytest.mark.parametrize("cleared", [True, False])
def test_records_that_ended_or_are_old_are_no_evidence(cleared: bool) -> None:
    """Ended a minute ago, or recorded an hour ago."""
    story = Story()
    before = story.finds(gpu(0), "ecc", "record", "early")
    if cleared:
        story.clears(before)
    story.wait(60 if cleared else 3600)
    page = story.finds(gpu(0), "gpu_lost")
    assert story.updates[0].findings == (page.id,)


def test_a_gpu_that_is_slower_beside_a_bad_port_is_an_incident_of_its_own() -> None:
    """The port delays its job; a GPU that waits for it does not lose its clock."""
    story = Story()
    story.finds(port(0), "ib_ber")
    story.wait(1800)
    story.finds(gpu(3), "straggler")
    assert set(story.open) == {port(0).id, gpu(3).id}


def test_a_record_never_names_the_class_of_a_page() -> None:
    """Memory errors weigh more than throttling, but here they were only recorded."""
    story = Story()
    story.finds(gpu(0), "ecc", "record", "early")
    story.finds(gpu(0), "throttle", "page")
    assert story.open == {gpu(0).id: ("gpu", "throttle", "page")}


def test_findings_about_one_device_are_one_incident_in_the_order_of_evidence() -> None:
    """Memory errors, then the XID they end in: one page, for the XID, with both behind it."""
    story = Story()
    first = story.finds(gpu(0), "ecc", "ticket")
    story.wait(3600)
    second = story.finds(gpu(0), "xid/gpu", "page")
    assert [(i.fault, i.severity, i.findings) for i in story.updates] == [
        ("ecc", "ticket", (first.id,)),
        ("xid/gpu", "page", (first.id, second.id)),
    ]
    assert len(story.pages) == 1


def test_a_further_fault_of_the_root_is_told_however_many_there_were_before() -> None:
    """A GPU whose rows fail again and again has an incident with many findings: that its spare rows
    are gone is news all the same.
    """
    story = Story()
    story.finds(gpu(0), "ecc/remaps_repeat", "ticket")
    for _ in range(9):
        story.wait(60)
        story.finds(gpu(0), "ecc/uncorrectable", "ticket")
    before = len(story.updates)
    gone = story.finds(gpu(0), "ecc/spare_rows_gone", "ticket")
    story.wait(60)
    assert [gone.id in incident.findings for incident in story.updates[before:]] == [True]


def test_a_symptom_inherits_its_cause() -> None:
    """A GPU is slow, then its throttling is seen: the class is throttle, not straggler."""
    story = Story()
    story.finds(gpu(0), "straggler", "ticket")
    story.finds(gpu(0), "throttle", "page")
    assert story.open == {gpu(0).id: ("gpu", "throttle", "page")}


def test_two_nodes_with_the_same_fault_are_two_incidents() -> None:
    """Nothing joins GPUs of different nodes."""
    story = Story()
    for host in ("n1", "n2"):
        story.finds(gpu(0, host), "gpu_lost")
    assert len(story.open) == len(story.pages) == 2


def test_a_link_that_is_down_at_both_ends_is_one_incident_about_a_port() -> None:
    """Not two nodes: each end names the other."""
    story = Story()
    here, there = port(0, "n1"), port(7, "leaf1")
    story.finds(port(0, "n1", peer=there.id), "ib/link_down")
    story.finds(port(7, "leaf1", peer=here.id), "ib/link_down")
    assert story.open == {here.id: ("ib_port", "ib/link_down", "page")}


def test_a_hang_inherits_the_xid_of_a_gpu_of_its_job() -> None:
    """The job stands still and one of its GPUs has fallen: that GPU is to
    blame, whichever came first.
    """
    story = Story()
    story.nodes("n1", "n2")
    for host in ("n1", "n2"):
        story.happens(
            "job_started", node(host), job="42", gpus=" ".join(gpu(n, host).id for n in range(8))
        )
    story.finds(gpu(0, "n1"), "hang")
    story.finds(gpu(5, "n2"), "xid/gpu")
    assert story.open == {gpu(5, "n2").id: ("gpu", "xid/gpu", "page")}


@pytest.mark.parametrize(("minutes", "later_s"), [(2, 0), (50, 0), (50, 300)])
def test_the_gpu_that_alone_repeats_a_code_takes_over_the_incident_of_its_job(
    minutes: int, later_s: int
) -> None:
    """The program is exonerated and its GPU is named, at once or minutes after: one
    incident, the same one, with another root.
    """
    story = Story()
    story.nodes("n1")
    story.happens("job_started", node(), job="42", gpus=" ".join(gpu(n).id for n in range(8)))
    program = story.finds(Device("", "job", "42"), "xid/application", "ticket")
    story.wait(minutes * 60)
    story.clears(program)
    story.wait(later_s)
    story.finds(gpu(3), "xid/repeated", "ticket")
    assert story.open == {gpu(3).id: ("gpu", "xid/repeated", "ticket")}
    assert len({incident.id for incident in story.updates}) == 1


def test_a_gpu_that_repeats_a_code_is_told_beside_a_job_that_is_still_blamed() -> None:
    """Other GPUs of the job failed too: its ticket stands, and the GPU has one of its own."""
    story = Story()
    story.nodes("n1")
    story.happens("job_started", node(), job="42", gpus=" ".join(gpu(n).id for n in range(8)))
    story.finds(Device("", "job", "42"), "xid/application", "ticket")
    story.wait(3000)
    story.finds(gpu(3), "xid/repeated", "ticket")
    assert story.open.keys() == {"42", gpu(3).id}


def test_a_failed_program_before_a_stall_does_not_blame_its_job_for_it() -> None:
    """The page names the node that the others wait for, not the ticket
    about the job minutes before.
    """
    story = Story()
    story.nodes("n1", "n2")
    gpus = " ".join(gpu(n, "n1").id for n in range(8))
    story.happens("job_started", node("n1"), job="42", gpus=gpus)
    story.happens(
        "job_started", node("n2"), job="42", gpus=" ".join(gpu(n, "n2").id for n in range(8))
    )
    story.finds(Device("", "job", "42"), "xid/application", "ticket")
    story.wait(120)
    story.finds(node("n2"), "hang/rank_stuck", "page")
    assert [(i.root, i.fault, i.severity) for i in story.updates if i.severity == "page"] == [
        (node("n2"), "hang/rank_stuck", "page")
    ]


def test_half_of_the_gpus_of_a_node_at_once_blame_the_node_without_a_second_page() -> None:
    """The brake on half of them in seconds: the incident keeps its id, and names the node and each
    of them from then on.
    """
    story = Story()
    story.nodes("n1")
    for number in range(4):
        story.finds(gpu(number), "throttle")
        story.wait(5)
    assert story.open == {"n1": ("node", "throttle", "page")}
    assert len(story.pages) == 1
    assert [i.root.kind for i in story.updates] == ["gpu", "node"]
    assert all(gpu(number).id in story.updates[-1].summary for number in range(4))


def test_gpus_of_a_node_that_fail_one_after_the_other_become_the_node_s_at_half_of_them() -> None:
    """Each is reported within half a minute; the fourth makes it the node's."""
    story = Story()
    story.nodes("n1")
    for number in range(3):
        story.finds(gpu(number), "throttle")
        story.wait(30)
        assert len(story.open) == number + 1
    story.finds(gpu(3), "throttle")
    assert story.open == {"n1": ("node", "throttle", "page")}


def test_some_gpus_of_a_node_do_not_blame_the_node() -> None:
    """Three of eight at once are three incidents, half a minute later."""
    story = Story()
    story.nodes("n1")
    for number in range(3):
        story.finds(gpu(number), "throttle")
    assert story.open == {gpu(0).id: ("gpu", "throttle", "page")}
    story.wait(30)
    assert story.open.keys() == {gpu(number).id for number in range(3)}


def test_what_ends_while_it_waits_for_its_neighbours_is_not_reported() -> None:
    """Two GPUs at once, the second for five seconds."""
    story = Story()
    story.nodes("n1")
    story.finds(gpu(0), "throttle")
    second = story.finds(gpu(1), "throttle")
    story.wait(5)
    story.clears(second)
    story.wait(60)
    assert story.open.keys() == {gpu(0).id}


LARGE = tuple(f"n{n}" for n in range(8))


def rack_of(story: Story, *hosts: str, severity: Severity = "page") -> None:
    """In each of these nodes of one rack a GPU grows hot."""
    for host in hosts:
        story.finds(gpu(0, host, rack="r7"), "thermal/hw_slowdown", severity)
        story.wait(30)


def test_hot_gpus_of_a_rack_are_incidents_of_their_own_until_they_are_half_of_it() -> None:
    """Cold plates may come loose in the same minutes, and each must be heard of; of eight nodes the
    fourth makes it the rack's, in one incident.
    """
    story = Story()
    story.nodes(*LARGE, rack="r7")
    for n, host in enumerate(LARGE[:3], 1):
        rack_of(story, host)
        assert len(story.open) == n
    rack_of(story, LARGE[3])
    assert story.open == {"r7": ("rack", "thermal/hw_slowdown", "page")}


def test_three_racks_that_warm_up_are_three_incidents() -> None:
    """Each holds many GPUs, and each has its own pump: a common cause is told by many incidents,
    not by many devices in a few.
    """
    story = Story()
    racks = [Device("", "rack", f"r{n}") for n in range(3)]
    for number, rack in enumerate(racks):
        hosts = [f"r{number}n{n}" for n in range(4)]
        story.nodes(*hosts, rack=rack.id)
        story.finds(rack, "thermal/cooling", "page")
        for host in hosts:
            story.finds(gpu(0, host, rack=rack.id), "thermal/imminent", "ticket")
    assert story.open.keys() == {rack.id for rack in racks}


def test_a_node_that_follows_its_rack_later_is_part_of_it() -> None:
    """The rack is known to be the matter: who grows hot in it half an hour
    later pages nobody again.
    """
    story = Story()
    story.nodes(*LARGE, rack="r7")
    rack_of(story, *LARGE[:4])
    pages = story.pages
    story.wait(1800)
    rack_of(story, LARGE[4])
    assert story.open == {"r7": ("rack", "thermal/hw_slowdown", "page")}
    assert [
        page
        for page in story.pages
        if page not in pages and page in {i.id for i in story.fusion.open()}
    ] == []


def test_gpus_that_grow_hot_hours_apart_are_no_rack_s_though_clocks_step_back() -> None:
    """Three nodes an hour ago, told of more since; then the wall clock is set back, and the
    fourth is a case of its own.
    """
    story = Story()
    story.nodes(*LARGE, rack="r7")
    rack_of(story, *LARGE[:3])
    story.wait(3600)
    for host in LARGE[:3]:
        story.finds(gpu(0, host, rack="r7"), "thermal/resistance", "ticket")
    rack_of(story, LARGE[3])
    assert len(story.open) == 4


def test_what_is_only_recorded_makes_no_rack_of_pages() -> None:
    """GPUs are lost in four nodes, and a detector in shadow mode finds them warm:
    four pages, of four GPUs.
    """
    story = Story()
    story.nodes(*LARGE, rack="r7")
    for host in LARGE[:4]:
        story.finds(gpu(0, host, rack="r7"), "gpu_lost", "page")
        story.finds(gpu(0, host, rack="r7"), "thermal/resistance", "record")
    assert len(story.open) == 4


def test_whoever_took_on_one_of_them_has_taken_on_the_rack() -> None:
    """Somebody is on the way to the second node: their note stays when the incidents become one."""
    story = Story()
    story.nodes(*LARGE, rack="r7")
    rack_of(story, *LARGE[:3])
    second = next(i for i in story.fusion.open() if i.root == gpu(0, LARGE[1], rack="r7"))
    story.happens("incident_acknowledged", node(), incident=second.id, note="on my way", user="ada")
    rack_of(story, LARGE[3])
    (one,) = story.fusion.open()
    assert (one.note, one.acknowledged_by) == ("on my way", "ada")


def test_a_further_fault_that_ended_is_told_again_when_it_comes_back() -> None:
    """Two hours later it is news once more, however many findings the incident has."""
    story = Story()
    for _ in range(9):
        story.finds(gpu(0), "ecc/uncorrectable", "ticket")
        story.wait(60)
    rows = story.finds(gpu(0), "ecc/spare_rows_low", "ticket")
    story.clears(rows)
    story.wait(7200)
    before = len(story.updates)
    again = story.finds(gpu(0), "ecc/spare_rows_low", "ticket")
    assert [again.id in incident.findings for incident in story.updates[before:]] == [True]


def stalled_job(story: Story, *hosts: str) -> None:
    """One job on all GPUs of these nodes."""
    story.nodes(*hosts)
    for host in hosts:
        story.happens(
            "job_started", node(host), job="42", gpus=" ".join(gpu(n, host).id for n in range(8))
        )


def test_a_second_break_in_a_stalled_job_is_an_incident_of_its_own_and_takes_the_stall_over() -> (
    None
):
    """An NVLink of each of two nodes goes down: two pages, and the stall belongs to the second
    once the first is repaired.
    """
    story = Story()
    stalled_job(story, "n1", "n2")
    first = story.finds(gpu(0, "n1"), "nvlink/link_down")
    stall = story.finds(gpu(0, "n1"), "hang", detector="hang")
    story.wait(240)
    story.finds(gpu(5, "n2"), "nvlink/link_down")
    assert story.open.keys() == {gpu(0, "n1").id, gpu(5, "n2").id}
    story.clears(first)
    story.wait(1200)
    (left,) = story.fusion.open()
    assert (left.root, stall.id in left.findings) == (gpu(5, "n2"), True)


def test_a_stall_that_outlives_its_cause_is_an_incident() -> None:
    """The link is up again, and the job still does not move: reported two minutes later."""
    story = Story()
    stalled_job(story, "n1")
    first = story.finds(gpu(0, "n1"), "nvlink/link_down")
    story.finds(gpu(0, "n1"), "hang", detector="hang")
    story.clears(first)
    story.wait(60)
    assert story.open == {gpu(0, "n1").id: ("gpu", "nvlink/link_down", "page")}
    story.wait(120)
    assert story.open == {gpu(0, "n1").id: ("gpu", "hang", "page")}


def test_a_gpu_that_fails_long_after_its_job_stalled_did_not_stall_it() -> None:
    """The stall began five minutes before: two incidents."""
    story = Story()
    stalled_job(story, "n1")
    story.finds(gpu(0, "n1"), "hang", detector="hang")
    story.wait(300)
    story.finds(gpu(5, "n1"), "gpu_lost")
    assert story.open.keys() == {gpu(0, "n1").id, gpu(5, "n1").id}


def test_the_job_of_a_gpu_that_was_lost_is_that_of_a_moment_ago() -> None:
    """Its processes end before the driver says that it is gone."""
    story = Story()
    stalled_job(story, "n1")
    rest = " ".join(gpu(n).id for n in range(7))
    story.happens("job_started", node(), job="42", gpus=rest)
    story.happens("job_started", node(), job="43", gpus=gpu(7, "n2").id)
    story.wait(10)
    story.finds(gpu(7), "gpu_lost")
    story.finds(gpu(0), "hang", detector="hang")
    assert story.open.keys() == {gpu(7).id}


@pytest.mark.parametrize("many", [9, 40])
def test_a_break_elsewhere_is_an_incident_however_much_waits_for_the_first_one(many: int) -> None:
    """Each broken device is the root of its own."""
    story = Story()
    hosts = [f"n{number}" for number in range(many + 1)]
    stalled_job(story, *hosts)
    story.finds(gpu(0, "n0"), "gpu_lost")
    for host in hosts[1:]:
        story.finds(gpu(0, host), "hang")
    assert len(story.open) == 1
    for host in hosts[1:4]:
        story.finds(gpu(2, host), "nvlink/link_down")
    assert story.open.keys() == {gpu(0, "n0").id, *(gpu(2, host).id for host in hosts[1:4])}


def test_a_break_beside_a_node_that_went_down_is_an_incident() -> None:
    """All GPUs of a node are gone; a link of another node of its job is
    not repaired by its reboot.
    """
    story = Story()
    stalled_job(story, "n1", "n2")
    for number in range(8):
        story.finds(gpu(number, "n1"), "gpu_lost")
    story.finds(gpu(0, "n1"), "hang", detector="hang")
    story.finds(gpu(5, "n2"), "nvlink/link_down")
    assert story.open.keys() == {"n1", gpu(5, "n2").id}


def test_both_ends_of_a_link_and_all_that_a_switch_holds_are_one_incident() -> None:
    """Who repairs the cable or the switch repairs them; the ports of the switch are named."""
    story = Story()
    here, there = port(0, "n1"), port(7, "leaf1")
    story.finds(port(0, "n1", peer=there.id), "ib/link_down")
    story.finds(port(7, "leaf1", peer=here.id), "ib/link_down")
    switch = Story()
    switch.nodes("n1", "n2")
    switch.finds(Device("leaf1", "switch", "leaf1"), "ib/switch_down")
    for host in ("n1", "n2"):
        switch.finds(port(0, host, leaf="leaf1"), "ib/link_down")
    assert len(story.open) == 1
    assert "Affected" not in story.updates[-1].summary
    assert switch.open.keys() == {"leaf1"}
    assert "Affected: ib_port n1-0 of n1, ib_port n2-0 of n2." in switch.updates[-1].summary


def test_the_newest_fault_of_the_root_stands_in_its_summary() -> None:
    """Who reads the one line sees what came last, not only what was first."""
    story = Story()
    story.finds(gpu(0), "ecc/remaps_repeat", "ticket")
    story.wait(60)
    story.finds(gpu(0), "ecc/spare_rows_gone", "ticket")
    assert story.updates[-1].summary == (
        "ecc/remaps_repeat it is. It explains 2 findings (ecc). Newest: ecc/spare_rows_gone it is."
    )


def test_most_nodes_of_a_rack_blame_the_rack() -> None:
    """Heat in three of four nodes of a rack is the rack's; in two of three it is two nodes'."""
    for hosts, roots in ((LARGE[:4], {"r7"}), (LARGE[:3], {gpu(0, "n0").id, gpu(0, "n1").id})):
        story = Story()
        story.nodes(*hosts, rack="r7")
        rack_of(story, *hosts[:-1], severity="ticket")
        assert story.open.keys() == roots


def test_most_ports_of_a_leaf_switch_blame_the_switch() -> None:
    """Two of its three ports are down at once."""
    story = Story()
    ports = [port(0, host, leaf="leaf1") for host in ("n1", "n2", "n3")]
    story.see(frames=[frame_of("ib_port", [(p, {}) for p in ports], START_NS, 0)])
    for device in ports[:2]:
        story.finds(device, "ib/link_down")
    assert story.open == {"leaf1": ("switch", "ib/link_down", "page")}


def test_cables_of_one_leaf_switch_that_fail_minutes_apart_are_incidents_of_their_own() -> None:
    """What a switch does to its ports it does to all at once."""
    story = Story()
    ports = [port(0, host, leaf="leaf1") for host in ("n1", "n2", "n3", "n4", "n5")]
    story.see(frames=[frame_of("ib_port", [(p, {}) for p in ports], START_NS, 0)])
    story.finds(ports[0], "ib/link_down")
    story.wait(180)
    story.finds(ports[1], "ib/link_down")
    assert len(story.pages) == 2


def test_what_has_long_been_wrong_with_a_node_hides_no_page_of_its_devices() -> None:
    """A setting that differs is a ticket for weeks; a GPU that falls off the bus meanwhile is a
    page, and so is the next.
    """
    story = Story()
    story.nodes("n1")
    story.finds(node(), "drift", "ticket")
    for number in (3, 5):
        story.wait(3600)
        story.finds(gpu(number), "gpu_lost")
    assert len(story.pages) == 2
    assert {gpu(3).id, gpu(5).id, node().id} == story.open.keys()


def test_two_gpus_of_a_job_with_memory_errors_are_two_incidents() -> None:
    """In one minute; days later, the first still not repaired, the second loses its memory for
    good, and its incident becomes a page.
    """
    story = Story()
    stalled_job(story, "n1", "n2")
    story.finds(gpu(0, "n1"), "xid/memory", "ticket")
    story.finds(gpu(1, "n2"), "xid/memory", "ticket")
    assert len(story.open) == 2
    story.finds(gpu(0, "n1"), "ecc", "page", "ecc")
    story.wait(86_400, step=600)
    story.finds(gpu(1, "n2"), "ecc/remap_failed", "page", "ecc")
    assert story.open[gpu(1, "n2").id] == ("gpu", "ecc/remap_failed", "page")
    assert len(story.pages) == 2


def test_more_of_what_a_node_is_known_to_have_is_explained_by_it() -> None:
    """Its power brake has been pulled for an hour; a GPU of it that begins to
    throttle for that is no news.
    """
    story = Story()
    story.nodes("n1")
    story.finds(node(), "throttle/hw_power_brake")
    story.wait(3600)
    story.finds(gpu(3), "throttle/hw_power_brake")
    story.finds(gpu(4), "straggler")
    assert len(story.pages) == len(story.open) == 1


def test_a_repaired_page_leaves_what_is_still_open_and_pages_again_when_it_comes_back() -> None:
    """A ticket about the same GPU stands all the time."""
    story = Story()
    story.finds(gpu(0), "ecc", "ticket")
    story.clears(story.finds(gpu(0), "xid/gpu", detector="xid"))
    story.wait(1200)
    assert story.open == {gpu(0).id: ("gpu", "ecc", "ticket")}
    story.finds(gpu(0), "xid/gpu", detector="xid")
    assert story.open == {gpu(0).id: ("gpu", "xid/gpu", "page")}


def test_adapters_that_die_on_one_leaf_switch_are_incidents_of_their_own() -> None:
    """No switch makes an adapter's firmware stop; each node has to be repaired."""
    story = Story()
    ports = [port(0, host, leaf="leaf1") for host in ("n1", "n2", "n3")]
    story.see(frames=[frame_of("ib_port", [(p, {}) for p in ports], START_NS, 0)])
    for device in ports[:2]:
        story.finds(device, "ib/adapter_health")
        story.finds(device, "ib/adapter_gone")
    assert story.open.keys() == {device.id for device in ports[:2]}


def test_the_end_of_an_old_fault_draws_no_later_one_to_it() -> None:
    """A node of the rack throttled for an hour; the one that begins as it
    ends has a cause of its own.
    """
    story = Story()
    story.nodes("n1", "n2", "n3", "n4", rack="r1")
    first = story.finds(gpu(0, "n1"), "throttle")
    story.wait(3600)
    story.clears(first)
    story.finds(gpu(0, "n2"), "throttle")
    assert len(story.pages) == 2


def test_an_incident_ends_ten_minutes_after_its_last_finding() -> None:
    """Cleared at five minutes: ended at fifteen, not before."""
    story = Story()
    found = story.finds(gpu(0), "ecc")
    story.wait(300)
    story.clears(found)
    story.wait(599, step=599)
    assert story.open
    story.wait(1)
    assert not story.open
    assert story.updates[-1].cleared_ns == START_NS + 900 * 10**9


def test_an_incident_does_not_end_while_a_finding_stands() -> None:
    """One of two has cleared an hour ago."""
    story = Story()
    first = story.finds(gpu(0), "ecc")
    story.finds(gpu(0), "throttle", "ticket", "another")
    story.clears(first)
    story.wait(3600)
    assert story.open


def test_what_comes_back_within_ten_minutes_is_the_same_incident() -> None:
    """A fault that comes and goes pages once."""
    story = Story()
    for _ in range(5):
        found = story.finds(gpu(0), "throttle")
        story.wait(60)
        story.clears(found)
        story.wait(300)
    assert len(story.pages) == 1


def test_what_comes_back_later_is_another_incident() -> None:
    """After the end somebody has to look again."""
    story = Story()
    for _ in range(2):
        story.clears(story.finds(gpu(0), "throttle"))
        story.wait(1200)
    assert len(story.pages) == 2


def test_one_fault_on_many_nodes_at_once_is_one_common_incident() -> None:
    """The eleventh device within ten minutes: the others end as part of the
    first, and the next are muted.
    """
    story = Story()
    hosts = [f"n{n}" for n in range(15)]
    story.nodes(*hosts)
    for host in hosts:
        story.finds(gpu(0, host), "ecc")
    assert len(story.open) == 1
    assert len(story.pages) == 10
    parts = [i for i in story.updates if not i.active]
    assert {i.summary.split(":")[0] for i in parts} == {
        f"Part of incident {story.fusion.open()[0].id}"
    }
    assert story.fusion.open()[0].root.kind == "cluster"


def tickets_of_different_hours() -> tuple[Story, list[Device]]:
    """Fifteen GPUs that became slow one by one, twenty minutes apart."""
    story, slow = Story(), [gpu(0, f"n{n}") for n in range(15)]
    story.nodes(*(one.host for one in slow))
    for one in slow:
        story.finds(one, "throttle", "ticket")
        story.wait(1200)
    return story, slow


def test_incidents_of_different_hours_that_grow_at_once_have_no_common_cause() -> None:
    """Each has one more symptom."""
    story, slow = tickets_of_different_hours()
    for one in slow:
        story.finds(one, "throttle/power_cap", "ticket")
    assert len(story.open) == len(slow)


def test_many_tickets_that_become_pages_at_once_are_one_page() -> None:
    """However old each ticket is."""
    story, slow = tickets_of_different_hours()
    for one in slow:
        story.finds(one, "throttle/power_cap", "page")
    pages = {incident.id for incident in story.fusion.open() if incident.severity == "page"}
    assert len(pages) == 1


def test_what_devices_had_in_common_mutes_neither_later_nor_other_faults() -> None:
    """An hour after the storm a page of its class is a page again; one of
    another class always was.
    """
    story = Story()
    hosts = [f"n{n}" for n in range(15)]
    story.nodes(*hosts)
    for host in hosts[:12]:
        story.finds(gpu(0, host), "ecc")
    before = len(story.open)
    story.finds(gpu(1, hosts[12]), "gpu_lost")
    story.wait(3600)
    story.finds(gpu(0, hosts[13]), "ecc")
    assert len(story.open) == before + 2


def test_what_devices_had_in_common_ends_when_all_of_them_are_well() -> None:
    """Also those that were well before it was known to be common."""
    story = Story()
    hosts = [f"n{n}" for n in range(15)]
    story.nodes(*hosts)
    found = [story.finds(gpu(0, host), "ecc") for host in hosts[:8]]
    for one in found[:4]:
        story.clears(one)
    found += [story.finds(gpu(0, host), "ecc") for host in hosts[8:]]
    for one in found[4:]:
        story.clears(one)
    story.wait(1200)
    assert not story.open


def test_many_faults_of_different_classes_are_no_common_cause() -> None:
    """Eleven nodes, two classes: nothing joins them."""
    story = Story()
    hosts = [f"n{n}" for n in range(12)]
    story.nodes(*hosts)
    for number, host in enumerate(hosts):
        story.finds(gpu(0, host), "ecc" if number % 2 else "throttle")
    assert len(story.open) == 12


def test_a_page_beside_many_tickets_of_its_class_stays_a_page_of_its_own() -> None:
    """A dozen tickets are one ticket; a page that comes before or after them keeps its device and
    does not make them a page.
    """
    story = Story()
    hosts = [f"n{n}" for n in range(14)]
    story.nodes(*hosts)
    story.finds(gpu(0, "n0"), "ecc", "page")
    for host in hosts[1:-1]:
        story.finds(gpu(0, host), "ecc", "ticket")
    story.finds(gpu(0, "n13"), "ecc", "page")
    updates = {(i.root.kind, i.root.host, i.severity) for i in story.fusion.open()}
    assert updates == {("gpu", "n0", "page"), ("gpu", "n13", "page"), ("cluster", "", "ticket")}


@pytest.mark.parametrize(("days", "is_reported"), [(5, True), (60, False)])
def test_a_node_with_many_small_faults_is_a_lemon(days: float, is_reported: bool) -> None:
    """Six weak faults of different kinds within thirty days are reported at the sixth at the
    latest, of the node; over a year they are not.
    """
    story = Story()
    for fault in ("ecc", "power", "pcie/replays", "thermal/resistance", "ib/errors", "nvlink/crc"):
        story.clears(story.finds(gpu(0), fault, "ticket"))
        story.wait(days * 86400, step=3600)
    lemons = [i for i in story.updates if i.fault == "lemon" and i.active]
    assert [i.root for i in lemons] == [node()] * is_reported
    assert all(i.severity == "ticket" for i in lemons)


@pytest.mark.parametrize("fault", ["gpu_lost", "gpu_absent", "gpu_hung", "gpu_unreadable"])
def test_a_node_none_of_whose_gpus_answers_is_one_incident_and_no_lemon(fault: str) -> None:
    """A driver that is gone, or hangs: the node is to blame."""
    story = Story()
    story.nodes("n1")
    for number in range(8):
        story.finds(gpu(number), fault)
    assert [(one.root, one.fault) for one in story.fusion.open()] == [(node(), fault)]


def test_programs_that_fail_make_no_lemon_of_their_node() -> None:
    """Where no job is known a program's XID is told of its GPU: what users do wrong says
    nothing about the node (H23).
    """
    story = Story()
    for n in range(8):
        story.clears(story.finds(gpu(n), "xid/application", "ticket"))
        story.wait(86400, step=3600)
    assert [i for i in story.updates if i.fault == "lemon"] == []


def test_a_link_that_flaps_for_days_makes_no_lemon_of_its_node() -> None:
    """F20: each spell may be an incident of its own; the fault is one."""
    story = Story()
    for _ in range(12):
        story.clears(story.finds(gpu(0), "nvlink/crc", "ticket"))
        story.wait(86400 / 2, step=3600)
    assert [i for i in story.updates if i.fault == "lemon"] == []


def test_one_kind_of_fault_on_many_gpus_within_a_day_makes_no_lemon() -> None:
    """What strikes one device after the other has one cause, which mostly is not the node's:
    cooling, a driver, a switch.
    """
    story = Story()
    for n in range(8):
        story.clears(story.finds(gpu(n), "thermal/resistance", "ticket"))
        story.wait(7200, step=600)
    assert [i for i in story.updates if i.fault == "lemon"] == []


def test_a_node_that_had_enough_before_the_limit_was_lowered_is_told_with_its_next_fault() -> None:
    """A count that an older agent left behind: nobody had been told of it."""
    story = Story()
    memory = Lemons()
    for kind in ("ecc", "xid", "pcie", "thermal"):
        memory.count(node().host, kind, "gpu GPU-1", START_NS)
    story.fusion._lemons.prepare(memory.state())()
    story.finds(gpu(0), "power", "ticket")
    assert [i.root for i in story.updates if i.fault == "lemon"] == [node()]


def test_each_of_the_first_findings_is_told_then_only_doublings() -> None:
    """A storm about one device does not write a row per line: 8 single
    ones, then at 16, 32 and 64.
    """
    story = Story()
    for number in range(100):
        story.finds(gpu(0), "xid/gpu", detector=f"d{number}")
    assert [len(i.findings) for i in story.updates] == [*range(1, 9), 16, 32, 64]


@pytest.mark.slow
def test_a_storm_costs_bounded_memory() -> None:
    """Of many thousand findings about one device a thousand are kept."""
    story = Story()
    for number in range(3000):
        story.finds(gpu(0), "xid/gpu", detector=f"d{number}")
    assert len(story.fusion.open()[0].findings) == 1000


@pytest.mark.slow
def test_two_thousand_findings_in_a_second_are_one_incident() -> None:
    """All GPUs of 250 nodes at once: no node alone is to blame, and the first ones are named."""
    story = Story()
    hosts = [f"n{number}" for number in range(250)]
    story.nodes(*hosts)
    story.see(
        findings=[
            Finding("d", gpu(n, host), "gpu_lost", "onset", "page", START_NS, START_NS, "Lost.")
            for host in hosts
            for n in range(8)
        ]
    )
    (one,) = story.fusion.open()
    assert (one.root.kind, len(one.findings)) == ("cluster", MAX_FINDINGS)
    assert one.summary.startswith("cluster: Lost. Affected: gpu GPU-n0-0 of n0, ")
