"""Kinds of objects that own pods: how they are asked for, how many pods they make, and whether
these are one program.

Fields: the API reference of Kubernetes 1.36, and the CRDs of JobSet, Kubeflow Trainer and Training
Operator, MPI Operator, KubeRay, Volcano and LeaderWorkerSet (heads of mid-2026).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Object = Mapping[str, Any]
MAX_PODS = 1_000_000


class Kind(NamedTuple):
    """``plural`` is its name in paths; ``pods`` counts the pods of its spec that compute, 0 where
    that is unknown. ``gang``: whether all pods of one object are one program. ``serves``: it makes
    servers, which are no training. ``owned``: others may own it, so it is worth asking for.
    """

    plural: str
    pods: Callable[[Object], int]
    gang: Callable[[Object], bool]
    serves: bool = False
    owned: bool = True


def unknown(_spec: Object) -> int:
    """How many pods there are is not said."""
    return 0


def always(_spec: Object) -> bool:
    """All pods are one program."""
    return True


def never(_spec: Object) -> bool:
    """Each pod may be a program of its own."""
    return False


def number(value: object, otherwise: int = 0) -> int:
    """A count of a spec, which may hold anything."""
    if isinstance(value, bool) or not isinstance(value, int):
        return otherwise
    return value if 0 <= value <= MAX_PODS else otherwise


def _job(spec: Object) -> int:
    return number(spec.get("completions"), number(spec.get("parallelism"), 1))


def _talks(spec: Object) -> bool:
    """A Job whose pods find each other: indexed, all at once, each with a name in the DNS
    (kubernetes.io, "Job with Pod-to-Pod Communication"). Other Jobs are queues of work.
    """
    together = number(spec.get("completions")) == number(spec.get("parallelism")) > 1
    named = isinstance(_inside(spec, "template", "spec").get("subdomain"), str)
    return spec.get("completionMode") == "Indexed" and together and named


def _jobset(spec: Object) -> int:
    return sum(
        number(one.get("replicas"), 1) * _job(_inside(one, "template", "spec"))
        for one in _listed(spec, "replicatedJobs")
    )


def _replicas(name: str, *without: str) -> Callable[[Object], int]:
    """Replicas by type, as Kubeflow's training operator has them."""

    def count(spec: Object) -> int:
        specs = _inside(spec, name)
        rows = [one for kind, one in specs.items() if kind not in without]
        return sum(number(one.get("replicas"), 1) for one in rows if isinstance(one, Mapping))

    return count


def _train_job(spec: Object) -> int:
    return number(_inside(spec, "trainer").get("numNodes"), 0)


def _volcano(spec: Object) -> int:
    return sum(number(task.get("replicas"), 1) for task in _listed(spec, "tasks"))


def _leader_worker_set(spec: Object) -> int:
    return number(_inside(spec, "leaderWorkerTemplate").get("size"), 1)


def _program(plural: str, pods: Callable[[Object], int] = unknown) -> Kind:
    return Kind(plural, pods, always)


def _server(plural: str) -> Kind:
    return Kind(plural, unknown, never, serves=True, owned=False)


KINDS: Mapping[tuple[str, str], Kind] = {
    ("batch", "Job"): Kind("jobs", _job, _talks),
    ("jobset.x-k8s.io", "JobSet"): _program("jobsets", _jobset),
    ("trainer.kubeflow.org", "TrainJob"): _program("trainjobs", _train_job),
    ("kubeflow.org", "PyTorchJob"): _program("pytorchjobs", _replicas("pytorchReplicaSpecs")),
    ("kubeflow.org", "TFJob"): _program("tfjobs", _replicas("tfReplicaSpecs")),
    ("kubeflow.org", "XGBoostJob"): _program("xgboostjobs", _replicas("xgbReplicaSpecs")),
    ("kubeflow.org", "PaddleJob"): _program("paddlejobs", _replicas("paddleReplicaSpecs")),
    ("kubeflow.org", "JAXJob"): _program("jaxjobs", _replicas("jaxReplicaSpecs")),
    ("kubeflow.org", "MPIJob"): _program("mpijobs", _replicas("mpiReplicaSpecs", "Launcher")),
    ("ray.io", "RayCluster"): Kind("rayclusters", unknown, never),  # jobs share a cluster
    ("ray.io", "RayJob"): _program("rayjobs"),
    ("ray.io", "RayService"): _server("rayservices"),
    ("batch.volcano.sh", "Job"): _program("jobs", _volcano),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _program(
        "leaderworkersets", _leader_worker_set
    ),
    ("apps", "StatefulSet"): Kind("statefulsets", unknown, never, serves=True),
    ("apps", "ReplicaSet"): _server("replicasets"),
    ("apps", "Deployment"): _server("deployments"),
    ("", "Pod"): Kind("pods", unknown, never),
}


def _inside(node: object, *names: str) -> Object:
    for name in names:
        node = node.get(name) if isinstance(node, Mapping) else None
    return node if isinstance(node, Mapping) else {}


def _listed(node: Object, name: str) -> list[Object]:
    rows = node.get(name)
    return [one for one in rows if isinstance(one, Mapping)] if isinstance(rows, list) else []
