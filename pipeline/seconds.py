"""Seconds of several hosts: what a gateway joins as it arrives, and a replay as it was stored."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pipeline.clock import SECOND_NS
from pipeline.observation import Observation

# A host that sent nothing for so long has left; an agent that is upgraded is back in a minute.
FORGOTTEN_NS = 900 * SECOND_NS


def groups_of(hosts: Sequence[Sequence[Observation]]) -> Iterator[tuple[Observation, ...]]:
    """A second of several hosts, each in its order, in groups that are joined: observations of one
    source, at most one per host.
    """
    taken = [deque(mine) for mine in hosts if mine]
    while taken:
        # The source that most hosts read next goes first, so that a host which read something more
        # once does not fall out of step.
        counts = Counter(mine[0].source for mine in taken)
        source = max(counts, key=counts.__getitem__)
        yield tuple(mine.popleft() for mine in taken if mine[0].source == source)
        taken = [mine for mine in taken if mine]


def corrected(observation: Observation, offset_ns: int) -> Observation:
    """With unix times of the gateway; the monotonic clock is the host's own."""
    if not offset_ns:
        return observation
    return replace(
        observation,
        time_ns=observation.time_ns + offset_ns,
        frames=tuple(
            replace(frame, time_ns=frame.time_ns + offset_ns) for frame in observation.frames
        ),
        events=tuple(
            replace(event, time_ns=event.time_ns + offset_ns) for event in observation.events
        ),
    )
