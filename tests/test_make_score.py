"""`make score` claims on seeds that nobody has looked at."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from evaluation.runs.scenarios import every_scenario
from evaluation.runs.suite import Claim, suite
from tests.sources import ROOT
from tests.wait import PATIENCE_S

LOOKED_AT = {1001, 1002}  # the first runs, before any figure was published as JSON


def seed_of(*argv: str) -> int:
    """The seed in the command that `make score` would run."""
    reported = subprocess.run(
        ["make", "-n", "score", *argv],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    found = re.search(r"tocsin score .*--seed (\d+)", reported.stdout)
    assert found, reported.stdout
    return int(found[1])


@pytest.mark.slow
def test_the_seed_is_chosen_by_whoever_runs_it() -> None:
    """SEED reaches the command."""
    assert seed_of("SEED=7321") == 7321


@pytest.mark.slow
def test_the_seed_is_a_fresh_one_by_default() -> None:
    """None of the seeds that the plan counts up to stands in figures that were published: if it
    fails, SEED in the Makefile wants a new one.
    """
    claim = Claim(
        "test",
        seed_of(),
        ours=True,
        baselines=(),
        scopes=("fleet",),
        scenarios=tuple(every_scenario()),
    )
    published = json.loads((ROOT / "docs" / "scores.json").read_text())["about"]["seeds"]
    assert not {job.seed for job in suite(claim)} & {*published, *LOOKED_AT}
