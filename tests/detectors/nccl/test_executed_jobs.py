"""Verdicts on jobs that really ran into their fault: tensor groups, data groups and a world, hosts
that run ahead, shuffled ranks.
"""

from __future__ import annotations

import pytest

from detectors.nccl.case import Case, Ended
from detectors.nccl.judge import judge
from detectors.nccl.verdict import Verdict
from tests.detectors.nccl.execution import Fault, Run, looks
from tests.detectors.nccl.jobs import process

pytestmark = pytest.mark.slow

SEEDS = range(40)
tellers = pytest.mark.parametrize("teller", ["ras", "flight_recorder", "both"])


def run_of(seed: int, fault: Fault) -> Run:
    """A job whose hosts wait after each collective, or run up to eight ahead of their GPUs."""
    return Run(seed, fault, ahead=(1, 2, 4, 8)[seed % 4])


def of(run: Run, teller: str) -> Verdict:
    """The verdict from the reports of one source, or both."""
    ras = looks(run) if teller != "flight_recorder" else []
    return judge(Case([*ras, *(run.dumps() if teller != "ras" else [])]))


@tellers
def test_the_rank_whose_host_hangs_is_named_alone(teller: str) -> None:
    """In every one of forty jobs: fifteen others wait, some of them in a chain behind the one."""
    for run in (run_of(seed, "hang") for seed in SEEDS):
        verdict = of(run, teller)
        assert (verdict.cause, [c.rank for c in verdict.culprits]) == (
            "host_hang",
            [run.culprit],
        ), f"seed {run.seed}"


@pytest.mark.parametrize("teller", ["ras", "both"])
def test_the_lost_process_is_named_alone(teller: str) -> None:
    """Whoever waits for it, and whoever waits for those."""
    for run in (run_of(seed, "lost") for seed in SEEDS):
        verdict = of(run, teller)
        assert (verdict.cause, [c.rank for c in verdict.culprits]) == (
            "process_lost",
            [run.culprit],
        ), f"seed {run.seed}"


def test_a_lost_process_writes_no_dump_and_is_only_a_candidate() -> None:
    """Dumps alone do not show why one is missing."""
    for run in (run_of(seed, "lost") for seed in SEEDS):
        verdict = of(run, "flight_recorder")
        assert (verdict.cause, [c.rank for c in verdict.candidates]) == (
            "unknown",
            [run.culprit],
        ), f"seed {run.seed}"


def test_a_missing_dump_of_a_process_that_ended_names_it() -> None:
    """The node saw the process end while others of its job wait."""
    for run in (run_of(seed, "lost") for seed in SEEDS):
        _, pid, _ = process(run.culprit, run.tensor, run.seed)
        verdict = judge(Case(run.dumps(), ended=[Ended("n1", pid, run.culprit)]))
        assert (verdict.cause, [c.rank for c in verdict.culprits]) == (
            "process_lost",
            [run.culprit],
        ), f"seed {run.seed}"


@tellers
def test_another_call_is_the_programs_fault(teller: str) -> None:
    """The rank that called Broadcast where the others did not is the odd one."""
    for run in (run_of(seed, "other") for seed in SEEDS):
        verdict = of(run, teller)
        assert (verdict.cause, [c.rank for c in verdict.culprits]) == (
            "order_mismatch",
            [run.culprit],
        ), f"seed {run.seed}"


@pytest.mark.parametrize("teller", ["flight_recorder", "both"])
def test_a_collective_that_does_not_end_is_found(teller: str) -> None:
    """Not the groups that queue behind it, and no rank is named."""
    for run in (run_of(seed, "flight") for seed in SEEDS):
        verdict = of(run, teller)
        where = verdict.communicator.partition(" ")[0].lstrip("c")
        assert (verdict.cause, where, verdict.culprits) == ("in_flight", run.where, ()), (
            f"seed {run.seed}"
        )


def test_by_launches_alone_a_collective_that_does_not_end_names_nobody() -> None:
    """RAS cannot see completion: its group may be named, never one of its ranks."""
    for run in (run_of(seed, "flight") for seed in SEEDS):
        verdict = of(run, "ras")
        assert verdict.culprits == (), f"seed {run.seed}"
        assert verdict.cause in ("in_flight", "unknown"), f"seed {run.seed}"


@tellers
def test_calls_in_opposite_order_are_a_circle(teller: str) -> None:
    """One rank enters its tensor group before the world, the others after it."""
    for run in (run_of(seed, "order") for seed in SEEDS):
        verdict = of(run, teller)
        assert (verdict.cause, verdict.culprits) == ("launch_order_deadlock", ()), (
            f"seed {run.seed}"
        )
