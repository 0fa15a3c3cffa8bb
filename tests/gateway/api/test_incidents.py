"""Incidents of the cluster: most urgent first, by filters, page by page."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pipeline.frame import Device
from tests.gateway.api.server import get, serving
from tests.gateway.cluster import SimulatedCluster

PATH = "/api/v1/incidents"
HOSTILE = '</td><script>alert("x")</script>\udcff'


def ids(answer: Any) -> list[str]:
    """Of the rows, in order."""
    return [row["id"] for row in answer["incidents"]]


def test_a_quiet_cluster_has_none() -> None:
    """An empty page, the last one."""
    found = get(SimulatedCluster(), PATH)
    assert (found["incidents"], found["total"], found["next"]) == ([], 0, None)


def test_a_row_names_the_device_what_is_affected_and_the_next_step() -> None:
    """Of a GPU: the job that holds it, its node and its serial number."""
    cluster = SimulatedCluster()
    cluster.run("71", [7, 8])
    cluster.read()
    gpu = cluster.gpu(7, 3)
    cluster.find(gpu, "gpu_lost", "It fell off the bus (XID 79).", ago_s=60)
    (row,) = get(cluster, PATH)["incidents"]
    assert row["title"] == "GPU 3 on node-0007"
    assert row["serial"] == gpu.attributes["serial"]
    assert row["rack"] == "rack-00"
    assert (row["gpus_affected"], row["nodes"], row["jobs"]) == (1, ["node-0007"], ["71"])
    assert row["reason"] == "Drain the node."
    assert row["true_now"]


@pytest.mark.parametrize(
    ("kind", "name", "gpus", "nodes"),
    [("node", "node-0003", 8, 1), ("rack", "rack-01", 64, 8), ("switch", "leaf-0-2", 128, 16)],
)
def test_an_incident_of_many_affects_all_that_is_behind_it(
    kind: str, name: str, gpus: int, nodes: int
) -> None:
    """A node, a rack, a leaf switch: their GPUs, nodes and jobs."""
    cluster = SimulatedCluster()
    cluster.run("71", [3, 12])
    cluster.read()
    cluster.find(Device(name, kind, name), "thermal", "It warms up.")
    (row,) = get(cluster, PATH)["incidents"]
    assert (row["gpus_affected"], row["nodes_affected"], row["jobs"]) == (gpus, nodes, ["71"])


def test_the_most_urgent_is_first_and_closed_ones_come_last() -> None:
    """Severity, then certainty, then what is affected; those that are over only when asked for."""
    cluster = SimulatedCluster()
    warm = cluster.find(cluster.gpu(0, 0), "thermal", "Warm.", severity="ticket")
    lost = cluster.find(cluster.gpu(1, 0), "gpu_lost", "Lost.")
    node = cluster.find(cluster.node(2), "gpu_lost", "All lost.")
    over = cluster.find(cluster.gpu(4, 0), "gpu_lost", "Lost for a while.")
    cluster.end(over)
    assert ids(get(cluster, PATH)) == [node.id, lost.id, warm.id]
    assert ids(get(cluster, PATH, state="closed")) == [over.id]
    found = get(cluster, PATH, state="all")
    assert ids(found)[-1] == over.id
    assert found["incidents"][-1]["ended"] == "It is read again."


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"severity": "ticket"}, ["port"]),
        ({"class": "ib"}, ["port"]),
        ({"class": "i"}, []),
        ({"kind": "gpu"}, ["gpu"]),
        ({"host": "node-0001"}, ["gpu"]),
        ({"rack": "rack-01"}, ["port"]),
        ({"job": "71"}, ["gpu"]),
        ({"node": "node-0009"}, ["port"]),
        ({"node": "node-0005"}, []),
    ],
)
def test_filters_choose(query: dict[str, str], expected: list[str]) -> None:
    """Each alone."""
    cluster = SimulatedCluster()
    cluster.run("71", [1])
    cluster.read()
    cluster.find(cluster.gpu(1, 0), "gpu_lost", "Lost.")
    cluster.find(cluster.port(9, 0), "ib/link_down", "Down.", severity="ticket")
    assert [
        row["kind"].removeprefix("ib_") for row in get(cluster, PATH, **query)["incidents"]
    ] == (expected)


def test_pages_follow_one_another_though_incidents_come_and_go() -> None:
    """A page begins after the last row of the one before; none is shown twice."""
    cluster = SimulatedCluster()
    found = [cluster.find(cluster.gpu(n, 0), "gpu_lost", "Lost.", ago_s=100 - n) for n in range(9)]

    async def ask() -> None:
        async with serving(cluster) as client:
            first = await client.get(PATH, limit=4)
            assert first["total"] == 9
            cluster.end(found[0])
            cluster.find(cluster.gpu(15, 0), "gpu_lost", "The oldest.", ago_s=500)
            cluster.clock.advance(2)
            second = await client.get(PATH, limit=4, cursor=first["next"])
            third = await client.get(PATH, limit=4, cursor=second["next"])
            assert ids(first) + ids(second) + ids(third) == [one.id for one in found]
            assert third["next"] is None

    asyncio.run(ask())


def test_one_incident_has_its_evidence_and_the_rules() -> None:
    """By an unambiguous begin of its id."""
    cluster = SimulatedCluster()
    opened = cluster.find(cluster.gpu(1, 0), "xid/79", "Lost.", evidence=("XID 79 at 14:57",))
    found = get(cluster, f"{PATH}/{opened.id[:8]}")
    assert found["id"] == opened.id
    assert found["standing"][0]["evidence"] == ["XID 79 at 14:57"]
    assert found["standing"][0]["name"] == "GPU 0"
    assert found["rules"][0]["detector"] == "xid"
    cluster.end(opened)
    cluster.clock.advance(2)
    closed = get(cluster, f"{PATH}/{opened.id}")
    assert (closed["state"], closed["standing"], len(closed["over"])) == ("closed", [], 1)


def test_a_job_that_began_later_was_not_affected() -> None:
    """An incident that is over keeps the jobs that it had; of now are those of open ones alone."""
    cluster = SimulatedCluster()
    over = cluster.find(cluster.gpu(1, 0), "gpu_lost", "Lost.", jobs=("70",))
    crashed = cluster.find(cluster.node(2), "gpu_lost", "All lost.", jobs=("70",))
    cluster.end(over)
    cluster.end(crashed)
    cluster.run("71", [1, 2])
    cluster.read()
    rows = get(cluster, PATH, state="closed")["incidents"]
    assert [(row["jobs"], row["jobs_affected"]) for row in rows] == [(["70"], 1)] * 2
    assert get(cluster, PATH, state="all", job="71")["total"] == 0
    cluster.find(cluster.gpu(1, 1), "gpu_lost", "Lost.")
    cluster.clock.advance(1)
    assert get(cluster, PATH, job="71")["total"] == 1


def test_an_incident_that_is_not_known_is_said_so() -> None:
    """As a problem that names the parameter."""
    found = get(SimulatedCluster(), f"{PATH}/0123456789abcdef")
    assert (found.status, found["parameter"]) == (404, "id")


def test_hostile_names_are_text() -> None:
    """What is no character becomes a question mark, and nothing else changes."""
    cluster = SimulatedCluster()
    cluster.run(HOSTILE, [1], user=HOSTILE)
    cluster.read()
    cluster.find(cluster.gpu(1, 0), "gpu_lost", HOSTILE, evidence=(HOSTILE,), jobs=(HOSTILE,))
    (row,) = get(cluster, PATH)["incidents"]
    assert row["summary"] == HOSTILE[:-1] + "?"
    assert row["jobs"] == [HOSTILE[:-1] + "?"]
