"""Detectors of horizon ``node``: most hold all nodes at once, of the others each node has one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from detectors.kit.joined import Joinable, Joined
from detectors.kit.snapshot import Snapshotable, State
from detectors.kit.stateful import from_text_array, text_array
from detectors.node_batch import Batch
from detectors.node_sleepers import Recent, Sleepers
from detectors.paging import CHANGES, ShadowMode
from pipeline.finding import Finding
from pipeline.frame import Frame
from pipeline.interfaces import Detector
from pipeline.node_times import NodeTimes
from pipeline.observation import Observation

FAILED, SHADOW = "failed", "shadow"  # labels in a state


class Asked(NamedTuple):
    """What a detector is asked about: some nodes joined, and the observation of each."""

    whole: Observation
    parts: Sequence[Observation]


class Crews:
    """Detectors of nodes that have their own, by their ``numbers`` in the list of all: ``make``
    makes all of them.
    """

    def __init__(self, make: Callable[[], Sequence[Detector]], numbers: Mapping[str, int]) -> None:
        self._make, self._numbers = make, numbers
        self._waiting: dict[str, dict[str, Detector]] = {}

    def take(self, host: str, name: str) -> Detector:
        """That of a node, which is its own from now on."""
        crew = self._waiting.pop(host, {})
        if name not in crew:
            made = self._make()
            crew = {name: made[number] for name, number in self._numbers.items()}
        one = crew.pop(name)
        if crew:
            self._waiting[host] = crew
        return one


class Together:
    """A detector that holds all nodes."""

    def __init__(self, detector: Detector) -> None:
        self.name = detector.name
        self._shadow = detector if isinstance(detector, ShadowMode) else None
        self._joined = joined(bare(detector))
        self._changed: dict[str, ShadowMode] = {}  # on nodes whose labels say so
        self._failed: set[str] = set()  # nodes with which it failed last

    def know(self, names: Iterable[str]) -> None:
        """These nodes, in this order, before any other."""
        self._joined.know(names)

    def asked(self, batch: Batch) -> Iterator[Asked]:
        """All at once; node by node where one makes it fail."""
        if not self._failed.isdisjoint(batch.names):
            yield from (Asked(alone(part), (part,)) for part in batch.parts)
        else:
            yield Asked(batch.whole, batch.parts)

    def judge(self, asked: Asked) -> list[tuple[str, Finding]]:
        """The findings, each with its node. ValueError for one of another node."""
        self._follow(asked)
        found = self._joined.by_node(asked.whole)
        for host, finding in found:
            if asked.whole.nodes is None or host not in asked.whole.nodes.names:
                raise ValueError(f"{finding.fault} of {host}, which was not judged")
        return [(host, self._shown(host, finding)) for host, finding in found]

    def _follow(self, asked: Asked) -> None:
        if self._shadow is None or all(e.kind not in CHANGES for e in asked.whole.events):
            return
        for part in asked.parts:
            if any(event.kind in CHANGES for event in part.events):
                own = self._shadow.put(active=self._shadow.active)
                self._changed.setdefault(part.host, own).follow(part)

    def _shown(self, host: str, finding: Finding) -> Finding:
        shadow = self._changed.get(host, self._shadow)
        return shadow.shown(finding) if shadow else finding

    def failed(self, parts: Sequence[Observation], error: Exception | None) -> None:
        """With these nodes, or not."""
        if error is not None:
            self._failed.update(part.host for part in parts)
        elif self._failed:
            self._failed.difference_update(part.host for part in parts)

    def state(self) -> State:
        """The detector's, with which nodes it fails, and where it is in shadow mode or not."""
        changed = {host: one.active for host, one in self._changed.items()}
        return {
            **self._joined.state(),
            FAILED: text_array(sorted(self._failed)),
            SHADOW: text_array(changed),
        }

    def restore(self, state: State) -> None:
        """KeyError, ValueError or TypeError where it does not fit."""
        self._failed = set(from_text_array(state[FAILED]))
        if self._shadow:
            changed = from_text_array(state[SHADOW])
            self._changed = {host: self._shadow.put(active=on) for host, on in changed.items()}
        own = {name: array for name, array in state.items() if name not in (FAILED, SHADOW)}
        self._joined.restore(own)


class Separately:
    """A detector of which each node has one of its own."""

    def __init__(self, detector: Detector, crews: Crews, recent: Recent) -> None:
        self.name = name = detector.name
        self._sleepers: Sleepers[Detector] = Sleepers(
            lambda host: crews.take(host, name), _show, recent
        )

    def know(self, names: Iterable[str]) -> None:
        """It has no order of nodes."""

    def asked(self, batch: Batch) -> Iterator[Asked]:
        """Node by node, those that are to be asked."""
        for place in self._sleepers.wanted(batch):
            yield Asked(batch.whole, (batch.parts[place],))

    def judge(self, asked: Asked) -> list[tuple[str, Finding]]:
        """The findings of one node, each with its name."""
        (part,) = asked.parts
        found = list(self._sleepers.woken(part.host).update(part))
        self._sleepers.asked(part)
        return [(part.host, finding) for finding in found]

    def failed(self, parts: Sequence[Observation], error: Exception | None) -> None:
        """Each node's fails by itself."""

    def state(self) -> State:
        """That of each node's, where it has one."""
        return self._sleepers.state()

    def restore(self, state: State) -> None:
        """KeyError, ValueError or TypeError where it does not fit."""
        self._sleepers.restore(state)


def _show(detector: Detector, observation: Observation) -> None:
    """Let the time pass for a detector that rested."""
    for finding in detector.update(observation):
        raise ValueError(f"{detector.name} rested, and found {finding.fault} meanwhile")


def bare(detector: Detector) -> Detector:
    """A detector without its shadow mode."""
    return detector.detector if isinstance(detector, ShadowMode) else detector


def joined(detector: Detector) -> Joined:
    """A detector over several nodes. TypeError for one without a memory that can be kept."""
    if not isinstance(detector, Snapshotable):
        raise TypeError(f"detector {detector.name} keeps no memory, and cannot hold several nodes")
    return Joined(_joinable(detector))


def alone(part: Observation) -> Observation:
    """One node as an observation of joined nodes, with its increments."""
    names, boots = (part.host,), (part.boot_id,)

    def times(at: Observation | Frame, rows: int) -> NodeTimes:
        return NodeTimes.of(names, [(at.time_ns, at.mono_ns)], boots, np.zeros(rows, np.intp))

    frames = tuple(replace(f, nodes=times(f, len(f.devices))) for f in part.frames)
    nodes = times(part, len(part.events))
    return replace(part, host="", boot_id="", frames=frames, nodes=nodes)


def _joinable(detector: Joinable) -> Joinable:
    return detector
