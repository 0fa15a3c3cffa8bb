"""The messages of which something waits to be judged: what a snapshot keeps of them, as bytes.

A snapshot holds what came until a message of the stream. Seconds that were open then are neither in
the judge's memory nor in what comes after that message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gateway.ticks import Timed
from pipeline.bus.batch import Decoder
from pipeline.seconds import corrected


@dataclass(frozen=True, slots=True)
class _Message:
    """``queued`` of its observations were to be judged, with a clock corrected by ``offset_ns``."""

    payload: bytes
    queued: int
    offset_ns: int


class Unjudged:
    """Keeps the newest messages of each host."""

    def __init__(self) -> None:
        self._of: dict[str, deque[_Message]] = {}

    def add(self, host: str, payload: bytes, queued: int, offset_ns: int, *, waiting: int) -> None:
        """The next message. ``waiting`` observations of the host are not judged yet."""
        messages = self._of.setdefault(host, deque())
        if queued:
            messages.append(_Message(payload, queued, offset_ns))
        _trim(messages, waiting)

    def forget(self, host: str) -> None:
        """A host that is gone."""
        self._of.pop(host, None)

    def state(self, waiting: Mapping[str, Sequence[Timed]]) -> tuple[Any, NDArray[np.uint8]]:
        """What is needed to have these observations again: plain values, and all payloads."""
        index, payloads = [], []
        for host, messages in self._of.items():
            its = waiting.get(host, ())
            _trim(messages, len(its))
            if its:
                payloads += [each.payload for each in messages]
                about = [[len(m.payload), m.queued, m.offset_ns] for m in messages]
                index.append([host, about, [[at_ns, one.seq] for at_ns, one in its]])
        return index, np.frombuffer(b"".join(payloads), np.uint8)

    def resume(self, index: Any, payloads: NDArray[np.uint8]) -> dict[str, deque[Timed]]:
        """What waits of each host. KeyError, TypeError or ValueError, unchanged, where it is
        something else.
        """
        raw, at, of = payloads.tobytes(), 0, dict[str, deque[_Message]]()
        waiting: dict[str, deque[Timed]] = {}
        for host, about, its in index:
            of[host] = deque()
            for size, queued, offset_ns in about:
                of[host].append(_Message(raw[at : at + size], queued, offset_ns))
                at += size
            waiting[host] = deque(_timed(of[host], its))
        self._of = of
        return waiting


def _trim(messages: deque[_Message], waiting: int) -> None:
    """Messages whose observations are all judged."""
    kept = sum(message.queued for message in messages)
    while messages and kept - messages[0].queued >= waiting:
        kept -= messages.popleft().queued


def _timed(messages: deque[_Message], its: Sequence[tuple[int, int]]) -> Iterator[Timed]:
    """The last observations of these messages, at their times."""
    judged = sum(message.queued for message in messages) - len(its)
    numbers = iter(its)
    for message in messages:
        known = {one.seq: one for one in Decoder().decode(message.payload).arrivals}
        for at_ns, seq in islice(numbers, message.queued - judged):
            yield at_ns, corrected(known[seq], message.offset_ns, at_ns)
        judged = 0
