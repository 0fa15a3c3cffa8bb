"""The observation of a fleet as that of many nodes which have nothing in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import overload

import numpy as np
from numpy.typing import NDArray

from detectors.node_batch import Parts
from evaluation.metrics.scope import Rows, as_slice, rows_of
from pipeline.frame import Device, Frame
from pipeline.node_times import NodeTimes
from pipeline.observation import Event, Observation


@dataclass(frozen=True, slots=True)
class _Cut:
    """The rows of some hosts of a frame, host by host, and the place of each row's host; the
    devices of a host are the same tuple each time.
    """

    whole: tuple[Device, ...]
    rows: Rows
    devices: tuple[Device, ...]
    node_of: NDArray[np.intp]
    parts: dict[int, tuple[slice, tuple[Device, ...]]] = field(default_factory=dict)

    def of(self, place: int) -> tuple[slice, tuple[Device, ...]]:
        """The rows of a host in the cut, and their devices."""
        if place not in self.parts:
            rows = slice(*np.searchsorted(self.node_of, (place, place + 1)).tolist())
            self.parts[place] = rows, self.devices[rows]
        return self.parts[place]


class NodesOf:
    """Hosts of ``only`` (None for all) as joined nodes: those that have rows in the same frames
    together, as agents read whole frames.

    ``order`` of hosts, which joined detectors ask for: by name where all are known, as the frames
    of a fleet have them and need not be copied then; others by when they were first seen.
    """

    def __init__(self, only: frozenset[str] | None = None) -> None:
        self._only = only
        self.order = {host: number for number, host in enumerate(sorted(only or ()))}
        self._hosts: dict[tuple[str, str], tuple[tuple[Device, ...], frozenset[str]]] = {}
        self._names: dict[frozenset[str], tuple[str, ...]] = {}
        self._cuts: dict[tuple[str, str, tuple[str, ...]], _Cut] = {}

    def joined(self, observation: Observation) -> Iterator[tuple[Observation, Parts]]:
        """The joined observation of each group of hosts, and that of each host in it."""
        of_frames = [self._hosts_of(observation.source, frame) for frame in observation.frames]
        events = [event for event in observation.events if self._is_wanted(event.device.host)]
        groups: dict[tuple[int, ...], frozenset[str]] = {}
        if of_frames and all(hosts == of_frames[0] for hosts in of_frames[1:]):
            groups[tuple(range(len(of_frames)))] = of_frames[0]
        else:
            groups = _grouped(of_frames)
        in_frames = frozenset().union(*of_frames)
        groups[()] = frozenset(event.device.host for event in events) - in_frames
        for numbers, hosts in groups.items():
            if hosts:
                names = self._named(hosts)
                frames = [observation.frames[number] for number in numbers]
                cuts = [self._cut(observation.source, frame, names) for frame in frames]
                whole = _whole(observation, list(zip(frames, cuts, strict=True)), names, events)
                yield whole, _Parts(whole, cuts)

    def _is_wanted(self, host: str) -> bool:
        return self._only is None or host in self._only

    def _hosts_of(self, source: str, frame: Frame) -> frozenset[str]:
        devices, hosts = self._hosts.get((source, frame.kind), ((), frozenset[str]()))
        if devices is not frame.devices:
            hosts = frozenset(d.host for d in frame.devices if self._is_wanted(d.host))
            self._hosts[source, frame.kind] = frame.devices, hosts
        return hosts

    def _named(self, hosts: frozenset[str]) -> tuple[str, ...]:
        """Hosts in their order: the same tuple each time."""
        if hosts not in self._names:
            for host in sorted(hosts - self.order.keys()):
                self.order[host] = len(self.order)
            self._names[hosts] = tuple(sorted(hosts, key=self.order.__getitem__))
        return self._names[hosts]

    def _cut(self, source: str, frame: Frame, names: tuple[str, ...]) -> _Cut:
        key = (source, frame.kind, names)
        known = self._cuts.get(key)
        if known is None or known.whole is not frame.devices:
            place = {host: number for number, host in enumerate(names)}
            rows = [row for row, device in enumerate(frame.devices) if device.host in place]
            rows.sort(key=lambda row: place[frame.devices[row].host])
            all_of_it = rows == list(range(len(frame.devices)))
            devices = frame.devices if all_of_it else tuple(frame.devices[row] for row in rows)
            node_of = np.array([place[device.host] for device in devices], np.intp)
            known = _Cut(frame.devices, as_slice(rows), devices, node_of)
            self._cuts = {k: cut for k, cut in self._cuts.items() if k[:2] != key[:2]}
            self._cuts[key] = known
        return known


def _whole(
    observation: Observation,
    frames: Sequence[tuple[Frame, _Cut]],
    names: tuple[str, ...],
    events: Sequence[Event],
) -> Observation:
    """The joined observation of some hosts."""
    boots = (observation.boot_id,) * len(names)
    place = {host: number for number, host in enumerate(names)} if events else {}
    own = sorted(
        (event for event in events if event.device.host in place),
        key=lambda event: place[event.device.host],
    )
    node_of = np.array([place[event.device.host] for event in own], np.intp)
    times = (observation.time_ns, observation.mono_ns)
    return replace(
        observation,
        host="",
        boot_id="",
        frames=tuple(_cut_out(frame, cut, names, boots) for frame, cut in frames),
        events=tuple(own),
        unread=(),
        nodes=NodeTimes.at_once(names, *times, boots, node_of),
    )


def _cut_out(frame: Frame, cut: _Cut, names: tuple[str, ...], boots: tuple[str, ...]) -> Frame:
    nodes = NodeTimes.at_once(names, frame.time_ns, frame.mono_ns, boots, cut.node_of)
    if cut.devices is frame.devices:
        return replace(frame, nodes=nodes)
    return replace(rows_of(frame, cut.rows, cut.devices), nodes=nodes)


class _Parts(Parts):
    """The observation of each node, cut out of the joined one with its increments."""

    def __init__(self, whole: Observation, cuts: Sequence[_Cut]) -> None:
        super().__init__(whole, _Alone(whole, cuts))
        self._cuts = cuts

    def devices(self, place: int, number: int) -> tuple[Device, ...]:
        """The devices of a node in one of the frames."""
        return self._cuts[number].of(place)[1]

    def _part(self, place: int) -> Observation:
        return self._group[place]


class _Alone(Sequence[Observation]):
    """The observation of each node of a joined one; ``cuts`` are those of its frames."""

    def __init__(self, whole: Observation, cuts: Sequence[_Cut]) -> None:
        self._whole, self._cuts = whole, cuts

    def __len__(self) -> int:
        return 0 if self._whole.nodes is None else len(self._whole.nodes.names)

    @overload
    def __getitem__(self, place: int) -> Observation: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Observation]: ...

    def __getitem__(self, place: int | slice) -> Observation | Sequence[Observation]:
        if isinstance(place, slice):
            return [self[number] for number in range(*place.indices(len(self)))]
        whole, nodes = self._whole, self._whole.nodes
        assert nodes is not None  # noqa: S101 - it is joined
        first, last = np.searchsorted(nodes.node_of, (place, place + 1)).tolist()
        return replace(
            whole,
            host=nodes.names[place],
            boot_id=nodes.boots[place],
            frames=tuple(
                rows_of(frame, *cut.of(place))
                for frame, cut in zip(whole.frames, self._cuts, strict=True)
            ),
            events=whole.events[first:last],
            nodes=None,
        )


def _grouped(of_frames: Sequence[frozenset[str]]) -> dict[tuple[int, ...], frozenset[str]]:
    """Hosts by the frames that they have rows in."""
    found: dict[tuple[int, ...], set[str]] = {}
    for host in sorted(frozenset().union(*of_frames)):
        numbers = tuple(number for number, hosts in enumerate(of_frames) if host in hosts)
        found.setdefault(numbers, set()).add(host)
    return {numbers: frozenset(hosts) for numbers, hosts in found.items()}
