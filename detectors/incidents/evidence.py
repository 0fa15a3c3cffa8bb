"""A finding in an incident: where its device belonged when it was found, and how much it weighs as
the root cause.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from detectors.faults import Strength, fault_class, fault_of
from detectors.incidents.graph import CONTAINERS, FaultSite
from detectors.kit.findings import RANK
from pipeline.finding import Finding, Severity
from pipeline.frame import Device

Key = tuple[str, ...]


class Evidence(NamedTuple):
    """``sites`` are the places of its device at that time: a GPU that is lost leaves its job.

    ``at_ns`` is when it was received, on the clock of durations, and ``offset_ns`` how far the wall
    clock was ahead of that one then.
    """

    finding: Finding
    sites: tuple[FaultSite, ...]
    at_ns: int
    offset_ns: int = 0

    @property
    def device(self) -> Device:
        """The device that it is about."""
        return self.finding.device

    @property
    def kind(self) -> str:
        """Its class of faults."""
        return fault_class(self.finding.fault)

    @property
    def symptom(self) -> bool:
        """Whether nothing of the device need be broken."""
        return fault_of(self.finding.fault).symptom

    def later_ns(self, other: Evidence) -> int:
        """How much later it began than another, by the clock of durations where one node has seen
        both: its wall clock may have been set in between.
        """
        later = self.finding.onset_ns - other.finding.onset_ns
        same = self.device.host == other.device.host
        return later - (self.offset_ns - other.offset_ns) if same else later

    def site(self, level: str) -> FaultSite | None:
        """The place of a level that its device is in."""
        return next((site for site in self.sites if site.level == level), None)

    def all_of(self, level: str) -> set[FaultSite]:
        """All places of a level: several jobs are behind one switch."""
        return {site for site in self.sites if site.level == level}

    def weight(self) -> tuple[object, ...]:
        """By this the root cause of an incident is chosen, the greatest, the first of equals:
        what was only recorded is behind all that was reported, and a symptom behind what may
        cause it.
        """
        return (
            self.finding.severity != "record",
            not self.symptom,
            RANK[self.finding.severity],
            self.device.kind in CONTAINERS,
            strength(self.finding),
        )

    def keys(self) -> tuple[Key, ...]:
        """What an incident with this finding is found by, its device first. In an order: of a set
        each process has its own, and two gateways would differ where several are found.
        """
        places = ((site.level, site.name) for site in self.sites)
        gpus = (
            ("device", self.device.host, "gpu", site.name)
            for site in self.sites
            if site.level == "gpu"
        )
        return tuple(dict.fromkeys((identity(self.device), *places, *gpus)))

    def gpus(self) -> tuple[str, ...]:
        """Ids of the GPUs that it is about: itself, or those that its NVLink ends at, its own
        first.
        """
        if self.device.kind == "gpu":
            return (self.device.id,)
        return tuple(site.name for site in self.sites if site.level == "gpu")


def reported(one: Evidence) -> bool:
    """Whether anybody was to read it."""
    return RANK[one.finding.severity] > RANK["record"]


def severity_of(evidence: Iterable[Evidence]) -> Severity:
    """That of the gravest; a record's where there are none."""
    found = (one.finding.severity for one in evidence)
    return max(found, key=RANK.__getitem__, default="record")


def strength(finding: Finding) -> Strength:
    """How strong its evidence is; an XID that does not page is no more than a statistic."""
    if fault_class(finding.fault) == "xid" and finding.severity != "page":
        return Strength.STATISTIC
    return fault_of(finding.fault).strength


def identity(device: Device) -> Key:
    """A device as a key."""
    return "device", device.host, device.kind, device.id
