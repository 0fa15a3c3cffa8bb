"""Who was cut, by which limit: one list of all sources, shown as ``tocsin_tenant_cut``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from threading import Lock

from collector.sources.tenants.shares import cut_series
from pipeline.catalog import agent
from pipeline.selfmetrics import SelfMetrics

Counts = Mapping[tuple[str, str], int]


class Cuts:
    """Each source puts what its limits cut; any thread may."""

    def __init__(self, metrics: SelfMetrics) -> None:
        self._metrics, self._lock = metrics, Lock()
        self._by_limit: dict[str, dict[str, Counter[tuple[str, str]]]] = {}

    def put(self, source: str, limit: str, counts: Counts) -> None:
        """What a limit cuts now in one source: how much of each (job, tenant)."""
        kept = Counter({key: count for key, count in counts.items() if count > 0})
        with self._lock:
            sources = self._by_limit.setdefault(limit, {})
            if sources.get(source) == kept:
                return
            sources[source] = kept
            summed = {
                name: sum(by_source.values(), Counter())
                for name, by_source in self._by_limit.items()
            }
            self._metrics.replace(agent.TENANT_CUT, cut_series(summed))
