"""The evidence of each node from a store: readings, jobs, incidents, maintenance and repairs; from
Slurm's accounting teams, jobs, drains and nodes that were down; from Kubernetes cordons.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from collector.integrations.reporters import USER as CORDONED_BY
from history.economics.evidence import JobSpan, NodeEvidence, Span
from history.economics.held import held
from history.economics.sacct import NodeEvent, Run
from pipeline.job_names import base
from pipeline.observation import Event
from pipeline.store.query.busy import BUCKET_MS, Busy, busy
from pipeline.store.query.canned.question import names
from pipeline.store.query.events_of import events_of
from pipeline.store.query.labels import incident_rows
from pipeline.store.query.store import Store, Window

LOOK_BACK = timedelta(days=30)  # for jobs, incidents and maintenance that began before
KINDS = (
    *("job_started", "job_ended", "maintenance_started", "maintenance_ended"),
    "repair_step",
)
WAITING = ("hang", "nccl")  # detectors whose incidents say that a job waits
OPEN_STEPS = ("drained", "reset", "checked", "burning_in", "rma", "stopped")
RACK = ("rack", "leaf")


@dataclass(frozen=True, slots=True)
class Accounting:
    """What schedulers say, where they were asked; ``notes`` are those that did not answer."""

    runs: Sequence[Run] = ()
    nodes: Sequence[NodeEvent] = ()
    notes: Sequence[str] = ()

    def joined(self, other: Accounting) -> Accounting:
        """What both say; a run that both have counts once."""
        every = {run.key: run for run in (*self.runs, *other.runs)}
        nodes = dict.fromkeys((*self.nodes, *other.nodes))
        return Accounting(tuple(every.values()), tuple(nodes), (*self.notes, *other.notes))

    def teams(self) -> dict[str, str]:
        """The account of each job, by every id that it has."""
        known = {run.key[1]: run.account for run in self.runs}
        return known | {run.job: run.account for run in self.runs}


@dataclass(slots=True)
class Gathered:
    """All nodes, and what reliability is judged by."""

    nodes: list[NodeEvidence] = field(default_factory=list)
    incidents: list[Mapping[str, Any]] = field(default_factory=list)
    steps: list[Event] = field(default_factory=list)


def gather(
    store: Store, since: datetime, until: datetime, accounting: Accounting | None = None
) -> Gathered:
    """Everything between two times, which are whole minutes."""
    accounting = accounting or Accounting()
    every = list(events_of(store, Window(since - LOOK_BACK, until), KINDS))
    incidents = [row for row in incident_rows(store) if row["opened"] < until]
    facts = names(store, Window(since, until)).facts
    found = Gathered(
        incidents=[row for row in incidents if row["opened"] >= since],
        steps=[one for one in every if one.kind == "repair_step" and _at_ms(one) >= _ms(since)],
    )
    # A quarter of a large site has millions of runs: they are not looked through for each node.
    teams, runs = accounting.teams(), _by_name(accounting.runs)
    events: dict[str, list[Event]] = defaultdict(list)
    for event in every:
        events[event.device.host].append(event)
    for one in busy(store, since, until):
        about = _Node(one, events[one.host], teams)
        own = runs.get(one.host.partition(".")[0], ())
        spans = (
            *(Span("down", *gap) for gap in one.restarts),
            *about.out_of_service(),
            *about.repairs(),
            *(span for row in incidents if row["host"] == one.host for span in about.faults(row)),
            *_by_scheduler(accounting.nodes, one.host, about.end_ms),
        )
        gpu_facts = [facts.get((one.host, gpu), {}) for gpu in one.gpus]
        found.nodes.append(
            NodeEvidence(
                host=one.host,
                gpus=one.gpus,
                begin_ms=one.begin_ms,
                bucket_ms=BUCKET_MS,
                busy=one.percent,
                spans=spans,
                jobs=tuple(about.jobs()) or tuple(_exclusive(own, one, about.end_ms)),
                models=tuple(known.get("model", known.get("name", "")) for known in gpu_facts),
                rack=next((k[name] for k in gpu_facts for name in RACK if k.get(name)), ""),
            )
        )
    return found


class _Node:
    def __init__(self, one: Busy, events: Sequence[Event], teams: Mapping[str, str]) -> None:
        self._busy, self._events, self._teams = one, events, teams
        self._column = {gpu: number for number, gpu in enumerate(one.gpus)}
        self.end_ms = one.begin_ms + BUCKET_MS * len(one.percent)

    def jobs(self) -> Iterator[JobSpan]:
        """Jobs by their events."""
        for one in held(self._events, self._busy.restarts, self.end_ms):
            columns = tuple(self._column[gpu] for gpu in one.gpus if gpu in self._column)
            facts = one.start.attributes
            job = str(facts.get("job", ""))
            team = self._teams.get(job) or self._teams.get(base(job))
            owner = team or str(facts.get("team") or facts.get("user", ""))
            if columns and one.end_ms > self._busy.begin_ms:
                yield JobSpan(job, one.begin_ms, one.end_ms, columns, owner)

    def out_of_service(self) -> Iterator[Span]:
        """Maintenance of the node, or of a GPU; a cordon that the agent saw."""
        begun: dict[str, Event] = {}
        for event in self._events:
            device = event.device.id
            if event.kind == "maintenance_started":
                begun.setdefault(device, event)
            elif event.kind == "maintenance_ended" and device in begun:
                yield from self._repair(begun.pop(device), event.time_ns // 1_000_000)
        for start in begun.values():
            yield from self._repair(start, self.end_ms)

    def repairs(self) -> Iterator[Span]:
        """From a drain of `tocsin repair` to the return of the node, step by step."""
        begun: dict[str, Event] = {}
        for event in self._events:
            if event.kind == "repair_step":
                before = begun.pop(event.device.id, None)
                if before is not None:
                    yield _repair(before, _at_ms(event))
                if event.attributes.get("step") in OPEN_STEPS:
                    begun[event.device.id] = event
        yield from (_repair(start, self.end_ms) for start in begun.values())

    def _repair(self, start: Event, end_ms: int) -> Iterator[Span]:
        column = -1 if start.device.kind == "node" else self._column.get(start.device.id)
        if column is not None:
            kind, begin_ms = start.device.kind, start.time_ns // 1_000_000
            waits = start.attributes.get("user") == CORDONED_BY
            yield Span("repair", begin_ms, end_ms, column, part=kind, waits=waits)

    def faults(self, row: Mapping[str, Any]) -> Iterator[Span]:
        """An incident that pages: its GPU is lost while it does no work, or its job stalls."""
        if row["severity"] != "page" or row["action"] == "NONE":
            return
        begin, end = _ms(row["opened"]), _ms(row["cleared"]) if row["cleared"] else self.end_ms
        if str(row["fault"]).partition("/")[0] in WAITING:
            yield from self._stalls(row, begin, end)
            return
        gpu = str(row["device"]).partition("/")[0]
        column = self._column.get(gpu, -1 if row["device_kind"] != "gpu" else None)
        if column is not None:
            yield Span("lost", begin, end, column, str(row["fault"]))

    def _stalls(self, row: Mapping[str, Any], begin: int, end: int) -> Iterator[Span]:
        jobs = set(row["jobs"] or ())
        for job in self.jobs():
            if not jobs or job.job in jobs:
                first, last = max(begin, job.begin_ms), min(end, job.end_ms)
                for column in job.gpus if first < last else ():
                    yield Span("stalled", first, last, column, str(row["fault"]))


def _by_name(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """Runs by the first part of the names of their nodes, as ``same_host`` compares them."""
    found: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        for name in {node.partition(".")[0] for node in run.nodes}:
            found[name].append(run)
    return found


def _by_scheduler(events: Iterable[NodeEvent], host: str, end_ms: int) -> Iterator[Span]:
    for one in events:
        if same_host(one.node, host):
            end = end_ms if one.end_s is None else round(one.end_s * 1000)
            cause = "down" if one.is_down else "repair"
            begin = round(one.begin_s * 1000)
            yield Span(cause, begin, end, part="node", waits=one.is_drained)


def _exclusive(runs: Iterable[Run], node: Busy, end_ms: int) -> Iterator[JobSpan]:
    """Jobs that had all GPUs of a node, by the accounting alone: it names no single GPU, so a node
    that several jobs share stays without.
    """
    every = tuple(range(len(node.gpus)))
    for run in runs:
        names = [name for name in run.nodes if same_host(name, node.host)]
        if names and run.begin_s is not None and run.gpus == len(every) * len(run.nodes):
            end = end_ms if run.end_s is None else round(run.end_s * 1000)
            yield JobSpan(run.job, round(run.begin_s * 1000), end, every, run.account or run.user)


def same_host(one: str, other: str) -> bool:
    """Whether two names mean one node: one may have the domain that the other lacks.

    >>> same_host("gpu01", "gpu01.example.org"), same_host("10.0.0.1", "10.0.0.2")
    (True, False)
    """
    if one == other or ("." in one) == ("." in other):
        return one == other
    return one.partition(".")[0] == other.partition(".")[0]


def _repair(start: Event, end_ms: int) -> Span:
    """The first step after the drain is an act: until then jobs may run on."""
    waits = start.attributes.get("step") == "drained" and not start.attributes.get("attempt")
    return Span("repair", _at_ms(start), end_ms, part=start.device.kind, waits=waits)


def _at_ms(event: Event) -> int:
    """When the step was, which may have been reported later."""
    return int(event.attributes.get("at_ns", event.time_ns)) // 1_000_000


def _ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)
