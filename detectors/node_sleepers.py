"""Detectors of which each node has one of its own, asked only where something happens."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Generic, TypeVar, cast

import numpy as np

from detectors.kit.labelled import labelled, unlabelled
from detectors.kit.resting import FOREVER_NS, Resting
from detectors.kit.snapshot import Snapshotable, State
from detectors.node_batch import Batch, Parts
from pipeline.observation import Observation
from pipeline.small_arrays import any_true

T = TypeVar("T")


class Recent:
    """The last observation of each source of each node: what one that rested is shown."""

    def __init__(self) -> None:
        self.number = 0  # of batches so far
        self._last: dict[str, dict[str, tuple[int, Parts]]] = {}

    def add(self, batch: Batch) -> None:
        """A batch that was judged."""
        self.number += 1
        entry = (self.number, batch.parts)
        self._last.setdefault(batch.whole.source, {}).update(dict.fromkeys(batch.names, entry))

    def since(self, host: str, number: int) -> list[Observation]:
        """Those of a node in later batches than this one, in their order."""
        found = [of[host] for of in self._last.values() if host in of and of[host][0] > number]
        return [parts.of(host) for _, parts in sorted(found, key=lambda entry: entry[0])]


class Sleepers(Generic[T]):
    """One of something per node, made by ``make``; ``show`` shows it an observation by which
    nothing changes but the time.

    One that cannot rest (detectors/kit/resting.py) is asked about every observation.
    """

    def __init__(
        self, make: Callable[[str], T], show: Callable[[T, Observation], object], recent: Recent
    ) -> None:
        self._make, self._show, self._recent = make, show, recent
        self._of: dict[str, T] = {}
        # When each must be asked again, on its node's monotonic clock; others rest until something
        # happens.
        self._due_ns: dict[str, int] = {}
        self._seen: dict[str, int] = {}  # the last batch that each was asked about
        self._sleeper: Resting | None = None  # any of them, where they can rest

    def wanted(self, batch: Batch, also: Collection[str] = ()) -> list[int]:
        """The nodes that must be asked, by place: those with news, those that are due or were
        stirred, and ``also`` these.
        """
        wanted, names, nodes = batch.news.copy(), batch.names, batch.whole.nodes
        if also:
            wanted |= np.fromiter((host in also for host in names), np.bool_, len(names))
        if self._due_ns and nodes is not None:
            due = (self._due_ns.get(host, FOREVER_NS) for host in names)
            wanted |= np.fromiter(due, np.int64, len(names)) <= nodes.mono_ns
        sleeper = self._sleeper
        for frame in batch.whole.frames:
            stirred = None if sleeper is None else sleeper.stirs(frame)
            if stirred is not None and any_true(stirred) and frame.nodes is not None:
                wanted[frame.nodes.node_of[stirred]] = True
        return [int(place) for place in np.flatnonzero(wanted)]

    def woken(self, host: str) -> T:
        """That of a node, which has seen the time pass: to be asked now."""
        if host not in self._of:
            made = self._of[host] = self._make(host)
            self._sleeper = made if isinstance(made, Resting) else None
        one = self._of[host]
        for observation in self._recent.since(host, self._seen.get(host, self._recent.number)):
            self._show(one, observation)
        self._seen[host] = self._recent.number + 1
        self._due_ns[host] = 0
        return one

    def asked(self, about: Observation) -> None:
        """That of the observation's node has judged it: it may rest."""
        host = about.host
        rests_ns = cast("Resting", self._of[host]).rests_ns() if self._sleeper is not None else 0
        if rests_ns == FOREVER_NS:
            self._due_ns.pop(host, None)
        elif rests_ns > 0:
            self._due_ns[host] = about.mono_ns + rests_ns

    def state(self) -> State:
        """That of each node's, where it has one."""
        for host in list(self._of):
            due_ns = self._due_ns.get(host)
            self.woken(host)
            self._seen[host] = self._recent.number
            if due_ns is None:
                del self._due_ns[host]
            else:
                self._due_ns[host] = due_ns
        return labelled(
            "node",
            (
                (host, one.state())
                for host, one in self._of.items()
                if isinstance(one, Snapshotable)
            ),
        )

    def restore(self, state: State) -> None:
        """KeyError, ValueError or TypeError where it does not fit."""
        for host, own in unlabelled("node", state).items():
            one = self._of[host] = self._make(host)
            self._sleeper = one if isinstance(one, Resting) else None
            self._due_ns[host] = 0
            if isinstance(one, Snapshotable):
                one.restore(own)
