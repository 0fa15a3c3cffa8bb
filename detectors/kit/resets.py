"""When a device began a new life: its driver was loaded again, it was reset, or its host booted."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.frame import Device, Frame


class ResetTracker:
    """Remembers each device's life: boot and ``epoch`` (pipeline/catalog/gpu.py).

    The first sight is no new life.

    An epoch is a driver and the number of a life: where only the number fell, whoever counts
    restarted, not the device.

    >>> from pipeline.frame import frame_of
    >>> def frame(epoch: str) -> Frame:
    ...     return frame_of("gpu", [(Device("n1", "gpu", "GPU-1", {"epoch": epoch}), {})], 0, 0)
    >>> lives = ResetTracker()
    >>> [
    ...     bool(lives.new(frame(epoch), "a")[0])
    ...     for epoch in ("580#0", "580#0", "580#1", "580#0", "580#1", "590#0")
    ... ]
    [False, False, True, False, True, True]
    >>> bool(lives.new(frame("590#0"), "another boot")[0])
    True
    """

    def __init__(self) -> None:
        self._life: dict[Device, str] = {}
        self._seen: tuple[tuple[Device, ...], str] | None = None

    def new(self, frame: Frame, boot_id: str) -> NDArray[np.bool_]:
        """Which of the frame's devices began a new life since they were seen last, (device,)."""
        new = np.zeros(len(frame.devices), np.bool_)
        if self._seen is not None and self._seen[0] is frame.devices and self._seen[1] == boot_id:
            return new
        self._seen = (frame.devices, boot_id)
        for row, device in enumerate(frame.devices):
            life = f"{boot_id}/{device.attributes.get('epoch', '')}"
            new[row] = _began(life, self._life.get(device, life))
            self._life[device] = life
        return new

    def state(self) -> State:
        """Everybody's life."""
        return {
            "lives": text_array(
                [[device.host, device.kind, device.id, life] for device, life in self._life.items()]
            )
        }

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it does not fit."""
        lives = {
            Device(host, kind, name): str(life)
            for host, kind, name, life in from_text_array(state["lives"])
        }

        def commit() -> None:
            self._life, self._seen = lives, None

        return commit


def _began(life: str, before: str) -> bool:
    (load, _, number), (load_before, _, number_before) = (
        life.rpartition("#"),
        before.rpartition("#"),
    )
    if load == load_before and number.isdecimal() and number_before.isdecimal():
        return int(number) > int(number_before)
    return life != before
