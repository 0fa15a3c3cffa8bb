"""A simulated cluster for tests and pictures of what the gateway shows: the devices of the
simulated fleet, whose readings, jobs, findings and incidents the test sets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from gateway.model import ClusterModel
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding, Incident
from pipeline.frame import Device, Frame, blank, schema_of
from pipeline.observation import Event, Observation
from pipeline.past_incidents import PastIncidents
from simulator.fleet.topology import Topology
from simulator.profile import load_profile
from tests.fakes import START_NS, FakeClock

GPU: Mapping[str, float] = {
    "state": 0,
    "gpu_utilization_percent": 98,
    "power_milliwatts": 650_000,
    "temperature_celsius": 61,
    "temperature_slowdown_celsius": 89,
    "memory_free_bytes": 20 * 2**30,
    "nvlinks_up": 18,
    "nvlinks_down": 0,
}
PORT: Mapping[str, float] = {"state": 4, "expected": 1, "rate_bits_per_second": 4e11}


@cache
def topology(nodes: int) -> Topology:
    """The hardware of so many nodes: racks of 8, leaf switches of 64."""
    return Topology(load_profile("hgx-h100"), nodes, 1, START_NS)


class SimulatedCluster:
    """Everything is healthy and read a moment ago, until the test says something else."""

    def __init__(self, nodes: int = 16) -> None:
        self.clock = FakeClock()
        self.topology = topology(nodes)
        self.gpus, self.ports = self.topology.gpus, self.topology.ports
        self.sent = dict.fromkeys(self.topology.hosts, self.clock.time_ns())
        self.holders: list[Device] = []
        self.findings: list[Finding] = []
        self.incidents: list[Incident] = []
        self.past = PastIncidents()
        self.model = ClusterModel(
            self.clock,
            sent=lambda: self.sent,
            findings=lambda: tuple(self.findings),
            incidents=lambda: tuple(self.incidents),
            past=lambda: self.past,
        )
        self.read()

    def frame(self, kind: str, devices: tuple[Device, ...], values: Mapping[str, float]) -> Frame:
        """All devices with the same values, now."""
        gauges, counters, observed = blank(kind, devices)
        schema = schema_of(kind)
        for name, value in values.items():
            gauges[schema.gauge_row[name]] = value
        at = self.clock.time_ns(), self.clock.monotonic_ns()
        zeros = np.zeros(len(devices), np.int64)
        return Frame(schema, *at, devices, gauges, counters, observed, zeros)

    def read(self, changed: Mapping[Device, Mapping[str, float]] | None = None) -> None:
        """A second later all hosts have sent their readings, those of some devices changed."""
        self.clock.advance(1)
        self.sent = dict.fromkeys(self.sent, self.clock.time_ns())
        frames = []
        for kind, devices, values in (("gpu", self.gpus, GPU), ("ib_port", self.ports, PORT)):
            frame = self.frame(kind, devices, values)
            gauges = frame.gauges.copy()
            for device, other in (changed or {}).items():
                if device.kind == kind:
                    for name, value in other.items():
                        gauges[frame.schema.gauge_row[name], devices.index(device)] = value
            frames.append(replace(frame, gauges=gauges))
        holders = self.frame("device_job", tuple(self.holders), {"processes": 1})
        for frame, source in zip([*frames, holders], ("nvml", "infiniband", "jobs"), strict=True):
            self.take((frame,), (), source)

    def take(
        self, frames: Sequence[Frame] = (), events: Sequence[Event] = (), source: str = "x"
    ) -> None:
        """One joined observation."""
        at = self.clock.time_ns(), self.clock.monotonic_ns()
        self.model.take(
            Observation(source, "fleet", "fleet", 0, *at, 0, tuple(frames), tuple(events))
        )

    def node(self, number: int) -> Device:
        """A node as a device."""
        return self.topology.node(number, 0)

    def gpu(self, node: int, index: int) -> Device:
        """A GPU."""
        return self.gpus[8 * node + index]

    def port(self, node: int, rail: int) -> Device:
        """A port."""
        return self.ports[8 * node + rail]

    def run(self, job: str, nodes: Sequence[int], **facts: str) -> None:
        """A job that holds all GPUs of nodes, seen with the next ``read``."""
        names = {"scheduler": "slurm", "job": job, "user": "ada", "job_name": "pretrain"} | facts
        for node in nodes:
            for index in range(8):
                gpu = self.gpu(node, index)
                facts = {"uuid": gpu.id, "index": str(index), **names}
                self.holders.append(Device(gpu.host, "device_job", f"{gpu.id}/{job}", facts))

    def find(self, device: Device, fault: str, summary: str, **about: Any) -> Finding:
        """A finding, and an incident of it alone, open from now on."""
        now = self.clock.time_ns()
        more = {"severity": "page", "action": "RESTART_BM"} | about
        evidence = more.pop("evidence", ())
        jobs, reason = more.pop("jobs", ()), more.pop("reason", "Drain the node.")
        began = now - round(float(more.pop("ago_s", 0)) * SECOND_NS)
        finding = Finding(
            "xid", device, fault, phase="onset", onset_ns=began, time_ns=now, summary=summary,
            evidence=evidence, **more,
        )  # fmt: skip
        self.findings.append(finding)
        incident = Incident(
            finding.id, device, fault, finding.severity, finding.action, began, (finding.id,),
            summary, reason=reason, jobs=jobs,
        )  # fmt: skip
        if finding.severity != "record":
            self.incidents.append(incident)
        return finding

    def end(self, finding: Finding, ended: str = "It is read again.") -> None:
        """It is over, and so is its incident."""
        now = self.clock.time_ns()
        self.findings.remove(finding)
        (incident,) = [one for one in self.incidents if one.id == finding.id]
        self.incidents.remove(incident)
        over = replace(finding, phase="cleared", time_ns=now)
        self.past.take((over,), (replace(incident, cleared_ns=now, ended=ended),))
