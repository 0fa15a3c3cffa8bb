"""Kubernetes' API server as a scheduler: a drained node is cordoned and has a taint of ours, and
the tokens that limit drains are Leases.

Who changed a node last is known from its managedFields: an operator who cordons or uncordons it, or
gives it another taint, has taken it over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from collector.config.gates import Kubernetes
from collector.integrations.kubernetes.api import Api, ApiError, Keep
from collector.integrations.kubernetes.objects import TAINT
from collector.integrations.scheduler import OURS, CannotAskError, NodeState
from collector.integrations.tokens import SLOT

REASON = "tocsin/drain-reason"
# Taints that the control plane sets and removes (kubernetes.io, "Taints and Tolerations").
BY_CONTROL_PLANE = "node.kubernetes.io/"
GPU_RESOURCES = ("nvidia.com/", "amd.com/gpu", "gpu.intel.com/")
ENDED = ("Succeeded", "Failed")
# What is kept of the Nodes of a cluster; one has tens of kB of labels, images and owners of fields.
KEPT = frozenset(
    (
        *("items", "metadata", "continue", "message", "name", "annotations", REASON),
        *("spec", "taints", "key", "value", "effect"),
    )
)
# What is kept of the pods of a node.
POD = frozenset(
    (
        *("items", "metadata", "continue", "message", "spec", "status", "phase", "resourceClaims"),
        *("containers", "initContainers", "resources", "limits"),
    )
)
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"


class Nodes:
    """Implements Scheduler. Needs get, list and patch on nodes, list on pods, and list, create and
    delete on leases of its namespace.
    """

    def __init__(self, settings: Kubernetes) -> None:
        self._settings, self._leases = settings, LEASES.format(quote(settings.namespace))

    def node(self, name: str) -> NodeState:
        """Drained where it is unschedulable; busy while pods on it have GPUs."""
        found = self._get(f"/api/v1/nodes/{quote(name)}")
        words = {"DRAIN"} if found.get("spec", {}).get("unschedulable") is True else {"IDLE"}
        if self.has_jobs(name):
            words.add("ALLOCATED")
        return NodeState(frozenset(words), _reason(found), _by(found))

    def has_jobs(self, name: str) -> bool:
        """Pods with GPUs. Those that have ended use no quota: a tenant may have any number."""
        terms = (f"spec.nodeName={name}", *(f"status.phase!={phase}" for phase in ENDED))
        selector = quote(",".join(terms), safe="")
        return any(map(_has_gpu, self._items(f"/api/v1/pods?fieldSelector={selector}", _pod)))

    def drained(self) -> dict[str, str]:
        """Nodes with a taint of ours."""
        items = self._items("/api/v1/nodes", _kept)
        return {one["metadata"]["name"]: reason for one in items if (reason := _reason(one))}

    def tokens(self, prefix: str) -> dict[str, str]:
        """Leases; an underscore is a hyphen in their names."""
        items = self._get(self._leases).get("items", ())
        named = {
            str(one["metadata"]["name"]).replace("-", "_"): str(
                one.get("spec", {}).get("holderIdentity", "")
            )
            for one in items
        }
        return {name: node for name, node in named.items() if name.startswith(prefix)}

    def take(self, token: str, node: str) -> bool:
        """The API server lets one of many create it, and deletes a slot with its Node. An allowance
        of the hour outlasts a Node that is replaced.
        """
        owner = {"ownerReferences": [self._owner(node)]} if token.startswith(SLOT) else {}
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": token.replace("_", "-"),
                "namespace": self._settings.namespace,
                **owner,
            },
            "spec": {"holderIdentity": node},
        }
        return bool(self._done(lambda api: api.create(self._leases, lease)))

    def drop(self, token: str) -> None:
        """Delete the Lease."""
        self._done(lambda api: api.delete(f"{self._leases}/{token.replace('_', '-')}"))

    def drain(self, node: str, reason: str) -> None:
        """Cordon and taint in one request, which fails where the node has changed since."""
        found = self._get(f"/api/v1/nodes/{quote(node)}")
        taints = [*_others(found), {"key": TAINT, "value": "true", "effect": "NoSchedule"}]
        self._change(found, reason, {"unschedulable": True, "taints": taints})

    def resume(self, node: str) -> None:
        """Only what is ours: CannotAskError where the taint is gone."""
        found = self._get(f"/api/v1/nodes/{quote(node)}")
        if not _reason(found):
            raise CannotAskError(f"{node} has no taint of ours any more")
        self._change(found, None, {"unschedulable": None, "taints": _others(found)})

    def _change(self, found: Mapping[str, Any], reason: str | None, spec: dict[str, Any]) -> None:
        name = found["metadata"]["name"]
        body = {
            "metadata": {
                "resourceVersion": found["metadata"]["resourceVersion"],
                "annotations": {REASON: reason},
            },
            "spec": spec,
        }
        if not self._done(lambda api: api.merge(f"/api/v1/nodes/{quote(name)}", body)):
            raise CannotAskError(f"{name} was changed by someone else meanwhile")

    def _owner(self, node: str) -> dict[str, str]:
        uid = self._get(f"/api/v1/nodes/{quote(node)}")["metadata"]["uid"]
        return {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}

    def _items(self, path: str, keep: Keep) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._done(lambda api: api.items(path, keep))
        return found

    def _get(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = self._done(lambda api: api.get(path))
        return found

    def _done(self, request: Any) -> Any:
        try:
            return request(Api(self._settings))
        except (ApiError, OSError, ValueError) as error:
            raise CannotAskError(str(error)) from error


def _kept(one: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in one.items() if name in KEPT}


def _pod(one: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in one.items() if name in POD or _is_gpu(name)}


def _reason(node: Mapping[str, Any]) -> str:
    """Ours, empty without our taint."""
    reason = str(node["metadata"].get("annotations", {}).get(REASON, ""))
    ours = any(taint.get("key") == TAINT for taint in _taints(node))
    return reason if ours and reason.startswith(OURS) else ""


def _taints(node: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(node.get("spec", {}).get("taints") or ())


def _others(node: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [taint for taint in _taints(node) if taint.get("key") != TAINT]


def _by(node: Mapping[str, Any]) -> str:
    """Who cordoned it when, and which taints others have given it: what is not as we left it was
    changed by an operator.
    """
    taints = sorted(
        f"{taint['key']}={taint.get('value', '')}:{taint['effect']}"
        for taint in _others(node)
        if not str(taint["key"]).startswith(BY_CONTROL_PLANE)
    )
    return " ".join((max(_owners(node), default=""), *taints))


def _owners(node: Mapping[str, Any]) -> Iterator[str]:
    for entry in node["metadata"].get("managedFields", ()):
        if "f:unschedulable" in entry.get("fieldsV1", {}).get("f:spec", {}):
            yield f"{entry.get('time', '')} {entry.get('manager', '')}"


def _has_gpu(pod: Mapping[str, Any]) -> bool:
    """Whether it holds GPUs now. A claim (DRA) may be one: it counts."""
    spec = pod.get("spec", {})
    if pod.get("status", {}).get("phase") in ENDED:
        return False
    wanted = [
        name
        for container in (*spec.get("containers", ()), *(spec.get("initContainers") or ()))
        for name in container.get("resources", {}).get("limits", {})
    ]
    return bool(spec.get("resourceClaims")) or any(map(_is_gpu, wanted))


def _is_gpu(resource: str) -> bool:
    return resource.startswith(GPU_RESOURCES)
