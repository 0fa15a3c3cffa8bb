"""What NVML reports of a GPU's place in the NVLink fabric (nvmlDeviceGetGpuFabricInfoV)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from detectors.kit.columns import Columns
from pipeline.frame import Frame

# nvml.h: NVML_GPU_FABRIC_STATE_*, NVML_GPU_FABRIC_HEALTH_SUMMARY_*.
NOT_STARTED, COMPLETED = 1, 3
STATES = {0: "not supported", 1: "not started", 2: "in progress", 3: "completed"}
UNHEALTHY, LIMITED_CAPACITY = 2, 3
# nvml.h: NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_* and _WIDTH_*. Those of two bits are 0 where the GPU
# does not report it, 1 yes, 2 no; a Fabric Manager is 1 connected, 2 disconnected.
SHIFTS = {
    "degraded_bandwidth": 0,
    "route_recovery": 2,
    "route_unhealthy": 4,
    "access_timeout_recovery": 6,
}
YES, DISCONNECTED = 1, 2
CONFIGURATION_SHIFT, CONFIGURATION_MASK = 8, 0xF
MANAGER_SHIFT = 14
# nvml.h: NVML_GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_*; 0 is not reported, 1 none.
CONFIGURATIONS = {
    2: "its system GUID is wrong",
    3: "its chassis serial number is wrong",
    4: "it is in no partition",
    5: "it has too few NVLinks",
    6: "its firmware is incompatible",
    7: "it is in the wrong slot",
    8: "its state is invalid",
}
MAX_MASK = 2.0**32

Row = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Report:
    """Arrays (row,), NaN where it is not reported; a bit is 1 or 0."""

    state: Row
    status: Row
    summary: Row
    configuration: Row
    manager: Row
    bits: dict[str, Row]

    def wide(self, columns: Columns) -> Report:
        """The same on all rows of a detector's columns."""
        rows = {name: columns.wide(getattr(self, name)) for name in _ROWS}
        return Report(**rows, bits={name: columns.wide(bits) for name, bits in self.bits.items()})

    def known(self) -> NDArray[np.bool_]:
        """Where the GPU has a place in a fabric, or is to have one."""
        known: NDArray[np.bool_] = (self.state >= NOT_STARTED) & (self.state <= COMPLETED)
        return known


_ROWS = ("state", "status", "summary", "configuration", "manager")


def report_of(frame: Frame) -> Report:
    """What a frame of GPUs says of the fabric, (device,)."""
    state, summary = _code(frame, "fabric_state", 3), _code(frame, "fabric_health", 3)
    mask = _code(frame, "fabric_health_mask", MAX_MASK - 1)
    # "Must be checked only if Probe state returns complete" (nvml.h)
    status = np.where(state == COMPLETED, frame.gauge("fabric_error_code"), np.nan)
    whole = np.where(np.isfinite(mask), mask, 0).astype(np.int64)

    def part(shift: int, bits: int) -> Row:
        return np.where(np.isfinite(mask), whole >> shift & bits, np.nan)

    return Report(
        state,
        status,
        summary,
        part(CONFIGURATION_SHIFT, CONFIGURATION_MASK),
        part(MANAGER_SHIFT, 3),
        {name: (part(shift, 3) == YES).astype(float) for name, shift in SHIFTS.items()},
    )


def _code(frame: Frame, name: str, most: float) -> Row:
    """A code, NaN where it cannot be one."""
    code = frame.gauge(name)
    return np.where((code >= 0) & (code <= most), code, np.nan)
