"""New epochs of devices: the driver was loaded again, the device was reset, or its host booted."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.align import came_from
from pipeline.frame import Device, Frame


class ResetTracker:
    """Remembers the boot and ``epoch`` of each device (pipeline/catalog/gpu.py).

    A device that is seen for the first time has no new epoch.

    An ``epoch`` is a driver and a number: where only the number fell, the agent that counts
    restarted, not the device.

    >>> from pipeline.frame import frame_of
    >>> def frame(epoch: str) -> Frame:
    ...     return frame_of("gpu", [(Device("n1", "gpu", "GPU-1", {"epoch": epoch}), {})], 0, 0)
    >>> resets = ResetTracker()
    >>> [
    ...     bool(resets.new(frame(epoch), "a")[0])
    ...     for epoch in ("580#0", "580#0", "580#1", "580#0", "580#1", "590#0")
    ... ]
    [False, False, True, False, True, True]
    >>> bool(resets.new(frame("590#0"), "another boot")[0])
    True
    """

    def __init__(self) -> None:
        self._epochs: dict[Device, str] = {}
        self._seen: tuple[tuple[Device, ...], str | tuple[str, ...]] | None = None

    def new(self, frame: Frame, boot_id: str) -> NDArray[np.bool_]:
        """Which of the frame's devices began a new epoch since they were seen last, (device,)."""
        new = np.zeros(len(frame.devices), np.bool_)
        boots = boot_id if frame.nodes is None else frame.nodes.boots
        if self._seen is not None and self._seen[0] is frame.devices and self._seen[1] == boots:
            return new
        goes_on = self._seen is not None and isinstance(boots, str) and self._seen[1] == boots
        origin = came_from(self._seen[0] if self._seen and goes_on else (), frame.devices)
        self._seen = (frame.devices, boots)
        own = None if frame.nodes is None else frame.nodes.row_boots()
        for row in np.flatnonzero(origin < 0).tolist():
            device, boot = frame.devices[row], boot_id if own is None else own[row]
            epoch = f"{boot}/{device.attributes.get('epoch', '')}"
            new[row] = _began(epoch, self._epochs.get(device, epoch))
            self._epochs[device] = epoch
        return new

    def state(self) -> State:
        """The epoch of each device."""
        return {
            "lives": text_array(
                [
                    [device.host, device.kind, device.id, epoch]
                    for device, epoch in self._epochs.items()
                ]
            )
        }

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it does not fit."""
        epochs = {
            Device(host, kind, name): str(epoch)
            for host, kind, name, epoch in from_text_array(state["lives"])
        }

        def commit() -> None:
            self._epochs, self._seen = epochs, None

        return commit


def _began(epoch: str, before: str) -> bool:
    (load, _, number), (load_before, _, number_before) = (
        epoch.rpartition("#"),
        before.rpartition("#"),
    )
    if load == load_before and number.isdecimal() and number_before.isdecimal():
        return int(number) > int(number_before)
    return epoch != before
