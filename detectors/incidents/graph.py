"""What belongs to what: a device, its link, its GPU, its node, its leaf switch, its rack, its job;
and how many there are of each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from detectors.incidents.nvlinks import NvLinkEnds
from detectors.infiniband.ports import behind
from detectors.kit.jobs import JobTracker
from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.frame import Device
from pipeline.job_names import base
from pipeline.observation import Observation

DOMAIN = "nvlink_domain"
CONTAINERS = ("node", "rack", "switch", "rail", "job", DOMAIN)
# kinds whose number says how much of a node, switch or job is affected
COUNTED = ("gpu", "ib_port")


class FaultSite(NamedTuple):
    """Where a device belongs: level and name. ``link`` is named by both its ends; the ``gpu`` of an
    NVLink is its own first, then the one at its other end.
    """

    level: str
    name: str


NOWHERE = FaultSite("switch", "")


class Roster(NamedTuple):
    """The devices of one kind that one source reads."""

    source: str
    kind: str


class Graph:
    """Learns the devices from frames and the jobs from events.

    >>> graph, gpu = Graph(), Device("n1", "gpu", "G", {"rack": "r7"})
    >>> [tuple(place) for place in graph.places(gpu)]
    [('node', 'n1'), ('rack', 'r7')]
    """

    def __init__(self) -> None:
        self.jobs = JobTracker()
        self._seen: dict[
            Roster, tuple[Device, ...]
        ] = {}  # devices of the last frame, to be compared by identity
        self._parts: dict[Roster, dict[FaultSite, int]] = {}  # how many of its devices stand where
        self._racked: dict[Roster, dict[str, str]] = {}  # host -> rack, as its devices say
        self._racks: dict[str, str] = {}
        self._count: dict[tuple[FaultSite, str], int] = {}
        self._hosts: dict[str, int] = {}  # rack -> hosts
        self._nvlinks = NvLinkEnds()
        self._now_ns = 0

    def take(self, observation: Observation, now_ns: int = 0) -> None:
        """Follow an observation; ``now_ns`` is on the clock of durations."""
        self._now_ns = now_ns
        self.jobs.take(observation.events, now_ns)
        changed = False
        for frame in observation.frames:
            key = Roster(observation.source, frame.kind)
            if frame.kind in COUNTED and self._seen.get(key) is not frame.devices:
                self._seen[key] = frame.devices
                if frame.kind == "gpu":
                    self._nvlinks.learn(observation.source, frame.devices)
                self._parts[key], self._racked[key] = _parts(frame.devices), _racks(frame.devices)
                changed = True
        if changed:
            self._add_up()

    def places(self, device: Device) -> tuple[FaultSite, ...]:
        """Everything that a device is part of, the nearest first; itself
        where it is a container.
        """
        found = (
            [FaultSite("link", "|".join(sorted((device.id, device.attributes["peer"]))))]
            if "peer" in device.attributes
            else []
        )
        leaf = device.attributes.get("leaf", "")
        if device.kind == "nvlink":
            found += [FaultSite("gpu", uuid) for uuid in self._nvlinks.of(device)]
        if device.kind in CONTAINERS:
            name = base(device.id) if device.kind == "job" else device.id
            found.append(FaultSite(device.kind, name))
        if device.kind in ("switch", "rail"):
            found += [FaultSite("job", job) for job in self._jobs_behind(device)]
        if device.kind in ("rack", "job", "switch", "rail", DOMAIN):
            return tuple(found)
        if device.kind == "ib_port" and (place := FaultSite(*behind(device))).name:
            found.append(place)
        if device.host != leaf:
            found.append(FaultSite("node", device.host))
            if rack := device.attributes.get("rack") or self._racks.get(device.host):
                found.append(FaultSite("rack", rack))
        if domain := device.attributes.get("fabric_cluster"):
            found.append(FaultSite(DOMAIN, domain))
        if (job := self._job(device)) and device.host != leaf:
            found.append(FaultSite("job", job))
        return tuple(dict.fromkeys(found))

    def _jobs_behind(self, place: Device) -> list[str]:
        """The jobs of the nodes with a port on a switch or rail."""
        hosts = {
            port.host
            for devices in self._seen.values()
            for port in devices
            if port.kind == "ib_port" and behind(port) == (place.kind, place.id)
        }
        return sorted({base(job) for host in hosts for job in self.jobs.of_host(host)})

    def count(self, place: FaultSite, kind: str) -> int:
        """Devices of a kind in a place, 0 where none is known; of a rack its hosts."""
        return (
            self._hosts.get(place.name, 0)
            if place.level == "rack"
            else self._count.get((place, kind), 0)
        )

    def peers(self, kind: str) -> int:
        """All devices of a kind."""
        return sum(
            n for (place, of), n in self._count.items() if of == kind and place.level == "node"
        )

    def _job(self, device: Device) -> str:
        """Steps of Slurm are of their job: some detectors know the step, others do not."""
        if job := device.attributes.get("job"):
            return base(job)
        if device.kind not in ("gpu", "nvlink"):
            return base(self.jobs.on(device.host))
        gpu = self._nvlinks.of(device)[0] if device.kind == "nvlink" else device.id
        return base(self.jobs.lately(device.host, gpu, self._now_ns))

    def _add_up(self) -> None:
        self._count = {}
        for key, parts in self._parts.items():
            for place, n in parts.items():
                self._count[place, key.kind] = self._count.get((place, key.kind), 0) + n
        self._racks |= {
            host: rack for racked in self._racked.values() for host, rack in racked.items()
        }
        racked = {(rack, host) for one in self._racked.values() for host, rack in one.items()}
        self._hosts = dict(Counter(rack for rack, _ in racked))

    def state(self) -> State:
        """Jobs, racks, and how many devices stand where; which they are comes
        again with the next frames.
        """
        rosters = [
            [*key, [[*place, n] for place, n in parts.items()], self._racked[key]]
            for key, parts in self._parts.items()
        ]
        return {
            **self.jobs.state(),
            "racks": text_array(self._racks),
            "rosters": text_array(rosters),
        }

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it does not fit."""
        jobs = self.jobs.prepare(state)
        racks = {
            str(host): str(rack) for host, rack in dict(from_text_array(state["racks"])).items()
        }
        parts, racked = {}, {}
        for source, kind, places, hosts in from_text_array(state["rosters"]):
            key = Roster(str(source), str(kind))
            parts[key] = {FaultSite(str(level), str(name)): int(n) for level, name, n in places}
            racked[key] = {str(host): str(rack) for host, rack in dict(hosts).items()}

        def commit() -> None:
            jobs()
            self._seen, self._parts, self._racked, self._racks = {}, parts, racked, racks
            self._add_up()

        return commit


def _parts(devices: Iterable[Device]) -> dict[FaultSite, int]:
    """How many of these devices each node, and each leaf switch or rail, has."""
    hosts: list[str] = []
    places: list[FaultSite] = []
    for device in devices:
        place = FaultSite(*behind(device)) if device.kind == "ib_port" else NOWHERE
        if place.name:
            places.append(place)
        if device.host and (place.level, place.name) != ("switch", device.host):
            hosts.append(device.host)
    nodes = {FaultSite("node", host): count for host, count in Counter(hosts).items()}
    return {**nodes, **Counter(places)}


def _racks(devices: Iterable[Device]) -> dict[str, str]:
    return {device.host: rack for device in devices if (rack := device.attributes.get("rack", ""))}
