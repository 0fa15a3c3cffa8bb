"""Observations of several nodes that are judged together, and what is new in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from pipeline.frame import Device, same_devices
from pipeline.observation import Observation
from pipeline.round import Round


class Parts(Sequence[Observation]):
    """The observation of each node with the increments of its frames, made where it is asked for:
    ``whole`` is the ``group`` joined.
    """

    def __init__(self, whole: Observation, group: Sequence[Observation]) -> None:
        self._whole, self._group = whole, group
        self._made: dict[int, Observation] = {}

    def __len__(self) -> int:
        return len(self._group)

    @overload
    def __getitem__(self, place: int) -> Observation: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Observation]: ...

    def __getitem__(self, place: int | slice) -> Observation | Sequence[Observation]:
        if isinstance(place, slice):
            return [self[number] for number in range(*place.indices(len(self)))]
        if place not in self._made:
            self._made[place] = self._part(range(len(self))[place])
        return self._made[place]

    def of(self, host: str) -> Observation:
        """That of a node. KeyError where it is not here."""
        return self[self._places[host]]

    def devices(self, place: int, number: int) -> tuple[Device, ...]:
        """The devices of a node in one of the frames."""
        if isinstance(self._group, Round):
            return self._group.devices(place, number)
        return self._group[place].frames[number].devices

    @cached_property
    def _places(self) -> Mapping[str, int]:
        assert self._whole.nodes is not None  # noqa: S101 - it is joined
        return {host: place for place, host in enumerate(self._whole.nodes.names)}

    def _part(self, place: int) -> Observation:
        one = self._group[place]
        frames = []
        for frame, own in zip(self._whole.frames, one.frames, strict=True):
            made, nodes = frame.increments, frame.nodes
            if made is not None and nodes is not None:
                first = int(np.searchsorted(nodes.node_of, place))
                made = made.of(slice(first, first + len(own.devices)))
            frames.append(replace(own, increments=made))
        return replace(one, frames=tuple(frames))


@dataclass(frozen=True, slots=True)
class Batch:
    """Observations of several nodes: joined, and one by one; ``news`` are nodes in whose
    observation anything but readings is new, (node,).
    """

    whole: Observation
    parts: Parts
    news: NDArray[np.bool_]

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes."""
        assert self.whole.nodes is not None  # noqa: S101 - it is joined
        return self.whole.nodes.names


class News:
    """Finds the nodes that have an event, are seen for the first time, have booted, or read other
    devices than before.
    """

    def __init__(self) -> None:
        self._boots: dict[str, str] = {}
        self._devices: dict[tuple[str, str], dict[str, tuple[Device, ...]]] = {}
        # of the last batch of each shape: names and boots, and devices by identity
        self._before: dict[tuple[str, ...], tuple[object, tuple[tuple[Device, ...], ...]]] = {}

    def of(self, whole: Observation, parts: Parts) -> NDArray[np.bool_]:
        """In a joined observation, (node,)."""
        nodes = whole.nodes
        assert nodes is not None  # noqa: S101 - it is joined
        news = np.zeros(len(nodes.names), np.bool_)
        news[nodes.node_of] = True  # of the events
        shape = (whole.source, *(frame.kind for frame in whole.frames))
        now, devices = (nodes.names, nodes.boots), tuple(f.devices for f in whole.frames)
        before = self._before.get(shape)
        if before is None or before[0] != now or any(map(_is_not, before[1], devices)):
            news[list(self._changed(whole, parts))] = True
            self._before[shape] = now, devices
        return news

    def _changed(self, whole: Observation, parts: Parts) -> Iterator[int]:
        assert whole.nodes is not None  # noqa: S101 - it is joined
        known = [self._devices.setdefault((whole.source, f.kind), {}) for f in whole.frames]
        for place, (host, boot) in enumerate(
            zip(whole.nodes.names, whole.nodes.boots, strict=True)
        ):
            changed = self._boots.get(host) != boot
            self._boots[host] = boot
            for number, of_kind in enumerate(known):
                devices = parts.devices(place, number)
                before = of_kind.get(host)
                changed |= before is None or not same_devices(before, devices)
                of_kind[host] = devices
            if changed:
                yield place


def _is_not(one: object, other: object) -> bool:
    return one is not other
