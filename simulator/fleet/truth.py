"""Ground truth: what was really wrong, with whom, and by when it should have been said."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from pipeline.finding import Severity
from pipeline.frame import Device

EntityKind = Literal[
    "gpu", "port", "link", "rank", "node", "rack", "switch", "rail", "job", "collector"
]
Where = Literal["same", "node", "job", "peers", "rack"]


@dataclass(frozen=True, slots=True)
class Secondary:
    """A symptom that may be reported beside the fault without being a false alarm: its
    class, and of which devices.

    ``same`` is the entity itself, ``node`` its node, ``rack`` its rack, ``job`` the devices of its
    job, ``peers`` the other ends of its links.
    """

    fault: str
    where: Where


@dataclass(frozen=True, slots=True)
class Truth:
    """One fault. Times are unix ns; ``detect_by_s`` is the deadline in seconds after the onset.

    ``entity`` is the device to blame, or the name of a rack, switch or job, which are no devices of
    a frame. ``evident_ns`` is when the evidence the deadline counts from is there: the onset, or
    later where a fault builds up. ``from_evidence``: only what is reported from then on counts, as
    what came before was another thing that deserves a report. ``members`` are the devices that
    belong to the entity (both ends of a link, the GPUs of a node). ``magnitude`` is the value of
    the scenario's swept parameter, NaN where it has none.
    """

    id: str
    scenario: str
    magnitude: float
    entity_kind: EntityKind
    entity: Device | str
    onset_ns: int
    end_ns: int
    detect_by_s: float
    fault: str
    severity: Severity
    allowed_secondary: tuple[Secondary, ...] = ()
    evident_ns: int = 0
    members: tuple[Device, ...] = ()
    from_evidence: bool = False

    def __post_init__(self) -> None:
        if not self.evident_ns:
            object.__setattr__(self, "evident_ns", self.onset_ns)

    @property
    def deadline_ns(self) -> int:
        """The last instant at which a finding is in time."""
        return self.onset_ns + int(self.detect_by_s * 1e9)

    def line(self) -> str:
        """One line of JSON."""
        entity = self.entity if isinstance(self.entity, str) else _named(self.entity)
        document: dict[str, Any] = {
            "id": self.id,
            "scenario": self.scenario,
            "magnitude": None if self.magnitude != self.magnitude else self.magnitude,
            "entity_kind": self.entity_kind,
            "entity": entity,
            "onset_ns": self.onset_ns,
            "evident_ns": self.evident_ns,
            "end_ns": self.end_ns,
            "detect_by_s": self.detect_by_s,
            "class": self.fault,
            "severity": self.severity,
            "allowed_secondary": [
                {"class": s.fault, "where": s.where} for s in self.allowed_secondary
            ],
            "from_evidence": self.from_evidence,
            "members": [_named(device) for device in self.members],
        }
        return json.dumps(document)


def _named(device: Device) -> dict[str, str]:
    return {"host": device.host, "kind": device.kind, "id": device.id}
