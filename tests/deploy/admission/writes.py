"""Writes to Nodes with the agent's token, by what they change, and the Node that they change."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

AGENT = "system:serviceaccount:tocsin:tocsin"
NODE_NAME = "authentication.kubernetes.io/node-name"
EXTRA = {NODE_NAME: ["gpu07"], "authentication.kubernetes.io/pod-name": ["tocsin-x7k2p"]}
CONDITION = "TocsinGpuProblem"
GONE = object()  # in a change: the field is taken away
TIME = "2027-01-15T08:00:00Z"


def _condition(kind: str, status: str) -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": "Because",
        "message": "as it was read",
        "lastHeartbeatTime": TIME,
        "lastTransitionTime": TIME,
    }


READY, PRESSURE = _condition("Ready", "True"), _condition("MemoryPressure", "False")
OURS = _condition(CONDITION, "True")

# A Node as kubelets of 1.36 write it, with every field of its status.
NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": "gpu07",
        "uid": "5f1d0c2e-6f53-4a39-9c51-0b1f6a0f2a11",
        "resourceVersion": "4711",
        "creationTimestamp": "2027-01-01T00:00:00Z",
        "labels": {"kubernetes.io/hostname": "gpu07", "nvidia.com/gpu.present": "true"},
        "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        "managedFields": [{"manager": "kubelet", "operation": "Update", "time": TIME}],
    },
    "spec": {"podCIDR": "10.1.7.0/24", "providerID": "metal://gpu07"},
    "status": {
        "capacity": {"cpu": "192", "memory": "2113407872Ki", "nvidia.com/gpu": "8"},
        "allocatable": {"cpu": "190", "memory": "2101007872Ki", "nvidia.com/gpu": "8"},
        "conditions": [PRESSURE, READY],
        "addresses": [
            {"type": "InternalIP", "address": "10.0.0.7"},
            {"type": "Hostname", "address": "gpu07"},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "machineID": "m",
            "systemUUID": "s",
            "bootID": "b",
            "kernelVersion": "6.8.0",
            "osImage": "Debian 12",
            "containerRuntimeVersion": "containerd://2.1.0",
            "kubeletVersion": "v1.36.1",
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
        "images": [{"names": [f"gpu/image:{n}"], "sizeBytes": 10**9 + n} for n in range(50)],
        "volumesInUse": ["kubernetes.io/csi/one"],
        "volumesAttached": [{"name": "kubernetes.io/csi/one", "devicePath": ""}],
        "runtimeHandlers": [{"name": "runc", "features": {"recursiveReadOnlyMounts": True}}],
        "features": {"supplementalGroupsPolicy": True},
        "declaredFeatures": ["GuaranteedQoSPodCPUResize"],
    },
}


class Write(NamedTuple):
    """One write: what it tries, the fields it sets (by path), and a word of the refusal; "" where
    it must pass.
    """

    tries: str
    change: Mapping[str, object]
    refused: str = ""
    before: Mapping[str, object] = {}
    user: str = AGENT
    extra: Mapping[str, list[str]] = EXTRA
    resource: str = "nodes"
    subresource: str = "status"

    @property
    def old(self) -> dict[str, Any]:
        """The Node before."""
        return changed(NODE, self.before)

    @property
    def new(self) -> dict[str, Any]:
        """The Node that would be stored."""
        return changed(self.old, self.change)


def changed(node: Mapping[str, Any], change: Mapping[str, object]) -> dict[str, Any]:
    """A copy of a Node with other fields.

    >>> changed({"status": {"phase": "a"}}, {"status.phase": "b"})
    {'status': {'phase': 'b'}}
    """
    made = copy.deepcopy(dict(node))
    for path, value in change.items():
        *above, last = path.split(".")
        into = made
        for key in above:
            into = into.setdefault(key, {})
        if value is GONE:
            into.pop(last, None)
        else:
            into[last] = copy.deepcopy(value)
    return made


CONDITIONS = "status.conditions"
BARE = {CONDITIONS: GONE}  # a Node whose kubelet has written no condition yet
EMPTY: dict[str, object] = {"status": {}}
HELD = {CONDITIONS: [PRESSURE, READY, OURS]}

LEGITIMATE = (
    Write("its condition, the first time", {CONDITIONS: [PRESSURE, READY, OURS]}),
    Write(
        "its condition with another status",
        {CONDITIONS: [PRESSURE, READY, _condition(CONDITION, "False")]},
        before=HELD,
    ),
    Write("its condition on a Node without conditions", {CONDITIONS: [OURS]}, before=BARE),
    Write("its condition on a Node with an empty status", {CONDITIONS: [OURS]}, before=EMPTY),
    Write("its condition taken away", {CONDITIONS: [PRESSURE, READY]}, before=HELD),
    Write("its only condition taken away", BARE, before={CONDITIONS: [OURS]}),
    Write("nothing", {}),
    Write("nothing of a Node without conditions", {}, before=BARE),
    Write(
        "its condition, with what the API server notes of each write",
        {
            CONDITIONS: [PRESSURE, READY, OURS],
            "metadata.managedFields": [{"manager": "tocsin", "operation": "Update", "time": TIME}],
            "metadata.resourceVersion": "4712",
        },
    ),
)

# What others write is none of the policy's business.
OTHERS = (
    Write(
        "a kubelet's own status",
        {"status.capacity": {"cpu": "1"}, "metadata.labels": {}},
        user="system:node:gpu07",
        extra={},
    ),
    Write(
        "another service account",
        {"metadata.labels": {"a": "b"}},
        user="system:serviceaccount:tocsin:other",
    ),
)

OTHER_NODE = "to the Node it runs on"
OTHER_CONDITION = "and no other"
OTHER_STATUS = "status but a condition"
OTHER_METADATA = "other metadata"
OTHER_SPEC = "spec"

ATTACKS = (
    Write(
        "another Node's condition",
        HELD,
        OTHER_NODE,
        extra=EXTRA | {NODE_NAME: ["gpu08"]},
    ),
    Write("a token without a node", HELD, OTHER_NODE, extra={"other": ["gpu07"]}),
    Write("a token without extra fields", HELD, OTHER_NODE, extra={}),
    Write("a token of two nodes", HELD, OTHER_NODE, extra={NODE_NAME: ["gpu07", "gpu08"]}),
    Write(
        "another condition's status",
        {CONDITIONS: [PRESSURE, _condition("Ready", "False")]},
        OTHER_CONDITION,
    ),
    Write("another condition taken away", {CONDITIONS: [READY]}, OTHER_CONDITION),
    Write("all conditions taken away", BARE, OTHER_CONDITION),
    Write(
        "a condition of another type on a bare Node",
        {CONDITIONS: [READY]},
        OTHER_CONDITION,
        before=BARE,
    ),
    Write("its condition twice", {CONDITIONS: [PRESSURE, READY, OURS, OURS]}, "once"),
    Write("labels", {"metadata.labels": {"pool": "system"}}, OTHER_METADATA),
    Write("all labels taken away", {"metadata.labels": GONE}, OTHER_METADATA),
    Write("annotations", {"metadata.annotations": {"cluster": "mine"}}, OTHER_METADATA),
    Write("the first finalizer", {"metadata.finalizers": ["example.com/hold"]}, OTHER_METADATA),
    Write(
        "an owner, so that the Node is collected",
        {
            "metadata.ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
            ]
        },
        OTHER_METADATA,
    ),
    Write("capacity", {"status.capacity": {"nvidia.com/gpu": "800"}}, OTHER_STATUS),
    Write("capacity taken away", {"status.capacity": GONE}, OTHER_STATUS),
    Write("allocatable", {"status.allocatable": {"nvidia.com/gpu": "800"}}, OTHER_STATUS),
    Write(
        "the first address of a Node",
        {"status.addresses": [{"type": "InternalIP", "address": "10.6.6.6"}]},
        OTHER_STATUS,
        before={"status.addresses": GONE},
    ),
    Write(
        "addresses",
        {"status.addresses": [{"type": "InternalIP", "address": "10.6.6.6"}]},
        OTHER_STATUS,
    ),
    Write(
        "the kubelet's port", {"status.daemonEndpoints.kubeletEndpoint.Port": 6666}, OTHER_STATUS
    ),
    Write("the phase", {"status.phase": "Terminated"}, OTHER_STATUS),
    Write("the kernel's version", {"status.nodeInfo.kernelVersion": "1.0"}, OTHER_STATUS),
    Write("images", {"status.images": []}, OTHER_STATUS),
    Write("volumes in use", {"status.volumesInUse": GONE}, OTHER_STATUS),
    Write("attached volumes", {"status.volumesAttached": []}, OTHER_STATUS),
    Write("runtime handlers", {"status.runtimeHandlers": GONE}, OTHER_STATUS),
    Write("features", {"status.features": {}}, OTHER_STATUS),
    Write("declared features", {"status.declaredFeatures": []}, OTHER_STATUS),
    Write(
        "its condition, with a port hidden in the same write",
        {
            CONDITIONS: [PRESSURE, READY, OURS],
            "status.daemonEndpoints.kubeletEndpoint.Port": 6666,
        },
        OTHER_STATUS,
    ),
    Write("a taint", {"spec.taints": [{"key": "a", "effect": "NoSchedule"}]}, OTHER_SPEC),
    Write(
        "a cordon, should its role ever allow to patch Nodes",
        {"spec.unschedulable": True},
        OTHER_SPEC,
        subresource="",
    ),
    Write(
        "labels, should its role ever allow to patch Nodes",
        {"metadata.labels": GONE},
        OTHER_METADATA,
        subresource="",
    ),
)
