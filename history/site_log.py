"""What a site knew of its nodes, as spans of time that grow from hour to hour."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from history.meaning.labels import LabelMap
from history.meaning.site_facts import fact_of
from history.remembered import HOUR_MS
from history.site.series import Series, interval_ms

# Samples farther apart are two spans: Prometheus calls a series gone after five minutes.
APART_MS = 600_000
MAX_SPANS = 100_000  # 10 MB; a site whose rules flap for months


@dataclass(slots=True)
class SiteLog:
    """``spans``: [node, source, cause, begin, last sample], unix ms; ``nodeless`` samples of series
    that name no node, ``dropped`` spans beyond the limit. ``every_ms`` is the shortest interval
    between samples by source, of a source that has given several.
    """

    spans: list[list[Any]] = field(default_factory=list)
    nodeless: int = 0
    dropped: int = 0
    every_ms: dict[str, int] = field(default_factory=dict)
    _open: dict[tuple[str, str, str], list[int]] = field(default_factory=dict)

    def take(self, series: Series, mapping: LabelMap) -> None:
        """A series of an hour, or a part of one; hours in their order."""
        fact = fact_of(series.labels, mapping)
        if fact is None:
            return
        counts = np.fromiter(map(fact.counts, series.values.tolist()), np.bool_, len(series.values))
        times = series.times_ms[counts]
        if not len(times):
            return
        if every := interval_ms(series.times_ms):
            self.every_ms[fact.source] = min(every, self.every_ms.get(fact.source, every))
        if not fact.node:
            self.nodeless += len(times)
            return
        ends = np.flatnonzero(np.diff(times) > APART_MS)
        starts = [0, *(ends + 1).tolist()]
        for first, last in zip(starts, [*ends.tolist(), len(times) - 1], strict=True):
            self._span((fact.node, fact.source, fact.cause), int(times[first]), int(times[last]))

    def _span(self, key: tuple[str, str, str], begin_ms: int, last_ms: int) -> None:
        for number in reversed(self._open.get(key, ())):
            span = self.spans[number]
            # series of other devices, or of another server, may show earlier times of this hour
            if begin_ms - span[4] <= APART_MS and span[3] - last_ms <= APART_MS:
                span[3], span[4] = min(span[3], begin_ms), max(span[4], last_ms)
                return
            if begin_ms - span[4] > APART_MS + HOUR_MS:  # those before it are older still
                break
        if len(self.spans) >= MAX_SPANS:
            self.dropped += 1
        else:
            self._open.setdefault(key, []).append(len(self.spans))
            self.spans.append([*key, begin_ms, last_ms])

    def document(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "spans": self.spans,
            "nodeless": self.nodeless,
            "dropped": self.dropped,
            "every_ms": self.every_ms,
        }

    @classmethod
    def of(cls, document: dict[str, Any]) -> SiteLog:
        """From JSON values. KeyError or TypeError where they are none of ours."""
        made = cls([list(span) for span in document["spans"]], document["nodeless"])
        made.dropped = document["dropped"]
        made.every_ms = dict(document.get("every_ms", {}))  # earlier versions have none
        for number, (node, source, cause, _, _) in enumerate(made.spans):
            made._open.setdefault((str(node), str(source), str(cause)), []).append(number)
        return made
