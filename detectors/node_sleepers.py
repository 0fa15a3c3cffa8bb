"""Detectors of which each node has one of its own, asked only where something happens."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar, cast

import numpy as np

from detectors.kit.labelled import labelled, unlabelled
from detectors.kit.resting import Resting
from detectors.kit.snapshot import Snapshotable, State
from detectors.node_batch import Batch, Parts
from pipeline.observation import Observation

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
        self._awake: dict[str, None] = {}
        self._seen: dict[str, int] = {}  # the last batch that each was asked about
        self._sleeper: Resting | None = None  # any of them, where they can rest

    def wanted(self, batch: Batch, also: Iterable[str] = ()) -> list[int]:
        """The nodes that must be asked, by place: those with news, those that are awake or were
        stirred, and ``also`` these.
        """
        wanted, names = batch.news.copy(), batch.names
        if self._awake or also:
            awake = {*self._awake, *also}
            wanted |= np.fromiter((host in awake for host in names), np.bool_, len(names))
        sleeper = self._sleeper
        for frame in batch.whole.frames:
            stirred = None if sleeper is None else sleeper.stirs(frame)
            if stirred is not None and stirred.any() and frame.nodes is not None:
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
        self._awake[host] = None
        return one

    def asked(self, host: str) -> None:
        """It has judged: it may rest."""
        one = self._of[host]
        if self._sleeper is not None and cast("Resting", one).rests():
            self._awake.pop(host, None)

    def state(self) -> State:
        """That of each node's, where it has one."""
        for host in list(self._of):
            awake = host in self._awake
            self.woken(host)
            self._seen[host] = self._recent.number
            if not awake:
                del self._awake[host]
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
            self._awake[host] = None
            if isinstance(one, Snapshotable):
                one.restore(own)
