"""Published alerting rules over dcgm-exporter's metrics, as a detector.

Rules: the common ground of awesome-prometheus-alerts and of public dashboards' rule files for
dcgm-exporter. Critical is a page here, warning a ticket.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from evaluation.baselines.board import Aligned, Board, Window, gauge, increase, moved
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding
from pipeline.frame import Device, Frame
from pipeline.observation import Event, Observation

MINUTE_S = 60.0
HOT_C, HOT_FOR_S = 85.0, 5 * MINUTE_S  # DCGM_FI_DEV_GPU_TEMP > 85, for: 5m
TOO_HOT_C, TOO_HOT_FOR_S = 90.0, 1 * MINUTE_S
MEMORY_HOT_C = 95.0
WINDOW_S = 5 * MINUTE_S  # increase(...[5m])


class ExporterRules:
    """``DCGM_FI_DEV_XID_ERRORS > 0`` on a gauge of the last XID: it never clears, repeats are not
    seen, and any code pages.

    ``increase(DCGM_FI_DEV_XID_ERRORS[5m]) > 0`` takes a fall from 94 to 13 for a reset of a
    counter that is now at 13.
    """

    name = "exporter-rules"

    def __init__(self) -> None:
        self._board = Board(self.name)
        self._last: dict[Device, int] = {}
        self._recent: dict[Device, deque[int]] = {}
        self._held = {
            "hot": _For(HOT_FOR_S),
            "too hot": _For(TOO_HOT_FOR_S),
            "memory hot": _For(HOT_FOR_S),
        }
        self._windows = {name: Window(WINDOW_S) for name in ("ecc", "replay", "nvlink")}

    def update(self, observation: Observation) -> Iterable[Finding]:
        """All rules."""
        for event in observation.events:
            if event.kind == "xid":
                yield from self._xid(event)
        for frame in observation.frames:
            if frame.kind == "gpu":
                yield from self._frame(frame)

    def _xid(self, event: Event) -> Iterator[Finding]:
        code, before = int(event.attributes["code"]), self._last.get(event.device, 0)
        self._last[event.device] = code
        yield from self._board.open(
            event.device, event.time_ns, "XID_ERRORS > 0", "page", fault="xid", value=float(code)
        )
        if code == before:  # the gauge does not move: nothing increases
            return
        self._recent.setdefault(event.device, deque()).append(event.mono_ns or event.time_ns)
        yield from self._board.open(
            event.device,
            event.time_ns,
            "increase(XID_ERRORS)",
            "ticket",
            fault="xid",
            value=float(code),
        )

    def _frame(self, frame: Frame) -> Iterator[Finding]:
        judge, window = self._board.judge, self._windows
        for device in self._board.devices("increase(XID_ERRORS)"):
            times = self._recent[device]
            if frame.mono_ns - times[-1] > WINDOW_S * SECOND_NS:
                yield from self._board.clear(device, frame.time_ns, "increase(XID_ERRORS)")
        core, memory = frame.gauge("temperature_celsius"), frame.gauge("memory_temperature_celsius")
        for rule, bad, severity in (
            ("hot", core > HOT_C, "ticket"),
            ("too hot", core > TOO_HOT_C, "page"),
            ("memory hot", memory > MEMORY_HOT_C, "ticket"),
        ):
            value = memory if rule == "memory hot" else core
            held = self._held[rule].long(frame, bad, np.isfinite(value))
            yield from judge(frame, rule, held, severity, fault="thermal", value=value)  # type: ignore[arg-type]  # severities above
        failed, known = gauge(frame, "row_remap_failed")
        yield from judge(
            frame, "row remap failed", known & (failed > 0), "page", fault="ecc", known=known
        )
        uncorrected = window["ecc"].add(frame, frame.increase("ecc_uncorrected_volatile"))
        yield from judge(frame, "increase(ECC_DBE_VOL) > 0", uncorrected > 0, "page", fault="ecc")
        replays = window["replay"].add(frame, frame.increase("pcie_replays"))
        yield from judge(
            frame,
            "rate(PCIE_REPLAY) > 0",
            replays > 0,
            "ticket",
            fault="pcie",
            value=replays,
            expected=0.0,
        )
        links = window["nvlink"].add(
            frame, increase(frame, ("nvlink_crc_flit_errors", "nvlink_crc_data_errors"))
        )
        yield from judge(
            frame,
            "increase(NVLINK_CRC) > 0",
            links > 0,
            "ticket",
            fault="nvlink",
            value=links,
            expected=0.0,
        )


class _For:
    """Prometheus' ``for``: true once a condition has held for so long without a break; a sample
    that is missing is none.
    """

    def __init__(self, seconds: float) -> None:
        self._span_ns = seconds * SECOND_NS
        self._since = np.zeros(0)
        self._aligned = Aligned()

    def long(
        self, frame: Frame, bad: NDArray[np.bool_], known: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Where it has, (device,)."""
        move = self._aligned.follow(frame)
        if move is not None:
            self._since = moved(self._since, move)
        self._since = np.where(
            bad & (self._since == 0), frame.mono_ns, np.where(known & ~bad, 0.0, self._since)
        )
        return (self._since > 0) & (frame.mono_ns - self._since >= self._span_ns)
