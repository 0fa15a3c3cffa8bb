"""Detectors for which nothing is read any more: what they found could never end."""

from __future__ import annotations

from collections.abc import Iterable

from collector.config.settings import Sources
from detectors import PAGES
from pipeline.finding import Finding

SOURCE_OF = {"gpu": "nvml", "nvlink": "nvml", "ib_port": "infiniband"}
# Of each detector: the sources of its columns and those that it needs as such.
READ_BY = {
    name: frozenset(page.needs.sources).union(
        SOURCE_OF[column.partition(".")[0]] for group in page.needs.columns for column in group
    )
    for name, page in PAGES.items()
}


def unfed(sources: Sources, standing: Iterable[Finding]) -> frozenset[str]:
    """Those of open findings whose sources are all switched off. They begin again, should a source
    be switched on; detectors without findings keep what they learnt.
    """
    on = {name for name in sources.__struct_fields__ if getattr(sources, name).enabled}
    names = {finding.detector for finding in standing} & READ_BY.keys()
    return frozenset(name for name in names if on.isdisjoint(READ_BY[name]))
