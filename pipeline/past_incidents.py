"""What is over: incidents of the last day with their findings, and findings that ended while
their incident is open. In memory, bounded, and kept over a restart with the judge's state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pipeline.clock import SECOND_NS
from pipeline.finding import SEVERITIES, Finding, Incident
from pipeline.plain import finding_from, incident_from, plain

T = TypeVar("T")

KEPT_NS = 24 * 3600 * SECOND_NS
MAX_INCIDENTS = 100  # with MAX_FINDINGS of half a kilobyte each: 0.5 MB at most
MAX_FINDINGS = 8  # of one incident: the gravest, in the order of evidence
MAX_ENDED = 256  # findings that ended, the newest


@dataclass(frozen=True, slots=True)
class PastIncident:
    """An incident that is over, as it was when it ended, with its findings."""

    incident: Incident
    findings: tuple[Finding, ...]


class PastIncidents:
    """Keeps them. One thread writes, any may look.

    >>> past = PastIncidents()
    >>> past.incidents(0), past.ended(("1",))
    ([], [])
    """

    def __init__(self) -> None:
        self._incidents: dict[str, PastIncident] = {}
        self._ended: dict[str, Finding] = {}

    def take(self, findings: Iterable[Finding], incidents: Iterable[Incident]) -> None:
        """Findings and incidents as they are reported; those that are open are left out."""
        for finding in findings:
            if finding.active:
                self._ended.pop(finding.id, None)
            else:
                _put(self._ended, finding.id, finding, MAX_ENDED)
        for incident in incidents:
            if incident.active:
                self._incidents.pop(incident.id, None)
            else:
                past = PastIncident(incident, tuple(_gravest(self.ended(incident.findings))))
                _put(self._incidents, incident.id, past, MAX_INCIDENTS)

    def ended(self, ids: Iterable[str]) -> list[Finding]:
        """Those of these findings that ended, in this order."""
        known = self._ended
        return [one for one in map(known.get, ids) if one is not None]

    def incidents(self, now_ns: int) -> list[PastIncident]:
        """Those that ended within a day before ``now_ns`` (unix), the newest first."""
        since_ns = now_ns - KEPT_NS
        kept = [one for one in list(self._incidents.values()) if one.incident.cleared_ns > since_ns]
        return sorted(kept, key=lambda one: -one.incident.cleared_ns)

    def document(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {
            "ended": [plain(finding) for finding in self._ended.values()],
            "incidents": [
                [plain(one.incident), [plain(finding) for finding in one.findings]]
                for one in self._incidents.values()
            ],
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> PastIncidents:
        """What ``document`` gave. TypeError, ValueError or KeyError where it is something else."""
        made = cls()
        for values in document.get("ended", ()):
            finding = finding_from(values)
            made._ended[finding.id] = finding
        for values, findings in document.get("incidents", ()):
            incident = incident_from(values)
            past = PastIncident(incident, tuple(map(finding_from, findings)))
            made._incidents[incident.id] = past
        return made


def _put(kept: dict[str, T], name: str, value: T, most: int) -> None:
    kept.pop(name, None)
    kept[name] = value
    if len(kept) > most:
        del kept[next(iter(kept))]


def _gravest(findings: list[Finding]) -> list[Finding]:
    """At most ``MAX_FINDINGS``, in the order that they have."""
    ranked = sorted(findings, key=lambda one: -SEVERITIES.index(one.severity))
    kept = {one.id for one in ranked[:MAX_FINDINGS]}
    return [one for one in findings if one.id in kept]
