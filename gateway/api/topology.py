"""``/api/v1/topology``: every node, GPU and port with its level, in columns.

12,500 nodes with 100,000 GPUs are one answer: what changes (levels) is a digit per device, and what
stays (names, racks, leaf switches) is left out for a client that has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np
import orjson

from collector.web.incident_rows import time
from collector.web.levels import WORST_FIRST
from gateway.api import schema
from gateway.api.operation import Operation, View
from gateway.api.parameters import Parameter, Values
from gateway.model.health import Codes
from gateway.model.layout import Layout
from pipeline.documents import printable

_LEVELS = "one digit each: the place in `levels`"
_STATIC = schema.obj(
    "what changes only where nodes and devices do; null for a client that has it",
    racks=schema.array(
        schema.obj(
            name=schema.text("empty: no rack is known"), nodes=schema.whole("how many of them")
        ),
        "in the order of `nodes`, which are listed rack by rack",
    ),
    models=schema.array(schema.text(), "models of GPUs"),
    leaves=schema.array(schema.text(), "leaf switches"),
    leaf_sets=schema.array(
        schema.array(schema.whole()), "sets of leaf switches, each as places in `leaves`"
    ),
    nodes=schema.obj(
        "columns of equal length, by rack, then name",
        name=schema.array(schema.text()),
        model=schema.array(schema.whole(least=-1), "place in `models`; -1: no GPU"),
        leaf_set=schema.array(schema.whole(), "place in `leaf_sets`"),
        gpus=schema.array(schema.whole(), "number of its GPUs"),
        ports=schema.array(schema.whole(), "number of its ports"),
    ),
)
_ANSWER = schema.named(
    "Topology",
    schema.obj(
        time=schema.time("when the levels were true"),
        cluster=schema.text("`bus.cluster`"),
        layout=schema.text("version of `static`"),
        levels=schema.array(schema.text(), "names of levels, the worst first"),
        node_levels=schema.text(_LEVELS),
        gpu_levels=schema.text(f"{_LEVELS}; node by node, by index"),
        port_levels=schema.text(f"{_LEVELS}; node by node"),
        silent=schema.array(schema.whole(), "places of nodes whose host sends nothing"),
        static=schema.maybe(_STATIC),
    ),
)


@dataclass(frozen=True, slots=True)
class Static:
    """The part of a layout, encoded, and its version: equal layouts have the same."""

    body: bytes
    version: str


@lru_cache(maxsize=1)
def static_of(layout: Layout) -> Static:
    """Made once for each layout."""
    models = [*dict.fromkeys(node.model for node in layout.nodes if node.model)]
    leaves = [*dict.fromkeys(leaf for leaves in layout.leaf_sets for leaf in leaves)]
    model_at = {name: place for place, name in enumerate(models)}
    leaf_at = {name: place for place, name in enumerate(leaves)}
    document = {
        "racks": [
            {"name": printable(rack.name), "nodes": rack.nodes.stop - rack.nodes.start}
            for rack in layout.racks
        ],
        "models": [printable(name) for name in models],
        "leaves": [printable(name) for name in leaves],
        "leaf_sets": [[leaf_at[leaf] for leaf in leaves] for leaves in layout.leaf_sets],
        "nodes": {
            "name": [printable(node.name) for node in layout.nodes],
            "model": [model_at.get(node.model, -1) for node in layout.nodes],
            "leaf_set": layout.leaf_set.tolist(),
            "gpus": [node.gpus.stop - node.gpus.start for node in layout.nodes],
            "ports": [node.ports.stop - node.ports.start for node in layout.nodes],
        },
    }
    body = orjson.dumps(document)
    ids = "\0".join(device.id for device in (*layout.gpus, *layout.ports))
    digest = blake2b(body + ids.encode("utf-8", "surrogatepass"), digest_size=8)
    return Static(body, digest.hexdigest())


def digits(codes: Codes) -> str:
    """Levels as text.

    >>> digits(np.array([5, 0, 5], np.uint8))
    '505'
    """
    return (codes + ord("0")).astype(np.uint8).tobytes().decode("ascii")


def version(view: View, values: Values) -> str:
    """Of the layout and all levels."""
    cluster = view.cluster
    known = static_of(cluster.layout).version
    levels = cluster.levels
    digest = blake2b(known.encode(), digest_size=8)
    for codes in (levels.nodes, levels.gpus, levels.ports, levels.silent):
        digest.update(codes.tobytes())
    return digest.hexdigest() + ("-levels" if values["layout"] == known else "")


def answer(view: View, values: Values, _: object = None) -> dict[str, Any]:
    """The document."""
    cluster = view.cluster
    static, levels = static_of(cluster.layout), cluster.levels
    return {
        "time": time(cluster.time_ns),
        "cluster": printable(view.name),
        "layout": static.version,
        "levels": [*WORST_FIRST],
        "node_levels": digits(levels.nodes),
        "gpu_levels": digits(levels.gpus),
        "port_levels": digits(levels.ports),
        "silent": np.flatnonzero(levels.silent).tolist(),
        "static": None if values["layout"] == static.version else orjson.Fragment(static.body),
    }


OPERATION = Operation(
    id="topology",
    path="/api/v1/topology",
    summary="Every node, GPU and port with its level",
    text="For maps. Columns in place of rows: 12,500 nodes with 100,000 GPUs and ports are 1 MB, a "
    "tenth of it compressed. Answers have an `ETag`; with `layout` only levels are sent.",
    parameters=(
        Parameter(
            "layout",
            "`layout` of an earlier answer: where it is still the same, `static` is null",
            pattern="[0-9a-f]{1,16}",
            max_length=16,
        ),
    ),
    tenants=True,
    answer=_ANSWER,
    handler=answer,
    version=version,
)
