"""Settings of NCCL jobs that do not fit the node, on the pages."""

from __future__ import annotations

import json
from typing import Any

from collector.web.job_settings import MAX_JOBS, JobSettings
from collector.web.page import incident_page, page
from pipeline.frame import Device
from pipeline.observation import Event, Observation, Value
from tests.collector.web.scene import Scene

PROBLEM = {
    "rule": "ib_disabled",
    "level": "wrong",
    "why": "NCCL_IB_DISABLE=1 and mlx5_0 is active",
    "change": "unset NCCL_IB_DISABLE",
    "reference": "NCCL documentation",
    "ranks": ["rank 0", "rank 1"],
}


def observed(kind: str, job: str, problems: Any = (), *, ns: int = 5) -> Observation:
    """An observation with one event."""
    facts: dict[str, Value] = {"job": job, "ranks": 2, "document": json.dumps(problems)}
    event = Event(ns, ns, Device("n1", "node", "n1"), kind, facts)
    return Observation("nccl", "n1", "b", 1, ns, ns, 0, (), (event,))


def test_problems_are_kept_while_the_job_runs() -> None:
    """The latest of each job; asked for by the job's id or that of a step."""
    kept = JobSettings()
    kept.write(observed("nccl_settings", "71.0", [PROBLEM, PROBLEM]))
    kept.write(observed("nccl_settings", "71.0", [PROBLEM]))
    kept.write(observed("nccl_settings", "ml/llm.v2.1a2b3c4d", [PROBLEM]))
    (row,) = kept.rows(["71"])
    assert (row["job"], row["level"], row["ranks"]) == ("71.0", "wrong", ["rank 0", "rank 1"])
    assert len(kept.rows()) == 2
    kept.write(observed("job_ended", "71.0"))
    assert kept.rows(["71"]) == []


def test_what_is_no_document_is_passed_over() -> None:
    """And the number of jobs is bounded."""
    kept = JobSettings()
    for wrong in ("x", [7], {"a": 1}, [{"level": 3}]):
        kept.write(observed("nccl_settings", "71", wrong))
    assert kept.rows() == [
        {"job": "71", "level": "3", "why": "", "change": "", "reference": "", "ranks": []}
    ]
    for number in range(2 * MAX_JOBS):
        kept.write(observed("nccl_settings", str(number), [PROBLEM]))
    assert len(kept.rows()) == MAX_JOBS


def test_pages_show_the_line_to_change() -> None:
    """The status page for all jobs, that of an incident for its own; markup of a job is text."""
    scene = Scene()
    scene.settings.write(observed("nccl_settings", "4711.0", [PROBLEM | {"why": "<b>no</b>"}]))
    scene.settings.write(observed("nccl_settings", "8", [PROBLEM | {"change": "unset OTHER"}]))
    scene.hold(scene.gpus[0][0], scheduler="slurm", job="4711")
    scene.play()
    status = page(scene.pages.status(), scene.pages.recently, "/metrics")
    assert "Change: unset NCCL_IB_DISABLE" in status
    assert "unset OTHER" in status
    assert "<b>no</b>" not in status
    incident = scene.blame(scene.say(scene.gpus[0][0], "It is broken."), jobs=("4711",))
    document = scene.pages.incident(incident.id)
    assert document is not None
    shown = incident_page(document)
    assert "Change: unset NCCL_IB_DISABLE" in shown
    assert "unset OTHER" not in shown
