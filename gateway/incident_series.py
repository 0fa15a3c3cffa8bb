"""Open incidents of a cluster as a bounded number of series: what alerts. The log and the API have
all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pipeline.exposition.findings import MAX_SHOWN
from pipeline.finding import SEVERITIES, Incident


class IncidentSeries(NamedTuple):
    """Incidents by the labels of their series (without the cluster's name), and how many series
    there would be beyond these.
    """

    rows: dict[tuple[str, ...], list[Incident]]
    overflow: int

    @property
    def incidents(self) -> Sequence[Incident]:
        """Those that alert: only these may take the place of an agent's alert."""
        return [one for ones in self.rows.values() for one in ones]


def incident_series(incidents: Iterable[Incident]) -> IncidentSeries:
    """At most 500, the most severe and then the oldest first. What is a record has none."""
    reported = [one for one in incidents if one.severity != "record"]
    reported.sort(key=lambda one: (-SEVERITIES.index(one.severity), one.opened_ns, one.id))
    rows: dict[tuple[str, ...], list[Incident]] = {}
    for one in reported:
        labels = (one.root.host, one.root.kind, one.root.id, one.fault, one.severity, one.action)
        rows.setdefault(labels, []).append(one)
    return IncidentSeries(dict(list(rows.items())[:MAX_SHOWN]), max(0, len(rows) - MAX_SHOWN))
