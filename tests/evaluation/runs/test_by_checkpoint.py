"""Stalls by how long the checkpoints of their jobs take."""

from __future__ import annotations

from dataclasses import asdict
from math import ceil

from evaluation.runs.by_checkpoint import CHECKPOINT_S, by_checkpoint
from evaluation.runs.run import Job, rendered
from tests.evaluation.runs.results import case, part, result

JOB = Job("F25", "nominal", 1, "dev", (("ours", "fleet"),))


def test_each_stall_is_in_the_stratum_of_its_own_job() -> None:
    """The job that ran on the node of the dead rank when it died, found here
    by looking at all of them.
    """
    run = rendered(JOB)
    expected: dict[float, int] = {}
    for truth in run.truth:
        at_s, node = (
            (truth.onset_ns - run.topology.begin_ns) / 1e9,
            run.topology.hosts.index(truth.entity.host),  # type: ignore[union-attr]
        )
        (job,) = (j for j in run.topology.jobs if node in j.nodes and j.start_s <= at_s < j.end_s)
        bound = ceil(job.work.checkpoint_s / CHECKPOINT_S) * CHECKPOINT_S
        expected[bound] = expected.get(bound, 0) + 1
    cases = [case(100.0, id=truth.id, fault="hang") for truth in run.truth]
    one = result("F25", part(cases=cases)) | {"job": asdict(JOB)}
    rows = by_checkpoint([one])
    assert {row["checkpoint_s_at_most"]: row["recall"]["of"] for row in rows} == expected


def test_faults_that_are_no_stalls_have_no_strata() -> None:
    """A straggler's job pauses as it likes."""
    assert by_checkpoint([result("F16", part(cases=[case(100.0)]))]) == []
