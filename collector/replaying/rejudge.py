"""Judges stored observations again, each node by a judge of its own, as its agent did."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from pipeline.finding import Finding
from pipeline.judge import Judge
from pipeline.judged import JudgedObservation
from pipeline.plain import plain


class Rejudged(NamedTuple):
    """An observation judged again, and what was found of it when it was live."""

    now: JudgedObservation
    then: tuple[Finding, ...]

    @property
    def differs(self) -> bool:
        """Whether another thing is found than was.

        In plain values: two findings without a number are equal, though their NaN are not.
        """
        return list(map(plain, self.now.findings)) != list(map(plain, self.then))


def rejudge(
    observations: Iterable[JudgedObservation], judge: Callable[[], Judge]
) -> Iterator[Rejudged]:
    """What is said of each observation, in their order; ``judge`` makes one for a host that is new.

    A judge lives as long as the replay: where the agent was restarted with what it
    remembered there is no seam.
    """
    judges: dict[str, Judge] = {}
    for observation, then, *_ in observations:
        if observation.host not in judges:
            judges[observation.host] = judge()
        yield Rejudged(judges[observation.host].judge(observation), then)
