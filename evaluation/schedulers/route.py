"""To whom an incident goes: faults of applications to owners of jobs, all others to the on-call.

The receiver and the alerts' label `owner` (rules/owners.py), without Prometheus.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from collector.config.owners import owner
from collector.sources.jobs.allocation import Allocation
from detectors.faults import fault_of
from pipeline.clock import SECOND_NS, Instant
from pipeline.finding import Incident

ON_CALL, OWNER = "on call", "owner"
KNOWN_NS = 3600 * SECOND_NS  # the label's last_over_time


@dataclass(slots=True)
class _Held:
    """A GPU's job, from when until when."""

    allocation: Allocation
    first_ns: int
    last_ns: int = 0


class Routes:
    """What the nodes' pages said of the jobs of GPUs."""

    def __init__(self) -> None:
        self._facts: dict[str, list[_Held]] = {}

    def take(self, listed: Iterable[Allocation], at: Instant) -> None:
        """The page of a node at an instant."""
        for one in listed:
            held = self._facts.setdefault(one.uuid, [])
            if not held or held[-1].allocation.facts != one.facts:
                held.append(_Held(one, at.time_ns))
            held[-1].last_ns = at.time_ns

    def of(self, incident: Incident, at_ns: int) -> tuple[str, str, str]:
        """The receiver, and for owners the owner, as `user:ada`, and its job, "" where the root is
        no GPU of a job.
        """
        if fault_of(incident.fault).origin != "application":
            return ON_CALL, "", ""
        for one in reversed(self._facts.get(incident.root.id, ())):
            if one.first_ns <= at_ns:
                facts = one.allocation.facts
                name = owner("user", facts.get("user", ""))
                name = name or owner("namespace", facts.get("namespace", ""))
                if at_ns - one.last_ns <= KNOWN_NS:
                    return OWNER, name, facts.get("job", "")
                break
        return OWNER, "", ""
