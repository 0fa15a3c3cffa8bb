"""Quarters of an hour of a simulated fleet, as the roll-ups of a store hold them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from history.learning.gpu_days import BUCKET_S, COUNTERS, GAUGES, Floats, Quarters
from pipeline.clock import SECOND_NS
from pipeline.frame import Device, Frame
from pipeline.observation import Observation
from pipeline.rates import Rates


def quarters(
    observations: Iterable[Observation], begin_ns: int, seconds: float, step_s: float
) -> Quarters:
    """Means and increases of the GPUs of the first frame; one that is swapped counts as the slot
    that it is in. ValueError where no GPU was read.
    """
    made: _Sums | None = None
    rates: Rates | None = None
    count = round(seconds / BUCKET_S)
    for observation in observations:
        for frame in observation.frames if observation.source == "nvml" else ():
            if frame.kind != "gpu":
                continue
            rates = rates or Rates(frame.schema, step_s)
            made = made or _Sums(frame.devices, count)
            bucket = (observation.time_ns - begin_ns) // (BUCKET_S * SECOND_NS)
            if 0 <= bucket < count:
                made.add(rates.add(frame, observation.boot_id), bucket)
    if made is None:
        raise ValueError("no GPU was read")
    return made.done(begin_ns)


class _Sums:
    def __init__(self, devices: tuple[Device, ...], count: int) -> None:
        self._devices = devices
        shape = (count, len(devices))
        self._sum = {name: np.zeros(shape) for name in (*GAUGES, *COUNTERS)}
        self._n = {name: np.zeros(shape) for name in (*GAUGES, *COUNTERS)}

    def add(self, frame: Frame, bucket: int) -> None:
        for name in GAUGES:
            self._take(name, frame.gauge(name), bucket)
        for name in COUNTERS:
            self._take(name, frame.increase(name), bucket)

    def _take(self, name: str, values: Floats, bucket: int) -> None:
        known = np.isfinite(values)
        self._sum[name][bucket] += np.where(known, values, 0.0)
        self._n[name][bucket] += known

    def done(self, begin_ns: int) -> Quarters:
        values = {}
        for name, total in self._sum.items():
            n = self._n[name]
            mean = total / np.maximum(n, 1) if name in GAUGES else total
            values[name] = np.where(n > 0, mean, np.nan)
        return Quarters(
            values,
            tuple(device.id for device in self._devices),
            tuple(device.host for device in self._devices),
            tuple(device.attributes.get("name", "") for device in self._devices),
            begin_ns,
        )
