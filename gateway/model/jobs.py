"""Jobs: who holds which GPUs, and how each job is doing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from operator import attrgetter, is_, itemgetter
from typing import NamedTuple

from collector.config.owners import agreed, of_allocation
from gateway.model.layout import Layout, Node, natural
from pipeline.documents import printable
from pipeline.exposition.stalls import stalls
from pipeline.finding import Finding
from pipeline.frame import Attributes, Device
from pipeline.job_names import base
from pipeline.observation import Event

MAX_JOBS = 64  # of one host, by events: a node has one to eight; the oldest is forgotten
_Facts = Mapping[str, object]
# Pods of one job differ in a number: PyTorchJob, MPIJob, JobSet and stateful sets do so.
_ORDINAL = re.compile(r"-\d{1,6}$")


@dataclass(frozen=True, slots=True)
class Job:
    """A job: ``gpus`` and ``nodes`` are rows of the layout, in order.

    ``state`` and ``verdicts`` as of NCCL jobs (pipeline/exposition/stalls.py); ``stalled_s`` is 0
    for a job that makes progress. ``owner`` is the scheduler's word (collector/config/owners.py),
    "" where it has none or nodes differ: then the job is nobody's.
    """

    id: str
    scheduler: str
    user: str
    name: str
    gpus: tuple[int, ...]
    nodes: tuple[int, ...]
    state: str = "running"
    stalled_s: float = 0.0
    verdicts: tuple[str, ...] = ()
    owner: str = ""


class JobEvents:
    """The GPUs that hosts reported for jobs by events, for sources that send no allocations."""

    def __init__(self) -> None:
        self.held: Mapping[str, Mapping[str, Mapping[str, object]]] = {}  # by host, then job

    def take(self, events: Iterable[Event]) -> None:
        """Follow the events of an observation."""
        about = [e for e in events if e.kind in ("job_started", "job_ended")]
        if not about:
            return
        held = dict(self.held)  # a reader may look at the one before
        for event in about:
            host, job = event.device.host, str(event.attributes.get("job", ""))
            jobs = dict(held.pop(host, {}))
            jobs.pop(job, None)
            if "scheduler" in event.attributes:
                jobs = _without(jobs, job, event)
            if event.kind == "job_started":
                jobs[job] = event.attributes
                if len(jobs) > MAX_JOBS:
                    del jobs[next(iter(jobs))]
            if jobs:
                held[host] = jobs
        self.held = held


def _without(jobs: Mapping[str, _Facts], job: str, event: Event) -> dict[str, _Facts]:
    """The jobs of a host without what a scheduler's event ends: its end may have been while no
    agent ran.

    Who gets GPUs takes them from the jobs that had them and from their programs; a GPU that jobs
    share is reported of none of them. With a job its steps are over.
    """
    if event.kind == "job_ended":
        return {
            name: facts for name, facts in jobs.items() if "scheduler" in facts or base(name) != job
        }
    others = {name: facts for name, facts in jobs.items() if base(name) != base(job)}
    scheduled = (_gpus(facts) for facts in others.values() if "scheduler" in facts)
    taken = set(chain.from_iterable(scheduled)).intersection(_gpus(event.attributes))
    found: dict[str, _Facts] = {}
    for name, facts in jobs.items():
        had = _gpus(facts)
        left = had if name not in others else [uuid for uuid in had if uuid not in taken]
        if left:
            found[name] = facts if left == had else {**facts, "gpus": " ".join(left)}
    return found


def _gpus(facts: _Facts) -> list[str]:
    return str(facts.get("gpus", "")).split()


def id_of(facts: Attributes) -> str:
    """The job of an allocation: Slurm's id without the step, or namespace and pod without the
    pod's number.

    >>> id_of({"job": "71.0"}), id_of({"namespace": "ml", "pod": "train-worker-3"})
    ('71', 'ml/train-worker')
    """
    if job := facts.get("job"):
        return printable(base(job))
    pod = _ORDINAL.sub("", facts.get("pod", ""))
    return printable(f"{facts.get('namespace', '')}/{pod}") if pod else ""


_NO_EVENTS: Mapping[str, Mapping[str, object]] = {}


class _Held(NamedTuple):
    """What one job holds of one node: ``gpus`` are places in the node; ``owners`` is what the
    allocations say, {""} where events alone say that the job is here.
    """

    job: str
    facts: Attributes
    gpus: tuple[int, ...]
    owners: frozenset[str]


class _Host(NamedTuple):
    """What is held on one host, and what that was made from."""

    allocations: tuple[Device, ...]
    events: Mapping[str, Mapping[str, object]]
    node: Node
    gpus: tuple[Device, ...]
    held: tuple[_Held, ...]


class Holders:
    """All jobs that hold GPUs: made again where the allocations of a host have changed."""

    def __init__(self) -> None:
        self._hosts: dict[str, _Host] = {}
        self._made: tuple[object, ...] = ()
        self._jobs: tuple[Job, ...] = ()

    def of(
        self,
        layout: Layout,
        allocations: Sequence[Sequence[Device]],
        events: Mapping[str, Mapping[str, Mapping[str, object]]],
    ) -> tuple[Job, ...]:
        """By id. ``allocations`` are devices of the kind ``device_job``, by source; ``events`` by
        host and job.
        """
        made = (layout, events, *allocations)
        if len(made) != len(self._made) or not all(map(is_, made, self._made)):
            self._jobs, self._made = tuple(self._all(layout, allocations, events)), made
        return self._jobs

    def _all(
        self,
        layout: Layout,
        allocations: Sequence[Sequence[Device]],
        events: Mapping[str, Mapping[str, Mapping[str, object]]],
    ) -> Iterator[Job]:
        listed: dict[str, tuple[Device, ...]] = {}
        for each in allocations:
            for host, run in groupby(each, attrgetter("host")):
                listed[host] = (*listed.get(host, ()), *run)
        hosts: dict[str, _Host] = {}
        held: dict[str, list[tuple[int, _Held]]] = {}
        for host in dict.fromkeys(chain(listed, events)):
            row = layout.node_at.get(host)
            if row is None:
                continue
            its = self._host(layout, row, listed.get(host, ()), events.get(host, _NO_EVENTS))
            hosts[host] = its
            for one in its.held:
                held.setdefault(one.job, []).append((row, one))
        self._hosts = hosts
        for job in sorted(held, key=natural):
            yield _job(layout, held[job])

    def _host(
        self,
        layout: Layout,
        row: int,
        allocations: tuple[Device, ...],
        events: Mapping[str, Mapping[str, object]],
    ) -> _Host:
        node = layout.nodes[row]
        gpus = layout.gpus[node.gpus]
        known = self._hosts.get(node.name)
        if (
            known is not None
            and known.events is events
            and _same(known.allocations, allocations)
            and _same(known.gpus, gpus)
        ):
            return known
        return _Host(allocations, events, node, gpus, tuple(_held(gpus, allocations, events)))


def _same(one: Sequence[Device], other: Sequence[Device]) -> bool:
    return len(one) == len(other) and all(map(is_, one, other))


def _held(
    gpus: Sequence[Device],
    allocations: Iterable[Device],
    events: Mapping[str, Mapping[str, object]],
) -> Iterator[_Held]:
    """Jobs of one host; events count for GPUs that no allocation names."""
    at = {gpu.id: n for n, gpu in enumerate(gpus)}
    facts: dict[str, Attributes] = {}
    held: dict[str, set[int]] = {}
    owners: dict[str, set[str]] = {}
    taken: set[int] = set()
    for device in allocations:
        place, job = at.get(device.attributes.get("uuid", "")), id_of(device.attributes)
        if place is not None and job:
            held.setdefault(job, set()).add(place)
            facts.setdefault(job, device.attributes)
            owners.setdefault(job, set()).update(of_allocation(device.attributes))
            taken.add(place)
    for name, about in events.items():
        places = {at.get(uuid, -1) for uuid in str(about.get("gpus", "")).split()}
        if name and (places := places - taken - {-1}):
            job = printable(base(name))
            held.setdefault(job, set()).update(places)
            facts.setdefault(job, {k: v for k, v in about.items() if isinstance(v, str)})
    for job, places in held.items():
        yield _Held(job, facts[job], tuple(sorted(places)), frozenset(owners.get(job, {""})))


def _job(layout: Layout, parts: Sequence[tuple[int, _Held]]) -> Job:
    parts = sorted(parts, key=itemgetter(0))
    first = parts[0][1]
    text = {
        name: printable(first.facts.get(name, "")) for name in ("scheduler", "user", "job_name")
    }
    return Job(
        first.job,
        text["scheduler"],
        text["user"],
        text["job_name"],
        tuple(layout.nodes[row].gpus.start + n for row, held in parts for n in held.gpus),
        tuple(row for row, _ in parts),
        owner=agreed(owner for _, held in parts for owner in held.owners),
    )


def stalled(jobs: Sequence[Job], findings: Sequence[Finding], now_ns: int) -> tuple[Job, ...]:
    """The same jobs with the state that findings give them."""
    every = stalls((), findings, now_ns, most=len(findings))  # of jobs that hold nothing now, too
    states = {printable(base(stall.job)): stall for stall in every}
    if not states:
        return tuple(jobs)
    return tuple(
        replace(
            job,
            state=stall.state,
            stalled_s=stall.seconds,
            verdicts=tuple(map(printable, stall.verdicts)),
        )
        if (stall := states.get(job.id))
        else job
        for job in jobs
    )
