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
from history.economics.activity import WORKING_PERCENT
from history.economics.begun_before import JOBS, LOOK_BACK, OUT_OF_SERVICE, begun_before
from history.economics.evidence import JobSpan, NodeEvidence, Span
from history.economics.held import held
from history.economics.sacct import NodeEvent, Run
from history.economics.unread import Facts, some, unread
from history.meaning.node_names import same_host, short_name
from pipeline.frame import Device
from pipeline.job_names import base
from pipeline.observation import Event
from pipeline.store.query.busy import BUCKET_MS, Busy, busy
from pipeline.store.query.canned.question import names
from pipeline.store.query.events_of import events_of
from pipeline.store.query.labels import incident_rows
from pipeline.store.query.store import Store, Window

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
    """All nodes, and what reliability is judged by; ``notes`` say what is not known."""

    nodes: list[NodeEvidence] = field(default_factory=list)
    incidents: list[Mapping[str, Any]] = field(default_factory=list)
    steps: list[Event] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def gather(
    store: Store, since: datetime, until: datetime, accounting: Accounting | None = None
) -> Gathered:
    """Everything between two times, which are whole minutes."""
    accounting = accounting or Accounting()
    every = begun_before(store, since)
    every += events_of(store, Window(since - LOOK_BACK, until), (*JOBS, *OUT_OF_SERVICE))
    incidents = [row for row in incident_rows(store) if row["opened"] < until]
    facts = names(store, Window(since, until)).facts
    found = Gathered(
        incidents=[row for row in incidents if row["opened"] >= since],
        steps=[one for one in every if one.kind == "repair_step" and _at_ms(one) >= _ms(since)],
    )
    evidence = _Evidence(every, incidents, accounting)
    found.nodes = [evidence.of(one, facts) for one in busy(store, since, until)]
    lacking = unread(store, since, until, accounting.nodes, {one.host for one in found.nodes})
    found.nodes += [evidence.of(one, lacking.facts) for one in lacking.nodes]
    found.notes += lacking.notes
    if evidence.without_start:
        found.notes.append(
            "Jobs that ended and of which no start is known, whose GPU-hours have no team: "
            + some(evidence.without_start)
        )
    return found


class _Evidence:
    """What events, incidents and schedulers say of each node; ``without_start`` are jobs that ended
    and of which nothing says when they began.
    """

    def __init__(
        self, events: Iterable[Event], incidents: Sequence[Mapping[str, Any]], known: Accounting
    ) -> None:
        self._incidents, self._accounting = incidents, known
        # A quarter of a large site has millions of runs: they are not looked through for each node.
        self._teams, self._runs = known.teams(), _by_name(known.runs)
        self._events: dict[str, list[Event]] = defaultdict(list)
        for event in events:
            self._events[event.device.host].append(event)
        self.without_start: set[str] = set()

    def of(self, one: Busy, facts: Facts) -> NodeEvidence:
        """All of a node."""
        own = self._events.get(one.host, [])
        own = [*own, *_exclusive(self._runs.get(short_name(one.host), ()), one, own)]
        about = _Node(one, sorted(own, key=lambda event: event.time_ns), self._teams)
        self.without_start.update(about.without_start())
        incidents = (row for row in self._incidents if row["host"] == one.host)
        spans = (
            *(Span("down", *gap) for gap in one.restarts),
            *about.out_of_service(),
            *about.repairs(),
            *(span for row in incidents for span in about.faults(row)),
            *_by_scheduler(self._accounting.nodes, one.host, about.end_ms),
        )
        gpu_facts = [facts.get((one.host, gpu), {}) for gpu in one.gpus]
        return NodeEvidence(
            host=one.host,
            gpus=one.gpus,
            begin_ms=one.begin_ms,
            bucket_ms=BUCKET_MS,
            busy=one.percent,
            spans=spans,
            jobs=tuple(about.jobs()),
            models=tuple(known.get("model", known.get("name", "")) for known in gpu_facts),
            rack=next((k[name] for k in gpu_facts for name in RACK if k.get(name)), ""),
        )


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

    def without_start(self) -> Iterator[str]:
        """Jobs that ended in this time, and nothing says when they began."""
        started: set[str] = set()
        for event in self._events:
            job = base(str(event.attributes.get("job", "")))
            if event.kind == "job_started":
                started.add(job)
            elif event.kind == "job_ended" and event.time_ns // 1_000_000 > self._busy.begin_ms:
                yield from {job} - started

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
            if not self._is_forgotten(start):
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
        for start in begun.values():
            if not self._is_forgotten(start):
                yield _repair(start, self.end_ms)

    def _is_forgotten(self, start: Event) -> bool:
        """Whether what began before the look-back has ended, though no event says so: it works now,
        or was given a job in the look-back or that lasts.
        """
        if _at_ms(start) >= self._busy.begin_ms - LOOK_BACK // timedelta(milliseconds=1):
            return False
        gpu = start.device.id if start.device.kind == "gpu" else ""
        columns = [n for n, one in enumerate(self._busy.gpus) if gpu in ("", one)]
        return bool((self._busy.percent[:, columns] > WORKING_PERCENT).any()) or any(
            event.kind == "job_started"
            and event.time_ns > start.time_ns
            and (not gpu or gpu in str(event.attributes.get("gpus", "")).split())
            for event in self._events
        )

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
    """Runs by the short names of their nodes, as ``same_host`` compares them."""
    found: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        for name in {short_name(node) for node in run.nodes}:
            found[name].append(run)
    return found


def _by_scheduler(events: Iterable[NodeEvent], host: str, end_ms: int) -> Iterator[Span]:
    for one in events:
        if same_host(one.node, host):
            end = end_ms if one.end_s is None else round(one.end_s * 1000)
            cause = "down" if one.is_down else "repair"
            begin = round(one.begin_s * 1000)
            yield Span(cause, begin, end, part="node", waits=one.is_drained)


def _exclusive(runs: Iterable[Run], node: Busy, events: Iterable[Event]) -> Iterator[Event]:
    """Jobs that had all GPUs of a node and whose start no event reports, by the accounting alone:
    it names no single GPU, so a node that several jobs share stays without.
    """
    started = {base(str(e.attributes.get("job", ""))) for e in events if e.kind == "job_started"}
    device = Device(node.host, "node", node.host)
    for run in runs:
        names = [name for name in run.nodes if same_host(name, node.host)]
        complete = bool(names) and run.gpus == len(node.gpus) * len(run.nodes)
        if run.begin_s is None or not complete or started & {run.job, run.key[1]}:
            continue
        about = {"job": run.job, "scheduler": "slurm", "team": run.account or run.user}
        begin = {**about, "gpus": " ".join(node.gpus)}
        yield Event(round(run.begin_s * 1e9), 0, device, "job_started", begin)
        if run.end_s is not None:
            yield Event(round(run.end_s * 1e9), 0, device, "job_ended", about)


def _repair(start: Event, end_ms: int) -> Span:
    """The first step after the drain is an act: until then jobs may run on."""
    waits = start.attributes.get("step") == "drained" and not start.attributes.get("attempt")
    return Span("repair", _at_ms(start), end_ms, part=start.device.kind, waits=waits)


def _at_ms(event: Event) -> int:
    """When the step was, which may have been reported later."""
    return int(event.attributes.get("at_ns", event.time_ns)) // 1_000_000


def _ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)
