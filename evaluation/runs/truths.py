"""The simulator's truth as scoring needs it: all names of the entity, what contains it, its
neighbours, where symptoms may show.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from evaluation.metrics import truth as plain
from evaluation.metrics.truth import Entity, entity_of
from pipeline.clock import SECOND_NS
from pipeline.frame import Device
from simulator.fleet import Run, Truth
from simulator.fleet.topology import GPUS

# a fault that cannot be detected within the run (a flap that does not come a third time) has no
# deadline in it
NEVER_S = 10 * 365 * 86_400.0

# Other kinds of device under which a detector may name the same thing.
ALIASES: Mapping[str, tuple[str, ...]] = {"rank": ("gpu",), "collector": ("node",)}


def plain_truths(run: Run) -> list[plain.Truth]:
    """All faults of a run, in plain values."""
    places = _Places(run)
    return [places.truth(truth) for truth in run.truth]


def hosts_of(run: Run, truth: Truth) -> tuple[str, ...]:
    """The nodes that a fault strikes; none where it is only in the fabric."""
    hosts = _named_hosts(truth)
    return tuple(host for host in run.topology.hosts if host in hosts)


def _named_hosts(truth: Truth) -> set[str]:
    devices = [truth.entity] if isinstance(truth.entity, Device) else []
    return {device.host for device in (*devices, *truth.members)} | {str(truth.entity)}


class _Places:
    """Sets of entities of one run's topology."""

    def __init__(self, run: Run) -> None:
        self._topology = run.topology
        self._row = {host: node for node, host in enumerate(run.topology.hosts)}
        self._peer = {
            device.id: device.attributes["peer"]
            for device in (*run.topology.ports, *run.topology.switch_ports)
        }

    def truth(self, truth: Truth) -> plain.Truth:
        """One fault."""
        exact = _exact(truth)
        nodes = self._nodes(truth)
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
                *(Entity("node", self._topology.hosts[n]) for n in nodes),
                *(Entity("job", job.id) for job in jobs),
            }
        )
        if truth.entity_kind in ("rack", "switch", "job"):
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

    def _nodes(self, truth: Truth) -> tuple[int, ...]:
        return tuple(sorted(self._row[host] for host in _named_hosts(truth) if host in self._row))

    def _jobs(self, nodes: tuple[int, ...], truth: Truth) -> list[_Job]:
        """Jobs that held one of the nodes while the fault lasted, and the job
        that is the entity itself.
        """
        began, ended = (
            (at - self._topology.begin_ns) / SECOND_NS for at in (truth.onset_ns, truth.end_ns)
        )
        return [
            _Job(job.id, job.nodes)
            for job in self._topology.jobs
            if job.id == truth.entity
            or (set(job.nodes) & set(nodes) and job.start_s <= ended and job.end_s >= began)
        ]

    def _of_nodes(self, nodes: Iterable[int]) -> frozenset[Entity]:
        """Nodes with their GPUs and ports."""
        rows = [node * GPUS + slot for node in nodes for slot in range(GPUS)]
        devices = [*self._topology.gpus, *self._topology.ports]
        hosts = frozenset(Entity("node", self._topology.hosts[node]) for node in nodes)
        return hosts | {
            entity_of(devices[row + part]) for row in rows for part in (0, len(self._topology.gpus))
        }

    def _of_jobs(self, jobs: Iterable[_Job]) -> frozenset[Entity]:
        """Jobs with all devices of their nodes."""
        listed = list(jobs)
        return frozenset(Entity("job", job.id) for job in listed) | self._of_nodes(
            {node for job in listed for node in job.nodes}
        )

    def _of_racks(self, nodes: Iterable[int]) -> frozenset[Entity]:
        """Racks with all their nodes' devices."""
        racks = {self._topology.rack(node) for node in nodes}
        inside = [
            node for node in range(self._topology.nodes) if self._topology.rack(node) in racks
        ]
        return frozenset(Entity("rack", rack) for rack in racks) | self._of_nodes(inside)

    def _peers(self, entities: Iterable[Entity]) -> frozenset[Entity]:
        """The other ends of ports, with the nodes or switches they belong to."""
        ends = {self._peer[entity.id] for entity in entities if entity.id in self._peer}
        both = [
            device
            for device in (*self._topology.ports, *self._topology.switch_ports)
            if device.id in ends
        ]
        places = {
            Entity("node" if device.host in self._row else "switch", device.host) for device in both
        }
        return frozenset({*(entity_of(device) for device in both), *places})


class _Job:
    """Id and nodes of a job."""

    def __init__(self, name: str, nodes: tuple[int, ...]) -> None:
        self.id, self.nodes = name, nodes


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
