"""``/api/v1/jobs``: who holds which nodes, and how each job is doing."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, get_args

from collector.config.links import Links
from collector.web.incident_rows import time
from collector.web.levels import WORST_FIRST
from gateway.api import paging, schema
from gateway.api.incidents import rows as incident_rows
from gateway.api.operation import Operation, View
from gateway.api.parameters import Parameter, Values
from gateway.api.reach import names
from gateway.model import Cluster, Job
from gateway.model.layout import natural
from pipeline.exposition.stalls import State

Row = dict[str, Any]
STATES: tuple[State, ...] = ("stalled", "suspect", "crawl", "slow", "running")
assert set(STATES) == set(get_args(State))  # noqa: S101 - the worst first, and all of them
MAX_INCIDENTS = 20  # ids of one row

ROW = schema.named(
    "Job",
    schema.obj(
        id=schema.text("Slurm's id without the step, or namespace and name of the pods"),
        scheduler=schema.text("slurm, kubernetes, ...; empty where it is not known"),
        user=schema.text(),
        owner=schema.text(
            "what the scheduler says: `user:` and Slurm's user, or `namespace:` and that of the "
            "pods; empty where nobody says, or nodes differ"
        ),
        name=schema.text(),
        state=schema.text("", *STATES),
        stalled_seconds=schema.number("since when it makes no progress; 0: it does"),
        verdicts=schema.array(schema.text(), "classes of what was found about it"),
        gpus=schema.whole("how many it holds"),
        level=schema.text("the worst of its nodes, with all that is on them", *WORST_FIRST),
        nodes=schema.array(schema.text(), "names"),
        incidents=schema.array(
            schema.text(), f"ids of open incidents, at most {MAX_INCIDENTS}", most=MAX_INCIDENTS
        ),
    ),
)


@lru_cache(maxsize=1)
def rows(cluster: Cluster, links: Links) -> tuple[Row, ...]:
    """All jobs, the worst first. Made once per snapshot."""
    about: dict[str, list[str]] = {}
    for incident in incident_rows(cluster, links):
        if incident["state"] == "open":
            for job in incident["jobs"]:
                about.setdefault(job, []).append(incident["id"])
    found = [_row(job, cluster, about.get(job.id, [])) for job in cluster.jobs]
    return tuple(sorted(found, key=_badness))


def _row(job: Job, cluster: Cluster, incidents: list[str]) -> Row:
    level = min(cluster.levels.nodes[list(job.nodes)].tolist())
    return {
        "id": job.id,
        "scheduler": job.scheduler,
        "user": job.user,
        "owner": job.owner,
        "name": job.name,
        "state": job.state,
        "stalled_seconds": round(job.stalled_s, 3),
        "verdicts": list(job.verdicts),
        "gpus": len(job.gpus),
        "level": WORST_FIRST[level],
        "nodes": names(cluster, job.nodes),
        "incidents": incidents[:MAX_INCIDENTS],
    }


def _badness(row: Row) -> tuple[object, ...]:
    return (STATES.index(row["state"]), WORST_FIRST.index(row["level"]), natural(row["id"]))


def listed(view: View, values: Values, _: object = None) -> Any:
    """A page of those that are asked for."""
    every = rows(view.cluster, view.links)
    found = [row for row in every if _matches(row, values)]
    part, cursor = paging.page(found, lambda row: str(row["id"]), values)
    return paging.answer("jobs", part, len(found), cursor, time(view.cluster.time_ns))


def _matches(row: Row, values: Values) -> bool:
    asked = {"id": "job", "state": "state", "user": "user", "scheduler": "scheduler"}
    return all(values[by] in (None, row[key]) for key, by in asked.items()) and (
        values["node"] is None or values["node"] in row["nodes"]
    )


OPERATION = Operation(
    id="jobs",
    path="/api/v1/jobs",
    summary="Jobs with their nodes, state and verdict",
    text="Jobs that hold GPUs, the worst first: stalled, suspect, crawling, slow, running; then by "
    "the level of their nodes, then by id.",
    parameters=(
        Parameter("state", "in this state", choices=STATES),
        Parameter("user", "of this user"),
        Parameter("scheduler", "of this scheduler"),
        Parameter("node", "that hold GPUs of this node"),
        Parameter("job", "this job alone"),
        *paging.PARAMETERS,
    ),
    tenants=True,
    answer=schema.named("Jobs", paging.schema("jobs", ROW)),
    handler=listed,
)
