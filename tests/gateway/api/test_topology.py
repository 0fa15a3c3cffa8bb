"""The map: complete, compact, and sent again only where it has changed."""

from __future__ import annotations

import asyncio

import pytest

from tests.gateway.api.server import get, serving
from tests.gateway.cluster import SimulatedCluster

PATH = "/api/v1/topology"


@pytest.mark.parametrize("nodes", [1, 16, pytest.param(2000, marks=pytest.mark.slow)])
def test_every_device_has_its_place_and_level(nodes: int) -> None:
    """Columns are as long as there are nodes, GPUs and ports, rack by rack."""
    found = get(SimulatedCluster(nodes), PATH)
    static = found["static"]
    assert sum(rack["nodes"] for rack in static["racks"]) == nodes
    assert {len(column) for column in static["nodes"].values()} == {nodes}
    assert found["node_levels"] == "5" * nodes
    assert found["gpu_levels"] == "5" * 8 * nodes == "5" * sum(static["nodes"]["gpus"])
    assert found["port_levels"] == "5" * sum(static["nodes"]["ports"])
    assert found["levels"][5] == "ok"
    first = static["leaf_sets"][static["nodes"]["leaf_set"][0]]
    assert [static["leaves"][leaf] for leaf in first] == [f"leaf-0-{rail}" for rail in range(8)]


def test_a_fault_shows_at_the_place_of_its_gpu() -> None:
    """And of its node; a host that is silent is listed."""
    cluster = SimulatedCluster()
    cluster.read({cluster.gpu(3, 2): {"state": 1}})
    cluster.clock.advance(21)
    cluster.sent = {host: cluster.clock.time_ns() for host in cluster.sent}
    cluster.sent["node-0007"] = 0
    found = get(cluster, PATH)
    names = found["static"]["nodes"]["name"]
    assert found["gpu_levels"].index("0") == 8 * 3 + 2
    assert found["node_levels"][names.index("node-0003")] == "0"
    assert [names[row] for row in found["silent"]] == ["node-0007"]


def test_what_a_client_has_is_not_sent_again() -> None:
    """The layout by its version, everything by its ETag, until something changes."""
    cluster = SimulatedCluster()

    async def ask() -> None:
        async with serving(cluster) as client:
            first = await client.get(PATH)
            known = {"If-None-Match": first.headers["ETag"]}
            assert (await client.get(PATH, headers=known)).status == 304
            levels = await client.get(PATH, layout=first["layout"])
            assert levels["static"] is None
            assert levels["node_levels"] == first["node_levels"]
            cluster.read({cluster.gpu(0, 0): {"state": 1}})
            cluster.clock.advance(1)
            changed = await client.get(PATH, headers=known)
            assert changed.status == 200
            assert changed["layout"] == first["layout"]

    asyncio.run(ask())


def test_an_answer_says_when_its_levels_were_true() -> None:
    """Though nothing has changed since the answer before: the page shows that as its time."""
    cluster = SimulatedCluster()

    async def ask() -> None:
        async with serving(cluster) as client:
            first = await client.get(PATH)
            cluster.clock.advance(10)
            second = await client.get(PATH)
            assert second.headers["ETag"] == first.headers["ETag"]
            assert second["time"] > first["time"]
            assert {**second.document, "time": ""} == {**first.document, "time": ""}

    asyncio.run(ask())


def test_layouts_are_equal_on_every_gateway_and_differ_with_devices() -> None:
    """The version is made from what is there, not from when."""
    one, other, larger = SimulatedCluster(), SimulatedCluster(), SimulatedCluster(17)
    other.clock.advance(5)
    versions = [get(each, PATH)["layout"] for each in (one, other, larger)]
    assert versions[0] == versions[1] != versions[2]
