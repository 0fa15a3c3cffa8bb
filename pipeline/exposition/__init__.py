"""Latest frames, findings and the agent's own numbers as Prometheus text."""

from __future__ import annotations

from pipeline.exposition.formats import OPENMETRICS, TEXT, TEXT_1, Format, accepts_gzip, negotiate
from pipeline.exposition.latest import Entry, Latest, Snapshot
from pipeline.exposition.sink import Exposition, XidSeries

__all__ = [
    "OPENMETRICS",
    "TEXT",
    "TEXT_1",
    "Entry",
    "Exposition",
    "Format",
    "Latest",
    "Snapshot",
    "XidSeries",
    "accepts_gzip",
    "negotiate",
]
