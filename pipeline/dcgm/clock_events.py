"""Clock events over a window and since start: DCGM_EXP_CLOCK_EVENTS_COUNT and _TOTAL."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from threading import Lock

from pipeline.frame import Frame

# Bits of nvmlClocksEventReasons under dcgm-exporter's names.
EVENTS = {
    "gpu_idle": 0x1,
    "clocks_setting": 0x2,
    "power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal": 0x20,
    "hw_thermal": 0x40,
    "hw_power_brake": 0x80,
    "display_clocks": 0x100,
}
MAX_SAMPLES = 4096  # per GPU, whatever window and interval are asked for


class ClockEvents:
    """Remembers the masks of each GPU: one per collect interval for the count,
    every change for the total.

    Any thread may ask.

    The count is a number of samples, so it depends on the interval: dcgm-exporter's 30
    s unless configured otherwise.
    """

    def __init__(self, window_ns: int, interval_ns: int) -> None:
        self._window_ns = window_ns
        self._interval_ns = interval_ns
        self._lock = Lock()
        self._samples: dict[str, deque[tuple[int, int]]] = {}
        self._last: dict[str, int] = {}
        self._seen_ns: dict[str, int] = {}
        self._totals: dict[str, dict[str, int]] = {}

    def write(self, frame: Frame) -> None:
        """Take note of a frame of GPUs."""
        column = frame.gauge("clock_event_reasons")
        with self._lock:
            for device, mask in zip(frame.devices, column.tolist(), strict=True):
                if math.isfinite(mask):
                    self._see(device.id, int(mask), frame.mono_ns)

    def counts(self, device: str, now_ns: int) -> Mapping[str, int]:
        """Samples of the window in which each event was active; events
        active in none are absent.
        """
        with self._lock:
            samples = [
                mask for at, mask in self._samples.get(device, ()) if now_ns - at <= self._window_ns
            ]
        counts = {name: sum(bool(mask & bit) for mask in samples) for name, bit in EVENTS.items()}
        return {name: count for name, count in counts.items() if count}

    def totals(self, device: str) -> Mapping[str, int]:
        """How often each event has begun since the start; the first sample only sets the stage."""
        with self._lock:
            return dict(self._totals.get(device, {}))

    def _see(self, device: str, mask: int, at_ns: int) -> None:
        begun = mask & ~self._last.get(device, mask)
        self._last[device] = mask
        if begun:
            totals = self._totals.setdefault(device, {})
            for name, bit in EVENTS.items():
                if begun & bit:
                    totals[name] = totals.get(name, 0) + 1
        samples = self._samples.setdefault(device, deque(maxlen=MAX_SAMPLES))
        # Readings come some milliseconds early or late: the nearest one is the interval's sample.
        early_ns = (at_ns - self._seen_ns.get(device, at_ns)) // 2
        self._seen_ns[device] = at_ns
        if not samples or at_ns - samples[-1][0] >= self._interval_ns - early_ns:
            samples.append((at_ns, mask))
        while samples and at_ns - samples[0][0] > self._window_ns:
            samples.popleft()
