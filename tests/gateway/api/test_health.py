"""Health of the cluster and of its parts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gateway.api.server import get
from tests.gateway.cluster import SimulatedCluster

PATH = "/api/v1/health"


@pytest.fixture
def cluster() -> SimulatedCluster:
    """A lost GPU in rack 0, a hot one in rack 1, a job on four nodes of rack 0."""
    cluster = SimulatedCluster()
    cluster.run("71", range(4))
    cluster.read(
        {
            cluster.gpu(3, 2): {"state": 1},
            cluster.gpu(9, 1): {"temperature_celsius": 84},
        }
    )
    cluster.find(cluster.gpu(3, 2), "gpu_lost", "It fell off the bus.")
    return cluster


def test_the_cluster_is_as_good_as_its_worst_part(cluster: SimulatedCluster) -> None:
    """With counts by level and every node."""
    found = get(cluster, PATH)
    assert (found["level"], found["total"], found["nodes"]["bad"]) == ("bad", 16, 1)
    assert (found["gpus"]["total"], found["gpus"]["bad"], found["gpus"]["ok"]) == (128, 1, 127)
    assert len(found["incidents"]) == 1
    node = found["members"][3]
    assert (node["name"], node["level"], node["score"]) == ("node-0003", "bad", 0)
    assert (node["jobs"], node["free_gpus"]) == (["71"], 0)
    assert node["reasons"] == ["It fell off the bus."]
    assert found["members"][9]["score"] == pytest.approx(100 * (7 + 0.75) / 8, abs=0.5)


@pytest.mark.parametrize(
    ("query", "members", "level", "incidents"),
    [
        ({"rack": "rack-00"}, 8, "bad", 1),
        ({"rack": "rack-01"}, 8, "ok", 0),
        ({"leaf": "leaf-0-3"}, 16, "bad", 1),
        ({"node": "node-0003"}, 16, "bad", 1),
        ({"node": "node-0004"}, 16, "ok", 0),
        ({"job": "71"}, 4, "bad", 1),
    ],
)
def test_a_selector_chooses_a_part(
    cluster: SimulatedCluster, query: dict[str, str], members: int, level: str, incidents: int
) -> None:
    """A rack, a leaf switch, a node with its devices, a job."""
    found = get(cluster, PATH, **query)
    assert (found["total"], len(found["members"])) == (members, members)
    assert (found["level"], len(found["incidents"])) == (level, incidents)


def test_a_device_is_found_by_its_id(cluster: SimulatedCluster) -> None:
    """A GPU with its values, a port with its rate."""
    gpu, port = cluster.gpu(9, 1), cluster.port(2, 5)
    (row,) = get(cluster, PATH, device=gpu.id)["members"]
    assert (row["kind"], row["name"], row["score"]) == ("gpu", "GPU 1", 75)
    assert row["values"]["thermal_margin_celsius"] == 5
    assert row["values"]["power_watts"] == 650
    (row,) = get(cluster, PATH, device=port.id)["members"]
    assert (row["kind"], row["jobs"], row["leaf"]) == ("ib_port", ["71"], "leaf-0-5")
    assert row["values"] == {"rate_bits_per_second": pytest.approx(4e11)}


@pytest.mark.parametrize("kind", ["rack", "leaf", "node", "device", "job"])
def test_what_is_not_there_is_said_so(cluster: SimulatedCluster, kind: str) -> None:
    """As a problem that names the selector."""
    found = get(cluster, PATH, **{kind: "nowhere"})
    assert (found.status, found["parameter"]) == (404, kind)


def test_two_selectors_are_one_too_many(cluster: SimulatedCluster) -> None:
    """Which is said of the second."""
    found = get(cluster, PATH, rack="rack-00", job="71")
    assert (found.status, found["parameter"]) == (409, "job")


def test_pages_of_members_are_complete(cluster: SimulatedCluster) -> None:
    """Each node once, in the order of the map."""
    names: list[str] = []
    cursor: dict[str, Any] = {}
    while True:
        found = get(cluster, PATH, limit=5, **cursor)
        names += [row["name"] for row in found["members"]]
        if found["next"] is None:
            break
        cursor = {"cursor": found["next"]}
    assert names == [f"node-{n:04d}" for n in range(16)]


def test_a_cluster_of_nothing_is_healthy_and_empty() -> None:
    """Before the first host has sent."""
    cluster = SimulatedCluster(1)
    cluster.model = type(cluster.model)(cluster.clock, sent=dict)
    found = get(cluster, PATH)
    assert (found["total"], found["members"], found["level"]) == (0, [], "ok")
