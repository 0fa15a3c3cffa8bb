"""Which nodes suit a job: healthy, free, with headroom, and close to the nodes of its peers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gateway.api.devices import Devices
from gateway.model import Cluster, Job, Layout
from gateway.model.health import BAD, BLIND, OUT, WARN

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

# Shares of a healthy node's score: chosen, not measured. A node behind other leaf switches loses
# what no headroom makes up for; health multiplies all of it.
BASE, CLOSE, HEADROOM = 0.5, 0.3, 0.2
LEAF, RACK = 0.8, 0.2  # of closeness: shared leaf switches carry the job's traffic, a rack its heat
COOL = 20.0  # degrees to the slow-down temperature that are as good as any more
UNKNOWN_HEADROOM = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Of every node, (node,): ``total`` 0 to 100; ``close`` and ``headroom`` 0 to 1; ``shared``:
    the share of its leaf switches that the peers are on; ``margin``: degrees of its hottest GPU,
    NaN = not known. ``peers``: rows of the nodes that closeness is to.
    """

    total: Floats
    close: Floats
    headroom: Floats
    shared: Floats
    margin: Floats
    peers: Rows


def scores(cluster: Cluster, made: Devices, peers: Rows) -> Scores:
    """Of all nodes for a job on ``peers``; without any, all are equally close."""
    shared, close = closeness(cluster.layout, peers)
    margin = np.full(len(cluster.layout.nodes), np.nan)
    np.fmin.at(margin, cluster.layout.gpu_node, made.margin)
    headroom = np.where(np.isnan(margin), UNKNOWN_HEADROOM, np.clip(margin / COOL, 0, 1))
    total = 100 * made.worth * (BASE + CLOSE * close + HEADROOM * headroom)
    return Scores(total, close, headroom, shared, margin, peers)


def closeness(layout: Layout, peers: Rows) -> tuple[Floats, Floats]:
    """The share of each node's leaf switches that peers are on, weighted by how many are, and
    closeness: that, and whether a peer is in the same rack; (node,).
    """
    if not len(peers):
        return np.zeros(len(layout.nodes)), np.ones(len(layout.nodes))
    sets = [frozenset(leaves) for leaves in layout.leaf_sets]
    weights = np.bincount(layout.leaf_set[peers], minlength=len(sets)) / len(peers)
    weighty = [(sets[n], float(weights[n])) for n in np.flatnonzero(weights)]
    of_set = np.array(
        [sum(w * len(one & its) / len(one | its) for its, w in weighty if one) for one in sets]
    )
    shared = of_set[layout.leaf_set]
    rack = np.zeros(len(layout.nodes))
    for each in layout.racks:
        if each.name and bool(((peers >= each.nodes.start) & (peers < each.nodes.stop)).any()):
            rack[each.nodes] = 1.0
    return shared, LEAF * shared + RACK * rack


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """Rows of candidates, the best first; why the others are none, by reason; and how many of the
    first ones have the GPUs that are wanted, with whether they are enough.
    """

    rows: Rows
    scores: Scores
    free: NDArray[np.intp]  # GPUs of each node that no job holds, (node,)
    left_out: Mapping[str, int]
    suggested: int
    enough: bool


def ranked(
    cluster: Cluster,
    made: Devices,
    gpus: int,
    *,
    like: Job | None = None,
    model: str = "",
    exclude: Collection[str] = (),
) -> Ranking:
    """Nodes for so many GPUs, near the nodes of a job that is ``like`` it; without one, near one
    another: behind the leaf switches with the fewest free GPUs that are enough.
    """
    layout = cluster.layout
    free = np.bincount(
        layout.gpu_node, weights=made.free & (made.gpu_worth > 0), minlength=len(layout.nodes)
    ).astype(np.intp)
    model = model or (_model(layout, like.nodes) if like is not None else "")
    own = np.zeros(len(layout.nodes), np.bool_)
    if like is not None:
        own[list(like.nodes)] = True
    levels = cluster.levels.nodes
    left = np.ones(len(layout.nodes), np.bool_)
    left_out: dict[str, int] = {}
    for name, wrong in (
        ("excluded", np.array([node.name in exclude for node in layout.nodes], np.bool_)),
        ("of_the_job", own),
        (
            "other_model",
            np.array([bool(model) and n.model != model for n in layout.nodes], np.bool_),
        ),
        ("silent", cluster.levels.silent | (levels == BLIND)),
        ("out_of_service", levels == OUT),
        ("unhealthy", (levels == BAD) | (levels == WARN)),
        ("busy", free == 0),
    ):
        left_out[name] = int((left & wrong).sum())
        left &= ~wrong
    rows = np.flatnonzero(left)
    peers = np.flatnonzero(own & (levels > WARN)) if like is not None else None
    if peers is None:
        peers = _together(layout, rows, free, gpus)
    found = scores(cluster, made, peers)
    whole = np.array([node.gpus.stop - node.gpus.start for node in layout.nodes], np.intp)
    partly = free < np.minimum(whole, gpus)
    rows = rows[np.lexsort((rows, -found.total[rows].round(6), partly[rows]))]
    have = np.cumsum(free[rows])
    enough = bool(len(have) and have[-1] >= gpus)
    suggested = int(np.searchsorted(have, gpus)) + 1 if enough else len(rows)
    return Ranking(rows, found, free, left_out, suggested, enough)


def _model(layout: Layout, nodes: Sequence[int]) -> str:
    models = [layout.nodes[row].model for row in nodes]
    return max(dict.fromkeys(models), key=models.count)


def _together(layout: Layout, rows: Rows, free: NDArray[np.intp], gpus: int) -> Rows:
    """The candidates behind one set of leaf switches: the smallest that is enough, or largest."""
    room = np.bincount(layout.leaf_set[rows], weights=free[rows], minlength=len(layout.leaf_sets))
    if not len(rows):
        return rows
    enough = np.where(room >= gpus, room, np.inf)
    best = int(np.argmin(enough)) if np.isfinite(enough).any() else int(np.argmax(room))
    chosen: Rows = rows[layout.leaf_set[rows] == best]
    return chosen
