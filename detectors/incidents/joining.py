"""How findings become one incident, and incidents become one of them."""

from __future__ import annotations

from collections.abc import Iterable

from detectors.faults import fault_class, fault_of
from detectors.faults.causes import edges_between
from detectors.incidents.again import happened_again
from detectors.incidents.book import WINDOW_NS, Book, OpenIncident
from detectors.incidents.changes import Changes
from detectors.incidents.evidence import Evidence, identity, reported, severity_of
from detectors.incidents.graph import Graph
from detectors.incidents.pending import Pending
from detectors.incidents.placing import Together
from detectors.kit.findings import RANK
from pipeline.clock import Instant
from pipeline.finding import Finding, Severity
from pipeline.frame import Device

# More incidents of one class within the window than this: the cause is common to them, whatever it
# is. How many devices each holds says nothing.
MANY, MANY_SHARE = 10, 0.005
MAX_FINDINGS = 1000  # of one incident: what comes after is explained by it, and not kept


class Joining:
    """Adds findings to incidents and merges incidents that have one cause."""

    def __init__(self, book: Book, graph: Graph, pending: Pending) -> None:
        self._book, self._graph, self._pending = book, graph, pending

    def join(self, incident: OpenIncident, one: Evidence, at: Instant) -> bool:
        """Add a finding to an incident; whether it is kept."""
        incident.evidence_ns = incident.fresh_ns = at.mono_ns
        before = incident.strongest.finding.severity if incident.evidence else "record"
        graver = RANK[one.finding.severity] > RANK[before]
        if len(incident.evidence) >= MAX_FINDINGS and not graver:
            return False
        self.clear_ack(incident, one.finding)
        incident.standing.add(one.finding.id)
        self._book.add(incident, one)
        return True

    def clear_ack(self, incident: OpenIncident, finding: Finding) -> None:
        """A first page about a device clears the acknowledgement of the incident, unless it is a
        symptom or the root explains it, and so does what happens again. The note stays.
        """
        if incident.taken_on is None:
            return
        live = incident.live
        paged = any(one.finding.severity == "page" and one.device == finding.device for one in live)
        again = happened_again(finding, incident.evidence.values())
        if finding.severity != "page" or fault_of(finding.fault).symptom or (paged and not again):
            return
        if again or not (severity_of(live) == "page" and self._blames(incident, finding.device)):
            incident.taken_on = incident.taken_on and incident.taken_on._replace(time_ns=0)

    def _blames(self, incident: OpenIncident, device: Device) -> bool:
        root = device if incident.reported is None else incident.reported.root
        upstream = any((root.kind, root.id) == site for site in self._graph.places(device))
        return (
            upstream
            or identity(root) == identity(device)
            or root.id == device.attributes.get("peer")
        )

    def common(self, one: Evidence, at: Instant) -> OpenIncident | None:
        """An incident that all devices with such a fault have in common these minutes, and as
        serious: a page is not one of many tickets.
        """
        return next(
            (
                each
                for each in self._book.open.values()
                if each.common == one.kind
                and at.mono_ns - each.evidence_ns <= WINDOW_NS
                and RANK[one.finding.severity] <= RANK[severity_of(each.live)]
            ),
            None,
        )

    def to_place(self, together: Together, at: Instant, changes: Changes) -> OpenIncident | None:
        """The place is the root cause of all of its parts: their incidents become one, which is
        returned. Those that are about more than this fault stay, each with its device.
        """
        kind = together.parts[-1].kind
        ids = [one.finding.id for one in together.parts]
        holding = dict.fromkeys(one.id for name in ids if (one := self._book.holding(name)))
        whole = sorted(
            (one for name in holding if _about_only(one := self._book.open[name], kind)),
            key=lambda one: one.began_ns,
        )
        if not whole:
            return None
        first, *others = whole
        first.parent = together.site
        waiting = [one for one in together.parts if one.finding.id in self._pending]
        self._pending.take(ids)
        for part in waiting:
            self.join(first, part, at)
        self.gather(first, others, at, changes)
        changes.touch(first)
        return first

    def merge_storm(
        self, joined: OpenIncident, one: Evidence, at: Instant, changes: Changes
    ) -> None:
        """Many incidents of one class that reach one severity at once become one; the others end.
        Those that have been open for longer and only grow are no storm.
        """
        common = self.common(one, at)
        if common is None and len(self._book.open) <= MANY:
            return
        kind, severity = one.kind, severity_of(joined.live)
        if common is not None:
            if common is not joined and _has_become(joined, kind, severity, at):
                self.gather(common, [joined], at, changes)
            return
        found = [
            each
            for each in self._book.open.values()
            if each.evidence and _has_become(each, kind, severity, at)
        ]
        if len(found) > max(MANY, MANY_SHARE * self._graph.peers(one.device.kind)):
            found[0].common = kind
            self.gather(found[0], found[1:], at, changes)

    def gather(
        self,
        first: OpenIncident,
        others: Iterable[OpenIncident],
        at: Instant,
        changes: Changes,
    ) -> None:
        """Incidents that turn out to be one."""
        for one in others:
            if one is first:
                continue
            taken_on = first.taken_on or one.taken_on
            if taken_on and not all(
                both and both.time_ns for both in (first.taken_on, one.taken_on)
            ):
                # who acknowledged one of them did not acknowledge all; their note stays
                taken_on = taken_on._replace(time_ns=0)
            self._book.close(one)
            for member in one.evidence.values():
                self.join(first, member, at)
            first.standing -= one.evidence.keys() - one.standing
            first.end(first.over | one.over)
            first.counted |= one.counted
            first.taken_on = taken_on
            changes.ended(one, at, f"Part of incident {first.id}")
            changes.touch(first)


def _has_become(incident: OpenIncident, kind: str, severity: Severity, at: Instant) -> bool:
    """Whether it is about this class of faults alone, and as serious as this only recently."""
    if at.mono_ns - incident.evidence_ns > WINDOW_NS or severity_of(incident.live) != severity:
        return False
    evidence = incident.evidence.values()
    as_serious = (one.at_ns for one in evidence if one.finding.severity == severity)
    since_ns = min(as_serious, default=0)
    return at.mono_ns - since_ns <= WINDOW_NS and all(
        _about(incident, one, kind) for one in evidence
    )


def _about_only(incident: OpenIncident, kind: str) -> bool:
    return all(
        _about(incident, one, kind) or one.symptom or not reported(one) for one in incident.live
    )


def _about(incident: OpenIncident, one: Evidence, kind: str) -> bool:
    """Whether evidence of an incident is a fault of this class, or what one of them causes."""
    return one.kind == kind or any(
        fault_class(name) == kind and edges_between(name, one.finding.fault)
        for name in incident.names
    )
