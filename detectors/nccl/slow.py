"""Slow, not stopped: who comes last to every collective, and whether the network carries less than it did."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import median

from detectors.nccl.clue import FASTEST, Clue, RankTarget
from detectors.nccl.communicators import Communicators, Joined
from detectors.nccl.identity import Identities
from pipeline.nccl.member import Timing
from pipeline.nccl.report import Communicator, Report

FEWEST = 20  # collectives that all ranks timed, before anybody is called slow
OFTEN = 0.7  # of them in which one rank was the last to come
APPRECIABLE = 0.1  # of the median time that the others waited for it
REDUCED = 0.7  # of the bus bandwidth of before
LOOKS = 4  # of RAS, before its counts say who is always behind
LATECOMER = 0.4


def slow_clues(communicators: Communicators, reports: Sequence[Report], identities: Identities) -> Iterator[Clue]:
    """What timings and rates say. Who comes last finds the others waiting, so its own collective is the shortest."""
    for joined in communicators.all.values():
        yield from _last_to_come(joined, identities)
        yield from _narrowed(joined)
    yield from _always_behind(reports, identities)


def _last_to_come(joined: Joined, identities: Identities) -> Iterator[Clue]:
    calls: dict[tuple[str, int], dict[int, float]] = defaultdict(dict)
    for number, member in joined.members.items():
        for timing in member.timings:
            if math.isfinite(timing.microseconds):
                calls[timing.operation, timing.seq][number] = timing.microseconds
    shared = [times for times in calls.values() if len(times) == len(joined.members) > 2]
    if len(shared) < FEWEST:
        return
    shortest = Counter(min(times, key=lambda n: times[n]) for times in shared)
    last, often = shortest.most_common(1)[0]
    waited = median((median(times.values()) - times[last]) / max(median(times.values()), 1e-9) for times in shared)
    if often > OFTEN * len(shared) and waited >= APPRECIABLE:
        who = identities.who(last).words()
        text = f"{who} came last to {often} of {len(shared)} collectives of {joined.name}: the others waited {waited:.0%} of their time for it"
        yield Clue("inspector", text, FASTEST, RankTarget(last), "slow_straggler")


def _narrowed(joined: Joined) -> Iterator[Clue]:
    """Bus bandwidth of like collectives, the latest against the ones before. Even the quickest rank must be slow: else somebody is late."""
    told: dict[tuple[str, int], dict[int, list[Timing]]] = defaultdict(lambda: defaultdict(list))
    for member in joined.members.values():
        for t in member.timings:
            if t.busbw_gbs is not None and math.isfinite(t.busbw_gbs) and math.isfinite(t.microseconds):
                told[t.operation, t.bytes.bit_length()][t.seq].append(t)
    for (operation, _), calls in told.items():
        best = [max((t.busbw_gbs or 0.0) for t in calls[seq]) for seq in sorted(calls)]
        if len(best) < 2 * FEWEST:
            continue
        before, now = median(best[:-FEWEST]), median(best[-FEWEST:])
        if now < REDUCED * before:
            text = f"{operation} of {joined.name} moves {now:.1f} GB/s, {before:.1f} before, on its quickest rank too"
            yield Clue("inspector", text, 0.0, None, "slow_network")


def _always_behind(reports: Iterable[Report], identities: Identities) -> Iterator[Clue]:
    """RAS counts of a job that moves: a rank that is behind at every look holds the others up."""
    looks: dict[tuple[str, str], list[tuple[Communicator, dict[int, int]]]] = defaultdict(list)
    for report in sorted(reports, key=lambda r: r.time_ns):
        for communicator in report.communicators if report.teller == "ras" and report.trusted else ():
            sums = {identities.number(communicator, m): sum(n for _, n in m.launched) for m in communicator.members if m.launched}
            if sums:
                looks[communicator.key].append((communicator, sums))
    for told in looks.values():
        moved = [sums for (_, before), (_, sums) in pairwise(told) if min(sums.values()) > min(before.values())]
        if len(moved) < LOOKS:
            continue
        behind = Counter(
            next(iter(low)) for sums in moved if len(low := {n for n, c in sums.items() if c == min(sums.values())}) == 1
        )
        for number, times in behind.most_common(1):
            if times > OFTEN * len(moved):
                text = (
                    f"{identities.who(number).words()} was behind all others of {told[0][0].id} at {times} of {len(moved)} looks"
                )
                yield Clue("ras", text, LATECOMER, RankTarget(number), "slow_straggler")
