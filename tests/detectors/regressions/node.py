"""A node before all detectors, as the agent has it: frames and kernel lines go through the real
parser, judge and fusion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from collector.sources.kmsg.parse import parse_text
from detectors import all_detectors
from detectors.incidents import Incidents
from pipeline.finding import Finding, Incident
from pipeline.frame import Device, frame_of, schema_of
from pipeline.judge import Judge
from pipeline.observation import Event, Observation, Value
from pipeline.selfmetrics import SelfMetrics
from tests.detectors.feed import a_gpu
from tests.detectors.port_feed import WELL, a_port
from tests.fakes import FakeClock

Values = Mapping[str, float | None]
PERIOD_S = 10.0
SOURCES = {"gpu": "nvml", "ib_port": "infiniband", "node": "host"}
# What a GPU at work shows, and a port that carries it.
AT_WORK: dict[str, float] = {
    "state": 0,
    "recovery_action": 0,
    "gpu_utilization_percent": 98,
    "sm_clock_megahertz": 1755,
    "power_milliwatts": 650_000,
    "power_limit_enforced_milliwatts": 700_000,
    "power_limit_default_milliwatts": 700_000,
    "temperature_celsius": 61,
    "row_remap_pending": 0,
    "row_remap_failed": 0,
    "nvlinks_up": 18,
}
ON_THE_WIRE: dict[str, float] = {
    **WELL,
    "transmit_words": 6_000_000_000,
    "receive_words": 6_000_000_000,
    "receive_packets": 10**6,
}
KINDS = {"gpu": AT_WORK, "ib_port": ON_THE_WIRE}


class JudgedNode:
    """Eight GPUs and eight rails of n1 (or what is given).

    Counters start at ``begin`` of their name, else at 0.
    """

    def __init__(
        self,
        *,
        gpus: Sequence[Device] | None = None,
        ports: Sequence[Device] | None = None,
        begin: Mapping[str, int] | None = None,
        period_s: float = PERIOD_S,
    ) -> None:
        self.gpus = [a_gpu("n1", n) for n in range(8)] if gpus is None else list(gpus)
        self.ports = [a_port("n1", rail) for rail in range(8)] if ports is None else list(ports)
        self.clock, self.boot, self.period_s, self.begin = (
            FakeClock(),
            "boot-1",
            period_s,
            dict(begin or {}),
        )
        self.findings: list[Finding] = []
        self.incidents: dict[str, Incident] = {}
        periods = dict.fromkeys(SOURCES.values(), period_s)
        self._judge = Judge(
            all_detectors(), SelfMetrics(), self.clock, periods_s=periods, fusion=Incidents()
        )
        self._totals: dict[tuple[str, str], int] = {}
        self._line = self._seq = 0

    def run(
        self, seconds: float, metrics: Mapping[str, Values] | None = None, /, **all_: float | None
    ) -> list[Finding]:
        """Frames for so long: GPUs at work and their ports, but for these values of all and of
        single devices by id; counters grow by them.
        """
        findings: list[Finding] = []
        for _ in range(round(seconds / self.period_s)):
            self.clock.advance(self.period_s)
            for kind, devices in (("gpu", self.gpus), ("ib_port", self.ports)):
                values = {name: value for name, value in all_.items() if _has(kind, name)}
                readings = [
                    (
                        d,
                        self._reading(
                            d, {**KINDS[kind], **values, **(metrics or {}).get(d.id, {})}
                        ),
                    )
                    for d in devices
                ]
                frame = frame_of(kind, readings, self.clock.time_ns(), self.clock.monotonic_ns())
                findings += self._observe(SOURCES[kind], frames=(frame,))
        return findings

    def print(self, text: str, gpu: int = 0, *, reporter: str = "kmsg") -> list[Finding]:
        """The driver prints a line, or NVML reports the same; it is about this GPU."""
        happening = parse_text(text)
        assert happening is not None, text
        self._line += 1
        facts: dict[str, Any] = {**happening.facts, "origin": reporter}
        if reporter == "kmsg":
            facts |= {"stream": self.boot, "seq": self._line, "text": text}
        return self.report(happening.kind, self.gpus[gpu], source=reporter, **facts)

    def xid(self, code: int, gpu: int = 0, *, reporter: str = "kmsg") -> list[Finding]:
        """A line about a code."""
        return self.print(
            f"NVRM: Xid (PCI:0000:{0x10 + gpu:02x}:00): {code}, pid=4242, name=python3",
            gpu,
            reporter=reporter,
        )

    def job(self, name: str) -> None:
        """A job takes all GPUs."""
        for host in dict.fromkeys(gpu.host for gpu in self.gpus):
            metrics = " ".join(gpu.id for gpu in self.gpus if gpu.host == host)
            self.report(
                "job_started", Device(host, "node", host), source="jobs", job=name, gpus=metrics
            )

    def report(
        self, kind: str, device: Device, *, source: str = "kmsg", **facts: Value
    ) -> list[Finding]:
        """An event, now."""
        event = Event(self.clock.time_ns(), self.clock.monotonic_ns(), device, kind, facts)
        return self._observe(source, events=(event,))

    def driver_reload(self) -> None:
        """Every counter of the GPUs begins again, and their epoch changes."""
        for device in self.gpus:
            for key in [key for key in self._totals if key[0] == device.id]:
                self._totals[key] = 0
        self.gpus = [
            Device(g.host, g.kind, g.id, {**g.attributes, "epoch": "580#1"}) for g in self.gpus
        ]

    def count_from_zero(self, device: Device, *counters: str) -> None:
        """A program resets these counters of a device."""
        for name in counters:
            self._totals[device.id, name] = 0

    def alarms(self) -> list[Finding]:
        """Findings that alert so far."""
        return [finding for finding in self.findings if finding.severity != "record"]

    def _reading(self, device: Device, values: Values) -> dict[str, float | int | None]:
        reading: dict[str, float | int | None] = {}
        for name, value in values.items():
            reading[name] = value
            if name in schema_of(device.kind).counter_row and value is not None:
                key = device.id, name
                reading[name] = self._totals[key] = self._totals.get(
                    key, self.begin.get(name, 0)
                ) + int(value)
        return reading

    def _observe(self, source: str, **parts: tuple[object, ...]) -> list[Finding]:
        self._seq += 1
        now = (self.clock.time_ns(), self.clock.monotonic_ns())
        host = self.gpus[0].host
        judged = self._judge.judge(
            Observation(source, host, self.boot, self._seq, *now, 0, **parts)  # type: ignore[arg-type]
        )
        self.findings += judged.findings
        self.incidents |= {incident.id: incident for incident in judged.incidents}
        return list(judged.findings)


def _has(kind: str, name: str) -> bool:
    schema = schema_of(kind)
    return name in schema.gauge_row or name in schema.counter_row
