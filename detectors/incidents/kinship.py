"""Which findings may share a cause: by their devices, how close those are in the topology, and
which faults cause which.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from detectors.faults import Strength, fault_class, fault_of
from detectors.incidents.graph import CONTAINERS, DOMAIN, FaultSite, Graph
from pipeline.finding import Finding
from pipeline.frame import Device

Key = tuple[str, ...]


def strength(finding: Finding) -> Strength:
    """How strong its evidence is; an XID that does not page is no more than a statistic."""
    if fault_class(finding.fault) == "xid" and finding.severity != "page":
        return Strength.STATISTIC
    return fault_of(finding.fault).strength


def halts_job(finding: Finding) -> bool:
    """Whether it stops a job by itself: a GPU or a link."""
    return strength(finding) >= Strength.LINK


def keys_of(finding: Finding, graph: Graph) -> Iterator[Key]:
    """What an incident can be found by once it holds this finding."""
    device, kind = finding.device, fault_class(finding.fault)
    yield identity(device)
    for place in _shared(finding, graph):
        if place.level == DOMAIN:
            yield from _in_domain(finding, (*place,))
            continue
        yield (*place, kind)
        yield (*place, "*")
        if fault_of(finding.fault).symptom:
            yield (*place, "symptom")
        if device.kind in CONTAINERS and place == (device.kind, device.id):
            program = (device.kind, kind) == ("job", "xid")
            yield (
                *place,
                "program" if program else "itself",
            )  # a program that failed is no cause of what its GPUs have


def exact_keys(finding: Finding, graph: Graph) -> Iterator[Key]:
    """Keys of incidents that are about the same device or link, however long ago they began."""
    yield identity(finding.device)
    yield from ((*place, "*") for place in graph.places(finding.device) if place.level == "link")


def nearby_keys(finding: Finding, graph: Graph) -> Iterator[Key]:
    """Keys of incidents nearby that such a finding may belong to, while they are fresh."""
    device, kind = finding.device, fault_class(finding.fault)
    fault = fault_of(finding.fault)
    for place in _shared(finding, graph):
        if place.level == "job":
            yield from _in_job(finding, (*place,))
            continue
        if place.level == DOMAIN:
            yield from _in_domain(finding, (*place,))
            continue
        yield (*place, "itself")  # its node, switch or rack is already a root
        if place.level in fault.shared and place.level != "rack":
            yield (*place, kind)
        if place.level == "node":
            yield (*place, "*" if fault.symptom else "symptom")
        if device.kind in CONTAINERS and place == (device.kind, device.id):
            yield (*place, kind) if device.kind == "rack" else (*place, "*")


def exonerated(finding: Finding, graph: Graph) -> Iterator[Key]:
    """Keys of incidents whose root is a program that this finding exonerates."""
    if fault_of(finding.fault).exonerates:
        yield from ((*place, "program") for place in graph.places(finding.device))


def _shared(finding: Finding, graph: Graph) -> Iterator[FaultSite]:
    """The places whose other devices can have the same cause."""
    internal = fault_of(finding.fault).internal
    yield from (
        place
        for place in graph.places(finding.device)
        if not (internal and place.level == "switch")
    )


def _in_domain(finding: Finding, place: Key) -> Iterator[Key]:
    """GPUs on the same switches of NVLink share the troubles of their links, and nothing else."""
    if DOMAIN in fault_of(finding.fault).shared:
        yield (*place, "links")


def _in_job(finding: Finding, place: Key) -> Iterator[Key]:
    kind, fault = fault_class(finding.fault), fault_of(finding.fault)
    if fault.symptom:
        yield (*place, "itself")
    if kind == "hang":
        yield (*place, "*")
    elif "job" in fault.shared or halts_job(finding):
        yield (*place, "hang")
    if kind == "xid" and finding.severity != "page":
        yield (*place, "xid")  # the symptom of another rank's


def identity(device: Device) -> Key:
    """A device as a key."""
    return "device", device.host, device.kind, device.id


def classes(findings: Iterable[Finding]) -> tuple[str, ...]:
    """The classes of findings, the first evidence first."""
    return tuple(dict.fromkeys(fault_class(finding.fault) for finding in findings))
