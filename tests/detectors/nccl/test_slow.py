"""Slow, not stopped: stragglers by the Inspector's timings and by RAS's rates."""

from __future__ import annotations

import random
from collections.abc import Callable

from detectors.nccl.case import Case
from detectors.nccl.judge import judge
from detectors.nccl.verdict import Verdict
from pipeline.nccl.member import Member, Timing
from pipeline.nccl.report import Communicator, Report
from tests.detectors.nccl.jobs import all_reduces, ras, ras_communicator

RANKS = 8


def timed(
    microseconds: Callable[[int, int], float], bandwidth: Callable[[int], float] = lambda seq: 100.0, calls: int = 60
) -> Verdict:
    """The verdict on a communicator whose rank took so long for collective number so and so."""
    members = tuple(
        Member(
            rank,
            host="n1",
            pid=100 + rank,
            completed=(("AllReduce", calls),),
            timings=tuple(Timing("AllReduce", seq, 1 << 20, microseconds(rank, seq), bandwidth(seq)) for seq in range(calls)),
        )
        for rank in range(RANKS)
    )
    return judge(Case([Report("inspector", communicators=(Communicator("c".rjust(16, "0"), RANKS, members),))]))


def test_who_comes_last_has_the_shortest_collectives() -> None:
    """The others' collectives last as long as they wait for rank 3."""
    verdict = timed(lambda rank, _: 120.0 if rank == 3 else 500.0 + rank)
    assert (verdict.cause, [c.rank for c in verdict.culprits]) == ("slow_straggler", [3])


def test_ranks_that_take_turns_are_no_stragglers() -> None:
    """Each collective has a shortest; it must be the same one most of the time."""
    dice = random.Random(1)
    assert timed(lambda rank, seq: 100.0 + dice.random() * 20).culprits == ()


def test_a_wait_that_nobody_feels_is_silent() -> None:
    """Rank 3 is always the last by a hair."""
    assert timed(lambda rank, _: 498.0 if rank == 3 else 500.0).cause == "no_evidence"


def test_few_collectives_say_nothing() -> None:
    """Twenty are the least."""
    assert timed(lambda rank, _: 120.0 if rank == 3 else 500.0, calls=19).cause == "no_evidence"


def test_a_network_that_carries_less_than_before_is_told() -> None:
    """All ranks are slow, the quickest too."""
    verdict = timed(lambda rank, seq: 500.0 + seq % 7 + rank, bandwidth=lambda seq: 100.0 if seq < 40 else 45.0)
    assert (verdict.cause, verdict.culprits) == ("slow_network", ())


def test_a_rank_that_is_behind_at_every_look_slows_a_job_that_moves() -> None:
    """Counts rise, and rank 2 is the last at each of six looks."""
    told = [
        ras(ras_communicator("c0", all_reduces({r: 100 * i - 3 * (r == 2) for r in range(4)})), at=15.0 * i) for i in range(1, 8)
    ]
    verdict = judge(Case(told))
    assert (verdict.cause, [c.rank for c in verdict.culprits]) == ("slow_straggler", [2])
