"""The agent's own numbers: one table from (metric of the catalogue, label values) to value,
shown by the exposition.
"""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock

from pipeline.catalog import Metric


class SelfMetrics:
    """Counters and gauges about the agent itself. Any thread may write.

    >>> from pipeline.catalog import agent
    >>> own = SelfMetrics()
    >>> own.add(agent.SOURCE_READS, "nvml", "ok")
    >>> own.value(agent.SOURCE_READS, "nvml", "ok")
    1.0
    """

    def __init__(self) -> None:
        self._values: dict[Metric, dict[tuple[str, ...], float]] = {}
        self._lock = Lock()

    def set(self, metric: Metric, value: float, *labels: str) -> None:
        """Set a gauge. ValueError when the label values are not those of the catalogue."""
        self._check(metric, labels)
        with self._lock:
            self._values.setdefault(metric, {})[labels] = value

    def add(self, metric: Metric, *labels: str, amount: float = 1.0) -> None:
        """Increase a counter; ``amount=0`` lets it be born at zero."""
        self._check(metric, labels)
        with self._lock:
            series = self._values.setdefault(metric, {})
            series[labels] = series.get(labels, 0.0) + amount

    def replace(self, metric: Metric, series: dict[tuple[str, ...], float], *first: str) -> None:
        """Set all series of a gauge that begin with the label values ``first`` at
        once; those not given vanish.
        """
        for labels in series:
            self._check(metric, labels)
        with self._lock:
            others = {
                labels: v
                for labels, v in self._values.get(metric, {}).items()
                if labels[: len(first)] != first
            }
            self._values[metric] = others | series if first else dict(series)

    def value(self, metric: Metric, *labels: str) -> float | None:
        """One value, None where it was never set."""
        return self._values.get(metric, {}).get(labels)

    def series(self) -> Iterator[tuple[Metric, tuple[tuple[tuple[str, ...], float], ...]]]:
        """All metrics with their series, in order of first use."""
        with self._lock:
            whole = [(metric, tuple(series.items())) for metric, series in self._values.items()]
        yield from whole

    @staticmethod
    def _check(metric: Metric, labels: tuple[str, ...]) -> None:
        if len(labels) != len(metric.labels):
            raise ValueError(f"{metric.name} has labels {metric.labels}, got {labels}")
