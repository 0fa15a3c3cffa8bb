"""What the detector of XIDs knows of single lines and of who held a GPU when they came."""

from __future__ import annotations

from detectors.kit.jobs import MigSlot
from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.frame import Device
from pipeline.xid.once import Once


class Known:
    """Which lines were counted (pipeline/xid/once.py), when each finding's code was last seen, and
    which job had a GPU until recently.
    """

    def __init__(self) -> None:
        self.once = Once()
        self.last: dict[tuple[Device, str], int] = {}
        self.left: dict[MigSlot, tuple[str, int]] = {}

    def state(self) -> State:
        """Everything."""
        last = [
            [device.host, device.kind, device.id, fault, at]
            for (device, fault), at in self.last.items()
        ]
        left = [[*place, *held] for place, held in self.left.items()]
        return {
            "once": text_array(self.once.document()),
            "last": text_array(last),
            "left": text_array(left),
        }

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it does not fit."""
        once = Once(from_text_array(state["once"]))
        last = {
            (Device(host, kind, name), str(fault)): int(at)
            for host, kind, name, fault, at in from_text_array(state["last"])
        }
        left = {
            MigSlot(host, gpu): (str(job), int(at))
            for host, gpu, job, at in from_text_array(state["left"])
        }

        def commit() -> None:
            self.once, self.last, self.left = once, last, left

        return commit
