"""Jobs of Slurm and trainings of Kubernetes get the same verdicts and pages, but for names."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.schedulers.deaths import DEATHS, WAYS
from evaluation.schedulers.equal import differences, verdicts
from evaluation.schedulers.short_jobs import short_jobs

pytestmark = pytest.mark.slow


def test_the_same_hours_get_the_same_verdicts_and_pages(tmp_path: Path) -> None:
    """Plain jobs, steps, tasks of arrays, heterogeneous and requeued ones, and as many kinds of
    trainings: each page has the cause of its death. All faults: python -m benchmarks.schedulers.
    """
    run = short_jobs(seed=3, nodes=2, days=0.12)
    slurm, kubernetes = (verdicts(run, name, tmp_path) for name in ("slurm", "kubernetes"))
    assert differences(slurm, kubernetes) == []
    assert len(slurm.pages) > len(WAYS)
    causes = {
        key: DEATHS[WAYS[int(key.partition("/")[0]) % len(WAYS)]].cause for key in slurm.pages
    }
    assert {key: page["cause"] for key, page in slurm.pages.items()} == causes
