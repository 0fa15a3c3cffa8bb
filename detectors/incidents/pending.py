"""Findings whose parent may be about to fail: kept for the seconds in which its other parts show
it, so that a switch is one incident and two cables are two.
"""

from __future__ import annotations

from collections.abc import Iterable

from detectors.incidents.evidence import Evidence
from detectors.incidents.graph import FaultSite
from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.documents import exact, exact_finding
from pipeline.finding import Finding

# Two reads of a site that reads its ports every ten seconds; by default they are read each second.
GAP_NS = 20 * 10**9
MAX_WAIT_NS = 120 * 10**9
MAX_WAITING = 10_000  # beyond it nothing waits


class Pending:
    """A finding waits until no part of the same parent has failed for ``GAP_NS``, and
    ``MAX_WAIT_NS`` at most.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, Evidence] = {}
        self._newest_ns: dict[str, int] = {}

    def __contains__(self, finding_id: str) -> bool:
        return finding_id in self._waiting

    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting

    def keep(self, one: Evidence) -> bool:
        """Whether it can wait; it is the newest of those alike."""
        if len(self._waiting) >= MAX_WAITING:
            return False
        self._waiting[one.finding.id] = one
        self._newest_ns[one.finding.id] = one.at_ns
        for other in self._waiting.values():
            if other.kind == one.kind and set(other.sites) & set(one.sites):
                self._newest_ns[other.finding.id] = one.at_ns
        return True

    def change(self, finding: Finding) -> None:
        """What a detector says of one that waits; what ended waits no longer."""
        if finding.active:
            self._waiting[finding.id] = self._waiting[finding.id]._replace(finding=finding)
        else:
            self.take([finding.id])

    def all(self) -> Iterable[Evidence]:
        """Those that wait."""
        return self._waiting.values()

    def take(self, ids: Iterable[str]) -> None:
        """They wait no longer."""
        for name in ids:
            self._waiting.pop(name, None)
            self._newest_ns.pop(name, None)

    def due_ns(self) -> list[int]:
        """When each has waited long enough."""
        return [
            min(self._newest_ns[name] + GAP_NS, one.at_ns + MAX_WAIT_NS)
            for name, one in self._waiting.items()
        ]

    def due(self, now_ns: int) -> list[Evidence]:
        """Those that have waited long enough, the oldest first; they wait no longer."""
        due = zip(self._waiting.values(), self.due_ns(), strict=True)
        ready = [one for one, due_ns in due if due_ns <= now_ns]
        self.take([one.finding.id for one in ready])
        return ready

    def state(self) -> State:
        """Everything that waits."""
        return {
            "waiting": text_array(
                [
                    [
                        exact(one.finding),
                        [*map(list, one.sites)],
                        one.at_ns,
                        one.offset_ns,
                        self._newest_ns[name],
                    ]
                    for name, one in self._waiting.items()
                ]
            )
        }

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where these are no findings."""
        waiting: dict[str, Evidence] = {}
        newest: dict[str, int] = {}
        for document, sites, at_ns, offset_ns, newest_ns in from_text_array(state["waiting"]):
            finding = exact_finding(document)
            waiting[finding.id] = Evidence(finding, sites_of(sites), int(at_ns), int(offset_ns))
            newest[finding.id] = int(newest_ns)

        def commit() -> None:
            self._waiting, self._newest_ns = waiting, newest

        return commit


def sites_of(document: Iterable[Iterable[object]]) -> tuple[FaultSite, ...]:
    """Places as a snapshot has them."""
    return tuple(FaultSite(*map(str, site)) for site in document)
