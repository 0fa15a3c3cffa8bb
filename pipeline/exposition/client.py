"""What is used of prometheus_client: without its servers and metric types, which are 1.0 MiB."""

from __future__ import annotations

from pipeline.deferred_init import defer_init

defer_init("prometheus_client")

from prometheus_client.process_collector import ProcessCollector  # noqa: E402 - after the line above
from prometheus_client.registry import CollectorRegistry  # noqa: E402
from prometheus_client.utils import floatToGoString  # noqa: E402

__all__ = ["CollectorRegistry", "ProcessCollector", "floatToGoString"]
