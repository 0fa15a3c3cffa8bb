"""Latest frames, findings and the agent's own numbers as Prometheus text."""

from __future__ import annotations

from pipeline.exposition.formats import OPENMETRICS, TEXT, TEXT_1, Format, accepts_gzip, negotiate
from pipeline.exposition.latest import Entry, Latest, Snapshot
from pipeline.exposition.sink import Exposition, XidSeries
from pipeline.exposition.stalls import Stall, stalls

__all__ = [
    "OPENMETRICS",
    "TEXT",
    "TEXT_1",
    "Entry",
    "Exposition",
    "Format",
    "Latest",
    "Snapshot",
    "Stall",
    "XidSeries",
    "accepts_gzip",
    "negotiate",
    "stalls",
]
