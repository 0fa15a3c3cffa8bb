"""Nodes that have booted: what was reported of the boot before is over."""

from __future__ import annotations

from math import isfinite

from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.clock import SECOND_NS
from pipeline.frame import Device, Frame
from pipeline.node_times import NodeTimes
from pipeline.observation import Observation


class Boots:
    """The boot of each node: that of the agent, or in joined frames what the node's device says.

    >>> boots = Boots()
    >>> [boots.new(Observation("kmsg", "n1", boot, 1, 7000, 7, 0)) for boot in ("a", "a", "b")]
    [{}, {}, {'n1': 7000}]
    """

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}
        # of each source's last frame, compared by identity
        self._devices: dict[str, tuple[Device, ...]] = {}
        self._joined: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    def new(self, observation: Observation) -> dict[str, int]:
        """Nodes that have booted since the last observation, and when, unix ns."""
        if observation.nodes is not None:
            return self._of_nodes(observation.nodes)
        found = {}
        if self._changed(observation.host, observation.boot_id):
            found[observation.host] = observation.time_ns
        for frame in observation.frames:
            if frame.kind == "node" and self._devices.get(observation.source) is not frame.devices:
                self._devices[observation.source] = frame.devices
                found |= self._of(frame, observation)
        return found

    def _of_nodes(self, nodes: NodeTimes) -> dict[str, int]:
        """Those of a joined observation: each is the agent of its own devices."""
        both = nodes.names, nodes.boots
        if both == self._joined:
            return {}
        self._joined = both
        booted = [self._changed(*each) for each in zip(*both, strict=True)]
        return {
            name: int(time_ns)
            for name, time_ns, new in zip(nodes.names, nodes.time_ns, booted, strict=True)
            if new
        }

    def _of(self, frame: Frame, observation: Observation) -> dict[str, int]:
        found = {}
        for row, device in enumerate(frame.devices):
            boot = device.attributes.get("boot_id", "")
            if device.host != observation.host and boot and self._changed(device.host, boot):
                found[device.host] = _since(frame, row, observation.time_ns)
        return found

    def _changed(self, host: str, boot: str) -> bool:
        before = self._seen.get(host, boot)
        self._seen[host] = boot
        return before != boot

    def state(self) -> State:
        """The last boot of each."""
        return {"boots": text_array(self._seen)}

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it is not that."""
        seen = {str(k): str(v) for k, v in dict(from_text_array(state["boots"])).items()}

        def commit() -> None:
            self._seen, self._devices, self._joined = seen, {}, ((), ())

        return commit


def _since(frame: Frame, row: int, now_ns: int) -> int:
    """When a node says that it booted, else now."""
    if "boot_time_seconds" not in frame.schema.gauge_row:
        return now_ns
    seconds = float(frame.gauge("boot_time_seconds")[row])
    return min(now_ns, int(seconds * SECOND_NS)) if isfinite(seconds) else now_ns
