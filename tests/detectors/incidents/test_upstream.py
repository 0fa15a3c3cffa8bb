"""A switch or rail as the root cause: of slow ports, and of the jobs behind it."""

from __future__ import annotations

import pytest

from pipeline.frame import Device, frame_of
from tests.detectors.incidents.story import Story, gpu, node, port
from tests.fakes import START_NS

HOSTS = tuple(f"n{number}" for number in range(16))


def fabric(**facts: str) -> tuple[Story, list[Device]]:
    """Sixteen nodes with a port each, in two jobs."""
    story, ports = Story(), [port(0, host, **facts) for host in HOSTS]
    story.nodes(*HOSTS, gpus=1)
    story.see(frames=[frame_of("ib_port", [(one, {}) for one in ports], START_NS, 0)])
    for number, host in enumerate(HOSTS):
        job = f"job{number // 8}"
        story.happens("job_started", node(host), job=job, gpus=gpu(0, host).id)
    return story, ports


@pytest.mark.parametrize(
    ("facts", "root"),
    [
        ({"leaf": "leaf1"}, "leaf1"),
        ({"rail": "3"}, "3"),
        ({"device": "mlx5_3", "port": "1"}, "mlx5_3/1"),
    ],
)
def test_most_ports_of_a_leaf_that_carry_less_are_one_incident(
    facts: dict[str, str], root: str
) -> None:
    """Of the switch, or of the rail where the switch is not known."""
    story, ports = fabric(**facts)
    for one in ports[:10]:
        story.finds(one, "straggler", "ticket")
    assert story.open == {root: ("switch" if "leaf" in facts else "rail", "straggler", "ticket")}


def test_a_few_slow_ports_of_a_rail_are_ports() -> None:
    """Seven of sixteen, where nobody knows how many ports a switch has."""
    story, ports = fabric(rail="3")
    for one in ports[:7]:
        story.finds(one, "straggler", "ticket")
    story.wait(180)
    assert len(story.open) == 7


def test_a_dead_switch_is_why_all_jobs_behind_it_wait() -> None:
    """Two jobs: one incident, which names both, and a page since they stand still."""
    story, _ = fabric(leaf="leaf1")
    story.finds(Device("leaf1", "switch", "leaf1"), "ib/switch_down", "ticket")
    for host in ("n0", "n9"):
        story.finds(gpu(0, host), "hang/undecided", detector="hang")
    assert story.open == {"leaf1": ("switch", "ib/switch_down", "page")}
    assert set(story.updates[-1].jobs) >= {"job0", "job1"}


def test_a_job_elsewhere_waits_for_something_else() -> None:
    """It has no port on the dead switch."""
    story, _ = fabric(leaf="leaf1")
    story.nodes("far", gpus=1)
    story.happens("job_started", node("far"), job="other", gpus=gpu(0, "far").id)
    story.finds(Device("leaf1", "switch", "leaf1"), "ib/switch_down", "ticket")
    story.finds(gpu(0, "far"), "hang/undecided", detector="hang")
    assert len(story.open) == 2


def test_warm_nodes_of_a_rack_are_the_rack() -> None:
    """Where there are too few racks to compare, each node is judged by itself: three of four that
    grow warmer within ten minutes are one incident, two are two.
    """
    for warm, roots in ((3, {"r1"}), (2, {"n0", "n1"})):
        story = Story()
        story.nodes("n0", "n1", "n2", "n3", rack="r1")
        for host in HOSTS[:warm]:
            story.finds(node(host), "thermal/cooling", "ticket")
            story.wait(60)
        story.wait(120)
        assert story.open.keys() == roots


def test_what_a_switch_explains_is_said_in_one_order() -> None:
    """Every process says the same, so that two gateways and a replay agree: the oldest incident
    takes in the switch, then the others of jobs behind it, by the names of the jobs.
    """
    story, _ = fabric(leaf="leaf1")
    for number, host in enumerate(HOSTS):
        story.happens("job_started", node(host), job=f"own{number}", gpus=gpu(0, host).id)
    first, *others = (
        story.finds(gpu(0, host), "hang/undecided", detector="hang") for host in HOSTS[:8]
    )
    cause = story.finds(Device("leaf1", "switch", "leaf1"), "ib/switch_down", "ticket")
    last = story.updates[-1]
    assert last.root.id == "leaf1"
    assert list(last.findings) == [each.id for each in (first, cause, *others)]
