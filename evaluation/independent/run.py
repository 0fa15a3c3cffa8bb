"""A world of another author as a run that can be judged: rows become frames, and its truth that of
the scenario suite.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from evaluation.independent.interface import (
    CLASSES,
    Column,
    Event,
    Family,
    Fault,
    Job,
    Rows,
    Source,
    Tick,
    World,
)
from pipeline import observation as pipeline
from pipeline.catalog import EVENTS
from pipeline.clock import SECOND_NS
from pipeline.frame import Device, Frame, blank, schema_of
from pipeline.observation import Observation, Value
from simulator.fleet import Scenario, Secondary, Truth
from simulator.fleet.run import BEGIN_NS

FLEET = "fleet"  # host and boot of joined observations
UP_FOR_NS = 30 * 86_400 * SECOND_NS  # all hosts were booted a month before
READ_NS = 10_000_000  # how long reads take
JOBS = "jobs"
ATTRIBUTES = {kind.name: {name for name, _ in kind.attributes} for kind in EVENTS.values()}
SOURCES: tuple[Source, ...] = get_args(Source)


@dataclass(frozen=True, slots=True)
class Held:
    """A job with its hosts."""

    id: str
    hosts: tuple[str, ...]
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Places:
    """What stands where: hosts, devices, and which job had which hosts."""

    devices: tuple[Device, ...]
    jobs: Sequence[Held]
    begin_ns: int = BEGIN_NS

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """All hosts: those of GPUs and nodes."""
        own = (device.host for device in self.devices if device.kind in ("gpu", "node"))
        return tuple(dict.fromkeys(own))

    def hosts_of(self, job: Held) -> tuple[str, ...]:
        """The hosts of a job."""
        return job.hosts


@dataclass(frozen=True)
class IndependentRun:
    """A run of a world.

    ``observations`` may be called again and gives the same ones.
    """

    scenario: Scenario
    world: World
    topology: Places
    truth: tuple[Truth, ...]
    skipped: int = 0
    restarts: tuple[tuple[int, str], ...] = ()

    @property
    def seconds(self) -> float:
        """Length of the run."""
        return self.world.lasts_s

    @property
    def step_s(self) -> float:
        """Seconds between two reads of a source."""
        return self.world.period_s

    @property
    def gpu_seconds(self) -> float:
        """Exposure: GPUs times seconds."""
        return self.seconds * sum(device.kind == "gpu" for device in self.world.devices)

    @property
    def port_seconds(self) -> float:
        """Exposure of the ports of hosts."""
        hosts = set(self.topology.hosts)
        ports = (d for d in self.world.devices if d.kind == "ib_port" and d.host in hosts)
        return self.seconds * sum(1 for _ in ports)

    def observations(self) -> Iterator[Observation]:
        """All observations in the order in which they were read.

        ValueError for an unknown column, source or kind of event, or values of another shape.
        """
        jobs, seq = sorted(_of_jobs(self.world), key=lambda event: event.at_s), 0
        for tick in self.world.ticks():
            due = [event for event in jobs if event.at_s <= tick.at_s]
            jobs = jobs[len(due) :]
            for source, events, frames in _reads(tick, due):
                seq += 1
                now = _instant(tick.at_s)
                yield Observation(
                    source, FLEET, FLEET, seq, *now, READ_NS, tuple(frames), tuple(events)
                )


def scenario_of(name: str, family: Family) -> Scenario:
    """What is known of a family of worlds before one is made."""
    return Scenario(
        name,
        "fault" if family.cases else "healthy",
        "independent",
        family.text,
        family.nodes,
        family.days,
        family.knows,
        family.cases,
    )


def run_of(name: str, family: Family, seed: int, split: str) -> IndependentRun:
    """A world of a family for a seed; the two splits never share random numbers.

    ValueError names what is wrong with the world.
    """
    words = [abs(seed), int(seed < 0), zlib.crc32(name.encode()), int(split == "test")]
    world = family.make(np.random.default_rng(np.random.SeedSequence(words)))
    known = {device.id: device for device in world.devices}
    if len(known) < len(world.devices):
        raise ValueError(f"{name}: two devices have one id")
    places = Places(world.devices, [_held(name, job, known) for job in world.jobs])
    truth = tuple(_truth(name, fault, known) for fault in world.faults)
    return IndependentRun(scenario_of(name, family), world, places, truth)


def _held(name: str, job: Job, known: Mapping[str, Device]) -> Held:
    for gpu in job.gpus:
        if gpu not in known:
            raise ValueError(f"{name}: job {job.id} has a GPU {gpu!r} that is no device")
    hosts = dict.fromkeys(known[gpu].host for gpu in job.gpus)
    return Held(job.id, tuple(hosts), job.start_s, job.end_s)


def _truth(name: str, fault: Fault, known: Mapping[str, Device]) -> Truth:
    for word in (fault.fault, *(word for word, _ in fault.symptoms)):
        if word not in CLASSES:
            raise ValueError(f"{name}: {fault.id}: {word!r} is none of {', '.join(CLASSES)}")
    if not (isfinite(fault.since_s) and fault.since_s < fault.until_s):
        raise ValueError(f"{name}: {fault.id}: ends before it begins")
    named = fault.of not in ("rack", "switch", "job")
    for device in (*([fault.entity] if named else ()), *fault.members):
        if device not in known:
            raise ValueError(f"{name}: {fault.id}: {device!r} is no device")
    return Truth(
        fault.id,
        name,
        float("nan"),
        fault.of,
        known[fault.entity] if named else fault.entity,
        _instant(fault.since_s)[0],
        _instant(fault.until_s)[0],
        fault.within_s,
        fault.fault,
        fault.severity,
        tuple(Secondary(word, where) for word, where in fault.symptoms),
        members=tuple(known[member] for member in fault.members),
    )


def _instant(at_s: float) -> tuple[int, int]:
    """Unix and monotonic time, ns, of a second of the world."""
    elapsed = round(at_s * 1e6) * 1000
    return BEGIN_NS + elapsed, UP_FOR_NS + elapsed


def _reads(
    tick: Tick, of_jobs: Sequence[Event]
) -> Iterator[tuple[str, list[pipeline.Event], list[Frame]]]:
    """Each source that was read in a tick, with its events and frames: kernel log and jobs always,
    as agents poll them.
    """
    for rows in tick.rows:
        if rows.source not in SOURCES:
            raise ValueError(f"{rows.source!r} is no source: {', '.join(SOURCES)}")
    yield JOBS, [_event(event) for event in of_jobs], []
    for source in ("kmsg", *(one for one in SOURCES if one != "kmsg")):
        events = [_event(event) for event in tick.events if event.source == source]
        frames = [_frame(rows, tick.at_s) for rows in tick.rows if rows.source == source]
        if events or frames or source == "kmsg":
            yield source, events, frames


def _event(event: Event) -> pipeline.Event:
    if event.kind not in EVENTS:
        raise ValueError(f"{event.kind!r} is no kind of event")
    unknown = event.attributes.keys() - ATTRIBUTES[event.kind]
    if unknown:
        raise ValueError(f"event {event.kind} has no attribute {min(unknown)!r}")
    time_ns, mono_ns = _instant(event.at_s)
    time_ns += round(event.clock_s * SECOND_NS)
    return pipeline.Event(time_ns, mono_ns, event.device, event.kind, event.attributes)


def _frame(rows: Rows, at_s: float) -> Frame:
    schema, n = schema_of(rows.kind), len(rows.devices)
    gauges, counters, observed = blank(rows.kind, rows.devices)
    for name, values in rows.columns.items():
        if np.shape(values) != (n,):
            raise ValueError(f"{rows.kind}.{name}: {np.shape(values)} values for {n} devices")
        if name in schema.gauge_row:
            gauges[schema.gauge_row[name]] = values
        elif name in schema.counter_row:
            row = schema.counter_row[name]
            seen = np.isfinite(values)
            observed[row] = seen
            counters[row] = _whole(values, seen, schema.counters[row].width)
        else:
            raise ValueError(f"table {rows.kind} has no column {name!r}")
    sampled = np.zeros(n, np.int64)
    if rows.sampled_s is not None:
        sampled = BEGIN_NS + np.rint(rows.sampled_s * 1e6).astype(np.int64) * 1000
    return Frame(schema, *_instant(at_s), rows.devices, gauges, counters, observed, sampled)


def _whole(values: Column, seen: NDArray[np.bool_], width: int) -> NDArray[np.uint64]:
    """Whole numbers that fit the register, 0 where nothing was seen."""
    whole = np.zeros(len(values), np.uint64)
    whole[seen] = values[seen].astype(np.uint64)
    return np.minimum(whole, np.uint64(2**width - 1))


def _of_jobs(world: World) -> Iterator[Event]:
    """Starts and ends of jobs, on each of their hosts, as a scheduler reports them."""
    known = {device.id: device for device in world.devices}
    for job in world.jobs:
        by_host: dict[str, list[str]] = {}
        for gpu in job.gpus:
            by_host.setdefault(known[gpu].host, []).append(gpu)
        for host, gpus in by_host.items():
            node = known.get(host) or Device(host, "node", host)
            about: dict[str, Value] = {"job": job.id, "gpus": " ".join(gpus), "hosts": len(by_host)}
            words = {"name": job.name, "user": job.user}
            about |= {key: word for key, word in words.items() if word}
            yield Event(job.start_s, "host", node, "job_started", about)
            end: dict[str, Value] = {"job": job.id, "outcome": job.outcome}
            yield Event(job.end_s, "host", node, "job_ended", end)
