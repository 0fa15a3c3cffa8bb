"""The source of trainings on an API server: what it learns, what it stores, and what it keeps while
the server is away.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collector.config.gates import Kubernetes
from collector.integrations.kubernetes.api import Api
from collector.node.pods_by_gpu import Pod
from collector.node.trainings import Trainings
from collector.sources.trainings.source import TrainingsSource
from tests.collector.integrations.kubernetes.server import _validate
from tests.collector.sources.trainings.cluster import NODE, Cluster, ClusterServer, uid_of
from tests.fakes import FakeClock

PYTORCH = {"pytorchReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 1}}}


@pytest.fixture
def cluster() -> Cluster:
    """A training of two pods on this node, one elsewhere, and a server."""
    made = Cluster()
    job = made.add("kubeflow.org/v1", "PyTorchJob", "llm", spec=PYTORCH)
    made.pod("llm-master-0", job)
    made.pod("llm-worker-0", job)
    made.pod("llm-worker-1", job, node="other")
    made.pod("web", made.add("apps/v1", "ReplicaSet", "web-1"))
    return made


def source_of(cluster: Cluster, trainings: Trainings, **more: Any) -> TrainingsSource:
    """Without a network."""
    return TrainingsSource(cluster.get, NODE, "n1", FakeClock(), trainings, **more)


@pytest.fixture
def server(tmp_path: Path, cluster: Cluster) -> Iterator[ClusterServer]:
    """The API server."""
    served = ClusterServer(tmp_path, cluster)
    with served:
        yield served


@pytest.mark.slow
def test_pods_of_this_node_have_their_training(server: ClusterServer, cluster: Cluster) -> None:
    """Over HTTPS with the token of the service account; only reading, only this node."""
    settings = Kubernetes(
        api=server.url, token_file=str(server.token_file), ca_file=str(server.ca_file)
    )
    trainings = Trainings()
    source = TrainingsSource(Api(settings).get, NODE, "n1", FakeClock(), trainings)
    reading = source.read()
    found = trainings.of(Pod("ml", "llm-worker-0"))
    assert found is not None
    assert (found.kind, found.name, found.pods) == ("PyTorchJob", "llm", 2)
    assert trainings.of_group(f"pod{uid_of('Pod', 'llm-master-0')}") == found
    assert trainings.of(Pod("ml", "web")) is trainings.of(Pod("ml", "llm-worker-1")) is None
    assert (reading.events, reading.unread) == ((), ())
    assert all(request.startswith("GET ") for request in server.requests)
    assert len(server.requests) == 3  # the lists of live and ended pods, and the PyTorchJob

    server.refuse = 503
    with pytest.raises(OSError, match="503"):
        source.read()
    assert trainings.of(Pod("ml", "llm-worker-0")) == found  # it runs still
    server.refuse = 0
    del cluster.pods["llm-worker-0"]
    source.read()
    assert trainings.of(Pod("ml", "llm-worker-0")) is None


@pytest.mark.slow
def test_what_the_role_may_not_read_is_said(server: ClusterServer) -> None:
    """Its pods are one program by their owner's kind; how many there are is not known."""
    server.forbidden = frozenset({"pytorchjobs"})
    settings = Kubernetes(
        api=server.url, token_file=str(server.token_file), ca_file=str(server.ca_file)
    )
    trainings = Trainings()
    reading = TrainingsSource(Api(settings).get, NODE, "n1", FakeClock(), trainings).read()
    pods = [trainings.of(Pod("ml", name)) for name in ("llm-master-0", "llm-worker-0")]
    assert {(one.name, one.pods) for one in pods if one} == {("llm", 0)}
    assert len({one.id for one in pods if one}) == 1
    assert [unread.reason for unread in reading.unread] == ["owner"]
    assert "pytorchjobs is forbidden" in reading.unread[0].field


@pytest.mark.slow
def test_the_pods_of_these_tests_are_those_of_kubernetes(cluster: Cluster) -> None:
    """By its own schema, strictly."""
    cluster.end("llm-worker-0", 137, "OOMKilled")
    for pod in cluster.pods.values():
        _validate(pod)


def test_ends_are_stored_once_with_their_reason(cluster: Cluster) -> None:
    """When they are seen, with the time that the kubelet gave them."""
    trainings = Trainings()
    source = source_of(cluster, trainings)
    assert source.read().events == ()
    cluster.end("llm-worker-0", 137, "OOMKilled")
    cluster.end("web", 1)
    (event,) = source.read().events
    assert event.kind == "pod_ended"
    training = trainings.of(Pod("ml", "llm-master-0"))
    assert training is not None
    assert dict(event.attributes) == {
        "job": training.id,
        "pod": "ml/llm-worker-0",
        "container": "main",
        "reason": "OOMKilled",
        "exit_code": 137,
    }
    assert event.time_ns == 1_800_005_398 * 10**9
    assert source.read().events == ()
    assert trainings.of(Pod("ml", "llm-worker-0")) is None  # over


def test_names_that_are_hidden_are_in_no_event(cluster: Cluster) -> None:
    """`sources.jobs.hide` holds for trainings too."""
    trainings = Trainings()
    source = source_of(cluster, trainings, hidden=("namespace",))
    cluster.end("llm-worker-0", 1)
    reported = json.dumps([dict(event.attributes) for event in source.read().events])
    assert "llm" not in reported
    assert "ml" not in reported
    assert trainings.of(Pod("ml", "llm-master-0")) is not None


@pytest.mark.parametrize(("bridges", "ids"), [((), set()), (("ml",), {"4711"})])
def test_a_pod_is_a_job_of_slurm_in_the_namespaces_that_are_listed(
    cluster: Cluster, bridges: tuple[str, ...], ids: set[str]
) -> None:
    """`sources.trainings.slurm_bridge_namespaces`; elsewhere anybody may set that label."""
    trainings = Trainings()
    cluster.pod("bare", labels={"scheduler.slinky.slurm.net/slurm-jobid": "4711"})
    source_of(cluster, trainings, bridges=bridges).read()
    found = trainings.of(Pod("ml", "bare"))
    assert ({found.id} if found else set()) == ids


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"items": None},
        {"items": [], "metadata": {"continue": "x"}},
        {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"},
    ],
    ids=["empty", "none", "cut", "expired"],
)
def test_an_answer_that_is_no_complete_list_changes_nothing(
    cluster: Cluster, answer: dict[str, Any]
) -> None:
    """A job ends only when a complete list lacks it."""
    trainings = Trainings()
    source_of(cluster, trainings).read()
    broken = TrainingsSource(lambda path: answer, NODE, "n1", FakeClock(), trainings)
    with pytest.raises(OSError, match="no complete list"):
        broken.read()
    assert trainings.of(Pod("ml", "llm-master-0")) is not None


def test_objects_of_any_form_are_no_failure(cluster: Cluster) -> None:
    """A pod whose every field is something else."""
    wrong: Any
    for wrong in (None, 7, "x", [], {"containerStatuses": [None, {"state": {"terminated": 7}}]}):
        cluster.pods["llm-worker-0"]["status"] = wrong
        source_of(cluster, Trainings()).read()


def test_no_secret_of_a_pod_is_kept(cluster: Cluster) -> None:
    """Its environment is read with it, and dropped."""
    trainings = Trainings()
    source = source_of(cluster, trainings)
    cluster.end("llm-worker-0", 1)
    reading = source.read()
    assert "hunter2" not in repr((reading, trainings.__dict__, source._owners.__dict__))


def test_an_owner_that_was_deleted_keeps_its_pods_in_one_training(cluster: Cluster) -> None:
    """The object is gone and its pods still run: it is remembered."""
    trainings = Trainings()
    source = source_of(cluster, trainings)
    source.read()
    before = trainings.of(Pod("ml", "llm-worker-0"))
    for path in [path for path in cluster.objects if path.endswith("/pytorchjobs/llm")]:
        del cluster.objects[path]
    for _ in range(25):  # also what could not be read is asked for again
        source.read()
    assert before is not None
    assert trainings.of(Pod("ml", "llm-worker-0")) == before


def test_an_agent_that_starts_after_an_owner_was_deleted_has_its_pods_in_one_training(
    cluster: Cluster,
) -> None:
    """The same that an agent knows which had read it: a restart ends no job and begins none."""
    before, after = Trainings(), Trainings()
    source_of(cluster, before).read()
    for path in [path for path in cluster.objects if path.endswith("/pytorchjobs/llm")]:
        del cluster.objects[path]
    source_of(cluster, after).read()
    pods = [Pod("ml", name) for name in ("llm-master-0", "llm-worker-0")]
    ids = {found.id for known in (before, after) for pod in pods if (found := known.of(pod))}
    assert len(ids) == 1
