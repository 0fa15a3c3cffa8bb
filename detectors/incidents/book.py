"""The book of open incidents, and how they are found by the devices and
places that they are about.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from detectors.incidents.evidence import Evidence, Key, identity, reported
from detectors.incidents.explain import explains, root_cause
from detectors.incidents.graph import FaultSite
from detectors.incidents.pending import sites_of
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
    """An incident that is open: its evidence by finding, the first first, which of it is open, and
    what it can be found by.

    ``over``: findings that ended so long ago that they are no longer evidence. ``parent``: the
    place whose parts failed together. ``common``: the class of fault that is common to all its
    devices, empty where there is none. ``said`` is how many findings it had when it was last
    reported, ``faults`` what it has reported of its devices.
    """

    id: str
    opened_ns: int
    began_ns: int  # the same on the clock of durations, as all that follows
    evidence_ns: int  # when its last finding began
    fresh_ns: int  # when it last received anything, also that a finding ended
    evidence: dict[str, Evidence] = field(default_factory=dict)
    standing: set[str] = field(default_factory=set)
    over: set[str] = field(default_factory=set)
    keys: set[Key] = field(default_factory=set)
    parent: FaultSite | None = None
    common: str = ""
    reported: Incident | None = None  # as it was last reported; snapshots call it "told"
    counted: bool = False
    said: int = 0
    times: int = 1  # as it was last reported
    cause: str = ""  # of its root, as it was last reported
    faults: set[str] = field(default_factory=set)
    taken_on: TakenOn | None = None
    names: set[str] = field(default_factory=set)  # faults that it has or had
    last_end: str = ""  # which finding ended last, of its root cause if any did, and why
    end_rank: int = 0  # how much that says
    _root: Evidence | None = None

    @property
    def ended(self) -> set[str]:
        """Findings that it has, and that are not true any more."""
        return self.evidence.keys() - self.standing

    @property
    def holds(self) -> bool:
        """Whether anything that was reported is still true."""
        return any(reported(self.evidence[name]) for name in self.standing)

    @property
    def live(self) -> list[Evidence]:
        """What is evidence now, the first first."""
        return [one for name, one in self.evidence.items() if name not in self.over]

    @property
    def strongest(self) -> Evidence:
        """What its root cause is read from."""
        if self._root is None:
            self._root = root_cause(self.live or list(self.evidence.values()))
        return self._root

    def is_of(self, host: str) -> bool:
        """Whether a host is its root's or has a part in it; a lemon has no finding of its own."""
        root = self.reported.root.host if self.reported else ""
        return host == root or any(one.device.host == host for one in self.evidence.values())

    def add(self, one: Evidence) -> None:
        """One more; of a thousand few are weightier than all before."""
        self.evidence[one.finding.id] = one
        self.names.add(one.finding.fault)
        root = self._root
        if root is not None and (
            one.weight() > root.weight() or (explains(one, root) and not explains(root, one))
        ):
            self._root = None

    def replace(self, finding: Finding) -> None:
        """A finding that it has, as it is now."""
        self.evidence[finding.id] = self.evidence[finding.id]._replace(finding=finding)
        self.over.discard(finding.id)
        self._root = None

    def note_end(self, words: str, one: Evidence) -> None:
        """A finding ended; what is said of the root cause is not overwritten by its effects."""
        root = self.reported.root if self.reported else one.device
        rank = 2 * (identity(one.device) == identity(root)) + (not one.symptom)
        if rank >= self.end_rank:
            self.last_end, self.end_rank = words, rank

    def end(self, ids: Iterable[str]) -> None:
        """These and no others are no evidence any more."""
        self.over = set(ids)
        self._root = None


class Book:
    """The open incidents, and where to find them."""

    def __init__(self) -> None:
        self.open: dict[str, OpenIncident] = {}
        self._order: dict[str, int] = {}  # in which they got their first finding
        self._numbers = count()
        self._by_key: dict[Key, dict[str, None]] = {}
        self._by_finding: dict[str, str] = {}

    def is_empty(self) -> bool:
        """Whether none is open."""
        return not self.open

    def holding(self, finding: str) -> OpenIncident | None:
        """The incident that holds a finding."""
        return self.open.get(self._by_finding.get(finding, ""))

    def with_any(self, keys: Iterable[Key]) -> list[OpenIncident]:
        """The open incidents with one of these keys, the first first: after a restart too, whatever
        they were about by and by.
        """
        names = {name for key in keys for name in self._by_key.get(key, ()) if name in self.open}
        return [self.open[name] for name in sorted(names, key=self._order.__getitem__)]

    def add(self, incident: OpenIncident, one: Evidence) -> None:
        """A finding is evidence of an incident from now on, and of no other."""
        incident.add(one)
        self._by_finding[one.finding.id] = incident.id
        self._index(incident, one.keys())

    def _index(self, incident: OpenIncident, keys: Iterable[Key]) -> None:
        if incident.id not in self._order:
            self._order[incident.id] = next(self._numbers)
        for key in keys:
            incident.keys.add(key)
            self._by_key.setdefault(key, {})[incident.id] = None

    def close(self, incident: OpenIncident) -> None:
        """Forget an incident."""
        self.open.pop(incident.id, None)
        self._order.pop(incident.id, None)
        for key in incident.keys:
            self._by_key[key].pop(incident.id, None)
            if not self._by_key[key]:
                del self._by_key[key]
        for finding in incident.evidence:
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
            self._order.clear()
            for one in opened:
                self._index(one, set(one.keys))
                self._by_finding |= dict.fromkeys(one.evidence, one.id)

        return commit


def _document(one: OpenIncident) -> dict[str, Any]:
    return {
        "id": one.id,
        "opened_ns": one.opened_ns,
        "began_ns": one.began_ns,
        "evidence_ns": one.evidence_ns,
        "fresh_ns": one.fresh_ns,
        "evidence": [
            [exact(each.finding), [*map(list, each.sites)], each.at_ns, each.offset_ns]
            for each in one.evidence.values()
        ],
        "parent": list(one.parent) if one.parent else None,
        "standing": sorted(one.standing),
        "over": sorted(one.over),
        "keys": sorted(one.keys),
        "common": one.common,
        "counted": one.counted,
        "told": exact(one.reported) if one.reported else None,
        "said": one.said,
        "times": one.times,
        "cause": one.cause,
        "faults": sorted(one.faults),
        "taken_on": one.taken_on,
        "last_end": one.last_end,
        "end_rank": one.end_rank,
    }


def _opened(document: dict[str, Any]) -> OpenIncident:
    document = dict(document)
    reported = document.pop("told")
    evidence = [
        Evidence(exact_finding(kept), sites_of(sites), int(at_ns), int(offset_ns))
        for kept, sites, at_ns, offset_ns in document["evidence"]
    ]
    parts = {
        "evidence": {one.finding.id: one for one in evidence},
        "names": {one.finding.fault for one in evidence},
        "parent": FaultSite(*map(str, document["parent"])) if document["parent"] else None,
        "standing": set(document["standing"]),
        "over": set(document["over"]),
        "faults": set(document["faults"]),
        "keys": {tuple(key) for key in document["keys"]},
        "reported": exact_incident(reported) if reported else None,
        "taken_on": TakenOn(*document["taken_on"]) if document["taken_on"] else None,
    }
    return OpenIncident(**{**document, **parts})
