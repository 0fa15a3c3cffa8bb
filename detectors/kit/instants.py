"""The instant of an observation: one, or that of each node where nodes are joined."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.kit.steps import Steps
from pipeline.clock import Instant
from pipeline.frame import Device, Frame


class Instants(NamedTuple):
    """An instant of each node in sight, int64 (node,), and the place of each node by name.

    >>> at = Instants(np.array([5, 7]), np.array([1, 2]), {"n1": 0, "n2": 1})
    >>> at.of("n2"), at.of("n3")
    (Instant(time_ns=7, mono_ns=2), None)
    """

    time_ns: NDArray[np.int64]
    mono_ns: NDArray[np.int64]
    nodes: dict[str, int]

    def of(self, host: str) -> Instant | None:
        """That of one node, None where it is not in sight."""
        node = self.nodes.get(host)
        return None if node is None else Instant(int(self.time_ns[node]), int(self.mono_ns[node]))

    def only(self, host: str) -> Instant:
        """That of a node in sight. KeyError for another one."""
        found = self.of(host)
        if found is None:
            raise KeyError(f"node {host} is not in sight")
        return found

    def among(self, nodes: NDArray[np.intp]) -> Instants:
        """Those of some nodes in sight, by place."""
        chosen = set(nodes.tolist())
        names = [name for name, node in self.nodes.items() if node in chosen]
        return Instants(
            self.time_ns[nodes],
            self.mono_ns[nodes],
            {name: place for place, name in enumerate(names)},
        )


Times = Instant | Instants


def instant_of(at: Times, device: Device) -> Instant:
    """The instant of a device's node; KeyError where nodes are joined and its own is not in sight:
    a finding about it would be made of another node's readings.
    """
    if isinstance(at, Instant):
        return at
    found = at.of(device.host)
    if found is None:
        raise KeyError(f"{device.kind} {device.id} is of no node in sight")
    return found


def ago(at: Times, device: Device, seconds: float) -> int:
    """Unix ns so many seconds before now at a device's node."""
    return instant_of(at, device).time_ns - round(seconds * 1e9)


def milliseconds(seconds: Any) -> Any:
    """In whole milliseconds, of one node or of several.

    >>> milliseconds(0.0105), milliseconds(np.array([1.0, 0.0115])).tolist()
    (10, [1000, 12])
    """
    if isinstance(seconds, Steps):
        return Steps(1000 * seconds.frame, 1000 * seconds.rows)
    if isinstance(seconds, np.ndarray):
        return np.rint(1000 * seconds).astype(np.int64)
    return round(1000 * seconds)


def of_devices(frame: Frame, values: Any) -> Any:
    """A value of each node of a joined frame on its devices, (device,); a single one as it is."""
    return values if frame.nodes is None else values[frame.nodes.node_of]
