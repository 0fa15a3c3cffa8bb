"""A request to label an incident: which one is meant, and what is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from collector.agent.request_text import request_text
from detectors import DETECTORS
from detectors.trust.ledger import VERDICTS, Label
from pipeline.clock import Instant
from pipeline.exposition import Exposition
from pipeline.finding import Finding, Incident
from pipeline.frame import Device
from pipeline.observation import Event
from pipeline.past_incidents import PastIncidents
from pipeline.short_ids import LATEST, UnknownIdError, resolve

MIN_PREFIX = 4
MAX_NS = 1 << 62


@dataclass(slots=True)
class Reported:
    """Incidents, newest first, and findings that the agent has in memory: open, or of a day."""

    incidents: dict[str, Incident] = field(default_factory=dict)
    findings: dict[str, Finding] = field(default_factory=dict)

    @classmethod
    def of(cls, shown: Exposition, past: PastIncidents, now_ns: int) -> Self:
        """What is open, and what is over."""
        over = past.incidents(now_ns)
        incidents = [*shown.incidents(), *(one.incident for one in over)]
        newest_first = sorted(incidents, key=lambda one: one.opened_ns, reverse=True)
        ended = past.ended(name for one in incidents for name in one.findings)
        findings = (*shown.findings(), *ended, *(f for one in over for f in one.findings))
        return cls({one.id: one for one in newest_first}, {one.id: one for one in findings})

    def find(self, text: str) -> Incident | Finding | None:
        """By id, prefix or ``latest``; None where there is none. ValueError for one of several."""
        if text == LATEST:
            return next(iter(self.incidents.values()), None)
        if len(text) < MIN_PREFIX:
            raise ValueError(f"incident: {text!r} is too short: give {MIN_PREFIX} characters")
        known: dict[str, Incident | Finding] = {**self.findings, **self.incidents}
        try:
            return known[resolve(text, {name: name for name in known}, "incident or finding")]
        except UnknownIdError as error:
            if any(name.startswith(text) for name in known):
                raise ValueError(str(error)) from error
            return None

    def detectors(self, one: Incident | Finding) -> tuple[str, ...]:
        """Whose findings they are, best evidence first."""
        if isinstance(one, Finding):
            return (one.detector,)
        known = (self.findings.get(name) for name in one.findings)
        return tuple(dict.fromkeys(finding.detector for finding in known if finding))


def labelled(
    request: Mapping[str, Any], known: Reported, now_ns: int
) -> tuple[Label | None, Device]:
    """The label that a request gives and the root device; no label where the incident is not known
    and ``about`` does not describe it. ValueError says what is wrong.
    """
    verdict, cause = request_text(request, "verdict"), request_text(request, "cause")
    if verdict not in VERDICTS:
        raise ValueError(f"verdict: expected {', '.join(VERDICTS)}, got {verdict!r}")
    user = request_text(request, "user")
    if (about := request.get("about")) is not None:
        label, device = _described(about)
    else:
        one = known.find(request_text(request, "incident"))
        if one is None:
            return None, Device("", "", "")
        device = one.root if isinstance(one, Incident) else one.device
        opened_ns = one.opened_ns if isinstance(one, Incident) else one.onset_ns
        label = (one.id, known.detectors(one), one.fault, opened_ns)
    name, detectors, fault, opened_ns = label
    where = f"{device.host}/{device.kind}/{device.id}"
    made = Label(name, verdict, detectors, where, fault, opened_ns, cause, user, now_ns)
    return made, device


def label_event(label: Label, device: Device, now: Instant) -> Event:
    """The event of a label."""
    attributes: dict[str, str | int] = {
        "incident": label.incident,
        "verdict": label.verdict,
        "detectors": " ".join(label.detectors),
        "class": label.fault,
        "opened_ns": label.opened_ns,
    }
    given = {"cause": label.cause, "user": label.user}
    attributes |= {name: text for name, text in given.items() if text}
    return Event(*now, device, "incident_labelled", attributes)


def _described(about: Any) -> tuple[tuple[str, tuple[str, ...], str, int], Device]:
    """What the store, or another agent, knows of an incident."""
    if not isinstance(about, dict):
        raise ValueError(f"about: expected an object, got {about!r}")  # noqa: TRY004 - the client is wrong, not a caller
    detectors = about.get("detectors")
    if not isinstance(detectors, list) or not all(name in DETECTORS for name in detectors):
        raise ValueError(f"about.detectors: expected names of detectors, got {detectors!r}")
    opened_ns = about.get("opened_ns")
    if isinstance(opened_ns, bool) or not isinstance(opened_ns, int) or not 0 < opened_ns < MAX_NS:
        raise ValueError(f"about.opened_ns: expected unix nanoseconds, got {opened_ns!r}")
    name, kind, device = (request_text(about, key) for key in ("incident", "kind", "device"))
    if not (name and device and kind):
        raise ValueError("about: incident, kind and device: required")
    facts = (name, tuple(dict.fromkeys(detectors)), request_text(about, "class"), opened_ns)
    return facts, Device(request_text(about, "host"), kind, device)
