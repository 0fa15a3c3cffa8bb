"""Arrival: an observation as a gateway gets it, with blocks in the place of frames.

A gateway takes 10,000 a second of 2,000 hosts: no more than a tuple each. Names and meaning are
those of an observation's fields.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from pipeline.block import AnyBlock
from pipeline.frame import whole_microseconds
from pipeline.observation import Event, Observation, Outcome, Unread


class Arrival(NamedTuple):
    """One read of one source of one host."""

    source: str
    host: str
    boot_id: str
    seq: int
    time_ns: int
    mono_ns: int
    duration_ns: int
    frames: tuple[AnyBlock, ...]
    events: tuple[Event, ...] = ()
    unread: tuple[Unread, ...] = ()
    outcome: Outcome = "ok"
    error: str = ""

    def observation(self) -> Observation:
        """The observation that was sent."""
        frames = tuple(block.frame() for block in self.frames)
        return Observation(*self[:7], frames, *self[8:])

    def corrected(self, offset_ns: int) -> Arrival:
        """With unix times of the gateway; the monotonic clock is the host's own."""
        frames = tuple(
            block._replace(time_ns=whole_microseconds(block.time_ns + offset_ns))
            for block in self.frames
        )
        events = tuple(replace(each, time_ns=each.time_ns + offset_ns) for each in self.events)
        time_ns = whole_microseconds(self.time_ns + offset_ns)
        return self._replace(time_ns=time_ns, frames=frames, events=events)
