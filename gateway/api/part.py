"""The part of a cluster that the owners of some jobs may see, as a cluster of its own.

What is not taken over here is in no answer: operations read this one as they read the whole. It has
the jobs of the owners, the GPUs that these hold, the nodes and ports under them, and what is found
of those and behind them (racks, leaf switches). Words that may be about others are left out: of
incidents on nodes that others use too, or that began under another job; so are all evidence and
what operators wrote.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import cached_property
from itertools import chain

import numpy as np

from gateway.api.reach import job_of, nodes_of, reach
from gateway.model import Cluster, Job, Layout
from gateway.model.health import OUT, levels_of
from gateway.model.layout import Layouts
from pipeline.documents import printable
from pipeline.finding import Finding, Incident
from pipeline.frame import Device
from pipeline.gpu_parts import gpu_of
from pipeline.job_names import base
from pipeline.past_incidents import PastIncident


def part_of(cluster: Cluster, owners: Collection[str]) -> Cluster:
    """What the owners (collector/config/owners.py) see of a cluster. Jobs without an owner are
    nobody's.
    """
    return _Part(cluster, [job for job in cluster.jobs if job.owner and job.owner in owners]).made()


class _Part:
    """``jobs`` are those of the owners; rows are of the whole layout."""

    def __init__(self, cluster: Cluster, jobs: Iterable[Job]) -> None:
        self._whole, self._jobs = cluster, tuple(jobs)
        self._ids = frozenset(job.id for job in self._jobs)
        self._nodes = frozenset(row for job in self._jobs for row in job.nodes)
        self._gpus = frozenset(row for job in self._jobs for row in job.gpus)

    def made(self) -> Cluster:
        """The part."""
        whole, layout = self._whole, self._whole.layout
        slices = (layout.nodes[row].ports for row in sorted(self._nodes))
        port_rows = [*chain.from_iterable(range(each.start, each.stop) for each in slices)]
        gpus = whole.gpus.chosen(layout.gpu_rows[sorted(self._gpus)])
        ports = whole.ports.chosen(layout.port_rows[port_rows])
        names = [layout.nodes[row].name for row in sorted(self._nodes)]
        own = Layouts().of(names, gpus.devices, ports.devices)
        sent_ns = np.array([whole.sent_ns[layout.node_at[n.name]] for n in own.nodes], np.int64)
        findings = tuple(self._finding(one) for one in whole.findings if self._own(one.device))
        levels = levels_of(
            own,
            gpus,
            ports,
            findings=findings,
            out=[*self._out(port_rows)],
            sent_ns=sent_ns,
            now_ns=whole.time_ns,
        )
        return Cluster(
            whole.time_ns,
            own,
            levels,
            gpus,
            ports,
            tuple(self._placed(job, own) for job in self._jobs),
            findings,
            tuple(self._incident(one) for one in whole.incidents if self._own(one.root)),
            tuple(self._past(one) for one in whole.past if self._own(one.incident.root)),
            {k: self._finding(one) for k, one in whole.current.items() if self._own(one.device)},
            sent_ns,
            {k: self._finding(one) for k, one in whole.ended.items() if self._own(one.device)},
        )

    def _placed(self, job: Job, own: Layout) -> Job:
        layout = self._whole.layout
        gpus = (own.gpu_at(layout.gpus[row].host, layout.gpus[row].id) for row in job.gpus)
        nodes = (own.node_at[layout.nodes[row].name] for row in job.nodes)
        rows = sorted(row for row in gpus if row is not None)
        return replace(job, gpus=tuple(rows), nodes=tuple(sorted(nodes)))

    def _out(self, ports: Iterable[int]) -> Iterable[Device]:
        """Devices out of service."""
        layout, levels = self._whole.layout, self._whole.levels
        for row in self._nodes:
            if levels.nodes[row] == OUT:
                yield Device(layout.nodes[row].name, "node", layout.nodes[row].name)
        yield from (layout.gpus[row] for row in self._gpus if levels.gpus[row] == OUT)
        yield from (layout.ports[row] for row in ports if levels.ports[row] == OUT)

    def _own(self, device: Device) -> bool:
        """Whether the part has the device, or is behind it. Kinds that are not known here are
        others'.
        """
        layout = self._whole.layout
        if gpu := gpu_of(device):
            return layout.gpu_at(device.host, gpu) in self._gpus
        if name := job_of(device):
            return name in self._ids
        if device.kind == "ib_port" and device.host in layout.node_at:
            return layout.node_at[device.host] in self._nodes
        if device.kind in ("node", "ib_port", "rack", "switch"):
            return not self._nodes.isdisjoint(nodes_of(self._whole, device))
        return False

    @cached_property
    def _alone(self) -> frozenset[int]:
        """Nodes on which no other job is."""
        holders = self._whole.holders
        return frozenset(
            row for row in self._nodes if all(job.id in self._ids for job in holders.get(row, ()))
        )

    @cached_property
    def _readable(self) -> frozenset[str]:
        """Ids of open findings whose words may be read: those of incidents whose may."""
        readable: set[str] = set()
        withheld: set[str] = set()
        for incident in self._whole.incidents:
            is_own = self._is_own(incident, self._members(incident))
            (readable if is_own else withheld).update(incident.findings)
        return frozenset(readable - withheld)

    def _members(self, incident: Incident) -> list[Finding]:
        whole = self._whole
        found = ((whole.finding.get(one) or whole.ended.get(one)) for one in incident.findings)
        return [one for one in found if one is not None]

    def _is_own(self, incident: Incident, members: Collection[Finding]) -> bool:
        """Whether it is about the own jobs alone: it began while they held its devices, and
        affects no node that others use. Of pods without a training nobody says so.
        """
        names = {printable(base(name)) for name in (*incident.jobs, job_of(incident.root)) if name}
        devices = (incident.root, *(one.device for one in members))
        if not names or not self._ids.issuperset(names) or not all(map(self._own, devices)):
            return False
        affected = reach(incident, members, self._whole)
        return self._ids.issuperset(affected.jobs) and self._alone.issuperset(affected.nodes)

    def _finding(self, finding: Finding) -> Finding:
        """An open finding as it may be read."""
        return _redacted(finding, words=finding.id in self._readable)

    def _incident(self, incident: Incident) -> Incident:
        members = self._members(incident)
        return self._shown(incident, members, words=self._is_own(incident, members))

    def _past(self, past: PastIncident) -> PastIncident:
        words = self._is_own(past.incident, past.findings)
        own = (one for one in past.findings if self._own(one.device))
        return PastIncident(
            self._shown(past.incident, past.findings, words=words),
            tuple(_redacted(one, words=words) for one in own),
        )

    def _shown(self, incident: Incident, members: Iterable[Finding], *, words: bool) -> Incident:
        """An incident as it may be read."""
        return replace(
            incident,
            findings=tuple(one.id for one in members if self._own(one.device)),
            summary=incident.summary if words else f"{incident.fault} (it may concern others too)",
            reason=incident.reason if words else "",
            ended=incident.ended if words else "",
            jobs=tuple(name for name in incident.jobs if printable(base(name)) in self._ids),
            note="",
            acknowledged_by="",
        )


def _redacted(finding: Finding, *, words: bool) -> Finding:
    summary = finding.summary if words else finding.fault
    return replace(finding, summary=summary, evidence=())
