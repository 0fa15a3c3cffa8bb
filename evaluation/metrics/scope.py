"""Two scopes of a fleet: all nodes together, as a gateway, or each node alone, as its agent."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.frame import Device, Frame
from pipeline.observation import Event, Observation, Unread

Scope = Literal["node", "fleet"]
SCOPES: tuple[Scope, ...] = ("node", "fleet")
Rows = slice | NDArray[np.intp]


class ByHost:
    """Cuts observations of a fleet into what each host's agent would have seen.

    Nothing is copied where the rows of a host are contiguous.
    """

    def __init__(self, only: frozenset[str] | None = None, *, read_only: bool = False) -> None:
        """``only`` these hosts; None is all of them. ``read_only``: no frame of which nothing was
        read, unless the source says so of its host: an agent reads at a pace of its own.
        """
        self._only, self._read_only = only, read_only
        self._cuts: dict[
            tuple[str, str], tuple[tuple[Device, ...], list[tuple[str, Rows, tuple[Device, ...]]]]
        ] = {}

    def split(self, observation: Observation) -> Iterator[tuple[str, Observation]]:
        """Each host that is in the observation, with its own part of it."""
        frames: dict[str, list[Frame]] = {}
        silent = {unread.device for unread in observation.unread} if self._read_only else set()
        events: dict[str, list[Event]] = {}
        for frame in observation.frames:
            for host, part in self._parts(observation.source, frame, silent):
                frames.setdefault(host, []).append(part)
        for event in observation.events:
            if self._only is not None and event.device.host not in self._only:
                continue
            events.setdefault(event.device.host, []).append(event)
        for host in dict.fromkeys((*frames, *events)):
            yield (
                host,
                self._observation(
                    observation, host, tuple(frames.get(host, ())), tuple(events.get(host, ()))
                ),
            )

    def _observation(
        self, complete: Observation, host: str, frames: tuple[Frame, ...], events: tuple[Event, ...]
    ) -> Observation:
        ids = (
            {device.id for frame in frames for device in frame.devices}
            if complete.unread
            else set()
        )
        unread: tuple[Unread, ...] = tuple(u for u in complete.unread if u.device in ids)
        return replace(complete, host=host, frames=frames, events=events, unread=unread)

    def _parts(
        self, source: str, frame: Frame, silent: AbstractSet[str]
    ) -> Iterator[tuple[str, Frame]]:
        devices, cut = self._cuts.get((source, frame.kind), ((), []))
        if devices is not frame.devices:
            cut = [
                part for part in _cut(frame.devices) if self._only is None or part[0] in self._only
            ]
            self._cuts[source, frame.kind] = (frame.devices, cut)
        read = _is_read(frame) if self._read_only else None
        for host, rows, own in cut:
            if read is None or read[rows].any() or host in silent:
                yield host, rows_of(frame, rows, own)


def _cut(devices: tuple[Device, ...]) -> list[tuple[str, Rows, tuple[Device, ...]]]:
    rows: dict[str, list[int]] = {}
    for row, device in enumerate(devices):
        rows.setdefault(device.host, []).append(row)
    return [(host, as_slice(own), tuple(devices[row] for row in own)) for host, own in rows.items()]


def as_slice(rows: list[int]) -> Rows:
    """Rows as a slice where they lie together, so that nothing is copied."""
    if not rows:
        return slice(0, 0)
    contiguous = rows == list(range(rows[0], rows[-1] + 1))
    return slice(rows[0], rows[-1] + 1) if contiguous else np.array(rows, np.intp)


def _is_read(frame: Frame) -> NDArray[np.bool_]:
    """Of each row whether any value was read, (row,)."""
    return np.asarray(frame.observed.any(axis=0) | ~np.isnan(frame.gauges).all(axis=0))


def rows_of(frame: Frame, rows: Rows, devices: tuple[Device, ...]) -> Frame:
    """These rows of a frame, which are ``devices``: as a frame of its own, with its increments."""
    made = frame.increments
    return Frame(
        frame.schema,
        frame.time_ns,
        frame.mono_ns,
        devices,
        frame.gauges[:, rows],
        frame.counters[:, rows],
        frame.observed[:, rows],
        frame.sampled_ns[rows],
        None if made is None else made.of(rows),
    )
