"""Slow, not stopped: stragglers by the Inspector's timings and by RAS's rates."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from detectors.nccl.case import Case
from detectors.nccl.judge import judge
from detectors.nccl.verdict import Verdict
from pipeline.nccl.member import Member, Timing
from pipeline.nccl.report import Communicator, Report
from tests.detectors.nccl.jobs import all_reduces, ras, ras_communicator

RANKS = 8


def timed(
    microseconds: Callable[[int, int], float],
    bandwidth: Callable[[int], float] = lambda seq: 100.0,
    calls: int = 60,
    size: Callable[[int], int] = lambda rank: 1 << 20,
) -> Verdict:
    """The verdict on a communicator whose rank took so long for collective number so and so."""
    members = tuple(
        Member(
            rank,
            host="n1",
            pid=100 + rank,
            completed=(("AllReduce", calls),),
            timings=tuple(
                Timing("AllReduce", seq, size(rank), microseconds(rank, seq), bandwidth(seq))
                for seq in range(calls)
            ),
        )
        for rank in range(RANKS)
    )
    return judge(
        Case(
            [Report("inspector", communicators=(Communicator("c".rjust(16, "0"), RANKS, members),))]
        )
    )


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
    verdict = timed(
        lambda rank, seq: 500.0 + seq % 7 + rank, bandwidth=lambda seq: 100.0 if seq < 40 else 45.0
    )
    assert (verdict.cause, verdict.culprits) == ("slow_network", ())


def test_a_rank_that_is_behind_at_every_look_slows_a_job_that_moves() -> None:
    """Counts rise, and rank 2 is the last at each of six looks."""
    reports = [
        ras(
            ras_communicator("c0", all_reduces({r: 100 * i - 3 * (r == 2) for r in range(4)})),
            at=15.0 * i,
        )
        for i in range(1, 8)
    ]
    verdict = judge(Case(reports))
    assert (verdict.cause, [c.rank for c in verdict.culprits]) == ("slow_straggler", [2])


@pytest.mark.parametrize("seed", range(5))
def test_whoever_it_is_is_named(seed: int) -> None:
    """Ranks change places with every seed, and all times jitter by a tenth."""
    dice = random.Random(seed)
    slow = dice.randrange(RANKS)
    verdict = timed(lambda rank, _: (300.0 if rank == slow else 500.0) * dice.uniform(0.95, 1.05))
    assert (verdict.cause, [c.rank for c in verdict.culprits]) == ("slow_straggler", [slow])


def test_whose_collectives_take_longest_is_a_victim() -> None:
    """Rank 3 comes first every time and waits longest: it is not the root."""
    assert timed(lambda rank, _: 900.0 if rank == 3 else 500.0 + rank).culprits == ()


def test_stages_of_a_pipeline_are_no_stragglers() -> None:
    """Each rank comes a stage after the one before: the last waits least, and none is apart."""
    assert timed(lambda rank, seq: 1000.0 - 100.0 * rank + seq % 3).cause == "no_evidence"


def test_half_of_the_ranks_that_come_late_are_no_straggler() -> None:
    """The last stage of two has four ranks."""
    assert (
        timed(lambda rank, seq: (200.0 if rank >= 4 else 500.0) + (rank * 7 + seq) % 5).cause
        == "no_evidence"
    )


def test_collectives_of_different_sizes_are_compared_each_with_its_own() -> None:
    """Large ones take a hundred times as long; on all ranks alike."""
    assert (
        timed(lambda rank, seq: (50_000.0 if seq % 4 == 0 else 500.0) + rank).cause == "no_evidence"
    )


def test_ranks_that_moved_different_amounts_are_not_compared() -> None:
    """What rank 3 sends is a fourth of what the others send, and takes a fourth of the time."""
    assert (
        timed(
            lambda rank, _: 125.0 if rank == 3 else 500.0,
            size=lambda rank: 1 << (18 if rank == 3 else 20),
        ).culprits
        == ()
    )


def test_who_was_late_and_is_no_more_is_silent() -> None:
    """Rank 3 was last to three of four collectives, all of them the older ones."""
    verdict = timed(lambda rank, seq: 120.0 if rank == 3 and seq < 45 else 500.0 + rank)
    assert verdict.cause == "no_evidence"


def rates(counts: Callable[[int, int], int]) -> Verdict:
    """The verdict on seven looks of RAS, 15 s apart, at a job of so many
    launches by rank and look.
    """
    looks = range(1, 8)
    return judge(
        Case(
            [
                ras(
                    ras_communicator("c0", all_reduces({r: counts(r, i) for r in range(RANKS)})),
                    at=15.0 * i,
                )
                for i in looks
            ]
        )
    )


def test_launches_that_follow_each_other_are_a_pipeline() -> None:
    """Each rank is two launches behind the one before at every look; the last is no straggler."""
    assert rates(lambda rank, look: 100 * look - 2 * rank).culprits == ()


def test_ranks_that_are_behind_in_turn_are_no_stragglers() -> None:
    """A report asks one rank after the other: one is always behind."""
    assert rates(lambda rank, look: 100 * look - 3 * (rank == look)).culprits == ()
