"""Detectors that a configuration reads less often than they ask for."""

from __future__ import annotations

from collections.abc import Iterator

from collector.config.settings import Config
from detectors import PAGES
from detectors.paging import PROVED


def slow_readings(config: Config) -> Iterator[str]:
    """A warning for each detector that alerts and whose readings are too far apart: it finds less
    than its page claims (docs/detectors.md).
    """
    sources = config.sources
    periods = {
        "gpu": float(sources.nvml.period),
        "nvlink": float(sources.nvml.period) * sources.nvml.links_every,
        "ib_port": float(sources.infiniband.period),
    }
    for name in sorted(PROVED):
        needs = PAGES[name].needs
        columns = {column for group in needs.columns for column in group}
        kinds = {column.partition(".")[0] for column in columns}
        every_s = max((periods[kind] for kind in kinds), default=0.0)
        for lacking in needs.lacking(columns, needs.sources, every_s):
            yield f"detector {name} finds less than it could: it needs {lacking}"
