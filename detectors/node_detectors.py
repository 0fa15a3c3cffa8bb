"""Detectors of horizon ``node``: most hold all nodes at once, of the others each node has one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from detectors.kit.joined import Joinable, Joined
from detectors.kit.labelled import labelled, unlabelled
from detectors.kit.snapshot import Snapshotable, State
from detectors.kit.stateful import from_text_array, text_array
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


class Together:
    """A detector that holds all nodes."""

    def __init__(self, detector: Detector) -> None:
        self.name = detector.name
        self._shadow = detector if isinstance(detector, ShadowMode) else None
        self._joined = joined(detector.detector if isinstance(detector, ShadowMode) else detector)
        self._changed: dict[str, ShadowMode] = {}  # on nodes whose labels say so
        self._failed: set[str] = set()  # nodes with which it failed last

    def asked(self, whole: Observation, parts: Sequence[Observation]) -> Iterator[Asked]:
        """All at once; node by node where one makes it fail."""
        if not self._failed.isdisjoint(part.host for part in parts):
            yield from (Asked(alone(part), (part,)) for part in parts)
        else:
            yield Asked(whole, parts)

    def judge(self, asked: Asked) -> list[tuple[str, Finding]]:
        """The findings, each with its node. ValueError for one of another node."""
        hosts = {part.host for part in asked.parts}
        self._follow(asked.parts)
        found = self._joined.by_node(asked.whole)
        for host, finding in found:
            if host not in hosts:
                raise ValueError(f"{finding.fault} of {host}, which was not judged")
        return [(host, self._shown(host, finding)) for host, finding in found]

    def _follow(self, parts: Sequence[Observation]) -> None:
        for part in parts:
            if self._shadow and any(event.kind in CHANGES for event in part.events):
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

    def __init__(self, name: str, number: int, make: Callable[[], Sequence[Detector]]) -> None:
        self.name, self._number, self._make = name, number, make
        self._of: dict[str, Detector] = {}

    def asked(self, whole: Observation, parts: Sequence[Observation]) -> Iterator[Asked]:
        """Node by node."""
        yield from (Asked(whole, (part,)) for part in parts)

    def judge(self, asked: Asked) -> list[tuple[str, Finding]]:
        """The findings of one node, each with its name."""
        (part,) = asked.parts
        return [(part.host, finding) for finding in self._one(part.host).update(part)]

    def failed(self, parts: Sequence[Observation], error: Exception | None) -> None:
        """Each node's fails by itself."""

    def _one(self, host: str) -> Detector:
        if host not in self._of:
            self._of[host] = self._make()[self._number]
        return self._of[host]

    def state(self) -> State:
        """That of each node's, where it has one."""
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
            one = self._one(host)
            if isinstance(one, Snapshotable):
                one.restore(own)


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
