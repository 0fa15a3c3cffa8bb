"""Hardware that failed recently: GPUs by serious XIDs, and links that went down."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from detectors.nccl.lines import stops_a_rank
from pipeline.clock import SECOND_NS
from pipeline.frame import Frame
from pipeline.observation import Event
from pipeline.xid.table import xid_entry

# how long a fault of hardware may explain a stall: watchdogs wait for ten
# minutes before they report
HARDWARE_NS = 600 * SECOND_NS


class Hardware:
    """Serious XIDs by GPU and links that went down, with when."""

    def __init__(self) -> None:
        self.gpus: dict[str, tuple[int, str]] = {}
        self.ports: dict[tuple[str, str], tuple[int, str]] = {}

    def take(self, event: Event, now_ns: int) -> None:
        """An XID of a GPU, or a port's link or adapter that failed."""
        facts = event.attributes
        if facts.get("before_start") or facts.get("previous_boot"):
            return
        if (
            event.kind == "xid"
            and event.device.kind == "gpu"
            and isinstance(code := facts.get("code"), int)
        ):
            entry = xid_entry(code)
            if stops_a_rank(entry):
                self.gpus[event.device.id] = (
                    now_ns,
                    f"XID {code} of {event.device.id}: {entry.description}",
                )
        elif event.kind in ("link_down", "hca_health") and event.device.kind == "ib_port":
            port = event.device.attributes.get("device", event.device.id)
            self.ports[event.device.host, port] = (
                now_ns,
                f"{port} of {event.device.host}: {event.kind.replace('_', ' ')}",
            )

    def watch(self, frame: Frame, now_ns: int) -> None:
        """Ports that went down between two reads, which no line of a log need say."""
        for row in np.flatnonzero(went_down(frame)):
            device = frame.devices[row]
            port = device.attributes.get("device", device.id)
            self.ports[device.host, port] = (now_ns, f"{port} of {device.host}: its link went down")

    def forget(self, now_ns: int) -> None:
        """What is too old to explain anything."""
        self.gpus = {key: seen for key, seen in self.gpus.items() if now_ns - seen[0] < HARDWARE_NS}
        self.ports = {
            key: seen for key, seen in self.ports.items() if now_ns - seen[0] < HARDWARE_NS
        }

    def texts(self) -> set[str]:
        """What is known, as evidence has it."""
        return {text for _, text in (*self.gpus.values(), *self.ports.values())}

    def state(self) -> State:
        """Everything."""
        return {
            "gpus": text_array(list(self.gpus.items())),
            "ports": text_array(list(self.ports.items())),
        }

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it does not fit."""
        gpus = {
            str(key): (int(at), str(text)) for key, (at, text) in from_text_array(state["gpus"])
        }
        ports = {
            (str(host), str(port)): (int(at), str(text))
            for (host, port), (at, text) in from_text_array(state["ports"])
        }

        def commit() -> None:
            self.gpus, self.ports = gpus, ports

        return commit


def went_down(frame: Frame) -> NDArray[np.bool_]:
    """Ports whose link went down since the frame before, (device,)."""
    if frame.increments is None:
        return np.zeros(len(frame.devices), np.bool_)
    went: NDArray[np.bool_] = frame.increase("link_downed") > 0
    return went
