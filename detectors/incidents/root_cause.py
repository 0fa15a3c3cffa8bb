"""Root cause: the most upstream entity that explains the findings of an incident, else the
device with the strongest evidence.
"""

from __future__ import annotations

from collections.abc import Sequence

from detectors.faults import Strength, fault_class, fault_of
from detectors.incidents.graph import CONTAINERS, DOMAIN, FaultSite, Graph, affected
from detectors.incidents.kinship import strength
from detectors.kit.findings import RANK
from pipeline.finding import Finding
from pipeline.frame import Device

EXPLAINS = 0.8  # the share of findings that an upstream entity must hold to be the root
MIN_SHARE, MIN_PARTS = 0.5, 2  # of the upstream entity's parts that must be affected
UPSTREAM = (DOMAIN, "rack", "switch", "node", "job")  # the most upstream first
TOGETHER = Device("", "cluster", "cluster")


class Blame:
    """Judges the findings of one incident, in the order of evidence.

    Each device is looked up once, however much was found about it.
    """

    def __init__(self, graph: Graph, findings: Sequence[Finding]) -> None:
        self._graph, self._findings = graph, findings
        self._places = {
            device: graph.places(device) for device in dict.fromkeys(f.device for f in findings)
        }
        self.strongest = _strongest(findings)

    def root(self, *, common: bool = False) -> tuple[Device, Finding]:
        """The device to blame, and the finding that says it best.

        ``common``: it is common to more than what lies upstream.
        """
        found = dict.fromkeys(place for places in self._places.values() for place in places)
        for level in UPSTREAM:
            for place in found:
                if place.level == level and self._explains(place, inside := self._inside(place)):
                    itself = next(
                        (f for f in inside if (f.device.kind, f.device.id) == place), None
                    )
                    return _device(place), itself or _strongest(inside)
        return (TOGETHER if common else self.strongest.device), self.strongest

    def _inside(self, place: FaultSite) -> list[Finding]:
        return [f for f in self._findings if place in self._places[f.device]]

    def _explains(self, place: FaultSite, inside: Sequence[Finding]) -> bool:
        if len(inside) < EXPLAINS * len(self._findings):
            return False
        itself = [RANK[f.severity] for f in inside if (f.device.kind, f.device.id) == place]
        told = bool(itself)
        if place.level == DOMAIN:
            return told  # only its detector knows when so many complain that it is the domain
        if (
            told
            and self.strongest.device.kind in CONTAINERS
            and max(itself) >= RANK[self.strongest.severity]
        ):
            return True
        kind = fault_class(self.strongest.fault)
        if place.level == "job" and (
            "job" not in fault_of(self.strongest.fault).shared
            or strength(self.strongest) > Strength.STATISTIC
        ):
            return False  # a job is to blame for what its program did, not for hardware
        if (
            place.level == "node"
            and kind == "xid"
            and strength(self.strongest) == Strength.STATISTIC
        ):
            return False  # and the other way round
        same = dict.fromkeys(f.device for f in inside if fault_class(f.fault) == kind)
        bad, parts = affected(same, self._graph, place)
        return bad >= MIN_PARTS and bad >= MIN_SHARE * parts > 0


def _strongest(findings: Sequence[Finding]) -> Finding:
    """The first of equals: the first evidence.

    What was only recorded is behind all that was told.
    """
    return max(findings, key=lambda f: (f.severity != "record", strength(f), RANK[f.severity]))


def _device(place: FaultSite) -> Device:
    return Device(place.name if place.level == "node" else "", place.level, place.name)
