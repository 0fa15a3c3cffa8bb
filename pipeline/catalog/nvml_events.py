"""Events that NVML announces of a GPU, beside XIDs (nvml.h, nvmlEventType*)."""

from __future__ import annotations

from pipeline.catalog.event_attributes import LOG, PCI, SEVERITY
from pipeline.catalog.fields import EventKind

ORIGIN = LOG[0]

EVENTS = (
    EventKind(
        "ecc_storm",
        "The driver announced a storm of corrected memory errors.",
        (PCI, ORIGIN),
    ),
    EventKind(
        "memory_retired",
        "The driver took a broken part of the GPU's memory out of use.",
        (PCI, ORIGIN),
    ),
    EventKind(
        "memory_retirement_failed",
        "The driver could not take a broken part of the GPU's memory out of use.",
        (PCI, ORIGIN),
    ),
    EventKind(
        "memory_poison",
        (
            "A program used GPU memory with an uncorrectable error: fatal where that could not be "
            "contained to the program."
        ),
        (PCI, ORIGIN, SEVERITY),
    ),
    EventKind("gpu_unavailable", "The driver announced that it cannot use the GPU.", (PCI, ORIGIN)),
    EventKind(
        "recovery_action_changed",
        "The driver recommends another recovery action; which one is the field recovery_action.",
        (PCI, ORIGIN),
    ),
)
