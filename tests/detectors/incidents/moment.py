"""A moment of a story from which many stories go on, each by itself: what came before is told
once.
"""

from __future__ import annotations

import io
import pickle

from detectors.faults import Fault
from pipeline.finding import Finding
from pipeline.frame import Device, Frame
from tests.detectors.incidents.story import Story

# What never changes, so that all stories share it.
_SHARED = (Device, Fault, Finding, Frame, frozenset)


class Moment:
    """What a story is now, whatever happens to it later.

    >>> told = Story()
    >>> now = Moment(told)
    >>> told.wait(60)
    >>> told.seconds, now.go_on().seconds
    (60.0, 0.0)
    """

    def __init__(self, story: Story) -> None:
        written = io.BytesIO()
        writer = _Writer(written)
        writer.dump(story)
        self._bytes, self._shared = written.getvalue(), writer.shared

    def go_on(self) -> Story:
        """A story of its own that begins here."""
        reader = _Reader(io.BytesIO(self._bytes))
        reader.shared = self._shared
        story: Story = reader.load()
        return story


class _Writer(pickle.Pickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.shared: list[object] = []

    def persistent_id(self, one: object) -> int | None:
        if not isinstance(one, _SHARED):
            return None
        self.shared.append(one)
        return len(self.shared) - 1


class _Reader(pickle.Unpickler):
    shared: list[object]

    def persistent_load(self, number: int) -> object:
        return self.shared[number]
