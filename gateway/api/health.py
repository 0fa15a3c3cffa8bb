"""``/api/v1/health``: the health of the cluster, or of a part of it, and of all that is in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from collector.web.incident_rows import time
from collector.web.levels import WORST_FIRST
from gateway.api import paging, schema
from gateway.api.devices import DEVICE, LEVEL, NODE, Devices
from gateway.api.incidents import rows as incident_rows
from gateway.api.operation import Operation, View
from gateway.api.parameters import Parameter, Values
from gateway.api.problem import Problem
from gateway.model import Cluster
from gateway.model.health import OK, Codes
from pipeline.documents import printable

SELECTORS = ("rack", "leaf", "node", "device", "job")
MAX_INCIDENTS = 100

_COUNTS = schema.named(
    "Counts",
    schema.obj(
        "how many of each level", total=schema.whole(), **{n: schema.whole() for n in WORST_FIRST}
    ),
)
_ANSWER = schema.named(
    "Health",
    paging.schema(
        "members",
        {"anyOf": [NODE, DEVICE]},
        selector=schema.obj(
            kind=schema.text("", "cluster", *SELECTORS), name=schema.text("empty: the cluster")
        ),
        level=LEVEL,
        nodes=_COUNTS,
        gpus=_COUNTS,
        ports=_COUNTS,
        incidents=schema.array(
            schema.text(),
            f"ids of open incidents, the most urgent first, at most {MAX_INCIDENTS}",
            most=MAX_INCIDENTS,
        ),
    ),
)

Rows = NDArray[np.intp]


class _Chosen(NamedTuple):
    """Rows of nodes, GPUs and ports that a selector means, and the members to show: a function of
    the place of each.
    """

    nodes: Rows
    gpus: Rows
    ports: Rows
    size: int
    member: Callable[[int], Any]


@lru_cache(maxsize=1)
def devices(cluster: Cluster) -> Devices:
    """Made once per snapshot."""
    return Devices(cluster)


def answer(view: View, values: Values, _: object = None) -> dict[str, Any]:
    """The document."""
    cluster = view.cluster
    given = [name for name in SELECTORS if values[name] is not None]
    if len(given) > 1:
        raise Problem(409, f"{given[1]}: one selector at a time, and {given[0]} is given", given[1])
    kind = given[0] if given else "cluster"
    name = values[kind] if given else ""
    chosen = _chosen(cluster, kind, name)
    begin, end, cursor = _part(chosen, values)
    levels = cluster.levels
    codes = (levels.nodes[chosen.nodes], levels.gpus[chosen.gpus], levels.ports[chosen.ports])
    about = codes if kind != "device" else codes[1:]
    members = [chosen.member(place) for place in range(begin, end)]
    return {
        **paging.answer("members", members, chosen.size, cursor, time(cluster.time_ns)),
        "selector": {"kind": kind, "name": name},
        "level": WORST_FIRST[min((int(c.min()) for c in about if len(c)), default=OK)],
        **{key: _counts(c) for key, c in zip(("nodes", "gpus", "ports"), codes, strict=True)},
        "incidents": _incidents(view, kind, name, chosen.nodes),
    }


def _part(chosen: _Chosen, values: Values) -> tuple[int, int, str | None]:
    """Places of this page: members keep theirs while the layout stays."""
    places = range(chosen.size)
    found, cursor = paging.page(places, str, values)
    return (found[0], found[-1] + 1, cursor) if found else (0, 0, None)


def _counts(codes: Codes) -> dict[str, int]:
    found = np.bincount(codes, minlength=len(WORST_FIRST)).tolist()
    return {"total": len(codes), **dict(zip(WORST_FIRST, found, strict=True))}


def _chosen(cluster: Cluster, kind: str, name: str) -> _Chosen:
    layout, made = cluster.layout, devices(cluster)
    if kind == "device":
        return _device(cluster, name)
    if kind == "node":
        row = layout.node_at.get(name)
        _known(row is not None, kind, name)
        assert row is not None  # noqa: S101 - known
        node = layout.nodes[row]
        gpus = np.arange(node.gpus.start, node.gpus.stop)
        ports = np.arange(node.ports.start, node.ports.stop)

        def member(place: int) -> Any:
            own = place - len(gpus)
            return made.gpu(int(gpus[place])) if own < 0 else made.port(int(ports[own]))

        return _Chosen(np.array([row], np.intp), gpus, ports, len(gpus) + len(ports), member)
    nodes = _nodes(cluster, kind, name)
    of = np.zeros(len(layout.nodes), np.bool_)
    of[nodes] = True
    gpus = np.flatnonzero(of[layout.gpu_node])
    ports = np.flatnonzero(of[layout.port_node])
    if kind == "job":
        gpus = np.array(cluster.job[name].gpus, np.intp)
    return _Chosen(nodes, gpus, ports, len(nodes), lambda place: made.node(int(nodes[place])))


def _nodes(cluster: Cluster, kind: str, name: str) -> Rows:
    layout = cluster.layout
    if kind == "job":
        _known(name in cluster.job, kind, name)
        return np.array(cluster.job[name].nodes, np.intp)
    if kind == "leaf":
        rows = layout.leaf(name)
        _known(len(rows) > 0, kind, name)
        return rows
    if kind == "rack":
        rack = next((rack for rack in layout.racks if rack.name == name), None)
        _known(rack is not None, kind, name)
        assert rack is not None  # noqa: S101 - known
        return np.arange(rack.nodes.start, rack.nodes.stop)
    return np.arange(len(layout.nodes))


def _device(cluster: Cluster, name: str) -> _Chosen:
    layout, made = cluster.layout, devices(cluster)
    none = np.zeros(0, np.intp)
    gpu = next((row for row, device in enumerate(layout.gpus) if device.id == name), None)
    if gpu is not None:
        node = layout.gpu_node[gpu : gpu + 1]
        return _Chosen(node, np.array([gpu]), none, 1, lambda _: made.gpu(gpu))
    port = next((row for row, device in enumerate(layout.ports) if device.id == name), None)
    if port is not None:
        node = layout.port_node[port : port + 1]
        return _Chosen(node, none, np.array([port]), 1, lambda _: made.port(port))
    raise Problem(404, f"device: none here is {name!r:.80}", "device")


def _known(known: bool, kind: str, name: str) -> None:
    if not known:
        raise Problem(404, f"{kind}: none here is {name!r:.80}", kind)


def _incidents(view: View, kind: str, name: str, nodes: Sequence[int] | Rows) -> list[str]:
    """Ids of open incidents that affect any of the nodes, or a job or device by name."""
    layout = view.cluster.layout
    names = {printable(layout.nodes[row].name) for row in nodes}
    found = []
    for row in incident_rows(view.cluster, view.links):
        if row["state"] != "open":
            break
        if (
            kind == "cluster"
            or (kind == "device" and row["device"].partition("/")[0] == printable(name))
            or (kind == "job" and name in row["jobs"])
            or (kind in ("rack", "leaf", "node") and not names.isdisjoint(row["nodes"]))
        ):
            found.append(row["id"])
    return found[:MAX_INCIDENTS]


OPERATION = Operation(
    id="health",
    path="/api/v1/health",
    summary="Health of the cluster, or of a rack, leaf switch, node, device or job",
    text="Counts by level, open incidents, and every member with its score and the reasons: nodes, "
    "or the devices of a node. One selector at most; none: the cluster.",
    parameters=(
        Parameter("rack", "the nodes of a rack"),
        Parameter("leaf", "the nodes with a port on a leaf switch"),
        Parameter("node", "the devices of a node"),
        Parameter("device", "a GPU or a port, by its id"),
        Parameter("job", "the nodes of a job"),
        *paging.PARAMETERS,
    ),
    tenants=True,
    answer=_ANSWER,
    handler=answer,
    refusals={404: "nothing here has that name", 409: "more than one selector"},
)
