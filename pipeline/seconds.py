"""Seconds of several hosts: what a gateway joins as it arrives, and a replay as it was stored."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TypeVar

from pipeline.arrival import Arrival
from pipeline.clock import SECOND_NS
from pipeline.observation import Observation

Read = TypeVar("Read", bound=Observation | Arrival)

# A host that sent nothing for so long has left; an agent that is upgraded is back in a minute.
FORGOTTEN_NS = 900 * SECOND_NS


def groups_of(hosts: Sequence[Sequence[Read]]) -> Iterator[tuple[Read, ...]]:
    """A second of several hosts in groups that are joined: observations of one source, at most one
    per host; each host's in its order.

    Source by source, by name: agents read their sources at the same time, in an order that differs
    from host to host and from second to second.
    """
    by_source: dict[str, list[deque[Read]]] = {}
    for mine in hosts:
        own: dict[str, deque[Read]] = {}
        for observation in mine:
            own.setdefault(observation.source, deque()).append(observation)
        for source, its in own.items():
            by_source.setdefault(source, []).append(its)
    for _, queues in sorted(by_source.items()):
        while any(queues):
            yield tuple(queue.popleft() for queue in queues if queue)


def corrected(read: Read, offset_ns: int, judged_ns: int) -> Read:
    """With unix times of the gateway, none after the one at which it is judged; the monotonic clock
    is the host's own.

    A clock that was hours ahead may be set right before the batch is sent: what was read before
    would take the time of the joined fleet along, which never goes back.
    """
    offset_ns = min(offset_ns, judged_ns - read.time_ns)
    # Either gives its own kind.
    return read.corrected(offset_ns) if offset_ns else read  # type: ignore[return-value]
