"""A made-up site: GPU nodes behind dcgm-exporter, as its Prometheus sees them."""

from __future__ import annotations

from tests.history.recorded import Recorded

BEGIN_MS = 1_795_266_000_000  # begin of an hour
HOUR_MS = 3_600_000
OPERATOR = {"pod": "nvidia-dcgm-exporter-x7k", "namespace": "gpu-operator", "job": "dcgm"}


def gpu_labels(host: str, gpu: int, **more: str) -> dict[str, str]:
    """Labels of a series of dcgm-exporter 4.8 with NVIDIA's scrape configuration."""
    return {
        "gpu": str(gpu),
        "UUID": f"GPU-{host}-{gpu}",
        "pci_bus_id": f"00000000:{16 + gpu:02X}:00.0",
        "device": f"nvidia{gpu}",
        "modelName": "NVIDIA H100 80GB HBM3",
        "Hostname": host,
        "instance": f"{host}:9400",
        **OPERATOR,
        **more,
    }


def scrapes(begin_ms: int, end_ms: int, step_ms: int = 15_000, offset_ms: int = 0) -> list[int]:
    """Times of a target's scrapes."""
    return list(range(begin_ms + offset_ms, end_ms, step_ms))


def node(site: Recorded, host: str, times: list[int], gpus: int = 2, **more: str) -> None:
    """A node whose GPUs all work: power, energy and temperature, no two scrapes alike."""
    for gpu in range(gpus):
        labels = gpu_labels(host, gpu, **more)
        site.add("DCGM_FI_DEV_POWER_USAGE", labels, [(ms, 400.5 + gpu) for ms in times])
        site.add("DCGM_FI_DEV_GPU_TEMP", labels, [(ms, 50.0 + gpu) for ms in times])
        energy = [(ms, float((ms - BEGIN_MS) // 1000 * 400_000 + gpu)) for ms in times]
        site.add("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", labels, energy)
        site.add("DCGM_FI_DEV_XID_ERRORS", labels, [(ms, 0.0) for ms in times])
