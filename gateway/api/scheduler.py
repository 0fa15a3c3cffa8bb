"""``/scheduler/filter`` and ``/scheduler/prioritize``: an extender of kube-scheduler.

The wire format is that of k8s.io/kube-scheduler/extender/v1: its structs have no JSON tags, so that
names are Go's, and Go's decoder takes them in any case. Both calls only read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from collector.web.levels import WORST_FIRST
from gateway.api import schema
from gateway.api.devices import MAX_TEXT, reasons
from gateway.api.health import devices
from gateway.api.operation import Body, Operation, View
from gateway.api.parameters import Values
from gateway.api.placement import scores
from gateway.api.problem import Problem
from gateway.model.health import BAD, BLIND, OUT
from gateway.model.jobs import id_of
from pipeline.documents import printable

GPU = "nvidia.com/gpu"
# Instances with MIG's strategy "mixed", and shares that the device plugin renames.
PARTS_OF_GPUS = ("nvidia.com/mig-", "nvidia.com/gpu.")
# 12,500 names are 0.2 MB, and a pod 1.5 MB at most (etcd's limit); whole nodes are 10 kB each.
MAX_BYTES = 8 << 20
MAX_NODES = 20_000
BEST = 10  # MaxExtenderPriority
DOUBT = 5  # of a node that is not known here: neither better nor worse

_ANY = {"type": "object"}
_NODES = schema.maybe(
    {
        "type": "object",
        "properties": {"items": schema.maybe(schema.array(_ANY))},
        "description": "v1.NodeList; null with `nodeCacheCapable: true`",
    }
)
_NAMES = schema.maybe(schema.array(schema.text(), "with `nodeCacheCapable: true`"))
_ARGUMENTS = schema.named(
    "ExtenderArgs",
    {
        "type": "object",
        "properties": {
            "Pod": {"type": "object", "description": "v1.Pod"},
            "Nodes": _NODES,
            "NodeNames": _NAMES,
        },
        "required": ["Pod"],
    },
)
_FAILED = schema.table(schema.text(), "why not, by node")
_FILTERED = schema.named(
    "ExtenderFilterResult",
    schema.obj(
        Nodes=_NODES,
        NodeNames=_NAMES,
        FailedNodes=_FAILED,
        FailedAndUnresolvableNodes=_FAILED,
        Error=schema.text("always empty: what is not known passes"),
    ),
)
_SCORES = schema.named(
    "HostPriorityList",
    schema.array(schema.obj(Host=schema.text(), Score=schema.whole("", 0, BEST))),
)
_BODY = Body(
    _ARGUMENTS,
    MAX_BYTES,
    {
        "Pod": {
            "metadata": {"namespace": "ml", "name": "train-3"},
            "spec": {"containers": [{"resources": {"limits": {GPU: "8"}}}]},
        },
        "Nodes": None,
        "NodeNames": ["node-0000", "node-0001"],
    },
)


class Asked(NamedTuple):
    """A request: nodes by name, as objects too where it has them, and the pod's job."""

    names: tuple[str, ...]
    items: tuple[Mapping[str, Any], ...] | None
    nodes: Mapping[str, Any]  # the list's other fields
    job: str
    gpus: bool  # whether the pod asks for any


def asked(body: Any) -> Asked:
    """What a decoded body says. Problem where it is no ExtenderArgs."""
    given = {str(name).lower(): value for name, value in _table(body, "the body").items()}
    pod = _table(given.get("pod"), "Pod")
    about = _part(pod, "metadata", "Pod.metadata")
    names, listed = given.get("nodenames"), given.get("nodes")
    facts = {"namespace": _text(about, "namespace"), "pod": _text(about, "name")}
    job, gpus = (
        id_of(facts) if facts["pod"] else "",
        _gpus(_part(pod, "spec", "Pod.spec")),
    )
    nodes = {} if listed is None else _table(listed, "Nodes")
    items = tuple(_table(one, "Nodes.items[]") for one in _parts(nodes, "items", "Nodes.items"))
    found = tuple(_text(_part(one, "metadata", "Nodes.items[].metadata"), "name") for one in items)
    if names is not None:
        return Asked(_bounded(tuple(_texts(names, "NodeNames"))), None, {}, job, gpus)
    return Asked(_bounded(found), items if listed is not None else None, nodes, job, gpus)


def filtered(view: View, _: Values, body: Any) -> dict[str, Any]:
    """Leaves out nodes with a fault and nodes out of service."""
    request = asked(body)
    failed = dict(_failed(view, request.names)) if request.gpus and view.present else {}
    names = [name for name in request.names if name not in failed]
    items = request.items
    return {
        "Nodes": None
        if items is None
        else {
            **request.nodes,
            "items": [one for one, n in zip(items, request.names, strict=True) if n not in failed],
        },
        "NodeNames": names if items is None else None,
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": failed,
        "Error": "",
    }


def _failed(view: View, names: Iterable[str]) -> Iterable[tuple[str, str]]:
    """No other pod's end would mend them: preemption is not tried."""
    cluster = view.cluster
    for name in names:
        row = cluster.layout.node_at.get(name)
        level = BLIND if row is None else int(cluster.levels.nodes[row])
        if level == OUT:
            yield name, "tocsin: out of service"
        elif level == BAD:
            why = reasons(cluster.reasons.get(name, ()))
            yield name, f"tocsin: {'; '.join(why) or WORST_FIRST[level]}"[:MAX_TEXT]


def prioritized(view: View, _: Values, body: Any) -> list[dict[str, Any]]:
    """By health, headroom and closeness to the other pods of its job."""
    request = asked(body)
    cluster = view.cluster
    job = cluster.job.get(request.job) if request.job else None
    peers = np.array(job.nodes if job is not None else (), np.intp)
    total = scores(cluster, devices(cluster), peers[cluster.levels.nodes[peers] > BAD]).total
    found = []
    for name in request.names:
        row = cluster.layout.node_at.get(name) if view.present else None
        known = row is not None and not cluster.levels.silent[row]
        score = round(BEST * float(total[row]) / 100) if known and row is not None else DOUBT
        found.append({"Host": printable(name), "Score": score})
    return found


def _gpus(spec: Mapping[str, Any]) -> bool:
    containers = [*_parts(spec, "containers", "Pod.spec.containers")]
    containers += _parts(spec, "initContainers", "Pod.spec.initContainers")
    for each in containers:
        resources = _part(_table(each, "a container"), "resources", "resources")
        for kind in ("limits", "requests"):
            for name, count in _part(resources, kind, kind).items():
                if (name == GPU or name.startswith(PARTS_OF_GPUS)) and count not in (None, "0", 0):
                    return True
    return False


def _bounded(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(names) > MAX_NODES:
        raise Problem(400, f"NodeNames: at most {MAX_NODES} nodes, not {len(names)}", "NodeNames")
    return names


def _table(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Problem(400, f"{what}: an object, not {type(value).__name__}", what)
    return value


def _part(table: Mapping[str, Any], name: str, what: str) -> Mapping[str, Any]:
    """Absent or null is empty: Go writes what it has none of as null."""
    value = table.get(name)
    return {} if value is None else _table(value, what)


def _parts(table: Mapping[str, Any], name: str, what: str) -> list[Any]:
    """Likewise."""
    value = table.get(name)
    return [] if value is None else _list(value, what)


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise Problem(400, f"{what}: a list, not {type(value).__name__}", what)
    return value


def _texts(value: Any, what: str) -> list[str]:
    if not all(isinstance(one, str) for one in _list(value, what)):
        raise Problem(400, f"{what}: a list of texts", what)
    return list(value)


def _text(table: Mapping[str, Any], name: str) -> str:
    value = table.get(name, "")
    if not isinstance(value, str):
        raise Problem(400, f"{name}: a text, not {type(value).__name__}", name)
    return value


FILTER = Operation(
    id="filter",
    method="POST",
    path="/scheduler/filter",
    summary="Extender of kube-scheduler: nodes without a fault",
    text="`ExtenderArgs` in, `ExtenderFilterResult` out. Nodes of the level `bad` and nodes out of "
    "service are in `FailedAndUnresolvableNodes`; what the gateway does not know, or has not read "
    "recently, passes, and so does everything for a pod without GPUs. Nothing is written.",
    answer=_FILTERED,
    handler=filtered,
    body=_BODY,
)
PRIORITIZE = Operation(
    id="prioritize",
    method="POST",
    path="/scheduler/prioritize",
    summary="Extender of kube-scheduler: a score for each node",
    text="`ExtenderArgs` in, `HostPriorityList` out: 0 to 10, the score of candidates, close to "
    "the nodes that hold pods of its job already (namespace, and name without the number). "
    "5 for a node that the gateway does not know or has not read recently.",
    answer=_SCORES,
    handler=prioritized,
    body=_BODY,
)
