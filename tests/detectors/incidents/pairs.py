"""Every ordered pair of faults: the second one on the same device, on another one of the node, in
the same job elsewhere, on an unrelated node or at the other end of the link, so many seconds after
the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import astuple
from functools import cache
from typing import NamedTuple

from detectors.faults import FAULTS, Fault, causes, fault_class
from pipeline.finding import Finding
from pipeline.frame import Device, Frame, frame_of
from tests.detectors.incidents.moment import Moment
from tests.detectors.incidents.story import Story, gpu, node, port
from tests.fakes import START_NS

RELATIONS = ("same device", "same node", "same job", "elsewhere", "other end")
DELAYS_S = (1, 30, 540)
HOSTS: Mapping[str, str] = {"n1": "42", "n2": "42", "n3": "43"}  # and the job of each
PARTS = 8  # GPUs and ports of a node
# Faults that are found on something else than a GPU, or on more than one kind of device.
LEVELS: Mapping[str, tuple[str, ...]] = {
    "congestion": ("switch",),
    "counter_saturated": ("port",),
    "detector_failed": ("node",),
    "drift/ib_port_mtu": ("port",),
    "driver_hung": ("node",),
    "drift/node_kernel": ("node",),
    "gpu_driver": ("gpu", "node"),
    "adapter": ("port",),
    "hang/host_stall": ("node",),
    "host": ("node",),
    "host_hardware": ("node",),
    "nvswitch": ("node",),
    "storage": ("node",),
    "straggler": ("gpu", "port"),
    "ib/switch_down": ("switch",),
    "nvlink": ("gpu", "nvlink"),
    "nvlink/none_up": ("node",),
    "nvlink_fabric/manager": ("node",),
    "nvlink_fabric/stopped": ("node",),
    "observability/unread": ("node",),
    "pcie/width": ("gpu", "port"),
    "power_limit/low": ("gpu", "node"),
    "thermal/cooling": ("rack",),
    "throttle/hw_power_brake": ("gpu", "node", "rack"),
    "xid/application": ("gpu", "job"),
    "xid/nvlink_domain": ("nvlink_domain",),
}


# What is found on the other end of a link, by what the first fault is found on.
FAR: Mapping[str, tuple[str, ...]] = {
    "port": ("port",),
    "gpu": ("nvlink",),
    "nvlink": ("nvlink", "gpu"),
}


class Kind(NamedTuple):
    """A fault, and what it is found on."""

    fault: Fault
    level: str

    @property
    def name(self) -> str:
        """Both, as the golden file has them."""
        return f"{self.fault.name}@{self.level}"

    def on(self, host: str, number: int, *, far: bool = False) -> Device:
        """The device of a node that has it, or the other end of its link."""
        match self.level:
            case "gpu":
                return _gpu(host, _peer(number) if far else number)
            case "port":
                return _far_end(host, number) if far else _port(host, number)
            case "nvlink":
                return _nvlink(host, _peer(number) if far else number)
            case "node":
                return node(host)
            case "switch":
                return Device(f"leaf-{host}", "switch", f"leaf-{host}")
            case "job":
                return Device("", "job", HOSTS[host])
            case level:
                return Device("", level, f"{level}-{host}")


class Pair(NamedTuple):
    """A first and a second fault, how their devices are related, and the time between them."""

    first: Kind
    second: Kind
    relation: str
    delay_s: int

    @property
    def devices(self) -> tuple[Device, Device]:
        """Of the first and of the second fault."""
        second = {
            "same device": self.second.on("n1", 0),
            "same node": self.second.on("n1", 1),
            "same job": self.second.on("n2", 1),
            "elsewhere": self.second.on("n3", 1),
            "other end": self.second.on("n1", 0, far=True),
        }
        return self.first.on("n1", 0), second[self.relation]


@cache
def kinds() -> tuple[Kind, ...]:
    """One of all faults that the fusion treats alike, each on what it is found on."""
    found: dict[object, Kind] = {}
    for row in FAULTS.values():
        for kind in on_each_level(row):
            found.setdefault((_treated_as(row), kind.level), kind)
    del found[_treated_as(FAULTS["lemon"]), "gpu"]  # an incident without findings
    return tuple(found.values())


def on_each_level(row: Fault) -> list[Kind]:
    """A fault on each kind of device that it is found on."""
    default = ("port",) if row.name.startswith("ib") else ("gpu",)
    levels = LEVELS.get(row.name) or LEVELS.get(fault_class(row.name), default)
    return [Kind(row, level) for level in levels]


def _treated_as(row: Fault) -> object:
    names = {row.name, fault_class(row.name)}
    edges = [
        ("effect of", edge.cause, edge.where, edge.late_s)
        if edge.effect in names
        else ("cause of", edge.effect, edge.where, edge.late_s)
        for edge in causes.EDGES
        if names & {edge.cause, edge.effect}
    ]
    words = {"name", "detectors", "actions", "why", "inspect", "alert", "score", "certain"}
    fields = dict(zip(type(row).__slots__, astuple(row), strict=True))
    plain = [value for name, value in fields.items() if name not in words | {"prediction"}]
    return fault_class(row.name), str(plain), str(edges)


def related(first: Kind, second: Kind) -> Iterator[str]:
    """The relations that such a pair can have."""
    yield from RELATIONS[:-1]
    if second.level in FAR.get(first.level, ()):
        yield RELATIONS[-1]


class Beginning:
    """The story of a first fault up to the second one, so many seconds later: each second fault
    goes on from there.
    """

    def __init__(self, first: Kind, delay_s: int) -> None:
        story, self._kind, self._delay_s = _three_nodes(), first, delay_s
        device = Pair(first, first, RELATIONS[0], delay_s).devices[0]
        self._first = story.finds(device, first.fault.name, first.fault.severity, "first")
        story.wait(delay_s, step=300)
        self._now = Moment(story)

    def then(self, second: Kind, relation: str) -> tuple[Story, Finding, Finding]:
        """The story up to half a minute after the second fault, and what was found."""
        story, pair = self._now.go_on(), Pair(self._kind, second, relation, self._delay_s)
        found = story.finds(pair.devices[1], second.fault.name, second.fault.severity, "second")
        story.wait(30, step=30)
        return story, self._first, found


def happen(pair: Pair) -> tuple[Story, Finding, Finding]:
    """The story up to half a minute after the second fault."""
    return Beginning(pair.first, pair.delay_s).then(pair.second, pair.relation)


def outcome(story: Story, first: Finding, second: Finding) -> str:
    """``2``: two incidents, each about its device; ``<``: one, about the first; ``>``: one, about
    the second; ``=``: one, about the device of both; ``.``: the second is only recorded, and
    evidence of nothing; ``!`` anything else.
    """
    incidents = story.fusion.open()
    roots, one, other = [incident.root for incident in incidents], first.device, second.device
    if second.severity == "record":
        joined = any(second.id in incident.findings for incident in incidents)
        return "!" if roots != [one] else "<" if joined else "."
    if len(roots) == 2 and all(
        [finding.id] == [name for name in incident.findings if name in (first.id, second.id)]
        and incident.root == finding.device
        for incident, finding in zip(incidents, (first, second), strict=True)
    ):
        return "2"
    if roots == [one]:
        return "=" if one == other else "<"
    return ">" if roots == [other] else "!"


@cache
def _gpu(host: str, number: int) -> Device:
    facts = {
        "index": str(number),
        "rack": f"rack-{host}",
        "fabric_cluster": f"nvlink_domain-{host}",
        "pci_bus_id": _address(number),
    }
    return gpu(number, host, **facts)


@cache
def _nvlink(host: str, number: int) -> Device:
    """A link of a GPU, to the GPU of the other half of the node with the same number."""
    uuid = _gpu(host, number).id
    facts = {
        "index": str(number),
        "link": "2",
        "gpu_uuid": uuid,
        "remote_type": "0",
        "remote_pci_bus_id": _address(_peer(number)),
    }
    return Device(host, "nvlink", f"{uuid}/2", facts)


def _peer(number: int) -> int:
    return (number + PARTS // 2) % PARTS


def _address(number: int) -> str:
    return f"00000000:{16 * number + 15:02X}:00.0"


@cache
def _port(host: str, number: int) -> Device:
    facts = {"leaf": f"leaf-{host}", "peer": f"leaf-{host}-{number}", "rack": f"rack-{host}"}
    return port(number, host, **facts)


def _far_end(host: str, number: int) -> Device:
    here = _port(host, number)
    return Device(f"leaf-{host}", "ib_port", here.attributes["peer"], {"peer": here.id})


def _three_nodes() -> Story:
    """Of eight GPUs and eight ports, each with a switch of its own; a job on the first two, another
    one on the third.
    """
    story = Story()
    story.see(frames=_frames())
    for host, job in HOSTS.items():
        ids = " ".join(_gpu(host, n).id for n in range(PARTS))
        story.happens("job_started", node(host), job=job, gpus=ids)
    return story


@cache
def _frames() -> tuple[Frame, Frame]:
    places = [(host, number) for host in HOSTS for number in range(PARTS)]
    return (
        frame_of("gpu", [(_gpu(*place), {}) for place in places], START_NS, 0),
        frame_of("ib_port", [(_port(*place), {}) for place in places], START_NS, 0),
    )
