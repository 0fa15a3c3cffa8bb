"""``/api/v1/jobs/explanation``: the life of one job from the store, as ``tocsin explain job``."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.api import schema
from gateway.api.operation import Operation, View
from gateway.api.parameters import Parameter, Values
from gateway.api.problem import Problem
from gateway.job_history.ask import MEDIA, Form
from gateway.job_history.runs import StoredRun
from pipeline.job_names import base

_ENDS: Mapping[Form, str] = {"json": "", "html": ".html", "text": ".txt"}
_PHASE = schema.obj(
    kind=schema.text("", "load", "steps", "pause", "stall", "unobserved"),
    begin=schema.time(),
    end=schema.time(),
    activity=schema.number("the mean over it, 1 is the job's usual"),
)
ANSWER = schema.named(
    "JobExplanation",
    schema.obj(
        job=schema.text("id"),
        name=schema.text(),
        user=schema.text(),
        scheduler=schema.text(),
        begin=schema.time(),
        end=schema.maybe(schema.time("null: it runs")),
        seconds=schema.number(),
        hosts=schema.array(schema.text(), "names of its nodes"),
        gpus=schema.array(schema.text(), "UUIDs of its GPUs, of which nobody else had a part"),
        ended_by=schema.obj(
            cause=schema.text('docs/jobs.md, "What ended it"'),
            who=schema.text(),
            detail=schema.text(),
            time=schema.maybe(schema.time()),
            sentence=schema.text(),
            next_step=schema.text("before it is started again"),
        ),
        phases=schema.array(_PHASE),
        throughput=schema.array(
            schema.obj(
                time=schema.time("begin of a minute"),
                activity=schema.number("1 is the job's usual"),
                gpus=schema.whole("that were read"),
            )
        ),
        gpu_hours=schema.table(schema.number(), "GPU-hours by cause"),
        incidents=schema.array(
            schema.obj(
                id=schema.text(),
                severity=schema.text(),
                **{"class": schema.text()},
                opened=schema.time(),
                summary=schema.text("the class alone where it may concern others too"),
                action=schema.text(),
            ),
            "that touched it",
        ),
        clues=schema.array(
            schema.obj(
                sort=schema.text(),
                time=schema.time(),
                host=schema.text(),
                who=schema.text(),
                text=schema.text(),
            ),
            "around its end",
        ),
        other_runs=schema.array(
            schema.obj(begin=schema.time(), end=schema.time()),
            "always empty here: they are in the list of jobs that are over",
        ),
    ),
)


def run_of(view: View, values: Values, _: object = None) -> StoredRun:
    """The run that is asked for. Problem 404 where the reader sees none: whether another has one of
    that id is not looked at.
    """
    found = view.runs.find(base(values["job"]), values["run"] or 0)
    if found is None:
        raise Problem(404, f"job: no such run is stored: {values['job']}", "job")
    return found


def _operation(form: Form) -> Operation:
    words = {"json": "as JSON", "html": "as a page of its own", "text": "as text"}[form]
    return Operation(
        id=f"explanation_{form}",
        path=f"/api/v1/jobs/explanation{_ENDS[form]}",
        summary=f"What happened to a job, {words}",
        text="As `tocsin explain job`: what ended it, phases, GPU-hours, incidents. Of a job that "
        "is over or still runs, once the store has it (`web.history_url`). A user of `web.tenants` "
        "reads what is surely about the job alone. It is made in a process of its own: 503 says "
        "that it is not ready yet.",
        parameters=(
            Parameter("job", "id of the job", required=True),
            Parameter("run", "which of its runs, from 1; else the newest", least=1, most=99999),
        ),
        tenants=True,
        answer=ANSWER if form == "json" else schema.text(),
        handler=run_of,
        media=MEDIA[form],
        form=form,
        refusals={404: "no such run is stored, or it is not the reader's"},
    )


OPERATIONS = tuple(_operation(form) for form in _ENDS)
