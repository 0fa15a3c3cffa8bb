"""The cluster as it is now, and the model that keeps what is needed to say so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from operator import is_
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.kit.stateful import from_text_array, text_array
from gateway.model.health import Levels, levels_of
from gateway.model.jobs import Holders, Job, JobEvents, stalled
from gateway.model.last_values import COLUMNS, LastValues
from gateway.model.layout import Layout, Layouts
from gateway.model.out import OutOfService
from pipeline.catalog import device_job
from pipeline.clock import SECOND_NS, Clock
from pipeline.finding import SEVERITIES, Finding, Incident
from pipeline.frame import Device, Frame
from pipeline.observation import Observation
from pipeline.past_incidents import PastIncident, PastIncidents
from pipeline.plain import plain_device

MAX_SOURCES = 32  # an agent has ten; a host may name its sources as it likes
SNAPSHOT_NS = SECOND_NS  # readers within that time see the same


@dataclass(frozen=True, eq=False)
class Cluster:
    """Everything at one instant (unix), for readers.

    ``current``: open findings by id as their detectors see them now; ``ended``: findings of open
    incidents that are over; ``sent_ns`` (node,): when each host sent last, unix, 0 = never.
    """

    time_ns: int
    layout: Layout
    levels: Levels
    gpus: LastValues
    ports: LastValues
    jobs: tuple[Job, ...] = ()
    findings: Sequence[Finding] = ()
    incidents: Sequence[Incident] = ()
    past: Sequence[PastIncident] = ()
    current: Mapping[str, Finding] = field(default_factory=dict)
    sent_ns: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    ended: Mapping[str, Finding] = field(default_factory=dict)

    @cached_property
    def finding(self) -> Mapping[str, Finding]:
        """Open findings by id."""
        return {one.id: one for one in self.findings}

    @cached_property
    def holders(self) -> Mapping[int, tuple[Job, ...]]:
        """The jobs on each node, by its row."""
        found: dict[int, list[Job]] = {}
        for job in self.jobs:
            for node in job.nodes:
                found.setdefault(node, []).append(job)
        return {node: tuple(jobs) for node, jobs in found.items()}

    @cached_property
    def job(self) -> Mapping[str, Job]:
        """Jobs by id."""
        return {job.id: job for job in self.jobs}

    @cached_property
    def reasons(self) -> Mapping[str, tuple[Finding, ...]]:
        """Open findings by host, the gravest first."""
        found: dict[str, list[Finding]] = {}
        for finding in sorted(self.findings, key=lambda one: -SEVERITIES.index(one.severity)):
            found.setdefault(finding.device.host, []).append(finding)
        return {host: tuple(each) for host, each in found.items()}


class _Inputs(NamedTuple):
    """What a snapshot is made from: values that are never changed."""

    values: Mapping[str, tuple[LastValues, ...]]  # by kind
    allocations: tuple[tuple[Device, ...], ...]
    events: Mapping[str, Mapping[str, Mapping[str, object]]]
    out: Mapping[str, frozenset[Device]]


class ClusterModel:
    """Follows what was judged: a few array operations per frame, whatever the readers do.

    One thread takes, another one makes snapshots: they share nothing but references, so that
    neither waits for the other's work. ``sent``: when each host sent its last batch (unix ns), by
    name.
    """

    name = "cluster"
    version = 1

    def __init__(
        self,
        clock: Clock,
        *,
        sent: Callable[[], Mapping[str, int]],
        findings: Callable[[], Sequence[Finding]] = tuple,
        incidents: Callable[[], Sequence[Incident]] = tuple,
        past: Callable[[], PastIncidents] = PastIncidents,
        current: Callable[[], Mapping[str, Finding]] = dict,
    ) -> None:
        self._clock, self._sent = clock, sent
        self._findings, self._incidents, self._past = findings, incidents, past
        self._current = current
        self._lock = Lock()  # held for references only
        self._values: dict[tuple[str, str], LastValues] = {}
        self._allocations: dict[str, tuple[Device, ...]] = {}
        self._events, self._out = JobEvents(), OutOfService()
        self._layouts, self._holders = Layouts(), Holders()
        self._placed: tuple[object, ...] = ()
        self._layout = Layout()
        self._snapshot: Cluster | None = None

    def state(self) -> Mapping[str, NDArray[Any]]:
        """Jobs and devices out of service, as events reported them: readings come again."""
        held = {
            host: {job: dict(facts) for job, facts in jobs.items()}
            for host, jobs in self._events.held.items()
        }
        out = [plain_device(one) for devices in self._out.by_host.values() for one in devices]
        return {"events": text_array({"held": held, "out": out})}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from there. KeyError, TypeError or ValueError, unchanged, where it does not fit."""
        events = from_text_array(state["events"])
        held, out = dict(events["held"]), [Device(*values) for values in events["out"]]
        by_host: dict[str, frozenset[Device]] = {}
        for device in out:
            by_host[device.host] = by_host.get(device.host, frozenset()) | {device}
        self._events.held, self._out.by_host = held, by_host

    def take(self, observation: Observation) -> None:
        """An observation that was judged, of one host or of many that are joined."""
        for frame in observation.frames:
            self._frame(observation.source, frame)
        if observation.events:
            self._events.take(observation.events)
            self._out.take(observation.events)

    def _frame(self, source: str, frame: Frame) -> None:
        if frame.kind == device_job.KIND:
            with self._lock:
                if source in self._allocations or len(self._allocations) < MAX_SOURCES:
                    self._allocations[source] = frame.devices
        elif frame.kind in COLUMNS:
            key = source, frame.kind
            values = self._values.get(key)
            if values is None and len(self._values) == MAX_SOURCES:
                return
            taken = (values or LastValues(frame.kind)).with_(frame)
            with self._lock:
                self._values[key] = taken

    def _inputs(self) -> _Inputs:
        with self._lock:
            values, allocations = dict(self._values), tuple(self._allocations.values())
        by_kind = {
            kind: tuple(each for (_, of), each in values.items() if of == kind and each.devices)
            for kind in COLUMNS
        }
        return _Inputs(by_kind, allocations, self._events.held, self._out.by_host)

    def snapshot(self) -> Cluster:
        """The cluster now; the same object for a second. One thread at a time."""
        now_ns, known = self._clock.time_ns(), self._snapshot
        if known is None or not 0 <= now_ns - known.time_ns < SNAPSHOT_NS:
            known = self._snapshot = self._made(now_ns)
        return known

    def _made(self, now_ns: int) -> Cluster:
        inputs, sent, findings = self._inputs(), self._sent(), self._findings()
        gpus, ports = (LastValues.joined(kind, inputs.values[kind]) for kind in COLUMNS)
        layout = self._layout_of(sent, inputs.values, gpus, ports)
        sent_ns = np.array([sent.get(node.name, 0) for node in layout.nodes], np.int64)
        levels = levels_of(
            layout,
            gpus,
            ports,
            findings=findings,
            out=[device for each in inputs.out.values() for device in each],
            sent_ns=sent_ns,
            now_ns=now_ns,
        )
        jobs = self._holders.of(layout, inputs.allocations, inputs.events)
        incidents, past = self._incidents(), self._past()
        members = chain.from_iterable(incident.findings for incident in incidents)
        return Cluster(
            now_ns,
            layout,
            levels,
            gpus,
            ports,
            stalled(jobs, findings, now_ns),
            findings,
            incidents,
            past.incidents(now_ns),
            self._current(),
            sent_ns,
            {one.id: one for one in past.ended(members)},
        )

    def _layout_of(
        self,
        hosts: Iterable[str],
        values: Mapping[str, tuple[LastValues, ...]],
        gpus: LastValues,
        ports: LastValues,
    ) -> Layout:
        """Made again where hosts or devices have changed."""
        names = tuple(hosts)
        parts = [part.devices for kind in COLUMNS for part in values[kind]]
        placed = (names, *parts)
        if (
            len(placed) != len(self._placed)
            or names != self._placed[0]
            or not all(map(is_, parts, self._placed[1:]))
        ):
            self._layout = self._layouts.of(names, gpus.devices, ports.devices)
            self._placed = placed
        return self._layout
