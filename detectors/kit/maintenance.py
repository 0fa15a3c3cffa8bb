"""Devices that operators took out of service: what they do meanwhile is no fault."""

from __future__ import annotations

from collections.abc import Iterable

from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.frame import Device
from pipeline.gpu_parts import gpu_of
from pipeline.observation import Event


class Maintenance:
    """Follows ``maintenance_started`` and ``maintenance_ended``; of a node it
    covers everything in it, of a GPU its links and instances.

    >>> node, port = Device("n1", "node", "n1"), Device("n1", "ib_port", "0x1")
    >>> maintenance = Maintenance()
    >>> maintenance.take([Event(0, 0, node, "maintenance_started", {"reason": "new firmware"})])
    True
    >>> maintenance.covers(port)
    True
    >>> maintenance.take([Event(0, 0, node, "maintenance_ended")])
    True
    >>> maintenance.covers(port)
    False
    """

    def __init__(self) -> None:
        self._out: set[tuple[str, str, str]] = set()

    def take(self, events: Iterable[Event]) -> bool:
        """Events in the order they came; those of other kinds are left alone.

        Whether anything is different now.
        """
        before = len(self._out)
        changed = False
        for event in events:
            if event.kind == "maintenance_started":
                self._out.add(_name(event.device))
            elif event.kind == "maintenance_ended":
                self._out.discard(_name(event.device))
            changed = changed or len(self._out) != before
        return changed

    def covers(self, device: Device) -> bool:
        """Whether it, or the GPU or node that it is a part of, is out of service."""
        return bool(self._out) and (
            _name(device) in self._out
            or (device.host, "node", device.host) in self._out
            or (device.host, "gpu", gpu_of(device)) in self._out
        )

    def out(self) -> tuple[Device, ...]:
        """Everything that is out of service, by name."""
        return tuple(Device(*name) for name in sorted(self._out))

    def __bool__(self) -> bool:
        """Whether anything is out of service."""
        return bool(self._out)

    def state(self) -> State:
        """What is out of service."""
        return {"out": text_array(sorted(self._out))}

    def prepare(self, state: State) -> Commit:
        """ValueError or TypeError where these are no devices."""
        out = {
            (str(host), str(kind), str(name)) for host, kind, name in from_text_array(state["out"])
        }

        def commit() -> None:
            self._out = out

        return commit


def _name(device: Device) -> tuple[str, str, str]:
    return device.host, device.kind, device.id
