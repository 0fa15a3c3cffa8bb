"""Which part sits where: a GPU or adapter that is read no more, and another one that is read
in its PCI slot, or none.
"""

from __future__ import annotations

import numpy as np

from pipeline.frame import Device, Frame
from pipeline.gpu_state import GpuState
from pipeline.small_arrays import any_true

KINDS = ("gpu", "ib_port")


class Slots:
    """The devices of the newest frame of each kind by themselves and by slot.

    A part that left may keep its row, unread, for as long as the agent runs; one that moved to
    another slot did not leave.
    """

    def __init__(self) -> None:
        self._devices: dict[str, tuple[Device, ...]] = {}
        self._rows: dict[str, dict[Device, int]] = {}
        self._places: dict[str, dict[tuple[str, ...], list[int]]] = {}

    def instead(self, device: Device, frame: Frame) -> Device | None:
        """What a frame of its kind reads in the slot of a device that it does not read; None where
        nothing reports that it left.
        """
        kind, slot = frame.kind, _slot(device)
        if kind not in KINDS or device.kind != kind or slot is None:
            return None
        self._look(frame)
        own = self._rows[kind].get(device)
        if own is not None and _is_read(frame, own):
            return None
        there = (
            row for row in self._places[kind].get(slot, ()) if row != own and _is_read(frame, row)
        )
        return next((frame.devices[row] for row in there), None)

    def given_away(self, device: Device, frame: Frame) -> bool:
        """Whether a frame of its kind reports that a virtual machine has the device."""
        if device.kind != frame.kind or frame.kind != "gpu":
            return False
        self._look(frame)
        row = self._rows["gpu"].get(device)
        return row is not None and frame.gauge("state")[row] == GpuState.PASSTHROUGH

    def _look(self, frame: Frame) -> None:
        kind = frame.kind
        if frame.devices is self._devices.get(kind):
            return
        self._devices[kind] = frame.devices
        self._rows[kind] = {device: row for row, device in enumerate(frame.devices)}
        places: dict[tuple[str, ...], list[int]] = {}
        for row, device in enumerate(frame.devices):
            if (slot := _slot(device)) is not None:
                places.setdefault(slot, []).append(row)
        self._places[kind] = places


def _is_read(frame: Frame, row: int) -> bool:
    return any_true(np.isfinite(frame.gauges[:, row]))


def _slot(device: Device) -> tuple[str, ...] | None:
    """Adapters have several ports; what has no address is nowhere."""
    pci = device.attributes.get("pci_bus_id", "")
    return (device.host, pci, device.attributes.get("port", "")) if pci else None
