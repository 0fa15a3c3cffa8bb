"""Fusion: findings in, incidents out. One cause is reported once, with the device of the root cause
and the order of the evidence; no broken device is hidden behind another one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from detectors.faults import fault_class, fault_of
from detectors.incidents.advice import reason
from detectors.incidents.again import Occurrences
from detectors.incidents.book import WINDOW_NS, Book, OpenIncident, TakenOn
from detectors.incidents.changes import Changes, end_of
from detectors.incidents.ending import ended, last_end, quiet_before_end
from detectors.incidents.evidence import Evidence, reported
from detectors.incidents.graph import Graph
from detectors.incidents.history import Records
from detectors.incidents.joining import Joining
from detectors.incidents.lemon import LIMIT, Lemons
from detectors.incidents.pending import Pending
from detectors.incidents.placing import NO_PARTS, Placing, Together
from detectors.incidents.presence import Presence
from detectors.incidents.reporting import CLUSTER, cause, more, news, report, words
from detectors.incidents.summary import broken
from detectors.incidents.suppressed import SuppressedFindings
from detectors.kit.elapsed import Elapsed
from detectors.kit.findings import RANK
from detectors.kit.maintenance import Maintenance
from detectors.kit.resting import FOREVER_NS
from detectors.kit.stateful import Stateful
from pipeline.clock import Instant
from pipeline.finding import Finding, Incident, finding_id
from pipeline.frame import Device, Frame
from pipeline.observation import Event, Observation

# A symptom that is still there so long after its cause ended has another one: two windows of the
# detectors that say when a job moves again.
GRACE_NS = 120 * 10**9


class Incidents(Stateful):
    """Joins findings that have one cause: those about one device or link, those that a causal edge
    explains (detectors/faults/causes.py), and those of at least half of the parts of a switch,
    node, rack or job at once. Every other fault is an incident of its own, whatever else is open.

    Findings of severity record join, but open nothing and keep nothing open; those of the last ten
    minutes are the first evidence of what then opens. What happens to devices in maintenance opens
    nothing until they are back; an incident whose root is in maintenance is a record as long. An
    incident keeps its id when later evidence shows another root. It is reported when its root,
    class, severity or who acknowledged it changes, with each further fault of its root and each
    further broken device, each time that the fault of its root happens again, and with more
    findings: with each of the first, then whenever they have doubled.

    >>> Incidents().name
    'incidents'
    """

    name = "incidents"
    version = 7

    def __init__(self) -> None:
        self._graph, self._maintenance, self._elapsed, self._lemons = (
            Graph(),
            Maintenance(),
            Elapsed(),
            Lemons(),
        )
        self._book, self._held, self._records = Book(), SuppressedFindings(), Records()
        self._presence, self._away = Presence(), SuppressedFindings()
        self._pending = Pending()
        self._now_ns = 0
        self._placing = Placing(self._book, self._graph, self._pending)
        self._joining = Joining(self._book, self._graph, self._pending)

    def update(self, observation: Observation, findings: Iterable[Finding]) -> tuple[Incident, ...]:
        """Incidents that opened, changed or ended with what detectors said of an observation."""
        at = self._elapsed.at(observation)
        self._now_ns = at.mono_ns
        self._graph.take(observation, at.mono_ns)
        self._presence.take(observation, at.mono_ns)
        changes = Changes()
        if self._maintenance.take(observation.events):
            self._in_and_out(at, changes)
        self._taken_on(observation.events, changes)
        for finding in findings:
            self._finding(finding, at, changes)
        for one in self._pending.due(at.mono_ns):
            if self._maintenance.covers(one.device):
                self._held.keep(one.finding)
            else:
                self._place(one, at, changes, waited=True)
        if self._presence.due(at.mono_ns):
            self._gone(at, changes)
        self._end(at, changes)
        for incident in list(changes.touched.values()):
            self._say(incident, at, changes)
        return tuple(changes.said.values())

    def rests_ns(self) -> int:
        """Until what is open may end, what waits is over or devices are looked for; for ever where
        nothing is open, waits, or is held back for a device that is away.
        """
        if self._book.is_empty() and self._pending.is_empty() and self._away.is_empty():
            return FOREVER_NS
        due = [*self._pending.due_ns(), *map(self._due_ns, self._book.open.values())]
        return max(0, min([self._presence.due_ns(self._now_ns), *due]) - self._now_ns)

    def stirs(self, _frame: Frame) -> None:
        """It reads findings and events."""

    def open(self) -> tuple[Incident, ...]:
        """Those that are open, in the order they opened."""
        return tuple(one.reported for one in self._book.open.values() if one.reported is not None)

    def out_of_service(self) -> tuple[Device, ...]:
        """Devices and hosts in maintenance."""
        return self._maintenance.out()

    def _in_service(self, device: Device) -> bool:
        return not self._maintenance.covers(device)

    def _in_and_out(self, at: Instant, changes: Changes) -> None:
        """What maintenance that began or ended changes."""
        for finding in self._held.released(self._in_service):
            self._finding(finding, at, changes)
        changes.touch(*self._book.open.values())

    def _taken_on(self, events: Iterable[Event], changes: Changes) -> None:
        for event in events:
            one = self._book.open.get(str(event.attributes.get("incident", "")))
            if event.kind != "incident_acknowledged" or one is None:
                continue
            # On a bus every host can send any id: only one that has a part in it may know it.
            if one.is_of(event.device.host):
                one.taken_on = TakenOn(
                    event.time_ns,
                    str(event.attributes.get("note", "")),
                    str(event.attributes.get("user", "")),
                )
                changes.touch(one)

    def _finding(self, finding: Finding, at: Instant, changes: Changes) -> None:
        known = self._book.holding(finding.id)
        if known is not None:
            self._follow(known, finding, at)
            changes.touch(known)
        elif finding.id in self._pending:
            self._pending.change(finding)
        elif finding.id in self._away:
            self._away.keep(finding)
        elif self._maintenance.covers(finding.device):
            self._held.keep(finding)
        elif not finding.active:
            self._records.keep(finding, at.mono_ns)
        else:
            one = Evidence(
                finding, self._graph.places(finding.device), at.mono_ns, at.time_ns - at.mono_ns
            )
            self._place(one, at, changes)

    def _follow(self, known: OpenIncident, finding: Finding, at: Instant) -> None:
        """A finding that an incident has, as it is now."""
        if finding.active:
            self._joining.clear_ack(known, finding)
            known.replace(finding)
            known.standing.add(finding.id)
        else:
            one = known.evidence[finding.id]
            known.note_end(last_end(one.finding, finding), one)
            known.standing.discard(finding.id)
            known.fresh_ns = at.mono_ns

    def _place(self, one: Evidence, at: Instant, changes: Changes, *, waited: bool = False) -> None:
        """Give a finding to the incident that it belongs to, or open one."""
        joined = self._exonerated(one) or self._placing.owner(one)
        if joined is None and not reported(one):
            self._records.keep(one.finding, at.mono_ns)
            return
        effects = self._placing.effects(one)
        known = joined is not None and joined.parent is not None
        alone = known or not reported(one)
        parts = NO_PARTS if alone else self._placing.parts(one, waited=waited)
        if joined is None:
            if not effects and parts.forming and not waited and self._pending.keep(one):
                return
            joined = (
                next(iter(effects), None) or self._joining.common(one, at) or self._opened(one, at)
            )
        if self._joining.join(joined, one, at):
            changes.touch(joined)
            self._joining.gather(joined, effects, at, changes)
            if parts.together:
                self._to_place(parts.together, at, changes)
            self._joining.merge_storm(joined, one, at, changes)

    def _to_place(self, together: Together, at: Instant, changes: Changes) -> None:
        """The incident of a place takes in what the parts that waited for it have caused."""
        waited = [part for part in together.parts if part.finding.id in self._pending]
        place = self._joining.to_place(together, at, changes)
        if place is not None:
            for part in waited:
                self._joining.gather(place, self._placing.effects(part), at, changes)

    def _opened(self, one: Evidence, at: Instant) -> OpenIncident:
        name = finding_id(self.name, one.device, one.finding.time_ns)
        opened = self._book.open.setdefault(
            name, OpenIncident(name, one.finding.time_ns, at.mono_ns, at.mono_ns, at.mono_ns)
        )
        for earlier in self._records.about(one.device, at.mono_ns):
            self._joining.join(opened, one._replace(finding=earlier), at)
        return opened

    def _exonerated(self, one: Evidence) -> OpenIncident | None:
        """The incident of a program that is exonerated: from now on its root is the GPU, so that
        there is one incident only.
        """
        if not fault_of(one.finding.fault).exonerates:
            return None
        for incident in self._book.with_any((site.level, site.name) for site in one.sites):
            root = incident.reported.root if incident.reported else CLUSTER
            if root.kind == "job" and incident.strongest.kind == "xid" and not incident.standing:
                incident.end(incident.evidence)
                incident.parent = None
                return incident
        return None

    def _say(self, incident: OpenIncident, at: Instant, changes: Changes) -> None:
        """The incident, if it is worth more words than before."""
        if incident.id not in self._book.open:
            return
        now = report(incident, self._maintenance)
        before, incident.reported = incident.reported, now
        live = incident.live
        sentence = cause(incident, now.root)
        faults = {words(e.finding) for e in live if e.device == now.root and reported(e)}
        faults |= {f"{device.host} {device.id}" for device in broken(now.root, live)}
        if (
            before is None
            or news(before) != news(now)
            or more(incident)
            or not faults <= incident.faults
            or Occurrences(now.times).due(incident.times)
            or sentence != incident.cause
        ):
            incident.said, incident.faults = len(incident.evidence), incident.faults | faults
            incident.times, incident.cause = now.times, sentence
            changes.said[now.id] = now
        if (
            not incident.counted
            and RANK[now.severity] >= RANK["ticket"]
            and now.root.host
            and now.fault != "xid/application"
        ):
            incident.counted = True
            self._lemon(now.root, fault_class(now.fault), at, changes)

    def _lemon(self, device: Device, kind: str, at: Instant, changes: Changes) -> None:
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
            changes.said[name] = one.reported

    def _end(self, at: Instant, changes: Changes) -> None:
        for one in list(self._book.open.values()):
            quiet_ns = at.mono_ns - one.fresh_ns
            over = not one.holds and quiet_ns >= quiet_before_end(one)
            if one.reported is None or (quiet_ns < GRACE_NS and not over):
                continue
            if one.holds:
                self._outlived(one, at, changes)
            elif over and not self._still_lemon(one, at):
                self._book.close(one)
                changes.said[one.id] = replace(
                    one.reported, cleared_ns=end_of(one, at), ended=ended(one, quiet_ns)
                )

    def _due_ns(self, one: OpenIncident) -> int:
        """When ``_end`` may have something to do about an incident that receives nothing, on the
        clock of durations.
        """
        if one.reported is None:
            return self._now_ns
        if not one.holds:
            return one.fresh_ns + quiet_before_end(one)
        if self._now_ns - one.fresh_ns < GRACE_NS:
            return one.fresh_ns + GRACE_NS
        return FOREVER_NS if one.ended == one.over else one.fresh_ns + WINDOW_NS

    def _still_lemon(self, one: OpenIncident, at: Instant) -> bool:
        return (
            one.reported is not None
            and one.reported.fault == "lemon"
            and self._lemons.now(one.reported.root.host, at.mono_ns) >= LIMIT / 2
        )

    def _gone(self, at: Instant, changes: Changes) -> None:
        """What is open about devices that are not read any more ends, and is open again when they
        are back unchanged.
        """
        back = self._away.released(lambda device: self._presence.present(device, at.mono_ns))
        for finding in back:
            self._finding(finding, at, changes)
        asked: list[Device] = []
        for one in list(self._book.open.values()):
            about = {
                name: each.finding.device
                for name, each in one.evidence.items()
                if name in one.standing
            }
            if not one.evidence and one.reported is not None:
                about[one.id] = one.reported.root  # a lemon
            asked += about.values()
            why = {name: self._presence.gone(device, at.mono_ns) for name, device in about.items()}
            gone = [name for name in about if why[name]]
            for name in gone:
                if name in one.standing:  # not a lemon, which is named by its incident
                    self._away.keep(one.evidence[name].finding)
                    one.fresh_ns = at.mono_ns
            one.standing.difference_update(gone)
            if gone and len(gone) == len(about):
                self._book.close(one)
                changes.ended(one, at, why[gone[0]])
        self._presence.only(asked)

    def _outlived(self, one: OpenIncident, at: Instant, changes: Changes) -> None:
        """What ended is no evidence any more: a page that was repaired must not go on for what is
        left, and is reported again when it comes back. A symptom that outlives its cause has
        another one, or is the incident.
        """
        ended = one.ended
        if ended == one.over:
            return
        left = [each for each in one.live if each.finding.id in one.standing]
        symptoms = all(each.symptom for each in left)
        if not (symptoms or at.mono_ns - one.fresh_ns >= WINDOW_NS):
            return
        one.end(ended)
        one.faults &= {words(each.finding) for each in left}
        changes.touch(one)
        # What keeps the job waiting now may have begun after its first cause.
        offset_ns = at.time_ns - at.mono_ns
        now = [
            each._replace(finding=replace(each.finding, onset_ns=at.time_ns), offset_ns=offset_ns)
            for each in left
        ]
        causes = (self._placing.cause(each) for each in now if symptoms)
        if other := next((cause for cause in causes if cause and cause is not one), None):
            self._joining.gather(other, [one], at, changes)
