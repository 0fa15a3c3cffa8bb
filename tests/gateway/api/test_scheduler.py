"""kube-scheduler's extender: its wire format to the letter, and any body without a fault."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from unittest.mock import Mock

import pytest
from aiohttp import StreamReader
from aiohttp.test_utils import make_mocked_request
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.api import scheduler
from gateway.api import serving as server
from gateway.api.operation import View
from gateway.api.problem import Problem
from pipeline.observation import Event
from tests.gateway.api.server import Answer, serving
from tests.gateway.cluster import SimulatedCluster

FILTER, PRIORITIZE = "/scheduler/filter", "/scheduler/prioritize"
# As Go marshals v1.ExtenderArgs: its own fields by their names in Go, those of the API in JSON's.
POD = {
    "metadata": {"name": "train-worker-3", "namespace": "ml", "creationTimestamp": None},
    "spec": {
        "containers": [
            {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
        ]
    },
    "status": {},
}
JSON = {"Content-Type": "application/json"}


def post(cluster: SimulatedCluster, path: str, body: Any, **headers: str) -> Answer:
    """One call; a text or bytes are sent as they are."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def asked() -> Answer:
        async with serving(cluster) as client:
            return await client.ask("POST", path, body=raw, headers={**JSON, **headers})

    return asyncio.run(asked())


@pytest.fixture
def cluster() -> SimulatedCluster:
    """A lost GPU on node 3, node 4 out of service, the pod's job on nodes 8 and 9."""
    cluster = SimulatedCluster()
    for node, pod in ((8, "train-worker-0"), (9, "train-worker-1")):
        cluster.run("", [node], scheduler="kubernetes", namespace="ml", pod=pod)
    at = cluster.clock.time_ns(), 0
    cluster.take(events=[Event(*at, cluster.node(4), "maintenance_started")])
    cluster.read()
    cluster.find(cluster.gpu(3, 0), "gpu_lost", "GPU 0 fell off the bus (XID 79).")
    return cluster


def names(*numbers: int) -> list[str]:
    """Of nodes."""
    return [f"node-{number:04d}" for number in numbers]


def test_filter_leaves_out_what_has_a_fault(cluster: SimulatedCluster) -> None:
    """By name, with the reason, not to be tried with preemption; a stranger passes."""
    asked = [*names(2, 3, 4, 5), "unknown"]
    found = post(cluster, FILTER, {"Pod": POD, "Nodes": None, "NodeNames": asked})
    assert found.document == {
        "Nodes": None,
        "NodeNames": [*names(2, 5), "unknown"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {
            "node-0003": "tocsin: GPU 0 fell off the bus (XID 79).",
            "node-0004": "tocsin: out of service",
        },
        "Error": "",
    }


def test_nodes_are_answered_in_the_form_in_which_they_came(cluster: SimulatedCluster) -> None:
    """Objects as they were, where the scheduler sends objects."""
    items = [{"metadata": {"name": name, "labels": {"x": name}}} for name in names(3, 5)]
    listed = {"metadata": {"resourceVersion": "7"}, "items": items}
    found = post(cluster, FILTER, {"Pod": POD, "Nodes": listed, "NodeNames": None})
    assert found["Nodes"] == {"metadata": {"resourceVersion": "7"}, "items": items[1:]}
    assert found["NodeNames"] is None


def test_names_of_fields_are_read_in_any_case(cluster: SimulatedCluster) -> None:
    """As Go's decoder does; older clients write them small."""
    found = post(cluster, FILTER, {"pod": POD, "nodenames": names(3)})
    assert found["NodeNames"] == []


@pytest.mark.parametrize("resource", ["nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared"])
def test_a_pod_with_a_part_of_a_gpu_goes_to_no_node_with_a_fault(
    cluster: SimulatedCluster, resource: str
) -> None:
    """An instance or a share is on the same hardware."""
    spec = {"containers": [{"resources": {"limits": {resource: "1"}}}]}
    asked = {"Pod": {"metadata": {"name": "a"}, "spec": spec}, "NodeNames": names(2, 3)}
    assert post(cluster, FILTER, asked).document["NodeNames"] == names(2)


def test_a_pod_without_gpus_may_go_anywhere(cluster: SimulatedCluster) -> None:
    """A fault of a GPU is nothing to it."""
    pod = {**POD, "spec": {"containers": [{"name": "main", "resources": {}}]}}
    found = post(cluster, FILTER, {"Pod": pod, "NodeNames": names(3, 4)})
    assert found["NodeNames"] == names(3, 4)


def test_prioritize_prefers_nodes_near_the_pods_job() -> None:
    """From 0 to 10; broken ones have 0, strangers the middle."""
    cluster = SimulatedCluster(128)
    cluster.run("", [70], scheduler="kubernetes", namespace="ml", pod="train-worker-0")
    cluster.read()
    cluster.find(cluster.gpu(72, 0), "gpu_lost", "Lost.")
    asked = {"Pod": POD, "NodeNames": [*names(1, 71, 72, 80), "unknown"]}
    found = post(cluster, PRIORITIZE, asked).document
    by_name = {one["Host"]: one["Score"] for one in found}
    assert list(by_name) == asked["NodeNames"]
    assert by_name["node-0071"] == 10
    assert by_name["node-0071"] >= by_name["node-0080"] > by_name["node-0001"] > 0
    assert (by_name["node-0072"], by_name["unknown"]) == (0, 5)


def test_a_gateway_that_reads_the_past_lets_everything_pass(cluster: SimulatedCluster) -> None:
    """On our doubt the scheduler decides alone."""
    view = View("c1", cluster.model.snapshot(), present=False)
    body = {"Pod": POD, "NodeNames": names(3, 5)}
    assert scheduler.filtered(view, {}, body)["NodeNames"] == names(3, 5)
    assert {one["Score"] for one in scheduler.prioritized(view, {}, body)} == {5}


@pytest.mark.parametrize(
    ("body", "status", "about"),
    [
        (b"{", 400, "body"),
        (b"", 400, "body"),
        (b"[" * 100_000, 400, "body"),
        (b"\xff\xfe", 400, "body"),
        ([], 400, "body"),
        ({}, 400, "Pod"),
        ({"Pod": []}, 400, "Pod"),
        ({"Pod": {"metadata": 7}}, 400, "metadata"),
        ({"Pod": POD, "NodeNames": "node-0001"}, 400, "NodeNames"),
        ({"Pod": POD, "NodeNames": [1]}, 400, "NodeNames"),
        ({"Pod": POD, "NodeNames": ["x"] * 20_001}, 400, "NodeNames"),
        ({"Pod": POD, "Nodes": {"items": [{"metadata": {"name": 1}}]}}, 400, "name"),
        ({"Pod": POD, "Nodes": {"items": {}}, "NodeNames": ["node-0000"]}, 400, "Nodes.items"),
        ({"Pod": POD, "Nodes": {"items": [[]]}, "NodeNames": ["node-0000"]}, 400, "Nodes.items[]"),
    ],
)
def test_a_wrong_body_is_named(body: Any, status: int, about: str) -> None:
    """Any status but 200 is an error to the scheduler, which then decides without us."""
    found = post(SimulatedCluster(1), FILTER, body)
    assert (found.status, found["status"]) == (status, status)
    assert about in found["detail"]


@pytest.mark.parametrize("declared", [True, False])
def test_a_body_is_bounded_whether_it_says_its_size_or_not(declared: bool) -> None:
    """What is larger is refused before it is read, or as soon as it has been."""

    async def ask() -> None:
        content = StreamReader(Mock(), 2**16, loop=asyncio.get_running_loop())
        length = {"Content-Length": "11"} if declared else {"Transfer-Encoding": "chunked"}
        content.feed_data(b" " * 6)
        content.feed_data(b" " * 5)
        content.feed_eof()
        request = make_mocked_request("POST", FILTER, {**JSON, **length}, payload=content)
        with pytest.raises(Problem) as refused:
            await server._body(request, 10)
        assert refused.value.status == 413

    asyncio.run(ask())


@pytest.mark.parametrize("headers", [{"Content-Type": "text/plain"}, {"Content-Encoding": "gzip"}])
def test_only_plain_json_is_read(headers: dict[str, str]) -> None:
    """What unpacks to more than it says is not unpacked."""
    body = {"Pod": POD, "NodeNames": []}
    assert post(SimulatedCluster(1), FILTER, body, **headers).status in (400, 415)


def test_bodies_are_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is not sent to its end holds one place, until the connection's deadline."""
    monkeypatch.setattr(server, "MAX_BODIES", 1)

    async def ask() -> None:
        async with serving(SimulatedCluster(1)) as client:
            host, _, port = client.url.removeprefix("http://").partition(":")
            _, slow = await asyncio.open_connection(host, int(port))
            head = f"POST {FILTER} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            slow.write(head.encode() + b"Content-Length: 100\r\n\r\n{")
            await slow.drain()
            body = json.dumps({"Pod": POD, "NodeNames": []}).encode()
            while True:
                found = await client.ask("POST", FILTER, body=body, headers=JSON)
                if found.status == 503:
                    break
            slow.close()
            while (await client.ask("POST", FILTER, body=body, headers=JSON)).status != 200:
                pass

    asyncio.run(ask())


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "metadata",
                    "name",
                    "namespace",
                    "spec",
                    "containers",
                    "resources",
                    "limits",
                    "items",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(pod=values, nodes=values, listed=values)
def test_any_json_is_answered_or_refused(pod: Any, nodes: Any, listed: Any) -> None:
    """Nothing that a client can send is a fault of ours."""
    view = View("c1", SMALL.model.snapshot())
    body = {"Pod": pod, "NodeNames": nodes, "Nodes": listed}
    for handler in (scheduler.filtered, scheduler.prioritized):
        try:
            handler(view, {}, body)
        except Problem as refused:
            assert refused.status == 400


SMALL = SimulatedCluster(2)


def test_the_client_of_go_reads_our_answer() -> None:
    """Names as Go's structs have them, integers without a point."""
    found = post(SimulatedCluster(2), PRIORITIZE, {"Pod": POD, "NodeNames": names(0)})
    assert found.body.decode() == '[{"Host":"node-0000","Score":10}]'


def test_other_routes_still_take_no_body() -> None:
    """On these two routes alone, by POST; elsewhere the method is what is wrong first."""

    async def ask() -> list[int]:
        async with serving(SimulatedCluster(1)) as client:
            statuses = []
            for path in ("/api/v1/topology", "/api/v1/incidents", "/metrics"):
                for method in ("GET", "POST"):
                    found = await client.ask(method, path, body=b"{}", headers=JSON)
                    statuses.append(found.status)
            statuses.append((await client.ask("GET", FILTER, body=b"{}")).status)
            return statuses

    assert asyncio.run(ask()) == [413, 405] * 3 + [405]
