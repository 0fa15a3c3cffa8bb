"""``process_*``: CPU, memory, descriptors and start time of the agent, as every
Prometheus client shows them.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.exposition.client import CollectorRegistry, ProcessCollector
from pipeline.exposition.loose import Sample
from pipeline.exposition.text import Family


class ProcessSamples:
    """Reads /proc/self through prometheus_client's own collector, in a registry of its own."""

    def __init__(self, proc: str = "/proc") -> None:
        self._collector = ProcessCollector(
            proc=proc, registry=CollectorRegistry(auto_describe=False)
        )

    def samples(self) -> Iterator[Sample]:
        """The samples of this instant; fewer where /proc does not tell."""
        for metric in self._collector.collect():
            for sample in metric.samples:
                family = Family(sample.name, metric.type, metric.documentation)
                yield Sample(family, tuple(sample.labels.items()), sample.value)
