"""Observations of many nodes in one pass: their frames joined, each row with its node's own times.

Nothing here compares nodes. Nodes that are joined need not have been read at the same time: each
keeps its own clocks, boot and gaps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat

import numpy as np
from numpy.typing import NDArray

from pipeline.frame import Device, Frame, same_devices
from pipeline.node_times import NodeTimes
from pipeline.observation import Observation
from pipeline.round import JoinedRows, Round

MAX_PLANS = 64  # joins of the same devices that are kept: one per source and set of nodes

Shape = tuple[str, tuple[tuple[str, bool], ...]]


def shape_of(observation: Observation) -> Shape:
    """What observations must have in common to be joined: source, and frames by kind, in order,
    with whether they have any device.
    """
    return observation.source, tuple((f.kind, bool(f.devices)) for f in observation.frames)


def rounds(nodes: Iterable[Iterable[Observation]]) -> Iterator[list[Observation]]:
    """Observations of nodes, each node's in its order, by as many at once as can be joined.

    Nodes get as far ahead of each other as joins well: those with events alone go first, so that
    the others meet at the same source.
    """
    ahead = {number: iter(node) for number, node in enumerate(nodes)}
    heads: dict[int, tuple[Observation, Shape]] = {}
    while True:
        for number in [number for number in ahead if number not in heads]:
            head = next(ahead[number], None)
            if head is None:
                del ahead[number]
            else:
                heads[number] = head, shape_of(head)
        if not heads:
            return
        counts = Counter(shape for _, shape in heads.values())
        chosen = max(counts, key=lambda shape: (not shape[1], counts[shape]))
        meets = sorted(number for number, (_, shape) in heads.items() if shape == chosen)
        yield [heads.pop(number)[0] for number in meets]


@dataclass(frozen=True, slots=True)
class _Plan:
    """Devices of several frames one after the other, and the node of each."""

    parts: tuple[tuple[Device, ...], ...]
    devices: tuple[Device, ...]
    node_of: NDArray[np.intp]


class Joiner:
    """Joins observations of one shape.

    The tuple of devices stays the same object while those of the nodes do, as detectors compare
    identity; so do the names of the nodes.
    """

    def __init__(self) -> None:
        self._plans: dict[tuple[object, ...], _Plan] = {}
        self._names: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._devices: dict[tuple[str, str], tuple[Device, ...]] = {}  # by kind and node

    def join(self, observations: Sequence[Observation]) -> Observation:
        """One observation of all; ``nodes`` has the times of each.

        ValueError where they have not one shape, or a node is there twice.
        """
        first = observations[0]
        if any(shape_of(one) != shape_of(first) for one in observations):
            raise ValueError("observations of several shapes cannot be joined")
        names = self._same_names(tuple(one.host for one in observations))
        boots = tuple(one.boot_id for one in observations)
        frames = tuple(
            self._frame(names, boots, [one.frames[n] for one in observations])
            for n in range(len(first.frames))
        )
        return replace(
            first,
            host="",
            boot_id="",
            frames=frames,
            events=tuple(chain.from_iterable(one.events for one in observations)),
            unread=tuple(chain.from_iterable(one.unread for one in observations)),
            nodes=NodeTimes.of(
                names,
                [(one.time_ns, one.mono_ns) for one in observations],
                boots,
                np.repeat(np.arange(len(names)), [len(one.events) for one in observations]),
            ),
        )

    def join_round(self, one: Round) -> Observation:
        """As ``join``, of what is joined already. ValueError where a node is there twice."""
        names = self._same_names(one.names)
        counts = (
            [len(one.events.get(place, ())) for place in range(len(names))] if one.events else 0
        )
        return Observation(
            one.source,
            "",
            "",
            int(one.seq[0]),
            int(one.time_ns[0]),
            int(one.mono_ns[0]),
            int(one.duration_ns[0]),
            frames=tuple(self._rows(names, one.boots, rows) for rows in one.frames),
            events=tuple(chain.from_iterable(one.events.values())),
            unread=tuple(chain.from_iterable(one.unread.values())),
            outcome=one.outcomes[0],
            error=one.errors[0],
            nodes=NodeTimes(
                names,
                one.time_ns,
                one.mono_ns,
                one.boots,
                np.repeat(np.arange(len(names)), counts),
            ),
        )

    def _rows(self, names: tuple[str, ...], boots: tuple[str, ...], rows: JoinedRows) -> Frame:
        plan = self._plan(names, rows.schema.kind, rows.parts)
        return Frame(
            rows.schema,
            int(rows.time_ns[0]),
            int(rows.mono_ns[0]),
            plan.devices,
            rows.gauges,
            rows.counters,
            rows.observed,
            rows.sampled_ns,
            nodes=NodeTimes(names, rows.time_ns, rows.mono_ns, boots, plan.node_of),
        )

    def _frame(
        self, names: tuple[str, ...], boots: tuple[str, ...], frames: Sequence[Frame]
    ) -> Frame:
        plan = self._plan(names, frames[0].kind, tuple(frame.devices for frame in frames))
        first = frames[0]
        times = NodeTimes.of(names, [(f.time_ns, f.mono_ns) for f in frames], boots, plan.node_of)
        return Frame(
            first.schema,
            first.time_ns,
            first.mono_ns,
            plan.devices,
            np.concatenate([f.gauges for f in frames], axis=1),
            np.concatenate([f.counters for f in frames], axis=1),
            np.concatenate([f.observed for f in frames], axis=1),
            np.concatenate([f.sampled_ns for f in frames]),
            nodes=times,
        )

    def _same_names(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The tuple that these names had before. ValueError where one is there twice."""
        known = self._names.get(names)
        if known is None:
            if len(set(names)) != len(names):
                raise ValueError("a node is there twice: its observations come one after the other")
            known = self._names[names] = names
            if len(self._names) > MAX_PLANS:
                del self._names[next(iter(self._names))]
        return known

    def _plan(
        self, names: tuple[str, ...], kind: str, parts: tuple[tuple[Device, ...], ...]
    ) -> _Plan:
        known = self._known(kind, parts)
        if known is None:
            given, parts = parts, tuple(map(self._same_devices, repeat(kind), names, parts))
            known = self._known(kind, parts)
            if known is not None:  # as other objects: known by these too from now on
                self._keep(kind, replace(known, parts=given))
        if known is None:
            counts = [len(part) for part in parts]
            node_of = np.repeat(np.arange(len(parts)), counts).astype(np.intp)
            # It keeps the tuples, so that an id stays theirs.
            known = _Plan(parts, tuple(chain.from_iterable(parts)), node_of)
            self._keep(kind, known)
        return known

    def _keep(self, kind: str, plan: _Plan) -> None:
        self._plans[kind, *map(id, plan.parts)] = plan
        if len(self._plans) > MAX_PLANS:
            del self._plans[next(iter(self._plans))]

    def _known(self, kind: str, parts: tuple[tuple[Device, ...], ...]) -> _Plan | None:
        """The plan of these tuples, which is the newest then."""
        key = (kind, *map(id, parts))
        known = self._plans.pop(key, None)
        if known is not None:
            self._plans[key] = known
        return known

    def _same_devices(
        self, kind: str, name: str, devices: tuple[Device, ...]
    ) -> tuple[Device, ...]:
        """The tuple that a node's devices had before, where they are the same."""
        before = self._devices.get((kind, name))
        if before is not None and same_devices(before, devices):
            return before
        self._devices[kind, name] = devices
        return devices


def part_of(frame: Frame, host: str) -> Frame:
    """The rows of one node of a joined frame, as that node's own. ValueError for another node."""
    nodes = frame.nodes
    if nodes is None:
        raise ValueError("a frame of one node has no parts")
    place = nodes.names.index(host)
    first, last = np.searchsorted(nodes.node_of, (place, place + 1)).tolist()
    rows = slice(first, last)
    return Frame(
        frame.schema,
        int(nodes.time_ns[place]),
        int(nodes.mono_ns[place]),
        frame.devices[rows],
        frame.gauges[:, rows],
        frame.counters[:, rows],
        frame.observed[:, rows],
        frame.sampled_ns[rows],
        None if frame.increments is None else frame.increments.of(rows),
    )
