"""Candidates: healthy before hot, close before far, and never what fails, is silent or busy."""

from __future__ import annotations

import pytest

from pipeline.frame import Device
from pipeline.observation import Event
from tests.gateway.api.server import get
from tests.gateway.cluster import SimulatedCluster

PATH = "/api/v1/candidates"


def names(cluster: SimulatedCluster, **query: object) -> list[str]:
    """Of the candidates, the best first."""
    return [row["node"] for row in get(cluster, PATH, limit=1000, **query)["candidates"]]


def test_a_replacement_is_close_to_the_job() -> None:
    """Behind the same leaf switches, and there in the rack of the job."""
    cluster = SimulatedCluster(128)  # two pods of 64 nodes
    cluster.run("71", [64, 65, 66])
    cluster.run("other", range(70, 120))
    cluster.read()
    cluster.find(cluster.gpu(66, 1), "gpu_lost", "Lost.")
    found = get(cluster, PATH, gpus=8, like="71")
    best = found["candidates"][0]
    assert [row["node"] for row in found["candidates"][:3]] == [
        "node-0067",
        "node-0068",
        "node-0069",
    ]
    assert [row["suggested"] for row in found["candidates"][:2]] == [True, False]
    assert best["closeness"] == 1.0
    assert "shares 100% of its leaf switches with job 71" in best["reasons"]
    assert "in rack rack-08 with 2 nodes of job 71" in best["reasons"]
    assert found["candidates"][-1]["closeness"] == 0.0
    assert (found["left_out"]["of_the_job"], found["left_out"]["busy"]) == (3, 50)


@pytest.mark.slow
def test_a_placement_stays_together_where_it_fits() -> None:
    """Behind the leaf switches with the least room that is enough: larger groups stay whole."""
    cluster = SimulatedCluster(128)
    cluster.run("71", range(40))
    cluster.read()
    found = get(cluster, PATH, gpus=64)
    chosen = [row["node"] for row in found["candidates"] if row["suggested"]]
    assert len(chosen) == 8
    assert all(40 <= int(name.rpartition("-")[2]) < 64 for name in chosen)
    assert found["enough"]
    assert not get(cluster, PATH, gpus=8 * 88 + 1)["enough"]


def test_the_cooler_of_two_equals_is_first() -> None:
    """Headroom counts, and is said in degrees."""
    cluster = SimulatedCluster(2)
    cluster.read({cluster.gpu(0, 5): {"temperature_celsius": 77}})
    first, second = get(cluster, PATH)["candidates"]
    assert (first["node"], second["node"]) == ("node-0001", "node-0000")
    assert "its hottest GPU is 12 °C below slow-down" in second["reasons"]


def test_what_fails_is_silent_or_busy_is_no_candidate() -> None:
    """And is counted by the first reason that is true."""
    cluster = SimulatedCluster()
    cluster.run("71", [0])
    at = cluster.clock.time_ns(), 0
    cluster.take(events=[Event(*at, cluster.node(1), "maintenance_started")])
    cluster.read()
    cluster.find(cluster.gpu(2, 0), "gpu_lost", "Lost.")
    cluster.find(cluster.port(3, 0), "ib/errors", "Errors.", severity="ticket")
    cluster.find(cluster.gpu(4, 0), "xid/13", "An application's.", severity="record")
    cluster.clock.advance(30)
    cluster.sent = {host: cluster.clock.time_ns() for host in cluster.sent}
    cluster.sent["node-0005"] = 0
    found = get(cluster, PATH, exclude="node-0006,node-0007")
    assert found["left_out"] == {
        "excluded": 2,
        "of_the_job": 0,
        "other_model": 0,
        "silent": 1,
        "out_of_service": 1,
        "unhealthy": 2,
        "busy": 1,
    }
    assert {row["node"]: row["level"] for row in found["candidates"]}["node-0004"] == "note"
    assert found["total"] == 9


def test_a_node_that_is_half_taken_comes_after_free_ones() -> None:
    """Where whole nodes are wanted; for one GPU it is as good as they are."""
    cluster = SimulatedCluster(4)
    gpu = cluster.gpu(0, 0)
    facts = {"uuid": gpu.id, "job": "5", "scheduler": "slurm"}
    cluster.holders.append(Device(gpu.host, "device_job", f"{gpu.id}/5", facts))
    cluster.read()
    assert names(cluster, gpus=8)[-1] == "node-0000"
    assert names(cluster, gpus=1)[0] == "node-0000"


def test_only_nodes_of_the_jobs_model_replace_its_nodes() -> None:
    """A job runs on one model."""
    cluster = SimulatedCluster(16)
    cluster.gpus = tuple(
        Device(g.host, g.kind, g.id, {**g.attributes, "name": "NVIDIA H200"}) if row >= 64 else g
        for row, g in enumerate(cluster.gpus)
    )
    cluster.run("71", [9])
    cluster.read()
    assert names(cluster, like="71") == [f"node-{n:04d}" for n in (8, *range(10, 16))]
    assert names(cluster, model="NVIDIA H200")[0] == "node-0008"


def test_a_job_that_is_not_there_is_said_so() -> None:
    """As a problem that names the parameter."""
    found = get(SimulatedCluster(1), PATH, like="nobody")
    assert (found.status, found["parameter"]) == (404, "like")
