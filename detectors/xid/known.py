"""What the detector of XIDs knows of single lines."""

from __future__ import annotations

from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.frame import Device
from pipeline.xid.once import Once


class Known:
    """Lines counted already (pipeline/xid/once.py), and when each finding's code was last seen."""

    def __init__(self) -> None:
        self.once = Once()
        self.last: dict[tuple[Device, str], int] = {}

    def state(self) -> State:
        """Everything."""
        last = [
            [device.host, device.kind, device.id, fault, at]
            for (device, fault), at in self.last.items()
        ]
        return {
            "once": text_array(self.once.document()),
            "last": text_array(last),
        }

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it does not fit."""
        once = Once(from_text_array(state["once"]))
        last = {
            (Device(host, kind, name), str(fault)): int(at)
            for host, kind, name, fault, at in from_text_array(state["last"])
        }

        def commit() -> None:
            self.once, self.last = once, last

        return commit
