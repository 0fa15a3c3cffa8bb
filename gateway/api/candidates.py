"""``/api/v1/candidates``: healthy nodes for a new job, or in place of a node that fails."""

from __future__ import annotations

import math
from typing import Any

from collector.web.incident_rows import time
from collector.web.levels import WORST_FIRST
from gateway.api import paging, schema
from gateway.api.devices import LEVEL
from gateway.api.health import devices
from gateway.api.operation import Operation, View
from gateway.api.parameters import Parameter, Values
from gateway.api.placement import Ranking, ranked
from gateway.api.problem import Problem
from gateway.model import Cluster, Job
from pipeline.documents import printable

MAX_GPUS = 1_000_000
LEFT_OUT = (
    "excluded",
    "of_the_job",
    "other_model",
    "silent",
    "out_of_service",
    "unhealthy",
    "busy",
)

_CANDIDATE = schema.named(
    "Candidate",
    schema.obj(
        node=schema.text(),
        rank=schema.whole("1 is the best", 1),
        suggested=schema.flag("among the first that have the wanted GPUs together"),
        score=schema.number("0 to 100"),
        closeness=schema.number("to the nodes of the job, or to one another: 0 to 1"),
        headroom=schema.number("to the slow-down temperature: 0 to 1"),
        level=LEVEL,
        rack=schema.maybe(schema.text()),
        model=schema.text("of its GPUs"),
        gpus=schema.whole(),
        free_gpus=schema.whole("healthy, and held by no job"),
        reasons=schema.array(schema.text(), "what the score is made of"),
    ),
)
_ANSWER = schema.named(
    "Candidates",
    paging.schema(
        "candidates",
        _CANDIDATE,
        gpus=schema.whole("that are wanted"),
        enough=schema.flag("whether the candidates have so many"),
        like=schema.maybe(schema.text("the job that they are to be close to")),
        left_out=schema.obj(
            "nodes that are no candidates, each by the first reason that is true",
            **{name: schema.whole() for name in LEFT_OUT},
        ),
    ),
)


def answer(view: View, values: Values, _: object = None) -> dict[str, Any]:
    """The document."""
    cluster, like = view.cluster, values["like"]
    job = cluster.job.get(like) if like is not None else None
    if like is not None and job is None:
        raise Problem(404, f"like: no job here is {like!r:.80}", "like")
    exclude = frozenset(values["exclude"].split(",")) if values["exclude"] else frozenset()
    gpus = values["gpus"]
    found = ranked(
        cluster, devices(cluster), gpus, like=job, model=values["model"] or "", exclude=exclude
    )
    names = [printable(cluster.layout.nodes[row].name) for row in found.rows]
    part, cursor = paging.page(range(len(names)), lambda place: names[place], values)
    rows = [_row(cluster, found, place, job, gpus) for place in part]
    return {
        **paging.answer("candidates", rows, len(names), cursor, time(cluster.time_ns)),
        "gpus": gpus,
        "enough": found.enough,
        "like": like,
        "left_out": dict(found.left_out),
    }


def _row(
    cluster: Cluster, found: Ranking, place: int, job: Job | None, gpus: int
) -> dict[str, Any]:
    row = int(found.rows[place])
    node, scores = cluster.layout.nodes[row], found.scores
    own = node.gpus.stop - node.gpus.start
    return {
        "node": printable(node.name),
        "rank": place + 1,
        "suggested": found.enough and place < found.suggested,
        "score": round(float(scores.total[row]), 1),
        "closeness": round(float(scores.close[row]), 3),
        "headroom": round(float(scores.headroom[row]), 3),
        "level": WORST_FIRST[cluster.levels.nodes[row]],
        "rack": printable(node.rack) or None,
        "model": printable(node.model),
        "gpus": own,
        "free_gpus": int(found.free[row]),
        "reasons": [*_reasons(cluster, found, row, job, min(gpus, own))],
    }


def _reasons(cluster: Cluster, found: Ranking, row: int, job: Job | None, wanted: int) -> list[str]:
    node, scores = cluster.layout.nodes[row], found.scores
    to = f"job {job.id}" if job is not None else "the other candidates"
    level, margin = WORST_FIRST[cluster.levels.nodes[row]], float(scores.margin[row])
    free = int(found.free[row])
    reasons = ["no open findings" if level == "ok" else "open findings are info only"]
    if free < wanted:
        reasons.append(f"{free} GPUs are free, {wanted} would be wanted")
    if not len(scores.peers):
        reasons.append(f"no healthy node of {to} to be close to")
    elif node.leaves:
        reasons.append(f"shares {scores.shared[row]:.0%} of its leaf switches with {to}")
    else:
        reasons.append("its leaf switches are not known")
    rack = next(
        each.nodes for each in cluster.layout.racks if each.nodes.start <= row < each.nodes.stop
    )
    near = ((scores.peers >= rack.start) & (scores.peers < rack.stop) & (scores.peers != row)).sum()
    if near and node.rack:
        reasons.append(f"in rack {printable(node.rack)} with {near} nodes of {to}")
    reasons.append(
        f"its hottest GPU is {margin:.0f} °C below slow-down"
        if math.isfinite(margin)
        else "its temperatures are not known"
    )
    return reasons


OPERATION = Operation(
    id="candidates",
    path="/api/v1/candidates",
    summary="Healthy nodes for a job, ranked",
    text="For placement and for replacement. A candidate is read, healthy (`ok` or `note`), in "
    "service, of the model that is wanted, and has a GPU that no job holds. The score is health x "
    "(0.5 + 0.3 closeness + 0.2 headroom). Closeness is the share of leaf switches in common "
    "(rails), weighted by the job's nodes behind them, and a node of the job in the same rack. "
    "Without `like` it is to the smallest group behind the same leaf switches that is enough. "
    "Nodes with fewer free GPUs than they could give come last. Nothing is reserved.",
    parameters=(
        Parameter("gpus", "how many are wanted", least=1, most=MAX_GPUS, default=8),
        Parameter("like", "a job: its GPU model, and close to its healthy nodes"),
        Parameter("model", "model of GPU, as in the topology"),
        Parameter("exclude", "nodes not to consider, with commas between", max_length=4096),
        *paging.PARAMETERS,
    ),
    answer=_ANSWER,
    handler=answer,
    refusals={404: "no job here has that id"},
)
