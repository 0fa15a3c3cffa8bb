"""The true faults as plain values: scoring knows no simulator and no topology, only names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pipeline.finding import Severity
from pipeline.frame import Device


class Entity(NamedTuple):
    """A possible root: kind and hardware identity, or the name of a rack, switch or job."""

    kind: str
    id: str


def entity_of(device: Device) -> Entity:
    """The entity that a device is.

    >>> entity_of(Device("n1", "gpu", "GPU-1"))
    Entity(kind='gpu', id='GPU-1')
    """
    return Entity(device.kind, device.id)


# Kinds of device on the same level as a kind of truth: naming one of its ports names a link, naming
# its GPU names a rank.
LEVELS: Mapping[str, frozenset[str]] = {
    "gpu": frozenset({"gpu", "gpu_instance"}),
    "port": frozenset({"ib_port"}),
    "link": frozenset({"link", "ib_port", "nvlink"}),
    "rank": frozenset({"rank", "gpu"}),
    "node": frozenset({"node"}),
    "rack": frozenset({"rack"}),
    "switch": frozenset({"switch", "nvswitch"}),
    "rail": frozenset({"rail", "switch"}),
    "job": frozenset({"job"}),
    "collector": frozenset({"node", "collector"}),
}


@dataclass(frozen=True, slots=True)
class Truth:
    """One fault. Times are unix ns; an alert is in time until ``deadline_ns``.

    ``since_ns``: alerts from then to the onset are early signs, neither false nor the fault itself;
    None where there are none.

    ``kind`` is the level of the root (see LEVELS). ``exact`` are all its right names, ``wider``
    what contains it or is contained in it (its node, rack, job; its members): another level.
    ``near`` are its neighbours, which a detector might name by mistake. ``secondary`` maps classes
    of permitted symptoms to their devices.
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
        """Name of the entity, for lists of misses."""
        return " | ".join(sorted(f"{e.kind} {e.id}" for e in self.exact)[:2])
