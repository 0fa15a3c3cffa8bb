"""Objects of a cluster as the API server has them: trainings, their owners, and pods."""

from __future__ import annotations

import copy
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import NAMESPACE_OID, uuid5

Json = dict[str, Any]
NODE = "gpu07"
PLURALS = {
    "Job": "jobs",
    "JobSet": "jobsets",
    "TrainJob": "trainjobs",
    "PyTorchJob": "pytorchjobs",
    "MPIJob": "mpijobs",
    "RayCluster": "rayclusters",
    "RayJob": "rayjobs",
    "LeaderWorkerSet": "leaderworkersets",
    "StatefulSet": "statefulsets",
    "ReplicaSet": "replicasets",
    "Deployment": "deployments",
    "Pod": "pods",
}


def uid_of(*parts: str) -> str:
    """A UID that is always the same for the same words."""
    return str(uuid5(NAMESPACE_OID, "/".join(parts)))


class Cluster:
    """Objects by path; names in the namespace ``ml``."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.pods: dict[str, Json] = {}

    def add(
        self,
        version: str,
        kind: str,
        name: str,
        owner: Json | None = None,
        *,
        spec: Json | None = None,
        generation: str = "",
    ) -> Json:
        """An object; of the same name in another generation it is another one."""
        made: Json = {
            "apiVersion": version,
            "kind": kind,
            "metadata": {"name": name, "namespace": "ml", "uid": uid_of(kind, name, generation)},
            "spec": spec or {},
        }
        if owner is not None:
            made["metadata"]["ownerReferences"] = [owns(owner)]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        self.objects[f"{root}/namespaces/ml/{PLURALS.get(kind, kind.lower())}/{name}"] = made
        return made

    def pod(
        self, name: str, owner: Json | None = None, *, node: str = NODE, **metadata: Json
    ) -> Json:
        """A running pod with one container, as the schema of Kubernetes has it."""
        made: Json = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "ml", "uid": uid_of("Pod", name), **metadata},
            "spec": {
                "nodeName": node,
                "containers": [
                    {
                        "name": "main",
                        "image": "train:1",
                        "env": [{"name": "AWS_SECRET_ACCESS_KEY", "value": "hunter2"}],
                        "resources": {"limits": {"nvidia.com/gpu": "2"}},
                    }
                ],
            },
            "status": {"phase": "Running", "containerStatuses": [status()]},
        }
        if owner is not None:
            made["metadata"]["ownerReferences"] = [owns(owner)]
        self.pods[name] = made
        self.objects[f"/api/v1/namespaces/ml/pods/{name}"] = made
        return made

    def end(self, name: str, code: int, reason: str = "Error", **pod_status: Any) -> None:
        """A pod's container ends."""
        pod = self.pods[name]
        terminated = {"exitCode": code, "reason": reason, "finishedAt": "2027-01-15T09:29:58Z"}
        phase = "Succeeded" if code == 0 else "Failed"
        pod["status"] = {
            "phase": phase,
            "containerStatuses": [status({"terminated": terminated})],
            **pod_status,
        }

    def get(self, path: str) -> Json:
        """As the API answers. OSError where there is no such object."""
        parts = urlsplit(path)
        if parts.path in ("/api/v1/pods", "/api/v1/namespaces/ml/pods"):
            node, *phases = parse_qs(parts.query)["fieldSelector"][0].split(",")
            items = [
                pod
                for pod in self.pods.values()
                if node == f"spec.nodeName={pod['spec']['nodeName']}"
                and f"status.phase!={phase_of(pod)}" not in phases
            ]
            return {
                "kind": "PodList",
                "apiVersion": "v1",
                "metadata": {},
                "items": copy.deepcopy(items),
            }
        if unquote(parts.path) not in self.objects:
            raise FileNotFoundError(path)
        return copy.deepcopy(self.objects[unquote(parts.path)])


def phase_of(pod: Json) -> str:
    """As the API server selects by it."""
    status = pod["status"]
    return str(status.get("phase", "")) if isinstance(status, dict) else ""


def owns(owner: Json) -> Json:
    """A controlling owner reference."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def status(state: Json | None = None) -> Json:
    """Of one container."""
    return {
        "name": "main",
        "image": "train:1",
        "imageID": "",
        "ready": state is None,
        "restartCount": 0,
        "state": state or {"running": {"startedAt": "2027-01-15T08:00:00Z"}},
    }
