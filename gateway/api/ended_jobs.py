"""``/api/v1/jobs/ended``: runs of jobs that are over, from the store of the agents."""

from __future__ import annotations

from typing import Any

from collector.web.incident_rows import time
from gateway.api import paging, schema
from gateway.api.operation import Operation, View
from gateway.api.parameters import Parameter, Values
from gateway.job_history.runs import StoredRun

Row = dict[str, Any]

ROW = schema.named(
    "EndedJob",
    schema.obj(
        id=schema.text("as in the list of jobs"),
        run=schema.whole("of this id, from 1: a job that was queued again has several", least=1),
        scheduler=schema.text("slurm, kubernetes, ...; empty where it is not known"),
        owner=schema.text("as in the list of jobs, while it ran"),
        name=schema.text(),
        begin=schema.time("when it took its first GPU"),
        end=schema.time("when it gave them back, or its node was lost"),
        seconds=schema.number("how long it ran"),
        nodes=schema.whole("how many it was on, as far as they are stored"),
        gpus=schema.whole("how many it held"),
    ),
)


def _row(run: StoredRun, number: int) -> Row:
    return {
        "id": run.job,
        "run": number,
        "scheduler": run.scheduler,
        "owner": run.owner,
        "name": run.name,
        "begin": time(run.begin_ns),
        "end": time(run.end_ns),
        "seconds": round((run.end_ns - run.begin_ns) / 1e9, 3),
        "nodes": run.nodes,
        "gpus": run.gpus,
    }


def _name(run: StoredRun) -> str:
    return f"{run.job} {run.begin_ns}"


def listed(view: View, values: Values, _: object = None) -> Any:
    """A page of those that are asked for."""
    found = [run for run in view.runs.every if not run.running and values["job"] in (None, run.job)]
    part, cursor = paging.page(found, _name, values)
    read = time(view.runs.read_ns) if view.runs.read_ns else None
    rows = [_row(run, view.runs.number(run)) for run in part]
    return paging.answer("jobs", rows, len(found), cursor, time(view.cluster.time_ns)) | {
        "read": read
    }


OPERATION = Operation(
    id="jobs_ended",
    path="/api/v1/jobs/ended",
    summary="Jobs that are over",
    text="Runs of the last 30 days in the agents' store (`web.history_url`), the newest end "
    "first: at most 1,000 of an owner and 20,000 in all. The store is read every five minutes, or "
    "less often where that takes long. Empty where no store is set.",
    parameters=(Parameter("job", "runs of this job alone"), *paging.PARAMETERS),
    tenants=True,
    answer=schema.named(
        "EndedJobs",
        paging.schema(
            "jobs", ROW, read=schema.maybe(schema.time("when the store was read; null: not yet"))
        ),
    ),
    handler=listed,
)
