"""What an incident affects in the whole cluster: GPUs, nodes and jobs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

from gateway.model import Cluster, Job
from pipeline.documents import printable
from pipeline.exposition.stalls import JOB
from pipeline.finding import Finding, Incident
from pipeline.frame import Device
from pipeline.gpu_parts import gpu_of
from pipeline.job_names import base


class Reach(NamedTuple):
    """``gpus`` and ``nodes`` are rows of the layout, sorted; ``jobs`` ids."""

    gpus: tuple[int, ...]
    nodes: tuple[int, ...]
    jobs: tuple[str, ...]


def reach(incident: Incident, members: Iterable[Finding], cluster: Cluster) -> Reach:
    """Of the root, and of the devices of findings that are more than info.

    A GPU affects the jobs that hold it; a node, rack or switch all GPUs and jobs of its nodes; a
    port the jobs of its node; a job or rank the GPUs of the job. An incident that is over affects
    no job that came later: those that held its devices when it began are its own.
    """
    devices = {incident.root, *(one.device for one in members if one.severity != "record")}
    gpus: set[int] = set()
    whole: set[int] = set()  # nodes, with all that is on them
    linked: set[int] = set()  # nodes of which a port is affected
    jobs: dict[str, Job | None] = {}
    for device in devices:
        if gpu := gpu_of(device):
            row = cluster.layout.gpu_at(device.host, gpu)
            gpus.update(() if row is None else (row,))
        elif name := job_of(device):
            jobs[name] = cluster.job.get(name)
        elif device.kind == "ib_port" and device.host in cluster.layout.node_at:
            linked.add(cluster.layout.node_at[device.host])
        else:
            whole.update(nodes_of(cluster, device))
    named = [printable(base(name)) for name in incident.jobs if name]
    jobs.update({name: cluster.job.get(name) for name in named if name not in jobs})
    broken = set(gpus)
    for name, job in jobs.items():
        if job is not None and name not in named:
            gpus.update(job.gpus)
    for row in whole:
        node = cluster.layout.nodes[row].gpus
        gpus.update(range(node.start, node.stop))
    holders: list[str] = []
    if incident.active:
        shared = sorted(whole | linked)
        holders += [job.id for row in shared for job in cluster.holders.get(row, ())]
        holders += [job.id for row in sorted(broken) for job in _holding(cluster, row)]
    nodes = whole | linked | {int(cluster.layout.gpu_node[row]) for row in gpus}
    return Reach(tuple(sorted(gpus)), tuple(sorted(nodes)), tuple(dict.fromkeys((*jobs, *holders))))


def nodes_of(cluster: Cluster, device: Device) -> Iterable[int]:
    """Rows of the nodes that are, or are behind, a node, rack or leaf switch."""
    layout = cluster.layout
    if device.kind == "rack":
        racks = (rack.nodes for rack in layout.racks if rack.name == device.id and device.id)
        return [row for rows in racks for row in range(rows.start, rows.stop)]
    if device.kind in ("switch", "ib_port"):  # a port of a switch has the switch as its host
        rows: list[int] = layout.leaf(
            device.host if device.kind == "ib_port" else device.id
        ).tolist()
        return rows
    row = layout.node_at.get(device.host)
    return () if row is None else (row,)


def job_of(device: Device) -> str:
    """The job that a device is, or that it is a rank of; "" where it is no part of one."""
    name = device.id if device.kind == "job" else device.attributes.get(JOB, "")
    return printable(base(name))


def _holding(cluster: Cluster, gpu: int) -> Iterable[Job]:
    for job in cluster.holders.get(int(cluster.layout.gpu_node[gpu]), ()):
        place = bisect_left(job.gpus, gpu)
        if place < len(job.gpus) and job.gpus[place] == gpu:
            yield job


def names(cluster: Cluster, rows: Iterable[int]) -> list[str]:
    """Names of nodes."""
    return [printable(cluster.layout.nodes[row].name) for row in rows]
