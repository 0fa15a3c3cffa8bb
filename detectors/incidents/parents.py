"""What is upstream of many: a switch, a node, a rack or a job of which at least half of the parts
have one fault at once is the root cause of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import ceil

from detectors.faults import fault_of
from detectors.incidents.evidence import Evidence
from detectors.incidents.graph import DOMAIN, FaultSite, Graph
from detectors.infiniband.ports import SWITCH_PORTS
from pipeline.frame import Device

LEVELS = ("nvlink_domain", "switch", "rail", "rack", "node", "job")  # the first that explains them
MIN_SHARE = 0.5  # of the parts
MIN_PARTS = {"rack": 3}  # two nodes of a rack that are warm are two warm nodes
MIN_DEVICES = 2
# How far apart the parts of one cause fail: what a switch or a driver does to its parts it does at
# once, and sources are read once a minute at the slowest; heat spreads.
AT_ONCE_NS = 120 * 10**9
SPREAD_NS = {"thermal": 600 * 10**9, "throttle": 600 * 10**9}


def shared_sites(one: Evidence) -> Iterator[FaultSite]:
    """The places whose other parts may have its fault from a common cause, upstream first."""
    levels = fault_of(one.finding.fault).shared & _above(one.device)
    for level in LEVELS:
        if level in levels and (site := one.site(level)):
            yield site


def _above(device: Device) -> frozenset[str]:
    """Levels at which a device is one part of several: a node is one of a rack's."""
    if device.kind in ("gpu", "ib_port", "nvswitch"):
        return frozenset(LEVELS)
    return frozenset({"rack"} if device.kind == "node" else ())


def alike_to(one: Evidence) -> Callable[[Evidence], bool]:
    """Whether another may have one cause with it: the same class of faults, at once, and as
    serious. A storm asks this of a thousand findings at each new one.
    """
    kind, severity, device_kind = one.kind, one.finding.severity, one.device.kind
    spread, at_ns = SPREAD_NS.get(kind, AT_ONCE_NS), one.at_ns

    def alike(other: Evidence) -> bool:
        return (
            abs(at_ns - other.at_ns) <= spread
            and other.finding.severity == severity
            and other.device.kind == device_kind
            and other.kind == kind
            and abs(one.later_ns(other)) <= spread
        )

    return alike


def quorum(graph: Graph, site: FaultSite, found: Iterable[Evidence]) -> bool:
    """Whether these are at least half of the parts of a place: nodes of a rack, else devices.

    When it is an NVLink domain its detector says.
    """
    if site.level == DOMAIN:
        return False
    devices = [one.device for one in found]
    if (
        site.level == "rail"
    ):  # a cluster's rail has many switches: how many ports one has is unknown
        return len({device.host for device in devices}) >= SWITCH_PORTS
    if site.level == "rack":
        bad, parts = len({device.host for device in devices}), graph.count(site, "")
    else:
        bad, parts = len({(d.host, d.id) for d in devices}), _parts(graph, site, devices)
    return bad >= max(MIN_PARTS.get(site.level, MIN_DEVICES), ceil(MIN_SHARE * parts)) and parts > 0


def _parts(graph: Graph, site: FaultSite, devices: list[Device]) -> int:
    if site.level == "job":
        return len(graph.jobs.with_steps(site.name))
    return graph.count(site, devices[0].kind) if devices else 0


def device_of(site: FaultSite) -> Device:
    """A place as a device."""
    return Device(site.name if site.level == "node" else "", site.level, site.name)
