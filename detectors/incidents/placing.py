"""Where a finding belongs: which open incident is about its device or its cause, which are about
its effects, and what fails together with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from detectors.faults import fault_class
from detectors.faults.causes import edges_between, edges_to
from detectors.incidents.book import Book, OpenIncident
from detectors.incidents.evidence import Evidence, identity
from detectors.incidents.explain import explains, same_unit
from detectors.incidents.graph import FaultSite, Graph
from detectors.incidents.parents import alike_to, quorum, shared_sites
from detectors.incidents.pending import GAP_NS, Pending


class Together(NamedTuple):
    """Parts of a place that have one fault at once."""

    site: FaultSite
    parts: list[Evidence]


class Parts(NamedTuple):
    """The parts of a place that failed with a finding, and whether more may follow: another one has
    just had the same fault.
    """

    together: Together | None
    forming: bool


NO_PARTS = Parts(None, forming=False)


class Placing:
    """Looks findings up among open incidents and those that wait; it changes nothing."""

    def __init__(self, book: Book, graph: Graph, pending: Pending) -> None:
        self._book, self._graph, self._pending = book, graph, pending

    def owner(self, one: Evidence) -> OpenIncident | None:
        """The open incident about its device, else about its cause, else about a place that it is
        a part of; the newest of several.
        """
        near = self._near(one)
        return (
            _newest(each for each in near if _is_about(each, one))
            or self.cause(one)
            or _newest(each for each in near if _contains(each, one))
        )

    def cause(self, one: Evidence) -> OpenIncident | None:
        """The open incident about its cause, the newest of several."""
        fault = one.finding.fault
        if not edges_to(fault):
            return None
        return _newest(
            each
            for each in self._near(one)
            if any(edges_between(name, fault) for name in each.names)
            and any(explains(live, one) for live in each.live)
        )

    def effects(self, one: Evidence) -> list[OpenIncident]:
        """The open incidents about nothing but what it causes, the oldest first."""
        found = [
            each for each in self._near(one) if each.evidence and explains(one, each.strongest)
        ]
        return sorted(found, key=lambda each: each.began_ns)

    def parts(self, one: Evidence, *, waited: bool) -> Parts:
        """What fails together with it.

        While parts of other nodes still fail, the cause may be further upstream than the node;
        ``waited``: no longer.
        """
        forming = False
        for site in shared_sites(one):
            alike = self._alike(one, site)
            if quorum(self._graph, site, [*alike, one]):
                return Parts(Together(site, [*alike, one]), forming=False)
            fresh = [each.device for each in alike if one.at_ns - each.at_ns <= GAP_NS]
            forming |= any(identity(device) != identity(one.device) for device in fresh)
            if not waited and any(device.host != one.device.host for device in fresh):
                break
        return Parts(None, forming)

    def _near(self, one: Evidence) -> list[OpenIncident]:
        return self._book.with_any(one.keys())

    def _alike(self, one: Evidence, site: FaultSite) -> list[Evidence]:
        known = (each for incident in self._book.with_any([tuple(site)]) for each in incident.live)
        alike, own = alike_to(one), one.finding
        return [
            each
            for each in (*known, *self._pending.all())
            if site in each.sites and alike(each) and not own.is_same(each.finding)
        ]


def _newest(found: Iterable[OpenIncident]) -> OpenIncident | None:
    return max(found, key=lambda each: each.evidence_ns, default=None)


def _is_about(incident: OpenIncident, one: Evidence) -> bool:
    if not incident.evidence or incident.parent or incident.common:
        return False
    root = identity(incident.strongest.device)
    return root == identity(one.device) and any(same_unit(each, one) for each in incident.live)


def _contains(incident: OpenIncident, one: Evidence) -> bool:
    return (
        incident.parent is not None
        and incident.parent in shared_sites(one)
        and any(fault_class(name) == one.kind for name in incident.names)
    )
