"""Fusion: findings in, incidents out. One cause is told once, with the device to blame and the order of the evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from detectors.elapsed import Elapsed, Moment
from detectors.incidents.book import WINDOW_NS, Book, OpenIncident
from detectors.incidents.graph import CONTAINERS, Graph, Place, affected
from detectors.incidents.kinship import classes, head, keys_of, near, strength, wide
from detectors.incidents.lemon import LIMIT, Lemons
from detectors.maintenance import Maintenance
from detectors.memory import Remembering
from detectors.standing import RANK
from pipeline.finding import Finding, Incident, finding_id
from pipeline.frame import Device
from pipeline.observation import Observation

EXPLAINS = 0.8  # the share of findings that an upstream entity must hold to be the root
LEAST_SHARE, LEAST_PARTS = 0.5, 2  # of the upstream entity's parts that must be affected
UPSTREAM = ("rack", "switch", "node", "job")  # the most upstream first
# More devices with one class of fault within the window than this: the cause is common to them, whatever it is.
MANY, MANY_SHARE = 10, 0.005
MOST_FINDINGS = 1000  # of one incident: what comes after is explained by it, and not kept
TOGETHER = Device("", "cluster", "cluster")


class Incidents(Remembering):
    """Joins findings along device, link, node, leaf switch, rack and job. Findings of severity record join, but open nothing.

    What happens to devices in maintenance opens nothing either. An incident keeps its id when later evidence shows another root.

    >>> Incidents().name
    'incidents'
    """

    name = "incidents"

    def __init__(self) -> None:
        self._graph, self._maintenance, self._elapsed, self._lemons = Graph(), Maintenance(), Elapsed(), Lemons()
        self._book = Book()
        super().__init__(
            graph=self._graph, maintenance=self._maintenance, elapsed=self._elapsed, lemons=self._lemons, book=self._book
        )

    def update(self, observation: Observation, findings: Iterable[Finding]) -> tuple[Incident, ...]:
        """Incidents that opened, changed or ended with what detectors said of an observation."""
        self._graph.take(observation)
        self._maintenance.take(observation.events)
        at = self._elapsed.at(observation)
        said: dict[str, Incident] = {}
        for finding in findings:
            for incident in self._finding(finding, at):
                said[incident.id] = incident
        for incident in self._end(at):
            said[incident.id] = incident
        return tuple(said.values())

    def open(self) -> tuple[Incident, ...]:
        """Those that are open, in the order they opened."""
        return tuple(one.told for one in self._book.open.values() if one.told is not None)

    def _finding(self, finding: Finding, at: Moment) -> Iterator[Incident]:
        known = self._book.holding(finding.id)
        if known is not None:
            if finding.active:
                known.findings[finding.id] = finding
                known.standing.add(finding.id)
            else:
                known.standing.discard(finding.id)
                known.fresh_ns = at.now_ns
            yield from self._say(known, at)
            return
        if not finding.active or self._maintenance.covers(finding.device):
            return
        joined = self._book.find(near(finding, self._graph), at.now_ns, fresh=False)
        around = list(wide(finding, self._graph))
        joined = joined or self._book.find((key for key in around if key[-1] == "itself"), at.now_ns, fresh=False)
        joined = joined or self._book.find(around, at.now_ns, fresh=True)
        joined = joined or self._common(finding)
        if joined is None:
            if finding.severity == "record":
                return
            name = finding_id(self.name, finding.device, finding.time_ns)
            joined = self._book.open.setdefault(name, OpenIncident(name, finding.time_ns, at.now_ns))
        self._join(joined, finding, at)
        yield from self._break(joined, finding, at)
        yield from self._say(joined, at)

    def _join(self, incident: OpenIncident, finding: Finding, at: Moment) -> None:
        incident.fresh_ns = at.now_ns
        if len(incident.findings) < MOST_FINDINGS:
            incident.findings[finding.id] = finding
            incident.standing.add(finding.id)
            self._book.index(incident, keys_of(finding, self._graph))

    def _common(self, finding: Finding) -> OpenIncident | None:
        """An open incident that is common to all devices with such a fault."""
        kind = head(finding.fault)
        return next((one for one in self._book.open.values() if one.common and kind in classes(one.findings.values())), None)

    def _break(self, joined: OpenIncident, finding: Finding, at: Moment) -> Iterator[Incident]:
        """The circuit breaker: many incidents of one class at once become one, and the others end."""
        kind = head(finding.fault)
        alike = [
            one
            for one in self._book.open.values()
            if at.now_ns - one.fresh_ns <= WINDOW_NS and all(head(f.fault) == kind for f in one.findings.values())
        ]
        devices = {f.device for one in alike for f in one.findings.values()}
        if len(alike) < 2 or len(devices) <= max(MANY, MANY_SHARE * self._graph.peers(finding.device.kind)):
            return
        first = alike[0]
        first.common = True
        for one in alike[1:]:
            for member in one.findings.values():
                self._join(first, member, at)
            self._book.close(one)
            if one.told is not None:
                yield replace(one.told, cleared_ns=at.time_ns, summary=f"Part of incident {first.id}: {one.told.summary}")
        if joined is not first:
            yield from self._say(first, at)

    def _say(self, incident: OpenIncident, at: Moment) -> Iterator[Incident]:
        """The incident, if it is worth more words than before."""
        if incident.id not in self._book.open:
            return
        now = self._told(incident)
        before, incident.told = incident.told, now
        if before is None or (before.root, before.fault, before.severity) != (now.root, now.fault, now.severity):
            yield now
        if not incident.counted and RANK[now.severity] >= RANK["ticket"] and now.root.host:
            incident.counted = True
            yield from self._lemon(now.root.host, at)

    def _told(self, incident: OpenIncident) -> Incident:
        findings = list(incident.findings.values())
        root, blamed = self._root(incident, findings)
        worst = max(findings, key=lambda f: RANK[f.severity])
        others = len(findings) - 1
        summary = blamed.summary
        if others or root != blamed.device:
            kinds = ", ".join(classes(findings))
            devices = len({f.device for f in findings})
            summary = (
                f"{root.kind} {root.id}: {blamed.summary} It explains {len(findings)} findings on {devices} devices ({kinds})."
            )
        return Incident(
            incident.id, root, blamed.fault, worst.severity, blamed.action, incident.opened_ns, tuple(incident.findings), summary
        )

    def _root(self, incident: OpenIncident, findings: list[Finding]) -> tuple[Device, Finding]:
        """The most upstream entity that explains most findings, and the strongest evidence for it; else the strongest evidence's device."""
        strongest = max(findings, key=lambda f: (strength(f), RANK[f.severity]))  # the first of equals: the first evidence
        for level in UPSTREAM:
            for place in {p: None for f in findings for p in self._graph.places(f.device) if p.level == level}:
                if self._explains(place, findings, strongest):
                    itself = next((f for f in findings if (f.device.kind, f.device.id) == place), None)
                    inside = [f for f in findings if place in self._graph.places(f.device)]
                    return _device(place), itself or max(inside, key=lambda f: (strength(f), RANK[f.severity]))
        return (TOGETHER if incident.common else strongest.device), strongest

    def _explains(self, place: Place, findings: list[Finding], strongest: Finding) -> bool:
        inside = [f for f in findings if place in self._graph.places(f.device)]
        if len(inside) < EXPLAINS * len(findings):
            return False
        if any((f.device.kind, f.device.id) == place for f in inside) and strongest.device.kind in CONTAINERS:
            return True
        kind = head(strongest.fault)
        if place.level == "job" and (kind not in ("xid", "hang") or strength(strongest) > 0):
            return False  # a job is to blame for what its program did, not for hardware
        if place.level == "node" and kind == "xid" and strength(strongest) == 0:
            return False  # and the other way round
        same = [f.device for f in inside if head(f.fault) == kind]
        bad, parts = affected(same, self._graph, place)
        return bad >= LEAST_PARTS and bad >= LEAST_SHARE * parts > 0

    def _lemon(self, host: str, at: Moment) -> Iterator[Incident]:
        before, now = self._lemons.now(host, at.now_ns), self._lemons.count(host, at.now_ns)
        if before < LIMIT <= now:
            node = Device(host, "node", host)
            name = finding_id("lemon", node, at.time_ns)
            one = self._book.open.setdefault(name, OpenIncident(name, at.time_ns, at.now_ns, counted=True))
            summary = (
                f"Node {host} has had {now:.1f} incidents, each counted half after 30 days: take it out and test it as a whole."
            )
            one.told = Incident(name, node, "lemon", "ticket", "RUN_FIELDDIAG", at.time_ns, (), summary)
            yield one.told

    def _end(self, at: Moment) -> Iterator[Incident]:
        for one in list(self._book.open.values()):
            if one.told is None or one.standing or at.now_ns - one.fresh_ns < WINDOW_NS:
                continue
            if one.told.fault == "lemon" and self._lemons.now(one.told.root.host, at.now_ns) >= LIMIT / 2:
                continue
            self._book.close(one)
            yield replace(one.told, cleared_ns=at.time_ns)


def _device(place: Place) -> Device:
    return Device(place.name if place.level == "node" else "", place.level, place.name)
