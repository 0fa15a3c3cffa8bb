"""Lists of pods in which one tenant has too much: the trainings of others stay known, and what is
cut is reported.
"""

from __future__ import annotations

import errno
import json
import tracemalloc
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from collector.node.pods_by_gpu import Pod, PodsByGpu
from collector.node.trainings import Trainings
from collector.sources.tenants.cuts import Cuts
from collector.sources.trainings.ends import ends_of
from collector.sources.trainings.listed import MAX_PODS, NodePods, reduced
from collector.sources.trainings.owners import Owners
from collector.sources.trainings.source import TrainingsSource
from pipeline.catalog import agent
from pipeline.selfmetrics import SelfMetrics
from tests.collector.sources.trainings.cluster import NODE, Cluster, Json
from tests.fakes import FakeClock

ADA, EVE = Pod("ml", "llm-0"), Pod("eve", "x")


class Server:
    """Lists ``pods``, as JSON like the real one; refuses what holds more than ``most`` bytes."""

    def __init__(self, *pods: Json) -> None:
        self.cluster, self.pods, self.most = Cluster(), list(pods), 8 << 20
        self.asked: list[str] = []
        owner = self.cluster.add("kubeflow.org/v1", "PyTorchJob", "llm")
        self.pods.append(self.cluster.pod(ADA.name, owner))

    def get(self, path: str) -> Json:
        """An object, or a list of those pods whose phase and namespace match."""
        url = urlsplit(path)
        if not url.path.endswith("/pods"):
            return self.cluster.get(path)
        self.asked.append(path)
        phases = parse_qs(url.query)["fieldSelector"][0].split(",")[1:]
        namespace = url.path.split("/")[-2] if "namespaces" in url.path else ""
        found = [
            pod
            for pod in self.pods
            if namespace in ("", pod["metadata"]["namespace"])
            and f"status.phase!={pod['status']['phase']}" not in phases
        ]
        text = json.dumps({"metadata": {}, "items": found})
        if len(text) > self.most:
            raise OSError(errno.EFBIG, "too large")
        answer: Json = json.loads(text, object_hook=reduced)
        return answer


def pods_of(namespace: str, count: int, phase: str, size: int = 0) -> list[Json]:
    """Pods with an environment of so many bytes, each the end of a container."""
    terminated = {"state": {"terminated": {"exitCode": 1}}, "name": "main", "restartCount": 0}
    owner = {"apiVersion": "x/v1", "kind": "X", "name": "x", "uid": "u", "controller": True}
    return [
        {
            "metadata": {
                "namespace": namespace,
                "name": f"x-{n}",
                "uid": f"{namespace}-{n}",
                "ownerReferences": [owner],
            },
            "spec": {"containers": [{"env": [{"name": "X", "value": "x" * size}]}]},
            "status": {"phase": phase, "containerStatuses": [terminated]},
        }
        for n in range(count)
    ]


def source_of(server: Server, trainings: Trainings, **more: Any) -> TrainingsSource:
    """That knows by the kubelet that both namespaces have a GPU."""
    holders = PodsByGpu()
    holders.learn([("GPU-0", ADA), ("GPU-1", EVE)])
    return TrainingsSource(server.get, NODE, "n1", FakeClock(), trainings, pods=holders, **more)


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["Running", "Pending", "Failed", "Succeeded"])
@pytest.mark.parametrize(("count", "size"), [(6, 1_400_000), (MAX_PODS + 100, 0), (60, 1)])
def test_pods_of_one_tenant_take_no_training_of_another(phase: str, count: int, size: int) -> None:
    """Few that are large, or many that are small, whether they run or have ended."""
    server, trainings = Server(*pods_of("eve", count, phase, size)), Trainings()
    source = source_of(server, trainings)
    for _ in range(2):
        source.read()
        found = trainings.of(ADA)
        assert found is not None
        assert (found.kind, found.name) == ("PyTorchJob", "llm")


@pytest.mark.parametrize(
    ("phase", "count", "size", "limit", "cut"),
    [
        ("Running", 6, 1_400_000, "pods", 1),  # an answer, of which no pod was counted
        ("Running", MAX_PODS + 100, 0, "pods", 101),
        ("Failed", 6, 1_400_000, "ended pods", 1),
        ("Failed", MAX_PODS + 100, 0, "ended pods", 100),
        ("Running", 60, 1, "pods", 0),
    ],
)
@pytest.mark.parametrize("hidden", [(), ("namespace",)])
@pytest.mark.slow
def test_what_is_cut_is_reported_of_its_namespace(
    phase: str, count: int, size: int, *, limit: str, cut: int, hidden: tuple[str, ...]
) -> None:
    """Without its name where that is hidden."""
    metrics = SelfMetrics()
    server = Server(*pods_of("eve", count, phase, size))
    source_of(server, Trainings(), cuts=Cuts(metrics), hidden=hidden).read()
    tenant = "" if hidden else "namespace:eve"
    expected = {("", tenant, limit): float(cut)} if cut else {}
    series = dict(metrics.series()).get(agent.TENANT_CUT, ())
    assert dict(series) == expected


def test_ends_are_stored_once_also_where_their_list_is_too_large_for_a_while() -> None:
    """What was stored before is known still when the list is complete again."""
    server, trainings = Server(*pods_of("ml", 3, "Failed", 100)), Trainings()
    source = TrainingsSource(server.get, NODE, "n1", FakeClock(), trainings)
    assert len(source.read().events) == 3
    server.most = 1500  # enough for the live one
    reading = source.read()
    assert (reading.events, reading.unread) == ((), ())
    assert trainings.of(ADA) is not None
    server.most = 8 << 20
    assert source.read().events == ()


def test_a_list_of_ended_pods_that_is_too_large_is_said_where_no_namespace_is_known() -> None:
    """Its failure takes no list of those that run."""
    server, trainings = Server(*pods_of("eve", 3, "Failed", 100)), Trainings()
    server.pods.pop()
    server.most = 500
    reading = TrainingsSource(server.get, NODE, "n1", FakeClock(), trainings).read()
    assert [(one.reason, "too large" in one.field) for one in reading.unread] == [
        ("ended pods", True)
    ]


def test_a_list_that_is_too_large_without_a_known_namespace_changes_nothing() -> None:
    """There is nobody to ask for, and the reason is the server's answer."""
    server = Server()
    server.most = 10
    with pytest.raises(OSError, match="too large"):
        NodePods(server.get, NODE).live([])


def test_an_ordinary_node_is_listed_by_two_requests() -> None:
    """From the API server's memory, which pages would not be."""
    server = Server(*pods_of("eve", 60, "Running", 100))
    source_of(server, Trainings()).read()
    assert len(server.asked) == 2
    assert all("resourceVersion=0" in path for path in server.asked)


def test_a_reduced_pod_has_the_same_training_and_ends() -> None:
    """With all labels and annotations that are looked at, and no more of the tenant's own."""
    cluster = Cluster()
    owner = cluster.add("batch/v1", "Job", "llm")
    index = {"batch.kubernetes.io/job-completion-index": "0"}
    pods = [
        cluster.pod("a", owner, annotations=index, labels={"x": "y" * 1000}),
        cluster.pod("b", annotations={"scheduling.k8s.io/group-name": "g"}),
        cluster.pod("c", labels={"scheduling.x-k8s.io/pod-group": "g"}),
    ]
    pods[0]["spec"]["subdomain"] = "train"
    cluster.objects.clear()
    for pod in pods:
        cluster.end(pod["metadata"]["name"], 137, "OOMKilled")
        small = json.loads(json.dumps(pod), object_hook=reduced)
        get = cluster.objects.get
        assert Owners(get).training(small) == Owners(get).training(pod) is not None
        assert list(ends_of(small)) == list(ends_of(pod)) != []
        assert "hunter2" not in repr(small)
        assert "yyy" not in repr(small)


@pytest.mark.parametrize("wrong", [None, 7, "x", [], [None], {"labels": 7, "ownerReferences": 7}])
def test_a_pod_of_any_form_is_reduced(wrong: Any) -> None:
    """Nothing raises."""
    for pod in (
        {"metadata": wrong, "spec": {}},
        {"metadata": {}, "spec": wrong, "status": wrong},
        {"metadata": {"labels": wrong, "ownerReferences": wrong}, "spec": {}},
        {"metadata": {}, "spec": {}, "status": {"containerStatuses": wrong}},
    ):
        Owners(lambda path: None).training(reduced(pod))


@pytest.mark.slow
def test_pods_of_tiny_objects_take_little_memory() -> None:
    """Environments of twelve pods, of which only one pod's is in memory at a time."""
    env = ",".join(['{"name":"a1"}'] * 8_000)
    pod = f'{{"metadata":{{}},"spec":{{"containers":[{{"env":[{env}]}}]}},"status":{{}}}}'
    text = f'{{"items":[{",".join([pod] * 12)}]}}'
    tracemalloc.start()
    json.loads(text, object_hook=reduced)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20
