"""Drains and repairs before a Kubernetes API server, and as NVSentinel hands nodes over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.config.gates import Kubernetes
from collector.integrations.kubernetes import api
from collector.integrations.kubernetes.nodes import REASON, Nodes
from collector.integrations.kubernetes.objects import TAINT
from collector.integrations.nvsentinel.remediation import COMPLETE, LABEL, Remediation
from collector.integrations.nvsentinel.remediation import TAINT as RELEASE
from collector.integrations.scheduler import CannotAskError, Scheduler
from tests.collector.repair.cluster import ERRS, Cluster
from tests.collector.repair.world import ALL_ON, World
from tests.deploy.manifests import KUBERNETES, manifests

pytestmark = pytest.mark.slow
NODE = "/api/v1/nodes/gpu01"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Three nodes."""
    server = Cluster(tmp_path, "gpu01", "gpu02", "gpu03")
    with server:
        yield server


def settings(cluster: Cluster) -> Kubernetes:
    """Of a repair on that cluster."""
    return Kubernetes(
        api=cluster.url, token_file=str(cluster.token_file), ca_file=str(cluster.ca_file)
    )


def repaired(world: World, scheduler: Scheduler, name: str = "gpu01") -> list[str]:
    """All that runs of a repair say until nothing new comes."""
    said: list[str] = []
    for _ in range(8):
        world.slurm.reasons[name] = "tocsin:x@y"  # the world's own checks look at Slurm
        said += world.machine(world.nodes[name], ALL_ON, scheduler=scheduler).advance()
        world.now += 60
    return said


def test_a_node_is_cordoned_repaired_and_given_back(cluster: Cluster, tmp_path: Path) -> None:
    """One GPU is reset behind a cordon with our taint, and nothing of ours is left."""
    world, nodes = World(tmp_path, "gpu01"), Nodes(settings(cluster))
    said = repaired(world, nodes)
    assert world.nodes["gpu01"].acts == ["reset"]
    assert said[-1].startswith("GPU 3: resumed gpu01")
    assert cluster.objects[NODE]["spec"] == {"taints": []}
    assert not [name for name in cluster.objects if "tocsin-slot" in name]


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"unschedulable": None}},
        {"spec": {"unschedulable": True}},
        {"spec": {"taints": []}},
        {
            "spec": {
                "taints": [
                    {"key": TAINT, "value": "true", "effect": "NoSchedule"},
                    {"key": "works", "effect": "NoSchedule"},
                ]
            }
        },
    ],
    ids=["uncordoned", "cordoned", "untainted", "tainted"],
)
def test_what_an_operator_changed_is_theirs(
    cluster: Cluster, tmp_path: Path, change: dict[str, object]
) -> None:
    """A node that is not as we left it is neither reset nor uncordoned, and a ticket says so."""
    world, nodes = World(tmp_path, "gpu01"), Nodes(settings(cluster))
    world.machine(world.nodes["gpu01"], scheduler=nodes).advance()
    cluster.change(NODE, change, "kubectl")
    before = cluster.objects[NODE]
    repaired(world, nodes)
    case = world.case("gpu01")
    assert case is not None
    assert case.step == "stopped"
    assert cluster.objects[NODE] == before
    assert world.nodes["gpu01"].acts == []


def test_a_node_with_gpu_pods_is_left_alone(cluster: Cluster, tmp_path: Path) -> None:
    """A cordon evicts nobody: the reset waits for the last pod that has GPUs."""
    world, nodes = World(tmp_path, "gpu01"), Nodes(settings(cluster))
    pod = {"resources": {"limits": {"nvidia.com/gpu": "8"}}}
    cluster.put(
        "/api/v1/pods/train",
        {"metadata": {"name": "train"}, "spec": {"nodeName": "gpu01", "containers": [pod]}},
    )
    assert repaired(world, nodes)[-1] == "GPU 3: jobs are still running"
    cluster.objects["/api/v1/pods/train"]["status"] = {"phase": "Succeeded"}
    repaired(world, nodes)
    assert world.nodes["gpu01"].acts == ["reset"]


def test_pods_of_any_size_and_number_keep_no_node_from_being_drained(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Together they are more than an answer may be, and those that have ended are without end."""
    monkeypatch.setattr(api, "MAX_BYTES", 10_000)
    nodes = Nodes(settings(cluster))

    def pod(number: int, phase: str, resources: dict[str, str], size: int) -> None:
        environment = [{"name": "A", "value": "x" * size}]
        container = {"resources": {"limits": resources}, "env": environment}
        spec = {"nodeName": "gpu01", "containers": [container]}
        made = {"metadata": {"name": f"p{number}"}, "spec": spec, "status": {"phase": phase}}
        cluster.put(f"/api/v1/pods/p{number}", made)

    for number in range(4):
        pod(number, "Running", {"cpu": "1"}, 5_000)
    pod(10, "Succeeded", {"nvidia.com/gpu": "8"}, 20_000)
    assert not nodes.has_jobs("gpu01")
    nodes.drain("gpu01", "tocsin:x")
    pod(5, "Running", {"nvidia.com/mig-1g.10gb": "1"}, 5_000)
    assert nodes.has_jobs("gpu01")
    assert not nodes.has_jobs("gpu02")


def test_leases_keep_the_cap(cluster: Cluster, tmp_path: Path) -> None:
    """Of three broken nodes two are cordoned."""
    world, nodes = World(tmp_path, "gpu01", "gpu02", "gpu03"), Nodes(settings(cluster))
    for node in world.nodes.values():
        said = world.machine(node, scheduler=nodes).advance()
    assert sorted(nodes.drained()) == ["gpu01", "gpu02"]
    assert "limit reached" in said[0]


def test_a_slot_goes_with_its_node(cluster: Cluster) -> None:
    """The API server collects the Lease of a Node that was deleted or replaced; the allowance of
    the hour stays, or a cluster that replaces cordoned nodes would have no limit.
    """
    nodes = Nodes(settings(cluster))
    assert nodes.take("tocsin_slot_1", "gpu01")
    assert nodes.take("tocsin_hour_2027011512_001", "gpu01")
    leases = {key.rpartition("/")[2]: one for key, one in cluster.objects.items() if "lease" in key}
    uid = cluster.objects[NODE]["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": "gpu01", "uid": uid}
    assert leases["tocsin-slot-1"]["metadata"]["ownerReferences"] == [owner]
    assert "ownerReferences" not in leases["tocsin-hour-2027011512-001"]["metadata"]


@pytest.mark.parametrize("expired", [0, 1])
def test_a_large_cluster_is_read_in_pages(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, expired: int
) -> None:
    """All Nodes in one answer are too large; a list that expires meanwhile is read again."""
    nodes, cluster.expired = Nodes(settings(cluster)), expired
    nodes.drain("gpu02", "tocsin:x")
    for number in range(250):
        made = {"name": f"cpu{number:03}", "labels": {"a": "b" * 1000}}
        cluster.put(f"/api/v1/nodes/cpu{number:03}", {"metadata": made, "spec": {}})
    nodes.drain("cpu249", "tocsin:y")
    monkeypatch.setattr(api, "MAX_BYTES", 200_000)
    cluster.requests.clear()
    assert nodes.drained() == {"gpu02": "tocsin:x", "cpu249": "tocsin:y"}
    assert len(cluster.requests) == 3 + 2 * expired


def test_a_list_that_expires_for_ever_is_no_answer(cluster: Cluster) -> None:
    """Nothing is done then, and no request is sent for ever."""
    for number in range(200):
        made = {"metadata": {"name": f"cpu{number:03}"}, "spec": {}}
        cluster.put(f"/api/v1/nodes/cpu{number:03}", made)
    cluster.expired = 1000
    with pytest.raises(CannotAskError, match="HTTP 410"):
        Nodes(settings(cluster)).drained()
    assert len(cluster.requests) < 20


def test_requests_of_nvsentinel_are_read_in_pages(cluster: Cluster) -> None:
    """The one of a node may be on any page; its conditions are kept whole."""
    condition = {"type": "NVSentinelOwnershipReleased", "status": "True", "reason": "Drained"}
    for number in range(150):
        made = {
            "metadata": {"name": f"err-{number:03}", "managedFields": [{"manager": "x"}]},
            "spec": {"healthEvent": {"nodeName": f"gpu{number:03}"}},
            "status": {"conditions": [condition]},
        }
        cluster.put(f"{ERRS}/err-{number:03}", made)
    found = list(Remediation(settings(cluster))._open())
    assert len(found) == 150
    assert found[149]["status"]["conditions"] == [condition]
    assert len(cluster.requests) == 2


def test_a_node_that_changes_meanwhile_is_not_written(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request carries the version that was read."""
    nodes = Nodes(settings(cluster))
    nodes.drain("gpu01", "tocsin:x")
    assert cluster.objects[NODE]["metadata"]["annotations"] == {REASON: "tocsin:x"}
    stale = nodes._get(NODE)
    cluster.change(NODE, {"metadata": {"labels": {"a": "b"}}}, "kubectl")
    monkeypatch.setattr(nodes, "_get", lambda _: stale)
    with pytest.raises(CannotAskError, match="changed by someone else"):
        nodes.resume("gpu01")


def test_nvsentinel_hands_a_node_over_and_gets_it_back(cluster: Cluster, tmp_path: Path) -> None:
    """Nothing is done before the release; then the node is repaired, and success is reported in the
    request without a change to taint or label.
    """
    world, scheduler = World(tmp_path, "gpu01"), Remediation(settings(cluster))
    (said,) = world.machine(world.nodes["gpu01"], scheduler=scheduler).advance()
    assert said.startswith("GPU 3: not drained (NVSentinel has not released gpu01): ")
    assert not [name for name in cluster.objects if "lease" in name]  # nobody else's allowance
    taint = {"key": RELEASE, "value": "err-1", "effect": "NoSchedule"}
    released = {"metadata": {"labels": {LABEL: "false"}}, "spec": {"taints": [taint]}}
    cluster.change(NODE, released, "nvsentinel")
    spec = {"healthEvent": {"nodeName": "gpu01"}}
    condition = {"type": "NVSentinelOwnershipReleased", "status": "True"}
    cluster.put(
        f"{ERRS}/err-1",
        {
            "metadata": {"name": "err-1", "uid": "u1"},
            "spec": spec,
            "status": {"conditions": [condition]},
        },
    )
    repaired(world, scheduler)
    assert world.nodes["gpu01"].acts == ["reset"]
    conditions = cluster.objects[f"{ERRS}/err-1"]["status"]["conditions"]
    assert [(c["type"], c["status"]) for c in conditions][1] == (COMPLETE, "True")
    assert cluster.objects[NODE]["spec"]["taints"] == [taint]


def test_the_role_of_a_repair_is_what_it_asks_for(cluster: Cluster, tmp_path: Path) -> None:
    """All requests of a complete repair, by verb and resource: these are allowed, and no others."""
    repaired(World(tmp_path, "gpu01"), Nodes(settings(cluster)))
    verbs = {"PATCH": "patch", "POST": "create", "DELETE": "delete"}
    asked = set()
    for request in cluster.requests:
        method, _, path = request.partition(" ")
        parts = path.partition("?")[0].strip("/").split("/")
        kind = next(name for name in ("nodes", "pods", "leases") if name in parts)
        asked.add((verbs.get(method, "list" if parts[-1] == kind else "get"), kind))
    rules = [
        rule
        for manifest in manifests(KUBERNETES / "repair" / "rbac.yaml")
        for rule in manifest.get("rules", ())
    ]
    assert asked == {
        (verb, kind) for rule in rules for kind in rule["resources"] for verb in rule["verbs"]
    }
