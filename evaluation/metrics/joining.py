"""The observation of a fleet as that of many nodes which have nothing in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import overload

import numpy as np
from numpy.typing import NDArray

from detectors.node_batch import Parts
from evaluation.metrics.scope import Rows, as_slice
from pipeline.frame import Device, Frame
from pipeline.joined import part_of
from pipeline.node_times import NodeTimes
from pipeline.observation import Event, Observation


@dataclass(frozen=True, slots=True)
class _Cut:
    """The rows of some hosts of a frame, host by host, and the place of each row's host."""

    whole: tuple[Device, ...]
    rows: Rows
    devices: tuple[Device, ...]
    node_of: NDArray[np.intp]


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
                whole = self._whole(observation, numbers, self._named(hosts), events)
                yield whole, Parts(whole, _Alone(whole))

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

    def _whole(
        self,
        observation: Observation,
        numbers: Sequence[int],
        names: tuple[str, ...],
        events: Sequence[Event],
    ) -> Observation:
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
            frames=tuple(
                self._frame(observation, observation.frames[number], names, boots)
                for number in numbers
            ),
            events=tuple(own),
            unread=(),
            nodes=NodeTimes.at_once(names, *times, boots, node_of),
        )

    def _frame(
        self, whole: Observation, frame: Frame, names: tuple[str, ...], boots: tuple[str, ...]
    ) -> Frame:
        cut = self._cut(whole.source, frame, names)
        nodes = NodeTimes.at_once(names, frame.time_ns, frame.mono_ns, boots, cut.node_of)
        if cut.devices is frame.devices:
            return replace(frame, nodes=nodes)
        return Frame(
            frame.schema,
            frame.time_ns,
            frame.mono_ns,
            cut.devices,
            frame.gauges[:, cut.rows],
            frame.counters[:, cut.rows],
            frame.observed[:, cut.rows],
            frame.sampled_ns[cut.rows],
            None if frame.increments is None else frame.increments.of(cut.rows),
            nodes,
        )

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


class _Alone(Sequence[Observation]):
    """The observation of each node of a joined one, without increments."""

    def __init__(self, whole: Observation) -> None:
        self._whole = whole

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
                replace(part_of(frame, nodes.names[place]), increments=None)
                for frame in whole.frames
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
