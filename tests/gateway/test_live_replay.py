"""A live gateway's incidents are found again from the stores, over a real NATS server: the small
form of benchmarks/live_replay.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.live_replay import compared
from evaluation.runs.run import Job

pytestmark = pytest.mark.integration


def test_live_incidents_are_those_of_a_replay(tmp_path: Path) -> None:
    """Faults of several classes on a few nodes, and one batch in fifty is lost on its way: every
    update of every incident, with its id, times, severity and findings.
    """
    job = Job("F46", "nominal", 1, "dev", (), days=2.0 / 24, nodes=4, cases=2)
    found = compared(job, tmp_path, lost=0.02)
    assert (found.live, found.replayed) == ([], [])
    assert found.both > 1
