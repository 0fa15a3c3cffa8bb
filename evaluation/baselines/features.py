"""What the learnt baselines see of a GPU: how far each of a few quantities is from the
median of the GPUs of its job.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detectors.kit.stats import peer_deviation
from pipeline.frame import Frame

# Quantity -> the distance from its peers' median that is as far as it matters, in its own unit.
SPAN = {
    "sm_clock_megahertz": 400.0,
    "temperature_celsius": 30.0,
    "memory_temperature_celsius": 30.0,
    "power_milliwatts": 300_000.0,
    "tensor_activity_percent": 50.0,
    "dram_activity_percent": 50.0,
    "gpu_utilization_percent": 100.0,
}
MIN_PEERS = 4


def features(frame: Frame) -> NDArray[np.float64]:
    """Peer-centred quantities scaled to [0, 1] with 0.5 = as the median, (device, feature); NaN
    where there are no peers.

    Peers are the busy GPUs of the frame: with one node the others of that node, with the fleet all.
    """
    busy = np.where(frame.gauge("gpu_utilization_percent") >= 50, 0, -1).astype(np.int64)
    columns = [
        np.clip(0.5 + peer_deviation(frame.gauge(name), busy, 1, MIN_PEERS) / (2 * span), 0.0, 1.0)
        for name, span in SPAN.items()
    ]
    return np.stack(columns, axis=1)


class NotInstalledError(RuntimeError):
    """A baseline needs a package that the agent does not."""

    def __init__(self, baseline: str, package: str) -> None:
        super().__init__(
            f"baseline {baseline} needs {package}, which is not installed: pip "
            "install 'tocsin[baselines]'"
        )
