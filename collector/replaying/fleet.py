"""Runs the detectors over stored observations of many nodes together: a job on all of its nodes,
which no agent alone has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from collector.replaying.rejudge import Rejudged, rejudge
from pipeline.clock import SECOND_NS
from pipeline.judge import Judge
from pipeline.judged import JudgedObservation

HOUR_NS = 3600 * SECOND_NS


def rejudge_fleet(
    observations: Iterable[JudgedObservation], counting: Callable[[], Judge], fleet: Judge
) -> Iterator[Rejudged]:
    """Results of ``fleet`` for the observations of all nodes, in the order of their wall clocks.

    ``counting`` makes a judge without detectors for each host: increments are made per node. A
    store gives one node after the other, so that an hour of all nodes is held in memory at a time.
    Findings of the agents are left out: agents see one node only.
    """
    for _, hour in groupby(rejudge(observations, counting), key=_hour):
        for again in sorted(hour, key=lambda one: one.now.observation.time_ns):
            yield Rejudged(fleet.judge(again.now.observation), ())


def _hour(again: Rejudged) -> int:
    return again.now.observation.time_ns // HOUR_NS
