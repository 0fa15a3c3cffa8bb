"""What was really wrong, in plain values: scoring knows no simulator and no
topology, only sets of names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pipeline.finding import Severity
from pipeline.frame import Device


class Entity(NamedTuple):
    """Somebody to blame: kind and hardware identity, or the name of a rack, switch or job."""

    kind: str
    id: str


def entity_of(device: Device) -> Entity:
    """The entity that a device is.

    >>> entity_of(Device("n1", "gpu", "GPU-1"))
    Entity(kind='gpu', id='GPU-1')
    """
    return Entity(device.kind, device.id)


# Kinds of device that stand on the same level as a kind of truth: a link is told by naming one of
# its ports, a rank by its GPU.
LEVELS: Mapping[str, frozenset[str]] = {
    "gpu": frozenset({"gpu", "gpu_instance"}),
    "port": frozenset({"ib_port"}),
    "link": frozenset({"link", "ib_port", "nvlink"}),
    "rank": frozenset({"rank", "gpu"}),
    "node": frozenset({"node"}),
    "rack": frozenset({"rack"}),
    "switch": frozenset({"switch", "nvswitch"}),
    "job": frozenset({"job"}),
    "collector": frozenset({"node", "collector"}),
}


@dataclass(frozen=True, slots=True)
class Truth:
    """One fault. Times are unix ns; an alert is in time until ``deadline_ns``.

    ``since_ns``: what is told from then to the onset are signs of what comes, neither false nor yet
    the fault; None where there are none.

    ``kind`` is the level of the entity to blame (see LEVELS). ``exact`` are all names that blame it
    rightly, ``wider`` what contains it or is contained in it (its node, rack, job; its members):
    found, on another level. ``near`` are its neighbours, which a detector might blame wrongly.
    ``secondary`` maps classes of symptoms that may be told beside the fault to where.
    """

    id: str
    kind: str
    exact: frozenset[Entity]
    onset_ns: int
    end_ns: int
    deadline_ns: int
    fault: str
    severity: Severity
    wider: frozenset[Entity] = frozenset()
    near: frozenset[Entity] = frozenset()
    secondary: Mapping[str, frozenset[Entity]] = field(default_factory=dict)
    since_ns: int | None = None

    @property
    def name(self) -> str:
        """The entity in words, for lists of misses."""
        return " | ".join(sorted(f"{e.kind} {e.id}" for e in self.exact)[:2])
