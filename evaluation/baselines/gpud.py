"""gpud's components as a detector: XIDs, row remapping, hardware slowdown,
InfiniBand drops and flaps.

Rules: leptonai/gpud, components/accelerator/nvidia, as documented there. "Unhealthy" is a page
here, "degraded" a ticket.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from evaluation.baselines.board import Board, Window, gauge
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding
from pipeline.frame import Device, Frame
from pipeline.observation import Event, Observation
from pipeline.xid.table import xid_entry

DROP_NS = 4 * 60 * SECOND_NS  # a port that is down this long is dropped
DROP_STICKY_NS = 10 * 60 * SECOND_NS
FLAP_DOWN_NS = 25 * SECOND_NS  # a port that was down this long and is active again has flapped once
FLAPS = 3
HW_SLOWDOWN = 0x8 | 0x40 | 0x80  # nvml.h: HW slowdown, HW thermal slowdown, HW power brake slowdown
SLOW_MINUTES, OF_MINUTES = 6.0, 10.0
ACTIVE = 4  # IBTA port state


@dataclass(slots=True)
class _Port:
    down_since_ns: int = 0
    active_since_ns: int = 0
    flaps: int = 0


class Gpud:
    """Its blind spots are part of it.

    ECC counts never change health, RoCE ports are skipped, a flap stays until an operator sets it
    healthy by hand, and an XID event with a MIG instance in it is not recognised.
    """

    name = "gpud"

    def __init__(self) -> None:
        self._board = Board(self.name)
        self._ports: dict[Device, _Port] = {}
        self._slow = Window(OF_MINUTES * 60)
        self._last_ns = 0

    def update(self, observation: Observation) -> Iterable[Finding]:
        """Health of all components."""
        for event in observation.events:
            yield from self._event(event)
        for frame in observation.frames:
            if frame.kind == "gpu":
                yield from self._gpus(frame)
            elif frame.kind == "ib_port":
                yield from self._ib_ports(frame)

    def _event(self, event: Event) -> Iterator[Finding]:
        if (
            event.kind != "xid"
            or "gpu_instance" in event.attributes
            or event.attributes.get("origin") == "nvml"
        ):
            return  # it reads the kernel log, and its pattern does not know the form of MIG
        code = int(event.attributes["code"])
        if code in (63, 64):
            return  # left to the row-remapping component
        level = xid_entry(code).level
        if level != "record":
            yield from self._board.open(
                event.device, event.time_ns, f"XID {code}", level, fault="xid"
            )

    def _gpus(self, frame: Frame) -> Iterator[Finding]:
        judge = self._board.judge
        yield from self._board.clear_after_reset(frame, "XID")
        for rule, name in (
            ("row remapping failed", "row_remap_failed"),
            ("row remapping pending", "row_remap_pending"),
        ):
            value, known = gauge(frame, name)
            yield from judge(frame, rule, known & (value > 0), "page", fault="ecc", known=known)
        mask = np.nan_to_num(frame.gauge("clock_event_reasons")).astype(np.int64)
        elapsed_s = min((frame.mono_ns - self._last_ns) / SECOND_NS, 60.0) if self._last_ns else 0.0
        self._last_ns = frame.mono_ns
        slow = self._slow.add(frame, np.where(mask & HW_SLOWDOWN, elapsed_s, 0.0)) / 60
        yield from judge(
            frame,
            "hardware slowdown",
            slow >= SLOW_MINUTES,
            "ticket",
            fault="throttle",
            value=slow,
            expected=SLOW_MINUTES,
        )

    def _ib_ports(self, frame: Frame) -> Iterator[Finding]:
        states = frame.gauge("state")
        odd = np.flatnonzero(states != ACTIVE).tolist()
        touched = {frame.devices[row] for row in odd} | self._ports.keys()
        for row, device in enumerate(frame.devices):
            if (
                device in touched
                and device.attributes.get("link_layer") == "InfiniBand"
                and np.isfinite(states[row])
            ):
                yield from self._port(frame, device, active=states[row] == ACTIVE)

    def _port(self, frame: Frame, device: Device, *, active: bool) -> Iterator[Finding]:
        port, now = self._ports.setdefault(device, _Port()), frame.mono_ns
        if not active:
            port.down_since_ns = port.down_since_ns or now
            if now - port.down_since_ns >= DROP_NS:
                yield from self._board.open(
                    device, frame.time_ns, "port dropped", "page", fault="ib"
                )
            return
        if port.down_since_ns:
            port.flaps += now - port.down_since_ns >= FLAP_DOWN_NS
            port.down_since_ns, port.active_since_ns = 0, now
        if port.flaps >= FLAPS:
            yield from self._board.open(
                device, frame.time_ns, "port flaps", "page", fault="ib-flap"
            )
        if now - port.active_since_ns >= DROP_STICKY_NS:
            yield from self._board.clear(device, frame.time_ns, "port dropped")
