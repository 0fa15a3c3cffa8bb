"""Where every node, GPU and port is: made from the devices' attributes, for each host again only
where its devices have changed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from operator import attrgetter, is_
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.frame import Device

_DIGITS = re.compile(r"(\d{1,18})")
NO_RACK = ""


class Node(NamedTuple):
    """A node: ``gpus`` and ``ports`` are rows of the layout; ``leaves`` the leaf switches of its
    ports, sorted. Empty texts: not known.
    """

    name: str
    rack: str
    model: str
    leaves: tuple[str, ...]
    gpus: slice
    ports: slice


class Rack(NamedTuple):
    """A rack with the rows of its nodes; the last one, without a name, has those of no rack."""

    name: str
    nodes: slice


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Nodes by rack, then name; GPUs and ports node by node, by index.

    ``gpu_rows`` and ``port_rows``: the row of each in the frames, (device,); ``gpu_node`` and
    ``port_node``: the row of its node; ``leaf_set`` (node,): the place of its leaves in
    ``leaf_sets``.
    """

    nodes: tuple[Node, ...] = ()
    racks: tuple[Rack, ...] = ()
    gpus: tuple[Device, ...] = ()
    ports: tuple[Device, ...] = ()
    gpu_rows: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, np.intp))
    port_rows: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, np.intp))
    gpu_node: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, np.intp))
    port_node: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, np.intp))
    node_at: Mapping[str, int] = field(default_factory=dict)
    leaf_sets: tuple[tuple[str, ...], ...] = ()
    leaf_set: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, np.intp))

    def gpu_at(self, host: str, uuid: str) -> int | None:
        """The row of a GPU. What one host says of another's devices finds nothing."""
        node = self.node_at.get(host)
        return None if node is None else _row(self.gpus, self.nodes[node].gpus, uuid)

    def port_at(self, host: str, guid: str) -> int | None:
        """The row of a node's port."""
        node = self.node_at.get(host)
        return None if node is None else _row(self.ports, self.nodes[node].ports, guid)

    def leaf(self, name: str) -> NDArray[np.intp]:
        """Rows of the nodes with a port on this leaf switch."""
        sets = [number for number, leaves in enumerate(self.leaf_sets) if name in leaves]
        return np.flatnonzero(np.isin(self.leaf_set, sets))


def _row(devices: Sequence[Device], rows: slice, name: str) -> int | None:
    return next((r for r in range(rows.start, rows.stop) if devices[r].id == name), None)


class _Part(NamedTuple):
    """One host: its devices as in the frames, their places in order, and what is known of it."""

    gpus: tuple[Device, ...]
    ports: tuple[Device, ...]
    gpu_order: tuple[int, ...]
    port_order: tuple[int, ...]
    facts: tuple[str, str, tuple[str, ...]]
    key: tuple[object, ...]

    def is_of(self, gpus: tuple[Device, ...], ports: tuple[Device, ...]) -> bool:
        """Whether it was made from these very devices: attributes do not count for equality."""
        return (
            len(gpus) == len(self.gpus)
            and len(ports) == len(self.ports)
            and all(map(is_, gpus, self.gpus))
            and all(map(is_, ports, self.ports))
        )


class Layouts:
    """Makes them, and keeps what it found out about each host."""

    def __init__(self) -> None:
        self._parts: dict[str, _Part] = {}

    def of(self, hosts: Iterable[str], gpus: Sequence[Device], ports: Sequence[Device]) -> Layout:
        """The layout of these hosts and devices. A switch is no node, though its ports are read."""
        own, links = _by_host(gpus), _by_host(ports)
        switches = {name for name, (_, its) in links.items() if _is_switch(name, its)}
        listed = dict.fromkeys(chain(hosts, own, links))
        names = [name for name in listed if name in own or name not in switches]
        self._parts = {
            name: self._part(name, own.get(name, _NONE)[1], links.get(name, _NONE)[1])
            for name in names
        }
        order = sorted(self._parts, key=lambda name: self._parts[name].key)
        parts = [self._parts[name] for name in order]
        gpu_rows = [_picked(own.get(n, _NONE)[0], self._parts[n].gpu_order) for n in order]
        port_rows = [_picked(links.get(n, _NONE)[0], self._parts[n].port_order) for n in order]
        nodes = tuple(
            Node(name, *part.facts, g, p)
            for name, part, g, p in zip(
                order, parts, _slices(gpu_rows), _slices(port_rows), strict=True
            )
        )
        sets = {leaves: n for n, leaves in enumerate(dict.fromkeys(n.leaves for n in nodes))}
        own_gpus, gpu_order, gpu_node = _ordered(gpus, gpu_rows)
        own_ports, port_order, port_node = _ordered(ports, port_rows)
        return Layout(
            nodes,
            tuple(_racks(nodes)),
            own_gpus,
            own_ports,
            gpu_order,
            port_order,
            gpu_node,
            port_node,
            {name: row for row, name in enumerate(order)},
            tuple(sets),
            np.array([sets[node.leaves] for node in nodes], np.intp),
        )

    def _part(self, name: str, gpus: tuple[Device, ...], ports: tuple[Device, ...]) -> _Part:
        known = self._parts.get(name)
        if known is not None and known.is_of(gpus, ports):
            return known
        ends = tuple(n for n, port in _first(ports) if port.attributes.get("leaf") != name)
        facts = _facts(gpus, [ports[n] for n in ends])
        return _Part(
            gpus,
            ports,
            tuple(sorted((n for n, _ in _first(gpus)), key=lambda n: _index(gpus[n]))),
            tuple(sorted(ends, key=lambda n: _index(ports[n]))),
            facts,
            (*_last(facts[0]), natural(name)),
        )


def _is_switch(name: str, ports: Iterable[Device]) -> bool:
    return all(port.attributes.get("leaf") == name for port in ports)


Own = tuple[Sequence[int], tuple[Device, ...]]  # rows of frames, and what is there
_NONE: Own = ((), ())


def _by_host(devices: Sequence[Device]) -> dict[str, Own]:
    """The devices of each host. Joined frames have them host by host."""
    found: dict[str, Own] = {}
    begin = 0
    for host, run in groupby(devices, attrgetter("host")):
        its = tuple(run)
        rows: Sequence[int] = range(begin, begin + len(its))
        begin += len(its)
        if host in found:  # of another source
            rows, its = (*found[host][0], *rows), (*found[host][1], *its)
        found[host] = (rows, its)
    return found


def _picked(rows: Sequence[int], order: Iterable[int]) -> list[int]:
    return [rows[n] for n in order]


def natural(name: str) -> tuple[object, ...]:
    """A key that sorts numbers in names as numbers.

    >>> sorted(["n10", "n9", "m1"], key=natural)
    ['m1', 'n9', 'n10']
    """
    parts = _DIGITS.split(name)
    return (*(int(part) if n % 2 else part for n, part in enumerate(parts)), name)


Ordered = tuple[tuple[Device, ...], NDArray[np.intp], NDArray[np.intp]]


def _ordered(devices: Sequence[Device], rows: Sequence[Sequence[int]]) -> Ordered:
    """Devices in the order of the layout, the row of each in the frames, and that of its node."""
    order = np.array([*chain.from_iterable(rows)], np.intp)
    node = np.repeat(np.arange(len(rows)), [len(each) for each in rows]).astype(np.intp)
    return tuple(devices[row] for row in order.tolist()), order, node


def _first(devices: Sequence[Device]) -> Iterator[tuple[int, Device]]:
    """Each device where it is first: two sources may read the same."""
    seen = set()
    for n, device in enumerate(devices):
        if device.id not in seen:
            seen.add(device.id)
            yield n, device


def _last(rack: str) -> tuple[bool, tuple[object, ...]]:
    """Nodes of no rack come after the others."""
    return (not rack, natural(rack))


def _index(device: Device) -> tuple[object, ...]:
    facts = device.attributes
    name = facts.get("index") or f"{facts.get('device', '')}/{facts.get('port', '')}"
    return (*natural(name), device.id)


def _facts(gpus: Sequence[Device], ports: Sequence[Device]) -> tuple[str, str, tuple[str, ...]]:
    """Rack, model of the GPUs (the most frequent), leaf switches."""
    devices = [*gpus, *ports]
    rack = next((d.attributes["rack"] for d in devices if d.attributes.get("rack")), NO_RACK)
    models = Counter(gpu.attributes.get("name", "") for gpu in gpus)
    leaves = {d.attributes["leaf"] for d in devices if d.attributes.get("leaf")}
    model = models.most_common(1)[0][0] if models else ""
    return rack, model, tuple(sorted(leaves, key=natural))


def _slices(rows: Iterable[Sequence[int]]) -> Iterable[slice]:
    begin = 0
    for each in rows:
        yield slice(begin, begin + len(each))
        begin += len(each)


def _racks(nodes: Sequence[Node]) -> Iterable[Rack]:
    begin = 0
    for row, node in enumerate(nodes):
        if row + 1 == len(nodes) or nodes[row + 1].rack != node.rack:
            yield Rack(node.rack, slice(begin, row + 1))
            begin = row + 1
