"""What NVML reports of each GPU's place in the NVLink fabric (nvmlDeviceGetGpuFabricInfoV)."""

from __future__ import annotations

import numpy as np

# nvml.h: NVML_GPU_FABRIC_STATE_*, NVML_GPU_FABRIC_HEALTH_SUMMARY_*, nvmlReturn_t.
IN_PROGRESS, COMPLETED = 2, 3
HEALTHY, UNHEALTHY, LIMITED_CAPACITY = 1, 2, 3
NVML_ERROR_UNKNOWN = 999
# nvml.h: NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_*, two bits each: 1 is yes, 2 is no. The configuration,
# four bits from the eighth on, is not reported.
DEGRADED_BANDWIDTH, ROUTE_RECOVERY, ROUTE_UNHEALTHY, ACCESS_TIMEOUT_RECOVERY = 0, 2, 4, 6
NONE = 0xAA


class FabricReports:
    """Arrays (GPU,): ``state`` of the registration, its ``status``, ``mask`` and summary
    (``health``) of the health. ``manager_runs``: the service of Fabric Manager does.

    >>> reports = FabricReports(2)
    >>> reports.condition(1, ROUTE_UNHEALTHY, UNHEALTHY)
    >>> [hex(mask) for mask in reports.mask], reports.health.tolist()
    (['0xaa', '0x9a'], [1, 2])
    """

    def __init__(self, gpus: int) -> None:
        self.state = np.full(gpus, COMPLETED, np.int64)
        self.status = np.zeros(gpus, np.int64)
        self.mask = np.full(gpus, NONE, np.int64)
        self.health = np.full(gpus, HEALTHY, np.int64)
        self.manager_runs = True

    def condition(self, gpu: int, shift: int, health: int) -> None:
        """A condition of the health mask holds for a GPU, with this summary."""
        self.mask[gpu] = self.mask[gpu] & ~(3 << shift) | 1 << shift
        self.health[gpu] = health

    def restore(self, gpu: int) -> None:
        """The GPU is registered and healthy again."""
        self.state[gpu], self.status[gpu] = COMPLETED, 0
        self.mask[gpu], self.health[gpu] = NONE, HEALTHY
