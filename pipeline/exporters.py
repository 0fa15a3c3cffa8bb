"""Sources of what was recorded by other exporters and imported (the package ``history``)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

DCGM_EXPORTER, NODE_EXPORTER = "dcgm-exporter", "node_exporter"
FABRIC_EXPORTER = "infiniband_exporter"  # one that asks a whole fabric

# Seconds between two reads, as the judge takes it for gaps (pipeline/rates.py: rates are made of
# samples 0.2 to 10 periods apart): sites scrape every 10 to 60 s, and Prometheus itself calls a
# series gone after 5 minutes.
PERIODS_S: Mapping[str, float] = MappingProxyType(
    dict.fromkeys((DCGM_EXPORTER, NODE_EXPORTER, FABRIC_EXPORTER), 30.0)
)
