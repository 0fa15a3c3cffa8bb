"""Which findings may share a cause: by what they are about, how near that is, and what such faults do to each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from detectors.incidents.graph import CONTAINERS, DOMAIN, Graph, Place
from pipeline.finding import Finding
from pipeline.frame import Device

# What a fault is a sign of: the word before the slash.
SYMPTOMS = frozenset({"straggler", "hang", "congestion", "outlier"})  # they follow from whatever else is wrong with the node
NO_ANSWER = frozenset({"gpu_lost", "gpu_absent", "gpu_hung", "gpu_unreadable"})
SPREADING = NO_ANSWER | {"thermal", "throttle", "power_limit", "pcie", "ib", "nvlink", "xid"}
OF_THE_ADAPTER = "ib/adapter_"  # what it has in itself: no switch brings that about
OF_PROGRAMS = "xid/application"  # says nothing about the node it happened on
ALONE = "xid/repeated"  # what a program was blamed for, and one GPU alone repeats
OF_RACKS = frozenset({"thermal", "throttle"})  # air, water and power are a rack's
OF_JOBS = frozenset({"xid", "hang"})  # one process that dies takes the others of its job with it
# How strong a sign is, the strongest first; what is not here is a statistic.
STRENGTH = (
    ("gpu_lost", "gpu_absent", "gpu_hung", "xid", "sxid"),
    ("ib", "nvlink", "ib_flap", "pcie"),
    ("ecc", "remap", "sram"),
    ("throttle", "thermal", "power_limit"),
    ("ib_ber", "power"),
)
Key = tuple[str, ...]


def head(fault: str) -> str:
    """The class of a fault.

    >>> head("ib/link_down")
    'ib'
    """
    return fault.partition("/")[0]


def strength(finding: Finding) -> int:
    """Greater is stronger: an XID that pages, then links, then memory, then throttling, then statistics; an XID that does not page is one."""
    kind = head(finding.fault)
    if kind == "xid" and finding.severity != "page":
        return 0
    return next((len(STRENGTH) - rank for rank, kinds in enumerate(STRENGTH) if kind in kinds), 0)


def breaks(finding: Finding) -> bool:
    """Whether it is of a class that stalls a job by itself: a GPU or a link."""
    return strength(finding) >= len(STRENGTH) - 1


def keys_of(finding: Finding, graph: Graph) -> Iterator[Key]:
    """What an incident can be found by once it holds this finding."""
    device, kind = finding.device, head(finding.fault)
    yield identity(device)
    for place in _shared(finding, graph):
        if place.level == DOMAIN:
            yield from _in_domain(finding, (*place,))
            continue
        yield (*place, kind)
        yield (*place, "*")
        if kind in SYMPTOMS:
            yield (*place, "symptom")
        if device.kind in CONTAINERS and place == (device.kind, device.id):
            program = (device.kind, kind) == ("job", "xid")
            yield (*place, "program" if program else "itself")  # a program that failed is no cause of what its GPUs have


def near(finding: Finding, graph: Graph) -> Iterator[Key]:
    """Keys of incidents that are about the same device or link, however long ago they began."""
    yield identity(finding.device)
    yield from ((*place, "*") for place in graph.places(finding.device) if place.level == "link")


def wide(finding: Finding, graph: Graph) -> Iterator[Key]:
    """Keys of incidents nearby that such a finding may belong to, while they are fresh."""
    device, kind = finding.device, head(finding.fault)
    for place in _shared(finding, graph):
        if place.level == "job":
            yield from _in_job(finding, (*place,))
            continue
        if place.level == DOMAIN:
            yield from _in_domain(finding, (*place,))
            continue
        yield (*place, "itself")  # its node, switch or rack is already known to be the matter
        if kind in SPREADING and place.level != "rack":
            yield (*place, kind)
        if place.level == "node":
            yield (*place, "*" if kind in SYMPTOMS else "symptom")
        if device.kind in CONTAINERS and place == (device.kind, device.id):
            yield (*place, kind) if device.kind == "rack" else (*place, "*")


def acquitted(finding: Finding, graph: Graph) -> Iterator[Key]:
    """Keys of incidents that blame a program for what this finding blames a GPU for."""
    yield from ((*place, "program") for place in graph.places(finding.device) if finding.fault == ALONE)


def _shared(finding: Finding, graph: Graph) -> Iterator[Place]:
    """The places whose other devices can have the same cause."""
    alone = finding.fault.startswith(OF_THE_ADAPTER)
    yield from (place for place in graph.places(finding.device) if not (alone and place.level == "switch"))


def _in_domain(finding: Finding, place: Key) -> Iterator[Key]:
    """GPUs on the same switches of NVLink share the troubles of their links, and nothing else."""
    if head(finding.fault) == "nvlink" or finding.fault in ("xid/nvlink", "xid/nvlink_domain"):
        yield (*place, "links")


def _in_job(finding: Finding, place: Key) -> Iterator[Key]:
    kind = head(finding.fault)
    if kind in SYMPTOMS:
        yield (*place, "itself")
    if kind == "hang":
        yield (*place, "*")
    elif kind in OF_JOBS or breaks(finding):
        yield (*place, "hang")
    if kind == "xid" and finding.severity != "page":
        yield (*place, "xid")  # the symptom of another rank's


def identity(device: Device) -> Key:
    """A device as a key."""
    return "device", device.host, device.kind, device.id


def classes(findings: Iterable[Finding]) -> tuple[str, ...]:
    """The classes of findings, the first evidence first."""
    return tuple(dict.fromkeys(head(finding.fault) for finding in findings))
