"""Jobs of Slurm and trainings of Kubernetes get the same verdicts and pages, but for names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evaluation.schedulers.deaths import DEATHS
from evaluation.schedulers.equal import differences, verdicts
from evaluation.schedulers.twenty import TWENTY

# Parts of scenarios; the second is two of them in one.
PARTS = {
    "deaths": (TWENTY["deaths"], 0.1),
    "crash_loop": (replace(TWENTY["crash_loop"], parts=TWENTY["shared_nodes"].parts), 0.06),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PARTS)
def test_the_same_hours_get_the_same_verdicts_and_pages(name: str, tmp_path: Path) -> None:
    """Plain jobs, steps, tasks of arrays, heterogeneous and requeued ones, jobs that share nodes,
    and as many kinds of trainings: each page has the cause of its death. A part of each scenario;
    all of all twenty: python -m benchmarks.schedulers.
    """
    hours, days = PARTS[name]
    run = hours.render(3, days=days)
    slurm, kubernetes = (verdicts(run, hours, one, tmp_path) for one in ("slurm", "kubernetes"))
    assert differences(slurm, kubernetes) == []
    assert len(slurm.pages) > len(hours.ways)
    causes = {
        key: DEATHS[hours.ways[int(key.partition("/")[0]) % len(hours.ways)]].cause
        for key in slurm.pages
    }
    assert {key: page["cause"] for key, page in slurm.pages.items()} == causes
    assert {key.partition("/")[2] for key in slurm.pages} >= {"0", "1"}
    assert not slurm.findings  # a job that has ended is no stall, however it ended


@pytest.mark.slow
def test_errors_of_programs_go_to_the_owners_of_their_jobs(tmp_path: Path) -> None:
    """Incidents of agents and of the gateway."""
    hours = TWENTY["programs"]
    run = hours.render(3, days=0.1)
    slurm, kubernetes = (verdicts(run, hours, one, tmp_path) for one in ("slurm", "kubernetes"))
    assert differences(slurm, kubernetes) == []
    assert {text.partition(" ")[0] for text in slurm.incidents if " to owner " in text} == {
        "agents",
        "gateway",
    }


@pytest.mark.parametrize("name", TWENTY)
def test_each_of_the_twenty_has_jobs_that_end_or_faults(name: str) -> None:
    """Jobs beside one another hold a node's GPUs, each GPU once at most."""
    hours = TWENTY[name]
    run = hours.render(1)
    assert run.truth or len(run.topology.jobs) > 2 * len(hours.ways)
    assert run.topology.jobs
    assert sum(hours.parts) == 8
    assert set(hours.ways) <= DEATHS.keys()
