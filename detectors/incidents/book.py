"""The book of open incidents, and how they are found by the devices and
places that they are about.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from detectors.incidents.kinship import Key
from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.documents import exact, exact_finding, exact_incident
from pipeline.finding import Finding, Incident

WINDOW_NS = 600 * 10**9  # evidence that is this far apart may share a cause


class TakenOn(NamedTuple):
    """Who took an incident on, when (unix ns) and what they wrote."""

    time_ns: int
    note: str
    user: str


@dataclass(slots=True)
class OpenIncident:
    """An incident that is open: its findings by id in the order of evidence, which of them are
    open, and what it can be found by.

    ``over``: findings that ended so long ago that they are no longer evidence. ``common`` is the
    class of fault that is common to all its devices, empty where there is none. ``said`` is how
    many findings it had when it was last reported, ``faults`` what it has reported of its roots.
    """

    id: str
    opened_ns: int
    began_ns: int  # the same on the clock of durations, as all that follows
    evidence_ns: int  # when its last finding began
    fresh_ns: int  # when it last received anything, also that a finding ended
    findings: dict[str, Finding] = field(default_factory=dict)
    standing: set[str] = field(default_factory=set)
    over: set[str] = field(default_factory=set)
    keys: set[Key] = field(default_factory=set)
    common: str = ""
    reported: Incident | None = None  # as it was last reported; snapshots call it "told"
    counted: bool = False
    said: int = 0
    faults: set[str] = field(default_factory=set)
    taken_on: TakenOn | None = None

    @property
    def live(self) -> list[Finding]:
        """The findings that are current evidence, in the order of evidence."""
        return [finding for name, finding in self.findings.items() if name not in self.over]


class Book:
    """The open incidents, and where to find them."""

    def __init__(self) -> None:
        self.open: dict[str, OpenIncident] = {}
        self._by_key: dict[Key, dict[str, None]] = {}
        self._by_finding: dict[str, str] = {}

    def holding(self, finding: str) -> OpenIncident | None:
        """The incident that holds a finding."""
        return self.open.get(self._by_finding.get(finding, ""))

    def find(self, keys: Iterable[Key], since_ns: int | None = None) -> OpenIncident | None:
        """The newest open incident with one of these keys, and with a finding that began since
        then, where that is asked for.
        """
        return max(self.with_any(keys, since_ns), key=lambda one: one.evidence_ns, default=None)

    def with_any(self, keys: Iterable[Key], since_ns: int | None = None) -> Iterator[OpenIncident]:
        """All of them."""
        names = dict.fromkeys(name for key in keys for name in self._by_key.get(key, ()))
        found = (one for name in names if (one := self.open.get(name)))
        yield from (one for one in found if since_ns is None or one.evidence_ns >= since_ns)

    def index(self, incident: OpenIncident, keys: Iterable[Key]) -> None:
        """From now on an incident is found by these keys and by its findings."""
        for key in keys:
            incident.keys.add(key)
            self._by_key.setdefault(key, {})[incident.id] = None
        for finding in incident.findings:
            self._by_finding[finding] = incident.id

    def close(self, incident: OpenIncident) -> None:
        """Forget an incident."""
        self.open.pop(incident.id, None)
        for key in incident.keys:
            self._by_key[key].pop(incident.id, None)
            if not self._by_key[key]:
                del self._by_key[key]
        for finding in incident.findings:
            if self._by_finding.get(finding) == incident.id:
                del self._by_finding[finding]

    def state(self) -> State:
        """All open incidents."""
        return {"open": text_array([_document(one) for one in self.open.values()])}

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where these are no incidents."""
        opened = [_opened(document) for document in from_text_array(state["open"])]

        def commit() -> None:
            self.open, self._by_key, self._by_finding = {one.id: one for one in opened}, {}, {}
            for one in opened:
                self.index(one, set(one.keys))

        return commit


def _document(one: OpenIncident) -> dict[str, Any]:
    return {
        "id": one.id,
        "opened_ns": one.opened_ns,
        "began_ns": one.began_ns,
        "evidence_ns": one.evidence_ns,
        "fresh_ns": one.fresh_ns,
        "findings": [exact(finding) for finding in one.findings.values()],
        "standing": sorted(one.standing),
        "over": sorted(one.over),
        "keys": sorted(one.keys),
        "common": one.common,
        "counted": one.counted,
        "told": exact(one.reported) if one.reported else None,
        "said": one.said,
        "faults": sorted(one.faults),
        "taken_on": one.taken_on,
    }


def _opened(document: dict[str, Any]) -> OpenIncident:
    document = dict(document)
    reported = document.pop("told")
    findings = [exact_finding(kept) for kept in document["findings"]]
    parts = {
        "findings": {finding.id: finding for finding in findings},
        "standing": set(document["standing"]),
        "over": set(document["over"]),
        "faults": set(document["faults"]),
        "keys": {tuple(key) for key in document["keys"]},
        "reported": exact_incident(reported) if reported else None,
        "taken_on": TakenOn(*document["taken_on"]) if document["taken_on"] else None,
    }
    return OpenIncident(**{**document, **parts})
