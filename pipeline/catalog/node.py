"""The node itself: host facts that judging needs."""

from __future__ import annotations

from pipeline.catalog.fields import Fact, Field, Kind, Metric

KINDS = (Kind("node", (), "The host the agent runs on, identified by its host name."),)

FIELDS = (
    Field(
        7001,
        "gpus_expected",
        "node",
        "gauge",
        Metric("tocsin_gpu_expected", "gauge", "GPUs this node should have: declared, or learned and persisted."),
        "source",
        profile="minimal",
    ),
    Field(
        7002,
        "gpus_visible",
        "node",
        "gauge",
        Metric("tocsin_gpu_visible", "gauge", "GPUs that answer now."),
        "source",
        profile="minimal",
    ),
)

FACTS: tuple[Fact, ...] = (Fact("kernel", "node", "Kernel release."),)
