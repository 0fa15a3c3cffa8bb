"""Fusion: findings in, incidents out. One cause is reported once, with the device of the root cause
and the order of the evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from detectors.faults import fault_class, fault_of
from detectors.incidents.advice import reason
from detectors.incidents.book import WINDOW_NS, Book, OpenIncident, TakenOn
from detectors.incidents.graph import FaultSite, Graph
from detectors.incidents.history import Records
from detectors.incidents.kinship import (
    classes,
    exact_keys,
    exonerated,
    halts_job,
    identity,
    keys_of,
    nearby_keys,
)
from detectors.incidents.lemon import LIMIT, Lemons
from detectors.incidents.root_cause import Blame
from detectors.incidents.suppressed import SuppressedFindings
from detectors.kit.elapsed import Elapsed
from detectors.kit.findings import RANK
from detectors.kit.maintenance import Maintenance
from detectors.kit.stateful import Stateful
from pipeline.clock import Instant
from pipeline.finding import Finding, Incident, Severity, finding_id
from pipeline.frame import Device
from pipeline.observation import Event, Observation

# More incidents of one class within the window than this: the cause is common to them, whatever it
# is. How many devices each holds says nothing.
MANY, MANY_SHARE = 10, 0.005
AT_ONCE_NS = 120 * 10**9  # what a switch does to its ports it does to all of them at once
MAX_NAMED = 3  # devices that a summary names beside the one to blame
MAX_SINGLY = 8  # findings of an incident, each of which is told as it comes
MAX_FINDINGS = 1000  # of one incident: what comes after is explained by it, and not kept


class Incidents(Stateful):
    """Joins findings along device, link, node, leaf switch, rack and job.

    Findings of severity record join, but open nothing; those of the last ten minutes are the first
    evidence of what then opens. What happens to devices in maintenance opens nothing until they are
    back; an incident whose root is in maintenance is a record as long. An incident keeps its id
    when later evidence shows another root. It is told when its root, class, severity or who took it
    on changes, with each further fault of its root, and with more findings: with each of the first,
    then whenever they have doubled.

    >>> Incidents().name
    'incidents'
    """

    name = "incidents"
    version = 4

    def __init__(self) -> None:
        self._graph, self._maintenance, self._elapsed, self._lemons = (
            Graph(),
            Maintenance(),
            Elapsed(),
            Lemons(),
        )
        self._book, self._held, self._records = Book(), SuppressedFindings(), Records()

    def update(self, observation: Observation, findings: Iterable[Finding]) -> tuple[Incident, ...]:
        """Incidents that opened, changed or ended with what detectors said of an observation."""
        self._graph.take(observation)
        at = self._elapsed.at(observation)
        said: dict[str, Incident] = {}
        if self._maintenance.take(observation.events):
            said |= {incident.id: incident for incident in self._in_and_out(at)}
        said |= {incident.id: incident for incident in self._taken_on(observation.events, at)}
        for finding in findings:
            said |= {incident.id: incident for incident in self._finding(finding, at)}
        said |= {incident.id: incident for incident in self._end(at)}
        return tuple(said.values())

    def open(self) -> tuple[Incident, ...]:
        """Those that are open, in the order they opened."""
        return tuple(one.reported for one in self._book.open.values() if one.reported is not None)

    def out_of_service(self) -> tuple[Device, ...]:
        """Devices and hosts in maintenance."""
        return self._maintenance.out()

    def _in_and_out(self, at: Instant) -> Iterator[Incident]:
        """What maintenance that began or ended changes."""
        for finding in self._held.released(self._maintenance):
            yield from self._finding(finding, at)
        for one in list(self._book.open.values()):
            yield from self._say(one, at)

    def _taken_on(self, events: Iterable[Event], at: Instant) -> Iterator[Incident]:
        for event in events:
            one = self._book.open.get(str(event.attributes.get("incident", "")))
            if event.kind == "incident_acknowledged" and one is not None:
                one.taken_on = TakenOn(
                    event.time_ns,
                    str(event.attributes.get("note", "")),
                    str(event.attributes.get("user", "")),
                )
                yield from self._say(one, at)

    def _finding(self, finding: Finding, at: Instant) -> Iterator[Incident]:
        known = self._book.holding(finding.id)
        if known is not None:
            if finding.active:
                self._clear_ack(known, finding)
                known.findings[finding.id] = finding
                known.standing.add(finding.id)
                known.over.discard(finding.id)
            else:
                known.standing.discard(finding.id)
                known.fresh_ns = at.mono_ns
            yield from self._say(known, at)
            return
        if self._maintenance.covers(finding.device):
            self._held.keep(finding)
            return
        if not finding.active:
            self._records.keep(finding, at.mono_ns)
            return
        joined = (
            self._exonerated(finding)
            or self._about(finding, at)
            or self._explained(finding, at)
            or self._common(finding, at)
        )
        if joined is None:
            if finding.severity == "record":
                self._records.keep(finding, at.mono_ns)
                return
            name = finding_id(self.name, finding.device, finding.time_ns)
            joined = self._book.open.setdefault(
                name, OpenIncident(name, finding.time_ns, at.mono_ns, at.mono_ns, at.mono_ns)
            )
            for earlier in self._records.about(finding.device, at.mono_ns):
                self._join(joined, earlier, at)
        if self._join(joined, finding, at):
            yield from self._merge_storm(joined, finding, at)
            yield from self._say(joined, at)

    def _join(self, incident: OpenIncident, finding: Finding, at: Instant) -> bool:
        """Whether it is kept."""
        incident.evidence_ns = incident.fresh_ns = at.mono_ns
        graver = (
            incident.reported is None or RANK[finding.severity] > RANK[incident.reported.severity]
        )
        if len(incident.findings) >= MAX_FINDINGS and not graver:
            return False
        self._clear_ack(incident, finding)
        incident.findings[finding.id] = finding
        incident.standing.add(finding.id)
        self._book.index(incident, keys_of(finding, self._graph))
        return True

    def _clear_ack(self, incident: OpenIncident, finding: Finding) -> None:
        """A first page about a device clears the acknowledgement of the incident, unless it is a
        symptom or the root explains it. The note stays.
        """
        paged = any(f.severity == "page" and f.device == finding.device for f in incident.live)
        if finding.severity != "page" or paged or fault_of(finding.fault).symptom:
            return
        if not (_severity(incident.live) == "page" and self._blames(incident, finding.device)):
            incident.taken_on = incident.taken_on and incident.taken_on._replace(time_ns=0)

    def _exonerated(self, finding: Finding) -> OpenIncident | None:
        """The incident of a program that is exonerated: from now on its root is the GPU, so that
        there is one incident only.
        """
        blamed = self._book.with_any(exonerated(finding, self._graph))
        one = next((one for one in blamed if not one.standing), None)
        if one is not None:
            one.over = set(one.findings)
        return one

    def _about(self, finding: Finding, at: Instant) -> OpenIncident | None:
        """An open incident that blames this device, its link or what it is part of; one that only
        counts it among others, while it is fresh.
        """
        found = self._book.with_any(exact_keys(finding, self._graph))
        own = [
            one
            for one in found
            if at.mono_ns - one.evidence_ns <= WINDOW_NS or self._blames(one, finding.device)
        ]
        return max(own, key=lambda one: one.evidence_ns, default=None)

    def _blames(self, incident: OpenIncident, device: Device) -> bool:
        root = device if incident.reported is None else incident.reported.root
        upstream = FaultSite(root.kind, root.id) in self._graph.places(device)
        return (
            upstream
            or identity(root) == identity(device)
            or root.id == device.attributes.get("peer")
        )

    def _explained(self, finding: Finding, at: Instant) -> OpenIncident | None:
        """An open incident nearby that it may belong to: its root is known, or it began at about
        the same time.
        """
        kind, around = fault_class(finding.fault), list(nearby_keys(finding, self._graph))
        known = self._book.with_any(key for key in around if key[-1] == "itself")
        alike = [
            one
            for one in known
            if fault_of(finding.fault).symptom
            or kind in classes(one.findings[name] for name in one.standing)
        ]
        if alike:
            return max(alike, key=lambda one: one.evidence_ns)
        sudden = [key for key in around if key[0] == "switch" != finding.device.kind]
        at_once = self._book.find(sudden, at.mono_ns - AT_ONCE_NS)
        return at_once or self._book.find(
            (key for key in around if key not in sudden), at.mono_ns - WINDOW_NS
        )

    def _common(self, finding: Finding, at: Instant) -> OpenIncident | None:
        """An incident that all devices with such a fault have in common these minutes, and as
        serious: a page is not one of many tickets.
        """
        return next(
            (
                one
                for one in self._book.open.values()
                if one.common == fault_class(finding.fault)
                and at.mono_ns - one.evidence_ns <= WINDOW_NS
                and RANK[finding.severity] <= RANK[_severity(one.live)]
            ),
            None,
        )

    def _merge_storm(
        self, joined: OpenIncident, finding: Finding, at: Instant
    ) -> Iterator[Incident]:
        """Many incidents of one class and severity at once, or of one rack, become one; the others
        end.
        """
        kind, severity = fault_class(finding.fault), _severity(joined.live)
        alike = [
            one
            for one in self._book.open.values()
            if at.mono_ns - one.evidence_ns <= WINDOW_NS
            and _severity(one.live) == severity
            and all(fault_class(f.fault) == kind for f in one.findings.values())
        ]
        if len(alike) > max(MANY, MANY_SHARE * self._graph.peers(finding.device.kind)):
            alike[0].common = kind
        else:
            alike = self._same_rack(finding, at)
        if len(alike) > 1:
            yield from self._gather(alike[0], alike[1:], joined, at)

    def _same_rack(self, finding: Finding, at: Instant) -> list[OpenIncident]:
        """Incidents of a finding's class in its rack that began just now or have the rack as root,
        where the root of all of them together is the rack.
        """
        kind, places = fault_class(finding.fault), self._graph.places(finding.device)
        shared = "rack" in fault_of(finding.fault).shared
        rack = next((place for place in places if place.level == "rack" and shared), None)
        if rack is None or finding.severity == "record":
            return []
        found = [
            one
            for one in self._book.with_any([(*rack, kind)])
            if (
                at.mono_ns - one.began_ns <= WINDOW_NS
                or (one.reported is not None and _is(one.reported.root, rack))
            )
            and all(f.severity == "record" or _of_class_or_symptom(f, kind) for f in one.live)
        ]
        if len(found) < 2 or not _is(
            Blame(self._graph, [f for one in found for f in one.live]).root()[0], rack
        ):
            return []
        return sorted(found, key=lambda one: one.began_ns)

    def _gather(
        self, first: OpenIncident, others: Iterable[OpenIncident], joined: OpenIncident, at: Instant
    ) -> Iterator[Incident]:
        """Incidents that turn out to be one; ``joined`` is told anyway."""
        for one in others:
            taken_on = first.taken_on or one.taken_on
            if taken_on and not all(
                both and both.time_ns for both in (first.taken_on, one.taken_on)
            ):
                # who took on one of them did not take on all; their note stays
                taken_on = taken_on._replace(time_ns=0)
            for member in one.findings.values():
                self._join(first, member, at)
            first.standing -= one.findings.keys() - one.standing
            first.over |= one.over
            first.taken_on = taken_on
            self._book.close(one)
            if one.reported is not None:
                yield replace(
                    one.reported,
                    cleared_ns=at.time_ns,
                    summary=f"Part of incident {first.id}: {one.reported.summary}",
                )
        if joined is not first:
            yield from self._say(first, at)

    def _say(self, incident: OpenIncident, at: Instant) -> Iterator[Incident]:
        """The incident, if it is worth more words than before."""
        if incident.id not in self._book.open:
            return
        now = self._told(incident) if incident.findings else self._lemon_again(incident)
        before, incident.reported = incident.reported, now
        faults = {
            _words(f) for f in incident.live if f.device == now.root and f.severity != "record"
        }
        faults |= {_words(f) for f in _also_broken(now.root, incident.live)}
        if (
            before is None
            or _news(before) != _news(now)
            or self._more(incident)
            or not faults <= incident.faults
        ):
            incident.said, incident.faults = len(incident.findings), incident.faults | faults
            yield now
        if (
            not incident.counted
            and RANK[now.severity] >= RANK["ticket"]
            and now.root.host
            and now.fault != "xid/application"
        ):
            incident.counted = True
            yield from self._lemon(now.root, fault_class(now.fault), at)

    @staticmethod
    def _more(incident: OpenIncident) -> bool:
        """Whether it has enough more findings than when it was last told."""
        n = len(incident.findings)
        return n > incident.said and (n <= MAX_SINGLY or n >= 2 * incident.said)

    def _told(self, incident: OpenIncident) -> Incident:
        findings = [f for f in incident.live if not self._maintenance.covers(f.device)]
        severity = _severity(findings)
        findings = findings or incident.live
        root, blamed = Blame(self._graph, findings).root(common=bool(incident.common))
        if self._maintenance.covers(root):
            severity = "record"
        taken_on = incident.taken_on or TakenOn(0, "", "")
        return Incident(
            id=incident.id,
            root=root,
            fault=blamed.fault,
            severity=severity,
            action=blamed.action,
            opened_ns=incident.opened_ns,
            findings=tuple(incident.findings),
            summary=_summary(root, blamed, findings),
            reason=reason(blamed.fault, blamed.action, severity),
            acknowledged_ns=taken_on.time_ns,
            note=taken_on.note,
            acknowledged_by=taken_on.user,
        )

    def _lemon_again(self, incident: OpenIncident) -> Incident:
        """A lemon that somebody took on, or whose node went out of service or came back."""
        assert incident.reported is not None  # noqa: S101 - it is told as it opens
        covered, taken_on = (
            self._maintenance.covers(incident.reported.root),
            incident.taken_on or TakenOn(0, "", ""),
        )
        return replace(
            incident.reported,
            severity="record" if covered else "ticket",
            acknowledged_ns=taken_on.time_ns,
            note=taken_on.note,
            acknowledged_by=taken_on.user,
        )

    def _lemon(self, device: Device, kind: str, at: Instant) -> Iterator[Incident]:
        host = device.host
        now = self._lemons.count(host, kind, f"{device.kind} {device.id}", at.mono_ns)
        known = any(
            one.reported is not None
            and (one.reported.fault, one.reported.root.host) == ("lemon", host)
            for one in self._book.open.values()
        )
        if now >= LIMIT and not known:
            node = Device(host, "node", host)
            name = finding_id("lemon", node, at.time_ns)
            one = self._book.open.setdefault(
                name,
                OpenIncident(name, at.time_ns, at.mono_ns, at.mono_ns, at.mono_ns, counted=True),
            )
            summary = (
                f"Node {host} has had {now:.1f} incidents, each counted half after 30 days: drain "
                "it and test the complete node."
            )
            why = reason("lemon", "RUN_FIELDDIAG", "ticket")
            one.reported = Incident(
                name, node, "lemon", "ticket", "RUN_FIELDDIAG", at.time_ns, (), summary, reason=why
            )
            yield one.reported

    def _end(self, at: Instant) -> Iterator[Incident]:
        for one in list(self._book.open.values()):
            if one.reported is None or at.mono_ns - one.fresh_ns < WINDOW_NS:
                continue
            if one.standing:
                yield from self._forget_what_ended(one, at)
                continue
            if (
                one.reported.fault == "lemon"
                and self._lemons.now(one.reported.root.host, at.mono_ns) >= LIMIT / 2
            ):
                continue
            self._book.close(one)
            yield replace(one.reported, cleared_ns=at.time_ns)

    def _forget_what_ended(self, one: OpenIncident, at: Instant) -> Iterator[Incident]:
        """A page that was mended must not go on for what is left, and must be
        heard when it comes back.
        """
        ended = one.findings.keys() - one.standing
        if ended != one.over:
            one.over = set(ended)
            one.faults &= {_words(finding) for finding in one.live}
            yield from self._say(one, at)


def _is(device: Device, place: FaultSite) -> bool:
    return (device.kind, device.id) == place


def _of_class_or_symptom(finding: Finding, kind: str) -> bool:
    return fault_class(finding.fault) == kind or fault_of(finding.fault).symptom


def _words(finding: Finding) -> str:
    return f"{finding.device.id} {finding.fault}"


def _severity(findings: Iterable[Finding]) -> Severity:
    """That of the gravest; a record's where there are none."""
    return max((f.severity for f in findings), key=RANK.__getitem__, default="record")


def _summary(root: Device, blamed: Finding, findings: Sequence[Finding]) -> str:
    """In a line: the strongest evidence, what else it explains, and the newest
    of what else the root has.
    """
    devices, kinds = {finding.device for finding in findings}, ", ".join(classes(findings))
    words = blamed.summary
    if len(devices) > 1 or root != blamed.device:
        words = (
            f"{root.kind} {root.id}: {words} It explains {len(findings)} findings on "
            f"{len(devices)} devices ({kinds})."
        )
    elif len(findings) > 1:
        words = f"{words} It explains {len(findings)} findings ({kinds})."
    others = [
        f
        for f in findings
        if f.device == root and f.fault != blamed.fault and f.severity != "record"
    ]
    words = f"{words} Newest: {others[-1].summary}" if others else words
    elsewhere = dict.fromkeys(f.device for f in _also_broken(root, findings))
    if not elsewhere:
        return words
    named = [
        f"{device.kind} {device.id} of {device.host}" for device in list(elsewhere)[:MAX_NAMED]
    ]
    more = f" and {len(elsewhere) - MAX_NAMED} more" if len(elsewhere) > MAX_NAMED else ""
    return f"{words} Also broken, on other nodes: {', '.join(named)}{more}."


def _also_broken(root: Device, findings: Iterable[Finding]) -> list[Finding]:
    """Pages about GPUs and links of other nodes than the root cause, which its repair does not
    fix; none where that is of no node.
    """
    if not root.host or root.kind == "switch":
        return []
    link = {root.id, root.attributes.get("peer", root.id)}
    return [
        f
        for f in findings
        if f.severity == "page"
        and halts_job(f)
        and f.device.host not in ("", root.host)
        and not link & {f.device.id, f.device.attributes.get("peer", f.device.id)}
    ]


def _news(incident: Incident) -> tuple[object, ...]:
    """What people want to be told when it changes."""
    return incident.root, incident.fault, incident.severity, incident.acknowledged_ns, incident.note
