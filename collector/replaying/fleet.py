"""Judges stored observations of many nodes as one: what a job did on all of its nodes, which no agent alone has seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from collector.replaying.again import Again, judged_again
from pipeline.judge import Judge
from pipeline.judged import Judged

HOUR_NS = 3600 * 10**9


def judged_together(observations: Iterable[Judged], counting: Callable[[], Judge], fleet: Judge) -> Iterator[Again]:
    """What ``fleet`` says of the observations of all nodes, in the order of their wall clocks.

    ``counting`` makes a judge without detectors for each host: increments are a node's own. A store gives one node after the other, so that
    an hour of all nodes is held in memory at a time. What agents found then is left out: they answered another question.
    """
    for _, hour in groupby(judged_again(observations, counting), key=_hour):
        for again in sorted(hour, key=lambda one: one.now.observation.time_ns):
            yield Again(fleet.judge(again.now.observation), ())


def _hour(again: Again) -> int:
    return again.now.observation.time_ns // HOUR_NS
