"""Writes to Nodes with the token of `tocsin repair`, by what they change."""

from __future__ import annotations

from functools import partial
from typing import Any

from collector.integrations.kubernetes.nodes import REASON
from collector.integrations.kubernetes.objects import TAINT
from tests.deploy.admission.writes import CONDITIONS, GONE, PRESSURE, Write

REPAIR = "system:serviceaccount:tocsin:tocsin-repair"
_Write = partial(Write, user=REPAIR, extra={}, subresource="")

OURS = {"key": TAINT, "value": "true", "effect": "NoSchedule"}
THEIRS = {"key": "maintenance", "effect": "NoExecute"}
TAINTS, CORDON = "spec.taints", "spec.unschedulable"
ANNOTATIONS = "metadata.annotations"
KEPT = {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
WITH_REASON: dict[str, object] = {ANNOTATIONS: {**KEPT, REASON: "tocsin:5a2e at 1"}}
DRAINED: dict[str, object] = {TAINTS: [OURS], CORDON: True, **WITH_REASON}
BARE: dict[str, object] = {"spec": GONE, ANNOTATIONS: GONE}

LEGITIMATE = (
    _Write("a drain", DRAINED),
    _Write("a drain of a Node without spec or annotations", {
        **DRAINED, ANNOTATIONS: {REASON: "tocsin:5a2e at 1"},
    }, before=BARE),
    _Write("a drain beside another taint", {**DRAINED, TAINTS: [THEIRS, OURS]}, before={
        TAINTS: [THEIRS],
    }),
    _Write("a drain of a Node that is cordoned already", DRAINED, before={CORDON: True}),
    _Write("a return", {TAINTS: [], CORDON: GONE, ANNOTATIONS: KEPT}, before=DRAINED),
    _Write("a return beside another taint", {
        TAINTS: [THEIRS], CORDON: GONE, ANNOTATIONS: KEPT,
    }, before={**DRAINED, TAINTS: [THEIRS, OURS]}),
    _Write("nothing", {}),
    _Write("a drain, with what the API server notes of each write", {
        **DRAINED,
        "metadata.managedFields": [{"manager": "tocsin", "operation": "Update"}],
        "metadata.resourceVersion": "4712",
    }),
)  # fmt: skip
OTHERS = (
    Write(
        "an operator's own cordon",
        {CORDON: True},
        user="ada",
        extra={},
        subresource="",
    ),
)

OTHER_TAINT, OWN_TAINT = "tocsin/drained, and no other", "once with tocsin/drained"
CORDONS, UNCORDONS = "cordons a Node with its taint", "takes its taint"
SPEC, ANNOTATION, METADATA = "spec but taint", "annotation tocsin", "other metadata"
STATUS = "a Node's status"
HELD = {**DRAINED, TAINTS: [THEIRS, OURS]}
ATTACKS: tuple[Any, ...] = (
    _Write("another taint", {TAINTS: [THEIRS]}, OTHER_TAINT),
    _Write("another taint beside a drain", {**DRAINED, TAINTS: [THEIRS, OURS]}, OTHER_TAINT),
    _Write("an operator's taint taken away", {TAINTS: [OURS]}, OTHER_TAINT, before=HELD),
    _Write("all taints taken away", {TAINTS: GONE, CORDON: GONE}, OTHER_TAINT, before=HELD),
    _Write("an operator's taint with another effect", {
        TAINTS: [{**THEIRS, "effect": "NoSchedule"}, OURS],
    }, OTHER_TAINT, before=HELD),
    _Write("eviction of all pods", {**DRAINED, TAINTS: [{**OURS, "effect": "NoExecute"}]},
           OWN_TAINT),
    _Write("its taint with another value", {**DRAINED, TAINTS: [{**OURS, "value": "x"}]},
           OWN_TAINT),
    _Write("its taint twice", {**DRAINED, TAINTS: [OURS, {**OURS, "effect": "PreferNoSchedule"}]},
           OWN_TAINT),
    _Write("a cordon without its taint", {CORDON: True}, CORDONS),
    _Write("an operator's cordon taken away", {CORDON: GONE}, UNCORDONS, before={CORDON: True}),
    _Write("an operator's cordon set to false", {CORDON: False}, UNCORDONS, before={CORDON: True}),
    _Write("a Node uncordoned that keeps its taint", {CORDON: GONE}, UNCORDONS, before=DRAINED),
    _Write("a provider", {"spec.providerID": "metal://other"}, SPEC),
    _Write("the pods' addresses", {"spec.podCIDR": GONE}, SPEC),
    _Write("a field of a later release", {"spec.somethingNew": 1}, SPEC),
    _Write("labels", {"metadata.labels": {"pool": "system"}}, METADATA),
    _Write("all labels taken away", {"metadata.labels": GONE}, METADATA),
    _Write("the first finalizer", {"metadata.finalizers": ["example.com/hold"]}, METADATA),
    _Write("an owner", {"metadata.ownerReferences": [{"kind": "Pod", "name": "p"}]}, METADATA),
    _Write("another annotation", {ANNOTATIONS: {**KEPT, "a": "b"}}, ANNOTATION),
    _Write("another annotation taken away", {ANNOTATIONS: GONE}, ANNOTATION),
    _Write("a condition", {CONDITIONS: [PRESSURE]}, STATUS, subresource="status"),
    _Write("capacity hidden in a drain", {**DRAINED, "status.capacity": {"nvidia.com/gpu": "80"}},
           STATUS),
)  # fmt: skip
