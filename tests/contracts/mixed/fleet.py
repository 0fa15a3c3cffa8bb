"""Nodes that are read at paces of their own, and the ways to judge them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from detectors import DETECTORS
from detectors.node_horizon import NodeHorizon
from pipeline.clock import SECOND_NS, SystemClock
from pipeline.finding import Finding
from pipeline.frame import Device, Frame, blank, schema_of
from pipeline.interfaces import Detector
from pipeline.judge import Judge
from pipeline.observation import Event, Observation, Value
from pipeline.roster import Roster
from pipeline.seconds import groups_of
from pipeline.selfmetrics import SelfMetrics
from tests.contracts.mixed.cases import BAD, SPREAD, Case

BEGIN_NS = 1_800_000_000 * SECOND_NS
DEFAULT_S = 1.0  # the period that a gateway's configuration has for every source
SOURCE = {"gpu": "nvml", "ib_port": "infiniband"}
DEVICES = len(SPREAD)


@dataclass(frozen=True, slots=True)
class Node:
    """A node that is read every ``every_s``, first at ``phase_s``; ``missed`` is the share of its
    readings that are lost.
    """

    name: str
    every_s: int
    phase_s: int = 0
    struck: bool = False
    missed: float = 0.0


Read = Mapping[Node, Sequence[Observation]]  # what the agent of each node reads


def readings(case: Case, node: Node) -> Iterator[Observation]:
    """What its agent reads."""
    schema = schema_of(case.kind)
    devices = tuple(_device(case.kind, node.name, n) for n in range(DEVICES))
    rows = slice(None) if case.of_node else BAD
    rng = np.random.default_rng(len(node.name) + 100 * node.phase_s)
    sums = np.zeros((len(schema.counters), DEVICES))
    yield _observation(case, node, 0, (), _job(case, node, devices))
    before_s = node.phase_s
    for at_s in range(node.phase_s, round(case.warm_s + case.bad_s), node.every_s):
        gauges, counters, observed = blank(case.kind, devices)
        values = {name: np.full(DEVICES, float(value)) for name, value in case.healthy.items()}
        for name in case.wander:
            values[name] = values[name] * (1 + np.array(SPREAD))
        bad = node.struck and at_s >= case.warm_s
        if bad:
            for name, instead in case.bad.items():
                usual = case.healthy[name]
                share = values[name] / usual if usual else np.ones(DEVICES)
                values[name][rows] = (instead * share)[rows]
            for name, slope in case.ramps.items():
                values[name][rows] += slope * (at_s - case.warm_s)
        for name, shown in values.items():
            if name in schema.gauge_row:
                gauges[schema.gauge_row[name]] = shown
            else:
                row = schema.counter_row[name]
                grown = np.ones(DEVICES)
                if bad and name in case.orders_a_day:
                    grown[rows] = 10 ** (case.orders_a_day[name] * (at_s - case.warm_s) / 86400)
                sums[row] += shown * grown * (at_s - before_s)
                count = np.minimum(100 + sums[row], case.most.get(name, np.inf))
                if bad and name in case.one_each_s:
                    count[rows] += (at_s - case.warm_s) // case.one_each_s[name]
                counters[row], observed[row] = count.astype(np.uint64), True
        before_s = at_s
        if rng.random() < node.missed:
            continue
        at_ns = BEGIN_NS + at_s * SECOND_NS
        stamps = np.zeros(DEVICES, np.int64)
        mono_ns = at_ns - BEGIN_NS + 10**15
        frame = Frame(schema, at_ns, mono_ns, devices, gauges, counters, observed, stamps)
        yield _observation(case, node, at_s, (frame,), ())


def alone(case: Case, node: Node, read: Sequence[Observation]) -> list[Finding]:
    """What the node's own agent finds."""
    judge = _judge(case, float(node.every_s))
    return [f for one in read for f in judge.judge(one).findings]


def in_fleet(case: Case, nodes: Read) -> list[Finding]:
    """What a gateway finds."""
    judge, roster, found = _judge(case, DEFAULT_S), Roster(), list[Finding]()
    for second in _seconds(nodes):
        for group in groups_of([[one] for one in second]):
            found += judge.judge(roster.join(group)).findings
    return found


def at_horizon_node(case: Case, nodes: Read) -> list[Finding]:
    """What their agents find, judged in one pass."""
    every = {node.name: float(node.every_s) for node in nodes}
    make: Callable[[], list[Detector]] = lambda: [_detector(case)]  # noqa: E731
    judge = NodeHorizon(make, None, {}, period_of=lambda host, _: every[host])
    found: list[Finding] = []
    for second in _seconds(nodes):
        for judged in judge.judge(second):
            found += judged.findings
    return found


def _seconds(nodes: Read) -> Iterator[list[Observation]]:
    heads = {node.name: iter(read) for node, read in nodes.items()}
    waiting = {name: next(one) for name, one in heads.items()}
    while waiting:
        first_ns = min(one.time_ns for one in waiting.values())
        second = [one for _, one in sorted(waiting.items()) if one.time_ns == first_ns]
        yield second
        for one in second:
            after = next(heads[one.host], None)
            if after is None:
                del waiting[one.host]
            else:
                waiting[one.host] = after


def _judge(case: Case, period_s: float) -> Judge:
    periods = dict.fromkeys(SOURCE.values(), period_s)
    return Judge([_detector(case)], SelfMetrics(), SystemClock(), periods_s=periods)


def _detector(case: Case) -> Detector:
    return case.make() if case.make is not None else DETECTORS[case.detector]()


def _device(kind: str, host: str, number: int) -> Device:
    if kind == "gpu":
        facts = {"index": str(number), "name": "NVIDIA H100", "epoch": "580#0"}
        facts["pci_bus_id"] = f"00000000:{0x10 + number:02X}:00.0"
    else:
        facts = {"device": f"mlx5_{number}", "port": "1", "rail": str(number)}
        facts |= {"hca_type": "MT4129", "link_layer": "InfiniBand"}
    return Device(host, kind, f"{host}/{number}", facts)


def _job(case: Case, node: Node, devices: tuple[Device, ...]) -> tuple[Event, ...]:
    if not case.jobs:
        return ()
    gpus = " ".join(device.id for device in devices)
    facts: dict[str, Value] = {"job": f"job of {node.name}", "gpus": gpus, "hosts": 1}
    host = Device(node.name, "node", node.name)
    return (Event(BEGIN_NS, 10**15, host, "job_started", facts),)


def _observation(
    case: Case, node: Node, at_s: int, frames: tuple[Frame, ...], events: tuple[Event, ...]
) -> Observation:
    at_ns = BEGIN_NS + at_s * SECOND_NS
    source = SOURCE[case.kind] if frames else "jobs"
    one = Observation(source, node.name, "boot", at_s, at_ns, at_ns - BEGIN_NS + 10**15, 0)
    return replace(one, frames=frames, events=events)
