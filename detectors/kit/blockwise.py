"""The frame of a detector that samples every reading and judges by blocks of time:
what all of those have in common.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from detectors.kit.block_clock import BlockClock
from detectors.kit.columns import Columns
from detectors.kit.elapsed import Elapsed
from detectors.kit.findings import FindingTracker
from detectors.kit.instants import Times
from detectors.kit.stateful import Stateful
from pipeline.finding import Finding
from pipeline.frame import Frame
from pipeline.observation import Event, Observation


class Blockwise(Stateful):
    """A detector of one kind of device that judges when a block of ``seconds`` has ended, and
    samples what begins the next.

    A subclass defines which events it takes, how it judges and what it samples.
    """

    name: ClassVar[str]
    kind: ClassVar[str] = "gpu"

    def __init__(self, seconds: float, columns: Columns) -> None:
        self._columns, self._clock = columns, BlockClock(seconds)
        self._elapsed, self._standing = Elapsed(), FindingTracker(self.name)

    def update(self, observation: Observation) -> Iterable[Finding]:
        """Judge the block that ended, then take in the frame; one that comes
        twice or late is left out.
        """
        findings: list[Finding] = []
        self._take_events(observation.events)
        for frame in observation.frames:
            if frame.kind == self.kind:
                at = self._elapsed.times(observation)
                findings += self._standing.swapped(frame, at)
                turned = self._clock.turned(frame, observation.boot_id)
                for blocks, then in self._clock.each(turned, at):
                    findings += self._ended(blocks, then)
                if turned is not None:
                    self._take(frame, observation.boot_id)
        return findings

    def _take_events(self, events: Iterable[Event]) -> None:
        """Events that came with the reading, before it is judged."""

    def _ended(self, blocks: int, at: Times) -> Iterable[Finding]:  # noqa: ARG002 - for those who count them
        """So many blocks have ended."""
        return self._block(at)

    def _block(self, at: Times) -> Iterable[Finding]:
        """Judge what was sampled."""
        raise NotImplementedError

    def _take(self, frame: Frame, boot_id: str) -> None:  # noqa: ARG002 - for those who keep a clock of their own
        """A reading of the block that runs."""
        self._sample(frame)

    def _sample(self, frame: Frame) -> None:
        """What of a reading is kept until the block ends."""
        raise NotImplementedError
