"""The incidents that are open now, as a bounded number of series without ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from threading import Lock

from pipeline.catalog import agent
from pipeline.exposition.findings import MAX_KEPT, MAX_SHOWN
from pipeline.exposition.loose import Sample
from pipeline.exposition.text import Family
from pipeline.finding import SEVERITIES, Incident

Labels = tuple[tuple[str, str], ...]
SCOPE = "node"  # what an agent knows; a gateway, which sees the whole fleet, says "fleet"

_ACTIVE = Family(agent.INCIDENT_ACTIVE.name, agent.INCIDENT_ACTIVE.type, agent.INCIDENT_ACTIVE.help)
_ACKNOWLEDGED = Family(
    agent.INCIDENT_ACKNOWLEDGED.name,
    agent.INCIDENT_ACKNOWLEDGED.type,
    agent.INCIDENT_ACKNOWLEDGED.help,
)
_OCCURRENCES = Family(
    agent.INCIDENT_OCCURRENCES.name,
    agent.INCIDENT_OCCURRENCES.type,
    agent.INCIDENT_OCCURRENCES.help,
)
_OVERFLOW = Family(
    agent.INCIDENTS_OVERFLOW.name, agent.INCIDENTS_OVERFLOW.type, agent.INCIDENTS_OVERFLOW.help
)


class OpenIncidents:
    """Keeps an incident from its opening to its end. Any thread may write or look."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: dict[str, Incident] = {}

    def write(self, incidents: Iterable[Incident]) -> None:
        """Take over what was reported."""
        with self._lock:
            for incident in incidents:
                if not incident.active:
                    self._open.pop(incident.id, None)
                    continue
                self._open[incident.id] = incident
                if len(self._open) > MAX_KEPT:
                    del self._open[next(iter(self._open))]

    def all(self) -> tuple[Incident, ...]:
        """All that are open: the gravest first, then the oldest."""
        with self._lock:
            standing = tuple(self._open.values())
        return tuple(
            sorted(standing, key=lambda i: (-SEVERITIES.index(i.severity), i.opened_ns, i.id))
        )

    def samples(self) -> Iterator[Sample]:
        """One series per (root, class, severity, scope, action), at most 500, how many more there
        are, which happened again, and which are acknowledged.
        """
        standing = self.all()
        rows = dict.fromkeys(_labels(i) for i in standing)
        for row in list(rows)[:MAX_SHOWN]:
            yield Sample(_ACTIVE, row, 1)
        yield from _again(standing)
        taken_on = dict.fromkeys(
            (i.root.kind, i.root.id, i.fault) for i in standing if i.acknowledged_ns
        )
        for known in list(taken_on)[:MAX_SHOWN]:
            yield Sample(
                _ACKNOWLEDGED, tuple(zip(agent.INCIDENT_ACKNOWLEDGED.labels, known, strict=True)), 1
            )
        yield Sample(_OVERFLOW, (), max(len(rows) - MAX_SHOWN, 0))


def _again(standing: Iterable[Incident]) -> Iterator[Sample]:
    """Those that happened again; of incidents with the same labels all times."""
    again = Counter[Labels]()
    for incident in standing:
        if incident.times > 1:
            again[_labels(incident)] += incident.times
    for labels, times in list(again.items())[:MAX_SHOWN]:
        yield Sample(_OCCURRENCES, labels, times)


def _labels(i: Incident) -> Labels:
    row = (i.root.kind, i.root.id, i.fault, i.severity, SCOPE, i.action)
    return tuple(zip(agent.INCIDENT_ACTIVE.labels, row, strict=True))
