"""Judges many nodes in one pass, each as its own agent would: horizon ``node``.

Nothing is compared beyond a node. So nodes may be at different times: only the order of one node's
observations matters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from detectors.kit.joined import Joinable, Joined
from detectors.kit.snapshot import Snapshotable
from pipeline.finding import Finding
from pipeline.frame import Frame
from pipeline.interfaces import Detector, Fusion
from pipeline.joined import Joiner, Shape, shape_of
from pipeline.judged import JudgedObservation
from pipeline.observation import Observation
from pipeline.rates import Rates

DEFAULT_PERIOD_S = 1.0
# These keep jobs, events or links by names that nodes share, and are asked node by node.
SEPARATE = frozenset(
    {
        "drift",
        "hang",
        "host",
        "ib_adapter",
        "ib_congestion",
        "ib_link",
        "nccl",
        "nvlink_fabric",
        "xid",
    }
)


class Memory(Detector, Snapshotable, Protocol):
    """A detector whose memory can be kept."""


class NodeHorizon:
    """All detectors and the fusion over nodes of one cadence.

    ``make`` gives new detectors of one node, ``fuse`` their fusion; ``periods_s`` the period of
    each source, seconds, one where it is not named.
    """

    def __init__(
        self,
        make: Callable[[], Sequence[Detector]],
        fuse: Callable[[], Fusion] | None,
        periods_s: Mapping[str, float],
    ) -> None:
        self._make, self._fuse, self._periods = make, fuse, dict(periods_s)
        self._order: dict[str, int] = {}  # of nodes, as they came
        self._read_ns: dict[tuple[str, str, str], tuple[str, int]] = {}
        self._joiner = Joiner()
        self._rates: dict[tuple[str, str], Rates] = {}
        self._detectors: list[Joined | _Separately] = [
            _Separately(detector.name, number, make) if _is_separate(detector) else joined(detector)
            for number, detector in enumerate(make())
        ]
        self._fusions: dict[str, Fusion] = {}

    def judge(self, batch: Sequence[Observation]) -> list[JudgedObservation]:
        """What each node's agent says, in the order of the batch.

        At most one observation of a node: ValueError where there are more.
        """
        judged: dict[str, JudgedObservation] = {}
        for group in self._groups(batch):
            judged |= self._group(group)
        return [judged[observation.host] for observation in batch]

    def _groups(self, batch: Sequence[Observation]) -> Iterator[list[Observation]]:
        """What can be joined: of one shape, and all in time or all late."""
        groups: dict[tuple[Shape, bool], list[Observation]] = {}
        for one in batch:
            groups.setdefault((shape_of(one), self._is_late(one)), []).append(one)
        for group in groups.values():
            for one in group:
                self._order.setdefault(one.host, len(self._order))
            yield sorted(group, key=lambda one: self._order[one.host])

    def _is_late(self, one: Observation) -> bool:
        """Whether a frame comes twice, or after a later one of its source."""
        late = False
        for frame in one.frames:
            key = (one.host, one.source, frame.kind)
            boot, last_ns = self._read_ns.get(key, ("", -1))
            if boot == one.boot_id and frame.mono_ns <= last_ns:
                late = True
            else:
                self._read_ns[key] = one.boot_id, frame.mono_ns
        return late

    def _group(self, group: Sequence[Observation]) -> dict[str, JudgedObservation]:
        whole = self._joiner.join(group)
        whole = replace(whole, frames=tuple(self._rated(whole.source, f) for f in whole.frames))
        parts = _parts(whole, group)
        found: dict[str, list[Finding]] = {one.host: [] for one in group}
        for detector in self._detectors:
            if isinstance(detector, Joined):
                for finding in detector.update(whole):
                    found[finding.device.host].append(finding)
            else:
                for part in parts:
                    found[part.host] += detector.update(part)
        return {part.host: self._fused(part, tuple(found[part.host])) for part in parts}

    def _rated(self, source: str, frame: Frame) -> Frame:
        key = (source, frame.kind)
        if key not in self._rates:
            period_s = self._periods.get(source, DEFAULT_PERIOD_S)
            self._rates[key] = Rates(frame.schema, period_s)
        return self._rates[key].add(frame)

    def _fused(self, part: Observation, findings: tuple[Finding, ...]) -> JudgedObservation:
        if self._fuse is None:
            return JudgedObservation(part, findings)
        if part.host not in self._fusions:
            self._fusions[part.host] = self._fuse()
        incidents = tuple(self._fusions[part.host].update(part, findings))
        return JudgedObservation(part, findings, incidents)


class _Separately:
    """A detector of which each node has one of its own."""

    def __init__(self, name: str, number: int, make: Callable[[], Sequence[Detector]]) -> None:
        self.name, self._number, self._make = name, number, make
        self._of: dict[str, Detector] = {}

    def update(self, part: Observation) -> Sequence[Finding]:
        """The findings of one node."""
        if part.host not in self._of:
            self._of[part.host] = self._make()[self._number]
        return tuple(self._of[part.host].update(part))


def _is_separate(detector: Detector) -> bool:
    return detector.name in SEPARATE


def joined(detector: Detector) -> Joined:
    """A detector over several nodes. TypeError for one without a memory that can be kept."""
    if not isinstance(detector, Snapshotable):
        raise TypeError(f"detector {detector.name} keeps no memory, and cannot hold several nodes")
    return Joined(_joinable(detector))


def _joinable(detector: Joinable) -> Joinable:
    return detector


def _parts(whole: Observation, group: Sequence[Observation]) -> list[Observation]:
    """The observation of each node again, with the increments of its frames."""
    starts = [0] * len(whole.frames)
    parts = []
    for one in group:
        frames = []
        for number, (frame, own) in enumerate(zip(whole.frames, one.frames, strict=True)):
            rows = slice(starts[number], starts[number] + len(own.devices))
            starts[number] = rows.stop
            made = frame.increments
            frames.append(replace(own, increments=None if made is None else made.of(rows)))
        parts.append(replace(one, frames=tuple(frames)))
    return parts
