"""What the status page and /api/v1/status say of a device in numbers: columns of frames, in
base units, named with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.catalog import Field, field
from pipeline.frame import Frame


@dataclass(frozen=True, slots=True)
class Column:
    """One number of each device: a gauge, or a counter's increase per second."""

    name: str
    field: Field

    def read(self, frame: Frame) -> NDArray[np.float64]:
        """Values in base units, (device,), NaN = not observed."""
        if self.field.type == "gauge":
            native = frame.gauge(self.field.name)
        elif frame.increments is None:
            native = np.full(len(frame.devices), np.nan)
        else:
            native = frame.increments.rate(frame.schema.counter_row[self.field.name])
        base: NDArray[np.float64] = native * self.field.times / self.field.per
        return base


def _columns(kind: str, **fields: str) -> tuple[Column, ...]:
    return tuple(Column(name, field(kind, native)) for name, native in fields.items())


# Those of which the last minutes are kept, and then those that say how high they may go.
RECENT: Mapping[str, tuple[Column, ...]] = {
    "gpu": _columns(
        "gpu",
        utilization_ratio="gpu_utilization_percent",
        power_watts="power_milliwatts",
        temperature_celsius="temperature_celsius",
        memory_used_bytes="memory_used_bytes",
    ),
    "ib_port": _columns(
        "ib_port",
        receive_bytes_per_second="receive_words",
        transmit_bytes_per_second="transmit_words",
    ),
}
NOW: Mapping[str, tuple[Column, ...]] = {
    "gpu": (
        *RECENT["gpu"],
        *_columns(
            "gpu",
            power_limit_watts="power_limit_enforced_milliwatts",
            slowdown_temperature_celsius="temperature_slowdown_celsius",
            memory_total_bytes="memory_total_bytes",
        ),
    ),
    "ib_port": (
        *RECENT["ib_port"],
        *_columns("ib_port", rate_bytes_per_second="rate_bits_per_second"),
    ),
}
