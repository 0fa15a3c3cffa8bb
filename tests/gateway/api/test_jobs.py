"""Jobs: the worst first, with their nodes and incidents."""

from __future__ import annotations

import pytest

from pipeline.frame import Device
from tests.gateway.api.server import get
from tests.gateway.cluster import SimulatedCluster

PATH = "/api/v1/jobs"


@pytest.fixture
def cluster() -> SimulatedCluster:
    """Three jobs: one stalls, one has a GPU that is lost, one is well."""
    cluster = SimulatedCluster()
    cluster.run("9", [0], user="bob")
    cluster.run("71", range(4, 8))
    cluster.run("72", [8, 9])
    cluster.read()
    cluster.find(cluster.gpu(8, 1), "gpu_lost", "Lost.")
    rank = Device("node-0005", "rank", "71/17", {"job": "71"})
    cluster.find(rank, "hang/absent_rank", "Rank 17 waits.", ago_s=90)
    return cluster


def test_the_worst_job_is_first(cluster: SimulatedCluster) -> None:
    """Stalled, then by the level of its nodes, then by id."""
    rows = get(cluster, PATH)["jobs"]
    assert [(row["id"], row["state"], row["level"]) for row in rows] == [
        ("71", "stalled", "ok"),
        ("72", "running", "bad"),
        ("9", "running", "ok"),
    ]
    assert rows[0]["stalled_seconds"] == pytest.approx(90, abs=1)
    assert rows[0]["verdicts"] == ["absent_rank"]
    assert (rows[1]["gpus"], rows[1]["nodes"]) == (16, ["node-0008", "node-0009"])
    assert len(rows[1]["incidents"]) == 1


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"state": "stalled"}, ["71"]),
        ({"user": "bob"}, ["9"]),
        ({"node": "node-0009"}, ["72"]),
        ({"job": "72"}, ["72"]),
        ({"scheduler": "kubernetes"}, []),
        ({"limit": 1}, ["71"]),
    ],
)
def test_filters_choose(
    cluster: SimulatedCluster, query: dict[str, str], expected: list[str]
) -> None:
    """Each alone."""
    assert [row["id"] for row in get(cluster, PATH, **query)["jobs"]] == expected
