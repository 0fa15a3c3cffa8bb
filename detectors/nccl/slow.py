"""Slow, not stopped: who comes last to every collective, and whether the network
carries less than it did.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from detectors.kit.stats.peers import median_mad
from detectors.nccl.clue import FASTEST, Clue, RankTarget
from detectors.nccl.communicators import Communicators, Joined
from detectors.nccl.identity import Identities
from pipeline.nccl.member import Timing
from pipeline.nccl.report import Communicator, Report

if TYPE_CHECKING:
    from numpy.typing import NDArray

MIN_TIMED = 20  # collectives that all ranks timed, before a rank is called slow
OFTEN = 0.7  # of them in which one rank was the last to come
APPRECIABLE = 0.1  # of the median time that the others waited for it
# robust standard deviations from the others: stages of a pipeline come one after the
# other, none is separate
APART = 5.0
REDUCED = 0.7  # of the bus bandwidth of before
LOOKS = 4  # of RAS, before its counts show who is always behind
LATECOMER = 0.4


def slow_clues(
    communicators: Communicators, reports: Sequence[Report], identities: Identities
) -> Iterator[Clue]:
    """What timings and rates say.

    Who comes last finds the others waiting, so its own collective is the shortest.
    """
    for joined in communicators.all.values():
        yield from _last_to_come(joined, identities)
        yield from _narrowed(joined)
    yield from _always_behind(reports, identities)


def _last_to_come(joined: Joined, identities: Identities) -> Iterator[Clue]:
    """Whose collectives are the shortest, by far and for long.

    A rank whose own take longest came first: it is the one that waits.
    """
    numbers, times = _shared(joined)
    if len(times) < MIN_TIMED:
        return
    typical, spread = median_mad(times)
    waited = (typical[:, None] - times) / np.maximum(typical[:, None], 1e-9)
    last = (waited >= APPRECIABLE) & (typical[:, None] - times >= APART * spread[:, None])
    half = len(times) // 2
    # it must go on, not have been
    often = np.minimum(last[:half].mean(axis=0), last[half:].mean(axis=0))
    row = int(often.argmax())
    if often[row] > OFTEN:
        who, mine = identities.who(numbers[row]).words(), last[:, row]
        text = (
            f"{who} came last to {mine.sum()} of {len(times)} collectives of {joined.name}: "
            f"the others waited {median(waited[mine, row].tolist()):.0%} of their time for it"
        )
        yield Clue("inspector", text, FASTEST, RankTarget(numbers[row]), "slow_straggler")


def _shared(joined: Joined) -> tuple[list[int], NDArray[np.float64]]:
    """Numbers of the ranks, and how long each collective that all of them timed took,
    (collective, rank), oldest first.

    A collective is an operation's count with its size: where ranks moved different amounts their
    times say nothing of each other.
    """
    numbers = list(joined.members)
    calls: dict[tuple[str, int, int], dict[int, float]] = defaultdict(dict)
    for number, member in joined.members.items():
        for timing in member.timings:
            if math.isfinite(timing.microseconds):
                calls[timing.operation, timing.seq, timing.bytes][number] = timing.microseconds
    whole = sorted(
        (call for call, times in calls.items() if len(times) == len(numbers) > 2),
        key=lambda call: call[1],
    )
    return numbers, np.array([[calls[call][n] for n in numbers] for call in whole], np.float64)


def _narrowed(joined: Joined) -> Iterator[Clue]:
    """Bus bandwidth of like collectives, the latest against the ones before.

    Even the quickest rank must be slow: else a rank is late.
    """
    timings: dict[tuple[str, int], dict[int, list[Timing]]] = defaultdict(lambda: defaultdict(list))
    for member in joined.members.values():
        for t in member.timings:
            if (
                t.busbw_gbs is not None
                and math.isfinite(t.busbw_gbs)
                and math.isfinite(t.microseconds)
            ):
                timings[t.operation, t.bytes.bit_length()][t.seq].append(t)
    for (operation, _), calls in timings.items():
        best = [max((t.busbw_gbs or 0.0) for t in calls[seq]) for seq in sorted(calls)]
        if len(best) < 2 * MIN_TIMED:
            continue
        before, now = median(best[:-MIN_TIMED]), median(best[-MIN_TIMED:])
        if now < REDUCED * before:
            text = (
                f"{operation} of {joined.name} moves {now:.1f} GB/s, {before:.1f} before, on "
                "its quickest rank too"
            )
            yield Clue("inspector", text, 0.0, None, "slow_network")


def _always_behind(reports: Iterable[Report], identities: Identities) -> Iterator[Clue]:
    """RAS counts of a job that moves: a rank that is behind at every look holds the others up."""
    looks: dict[tuple[str, str], list[tuple[Communicator, dict[int, int]]]] = defaultdict(list)
    for report in sorted(reports, key=lambda r: r.time_ns):
        for communicator in (
            report.communicators if report.teller == "ras" and report.trusted else ()
        ):
            sums = {
                identities.number(communicator, m): sum(n for _, n in m.launched)
                for m in communicator.members
                if m.launched
            }
            if sums:
                looks[communicator.key].append((communicator, sums))
    for reports_of in looks.values():
        moved = [
            sums
            for (_, before), (_, sums) in pairwise(reports_of)
            if min(sums.values()) > min(before.values())
        ]
        if len(moved) < LOOKS:
            continue
        behind = Counter(number for sums in moved for number in _behind(sums))
        for number, times in behind.most_common(1):
            if times > OFTEN * len(moved):
                text = (
                    f"{identities.who(number).words()} was behind all others of "
                    f"{reports_of[0][0].id} in "
                    f"{times} of {len(moved)} reports"
                )
                yield Clue("ras", text, LATECOMER, RankTarget(number), "slow_straggler")


def _behind(sums: Mapping[int, int]) -> list[int]:
    """The one rank that is apart from the others: ranks that follow each other, as stages
    of a pipeline do, do not.
    """
    counts = np.array([list(sums.values())], np.float64)
    (typical,), (spread,) = median_mad(counts)
    last = [n for n, count in sums.items() if count == min(sums.values())]
    return last if len(last) == 1 and typical - sums[last[0]] >= APART * spread else []
