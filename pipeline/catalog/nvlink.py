"""NVLinks of a GPU, one device per link. ``read`` is in the words of pipeline/catalog/gpu.py."""

from __future__ import annotations

from pipeline.catalog.fields import Fact, Field, Kind, Metric

KINDS = (Kind("nvlink", (("gpu", "index"), ("uuid", "gpu_uuid"), ("link", "link")), "A link of a GPU, `<uuid>/<link>`."),)

FIELDS = (
    Field(
        3001,
        "state",
        "nvlink",
        "gauge",
        Metric("tocsin_nvlink_up", "gauge", "1 while the link is active."),
        "nvmlDeviceGetNvLinkState(link)",
        profile="full",
    ),
)

FACTS: tuple[Fact, ...] = ()
