"""The simulator's truth as scoring needs it: all names of the entity, what contains it, its
neighbours, where symptoms may show.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from evaluation.metrics import truth as plain
from evaluation.metrics.truth import Entity, entity_of
from pipeline.clock import SECOND_NS
from pipeline.frame import Device
from simulator.fleet import Scenario, Truth

# a fault that cannot be detected within the run (a flap that does not come a third time) has no
# deadline in it
NEVER_S = 10 * 365 * 86_400.0

# Other kinds of device under which a detector may name the same thing.
ALIASES: Mapping[str, tuple[str, ...]] = {"rank": ("gpu",), "collector": ("node",)}


class JobOnHosts(Protocol):
    """A job of a run: seconds since its start."""

    @property
    def id(self) -> str:
        """The scheduler's id."""

    @property
    def start_s(self) -> float:
        """When it began."""

    @property
    def end_s(self) -> float:
        """When it really ended."""


class Surroundings(Protocol):
    """What stands where in a run: hosts, devices of hosts and of switches, jobs."""

    @property
    def begin_ns(self) -> int:
        """Unix time of the start."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names of all nodes."""

    @property
    def devices(self) -> tuple[Device, ...]:
        """All devices, those of switches included."""

    @property
    def jobs(self) -> Sequence[Any]:
        """All jobs, each a JobOnHosts."""

    def hosts_of(self, job: Any, /) -> tuple[str, ...]:
        """The hosts of one of its jobs."""


class Judgeable(Protocol):
    """A run with its truth."""

    @property
    def topology(self) -> Surroundings:
        """Where it happens."""

    @property
    def truth(self) -> tuple[Truth, ...]:
        """What is really wrong."""


def plain_truths(run: Judgeable) -> list[plain.Truth]:
    """All faults of a run, in plain values."""
    places = _Places(run)
    return [places.truth(truth) for truth in run.truth]


def of_an_agent(truth: plain.Truth, scenario: Scenario) -> plain.Truth:
    """What is asked of an agent alone, where its verdict is another than the fleet's."""
    if scenario.alone is None or scenario.verdict is None:
        return truth
    later_s = scenario.alone.detect_by_s - scenario.verdict.detect_by_s
    return replace(
        truth,
        severity=scenario.alone.severity,
        deadline_ns=truth.deadline_ns + round(later_s * SECOND_NS),
    )


def hosts_of(run: Judgeable, truth: Truth) -> tuple[str, ...]:
    """The nodes that a fault strikes; none where it is only in the fabric."""
    hosts = _named_hosts(truth)
    return tuple(host for host in run.topology.hosts if host in hosts)


def _named_hosts(truth: Truth) -> frozenset[str]:
    devices = [truth.entity] if isinstance(truth.entity, Device) else []
    return frozenset({*(device.host for device in (*devices, *truth.members)), str(truth.entity)})


class _Places:
    """Sets of entities of one run's topology."""

    def __init__(self, run: Judgeable) -> None:
        self._topology = run.topology
        self._hosts = frozenset(run.topology.hosts)
        self._of_host: dict[str, list[Device]] = {}
        for device in run.topology.devices:
            self._of_host.setdefault(device.host, []).append(device)
        self._peer = {
            device.id: device.attributes["peer"]
            for device in run.topology.devices
            if device.kind == "ib_port" and "peer" in device.attributes
        }

    def truth(self, truth: Truth) -> plain.Truth:
        """One fault."""
        exact = _exact(truth)
        nodes = _named_hosts(truth) & self._hosts
        jobs = self._jobs(nodes, truth)
        members = frozenset(entity_of(device) for device in truth.members) - exact
        around = {
            "node": self._of_nodes(nodes),
            "job": self._of_jobs(jobs),
            "rack": self._of_racks(nodes),
        }
        around |= {"same": exact | members, "peers": self._peers(exact | members)}
        containers = frozenset(
            {
                *(Entity("node", host) for host in nodes),
                *(Entity("job", job.id) for job in jobs),
            }
        )
        if truth.entity_kind in ("rack", "switch", "rail", "job"):
            containers = frozenset()
        secondary: dict[str, frozenset[Entity]] = {}
        for allowed in truth.allowed_secondary:
            secondary[allowed.fault] = (
                secondary.get(allowed.fault, frozenset()) | around[allowed.where]
            )
        return plain.Truth(
            id=truth.id,
            kind=truth.entity_kind,
            exact=exact,
            onset_ns=truth.evident_ns if truth.from_evidence else truth.onset_ns,
            since_ns=truth.onset_ns if truth.from_evidence else None,
            end_ns=truth.end_ns,
            deadline_ns=truth.onset_ns + round(min(truth.detect_by_s, NEVER_S) * SECOND_NS),
            fault=truth.fault,
            severity=truth.severity,
            wider=(members | containers) - exact,
            near=(around["node"] | around["job"] | around["rack"] | around["peers"])
            - exact
            - members
            - containers,
            secondary=secondary,
        )

    def _jobs(self, nodes: frozenset[str], truth: Truth) -> list[JobOnHosts]:
        """Jobs that held one of the nodes while the fault lasted, and the job
        that is the entity itself.
        """
        began, ended = (
            (at - self._topology.begin_ns) / SECOND_NS for at in (truth.onset_ns, truth.end_ns)
        )
        return [
            job
            for job in self._topology.jobs
            if job.id == truth.entity
            or (
                job.start_s <= ended
                and job.end_s >= began
                and not nodes.isdisjoint(self._topology.hosts_of(job))
            )
        ]

    def _of_nodes(self, hosts: Iterable[str]) -> frozenset[Entity]:
        """Nodes with their GPUs and ports."""
        return frozenset(
            entity
            for host in hosts
            for entity in (Entity("node", host), *map(entity_of, self._of_host.get(host, ())))
        )

    def _of_jobs(self, jobs: Iterable[JobOnHosts]) -> frozenset[Entity]:
        """Jobs with all devices of their nodes."""
        listed = list(jobs)
        return frozenset(Entity("job", job.id) for job in listed) | self._of_nodes(
            {host for job in listed for host in self._topology.hosts_of(job)}
        )

    def _of_racks(self, nodes: Iterable[str]) -> frozenset[Entity]:
        """Racks with all their nodes' devices."""
        racks = {self._rack(host) for host in nodes} - {""}
        inside = [host for host in self._topology.hosts if self._rack(host) in racks]
        return frozenset(Entity("rack", rack) for rack in racks) | self._of_nodes(inside)

    def _rack(self, host: str) -> str:
        return next(
            (d.attributes["rack"] for d in self._of_host.get(host, ()) if "rack" in d.attributes),
            "",
        )

    def _peers(self, entities: Iterable[Entity]) -> frozenset[Entity]:
        """The other ends of ports, with the nodes or switches they belong to."""
        ends = {self._peer[entity.id] for entity in entities if entity.id in self._peer}
        both = [device for device in self._topology.devices if device.id in ends]
        places = {
            Entity("node" if device.host in self._hosts else "switch", device.host)
            for device in both
        }
        return frozenset({*(entity_of(device) for device in both), *places})


def _exact(truth: Truth) -> frozenset[Entity]:
    """All names of the entity: the device, the word, both ends of a link."""
    kind = truth.entity_kind
    if isinstance(truth.entity, Device):
        named = {entity_of(truth.entity)} | {
            Entity(alias, truth.entity.id) for alias in ALIASES.get(kind, ())
        }
    else:
        named = {Entity(each, truth.entity) for each in (kind, *ALIASES.get(kind, ()))}
    return frozenset(
        named | ({entity_of(device) for device in truth.members} if kind == "link" else set())
    )
