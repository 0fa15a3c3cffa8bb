"""Health of a device in one word, from what stands about it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from detectors.faults import fault_of
from pipeline.finding import Finding
from pipeline.frame import Device

Health = Literal["ok", "degraded", "failed", "predicted_failure"]


def health_of(standing: Iterable[Finding]) -> dict[Device, Health]:
    """Each device something stands about: failed by a page, else what a prediction says, else
    degraded; records leave it ok.

    >>> gpu = Device("n1", "gpu", "G")
    >>> worn = Finding("d", gpu, "thermal/resistance", "onset", "ticket", 0, 0, "Warm.")
    >>> health_of([worn])[gpu]
    'predicted_failure'
    """
    order: tuple[Health, ...] = ("ok", "degraded", "predicted_failure", "failed")
    health: dict[Device, Health] = {}
    for finding in standing:
        if finding.active:
            is_, was = _of(finding), health.get(finding.device, "ok")
            health[finding.device] = max(is_, was, key=order.index)
    return health


def _of(finding: Finding) -> Health:
    if finding.severity == "record":
        return "ok"
    if finding.severity == "page":
        return "failed"
    return "predicted_failure" if fault_of(finding.fault).prediction else "degraded"
