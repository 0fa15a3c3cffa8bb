"""Detectors that have seen the same share what follows from times; others do not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from detectors.kit.node_clock import NodeClock
from detectors.kit.node_elapsed import NodeElapsed
from detectors.kit.roll import Roll
from pipeline.node_times import NodeTimes
from pipeline.observation import Observation

NAMES = ("n0", "n1", "n2", "n3", "n4")
SECOND = 10**9


class Side:
    """The clocks of one detector."""

    def __init__(self) -> None:
        self.roll = Roll()
        self.clock, self.elapsed = NodeClock(self.roll), NodeElapsed(self.roll)

    def sees(self, times: NodeTimes) -> list[Any]:
        """What it makes of them."""
        one = Observation("nvml", "", "", 0, 0, 0, 0, nodes=times)
        with self.roll.showing(times.names):
            since, at = self.clock.turn(times), self.elapsed.at(one)
        assert since is not None
        made = since.blocks(60 * SECOND), since.seconds(60.0), since.first, since.booted
        return [x.tolist() for x in (*made, at.time_ns, at.mono_ns)] + [at.nodes]


def readings(count: int, seed: int) -> Iterator[NodeTimes]:
    """Of some of the nodes each time, which come late, boot, and have their clocks set."""
    rng = np.random.default_rng(seed)
    wall, mono = np.full(5, 10**18), rng.integers(1, 10**15, 5)
    boots = [0] * 5
    for _ in range(count):
        step = rng.integers(1, 40 * SECOND, 5)
        wall, mono = wall + step, mono + step
        if rng.random() < 0.2:
            node = int(rng.integers(5))
            boots[node], mono[node] = boots[node] + 1, rng.integers(1, 10**10)
            wall[node] += rng.integers(-100 * SECOND, 100 * SECOND)
        here = np.flatnonzero(rng.random(5) < rng.choice([0.6, 1.0]))
        if len(here):
            names = tuple(NAMES[node] for node in here.tolist())
            own = tuple(f"b{boots[node]}" for node in here.tolist())
            yield NodeTimes(names, wall[here], mono[here], own)


def apart(times: NodeTimes) -> NodeTimes:
    """The same times, of which nothing was made."""
    return NodeTimes(times.names, times.time_ns.copy(), times.mono_ns.copy(), times.boots)


def test_clocks_that_share_what_they_make_say_what_each_would_alone() -> None:
    """One of them misses readings; all know the nodes in one order."""
    shared, alone = [Side() for _ in range(3)], [Side() for _ in range(3)]
    for side in (*shared, *alone):
        side.roll.know(NAMES)
    rng = np.random.default_rng(1)
    for times in readings(400, seed=2):
        missed = rng.random() < 0.3
        for number, (one, other) in enumerate(zip(shared, alone, strict=True)):
            if number == 2 and missed:
                continue
            assert one.sees(times) == other.sees(apart(times))


def test_what_follows_from_times_is_made_once_for_those_who_have_seen_the_same() -> None:
    """The second gets the first one's object, and a third that missed a reading does not."""
    sides = [Side() for _ in range(3)]
    *before, last = [one for one in readings(20, seed=3) if len(one.names) == len(NAMES)]
    for times in before:
        for side in sides if times is not before[-1] else sides[:2]:
            side.sees(times)
    made = []
    for side in sides:
        with side.roll.showing(last.names):
            made.append(side.clock.turn(last))
    assert made[0] is made[1]
    assert made[0] is not made[2]
