"""What belongs to what: a device, its link, its node, its leaf switch, its rack, its job; and how many there are of each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from detectors.jobs import Jobs
from detectors.memory import Commit, from_text_array, text_array
from detectors.snapshot import State
from pipeline.frame import Device
from pipeline.observation import Observation

DOMAIN = "nvlink_domain"
CONTAINERS = ("node", "rack", "switch", "job", DOMAIN)
COUNTED = ("gpu", "ib_port")  # kinds whose number says how much of a node, switch or job is affected


class Place(NamedTuple):
    """Where a device belongs: level and name. ``link`` is named by both its ends."""

    level: str
    name: str


class Graph:
    """Learns the devices from frames and the jobs from events.

    >>> graph, gpu = Graph(), Device("n1", "gpu", "G", {"rack": "r7"})
    >>> [tuple(place) for place in graph.places(gpu)]
    [('node', 'n1'), ('rack', 'r7')]
    """

    def __init__(self) -> None:
        self.jobs = Jobs()
        self._seen: dict[tuple[str, str], tuple[Device, ...]] = {}  # (source, kind) -> devices of the last frame
        self._racks: dict[str, str] = {}  # host -> rack
        self._count: dict[tuple[Place, str], int] = {}
        self._hosts: dict[str, int] = {}  # rack -> hosts

    def take(self, observation: Observation) -> None:
        """Follow an observation."""
        self.jobs.take(observation.events)
        changed = False
        for frame in observation.frames:
            key = (observation.source, frame.kind)
            if frame.kind in COUNTED and self._seen.get(key) is not frame.devices:
                self._seen[key] = frame.devices
                changed = True
        if changed:
            self._learn()

    def places(self, device: Device) -> tuple[Place, ...]:
        """Everything that a device is part of, the nearest first; itself where it is a container."""
        found = [Place("link", "|".join(sorted((device.id, device.attributes["peer"]))))] if "peer" in device.attributes else []
        leaf = device.attributes.get("leaf", "")
        if device.kind in CONTAINERS:
            found.append(Place(device.kind, device.id))
        if device.kind in ("rack", "job", "switch", DOMAIN):
            return tuple(found)
        if device.kind == "ib_port" and leaf:
            found.append(Place("switch", leaf))
        if device.host != leaf:
            found.append(Place("node", device.host))
            if rack := device.attributes.get("rack") or self._racks.get(device.host):
                found.append(Place("rack", rack))
        if domain := device.attributes.get("fabric_cluster"):
            found.append(Place(DOMAIN, domain))
        if (job := self._job(device)) and device.host != leaf:
            found.append(Place("job", job))
        return tuple(dict.fromkeys(found))

    def count(self, place: Place, kind: str) -> int:
        """Devices of a kind in a place, 0 where none is known; of a rack its hosts."""
        return self._hosts.get(place.name, 0) if place.level == "rack" else self._count.get((place, kind), 0)

    def peers(self, kind: str) -> int:
        """All devices of a kind."""
        return sum(n for (place, of), n in self._count.items() if of == kind and place.level == "node")

    def _job(self, device: Device) -> str:
        if device.kind == "gpu":
            return self.jobs.of(device.host, device.id)
        return self.jobs.on(device.host)

    def _learn(self) -> None:
        self._count = {}
        hosts: dict[str, set[str]] = {}
        for devices in self._seen.values():
            for device in devices:
                rack = device.attributes.get("rack", "")
                if rack:
                    self._racks[device.host] = rack
                    hosts.setdefault(rack, set()).add(device.host)
                leaf = device.attributes.get("leaf", "") if device.kind == "ib_port" else ""
                for place in (Place("node", device.host), Place("switch", leaf)):
                    if place.name and not (place.level == "node" and device.host == leaf):
                        self._count[place, device.kind] = self._count.get((place, device.kind), 0) + 1
        self._hosts = {rack: len(names) for rack, names in hosts.items()}

    def state(self) -> State:
        """Jobs and racks; devices come anew with the next frames."""
        counts = [[*place, kind, n] for (place, kind), n in self._count.items()]
        return {
            **self.jobs.state(),
            "racks": text_array(self._racks),
            "hosts_of_racks": text_array(self._hosts),
            "counts": text_array(counts),
        }

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it does not fit."""
        jobs = self.jobs.prepare(state)
        racks = {str(host): str(rack) for host, rack in dict(from_text_array(state["racks"])).items()}
        hosts = {str(rack): int(n) for rack, n in dict(from_text_array(state["hosts_of_racks"])).items()}
        counts = {(Place(str(level), str(name)), str(kind)): int(n) for level, name, kind, n in from_text_array(state["counts"])}

        def commit() -> None:
            jobs()
            self._racks, self._hosts, self._count, self._seen = racks, hosts, counts, {}

        return commit


def affected(devices: Iterable[Device], graph: Graph, place: Place) -> tuple[int, int]:
    """How many of a place's parts are these devices in it, and how many parts it has (of the kind with the largest share)."""
    inside = list(devices)
    if place.level == "rack":
        return len({device.host for device in inside}), graph.count(place, "")
    best = (0, 0)
    for kind in COUNTED:
        bad = len({device.id for device in inside if device.kind == kind})
        of = graph.count(place, kind) if place.level != "job" else len(graph.jobs.members(place.name)) * (kind == "gpu")
        if of and bad / of > best[0] / max(best[1], 1):
            best = (bad, of)
    return best
