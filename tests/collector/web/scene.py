"""A node for tests of its page: two GPUs, two ports, a job; what is read and said of
them is set by the test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from collector.node.out_of_service import Out
from collector.web import AgentPages
from collector.web.job_settings import JobSettings
from collector.web.page import page
from collector.web.recent import Recent
from collector.web.status import Node
from detectors.incidents import health_of
from pipeline.catalog import agent
from pipeline.clock import SECOND_NS
from pipeline.exposition import Exposition
from pipeline.finding import Finding, Incident
from pipeline.frame import Device, Frame, frame_of, schema_of
from pipeline.observation import Observation
from pipeline.past_incidents import PastIncidents
from pipeline.rates import Rates
from pipeline.selfmetrics import SelfMetrics
from tests.fakes import FakeClock, gpu, observed

WELL = {
    "state": 0,
    "temperature_celsius": 61,
    "power_milliwatts": 650_000,
    "power_limit_enforced_milliwatts": 700_000,
    "temperature_slowdown_celsius": 89,
    "gpu_utilization_percent": 98,
    "memory_used_bytes": 60 * 2**30,
    "memory_total_bytes": 80 * 2**30,
}
UP = {"state": 4, "rate_bits_per_second": 400_000_000_000, "expected": 1}
WORDS_PER_SECOND = 5_000_000_000  # 4 bytes each: 160 Gb/s


class Scene:
    """Reads once a second when told to ``play``.

    Set ``gpus``, ``ports``, ``simulated`` and say findings and incidents in between.
    """

    def __init__(
        self, *, name: str = "NVIDIA H100 80GB HBM3", host: str = "n1", simulated: str = ""
    ) -> None:
        self.clock, self.metrics, self.recent = FakeClock(), SelfMetrics(), Recent()
        self.exposition = Exposition(self.metrics, clock=self.clock, periods={"nvml": 1.0})
        self.gpus: list[tuple[Device, dict[str, float]]] = [
            (gpu(i, name=name, serial=f"16521690{i}"), dict(WELL)) for i in range(2)
        ]
        self.ports: list[tuple[Device, dict[str, float]]] = [
            (
                Device(
                    "n1", "ib_port", f"0xa088c20300{i:06x}", {"device": f"mlx5_{i}", "port": "1"}
                ),
                dict(UP),
            )
            for i in range(2)
        ]
        self.jobs = [Device("n1", "job", "4711", {})]
        self.holders: list[Device] = []
        self.out: tuple[Out, ...] = ()
        self.current: dict[str, Finding] = {}
        self.past = PastIncidents()
        self.missing = ""
        self._rates = Rates(schema_of("ib_port"), 1.0)
        self._words = 0
        self.settings = JobSettings()
        self.pages = AgentPages(
            self.exposition,
            self.metrics,
            self.clock,
            Node(host, "0.1.0", simulated),
            unready=lambda: self.missing,
            health=lambda: health_of(self.exposition.findings()),
            out=lambda: self.out,
            recent=self.recent,
            current=lambda: self.current,
            past=lambda: self.past,
            settings=self.settings,
        )
        for source in ("nvml", "infiniband"):
            self.source(source)

    def source(self, name: str, *, reads: bool = True) -> None:
        """Let a source read, or be blind."""
        self.metrics.set(agent.SOURCE_SUCCESS, float(reads), name)
        self.metrics.set(agent.SOURCE_LAST_SUCCESS, self.clock.time_ns() / 1e9, name)

    def play(self, seconds: int = 1) -> Scene:
        """Read so many times, a second apart."""
        for _ in range(seconds):
            self.clock.advance(1)
            self._words += WORDS_PER_SECOND
            frames = [
                self._frame("gpu", self.gpus),
                self._frame("job", [(job, {"processes": 2}) for job in self.jobs]),
            ]
            frames.append(
                self._frame("device_job", [(holder, {"processes": 1}) for holder in self.holders])
            )
            counts = {"receive_words": self._words, "transmit_words": self._words // 2}
            ports = self._rates.add(
                self._frame("ib_port", [(device, {**row, **counts}) for device, row in self.ports])
            )
            self._write(observed(self.clock, *frames, ports))
        return self

    def hold(self, device: Device, **by: str) -> None:
        """A job or pod that holds a GPU."""
        self.holders.append(
            Device(
                "n1", "device_job", f"{device.id}/{len(self.holders)}", {"uuid": device.id, **by}
            )
        )

    def say(self, device: Device, summary: str, **about: Any) -> Finding:
        """A finding that stands from now on."""
        now = self.clock.time_ns()
        reported = {"fault": "xid", "severity": "page", "action": "RESTART_BM"} | about
        finding = Finding(
            "xid", device, phase="onset", onset_ns=now, time_ns=now, summary=summary, **reported
        )
        self._write(observed(self.clock), finding)
        return finding

    def blame(self, finding: Finding, *more: Finding, **about: Any) -> Incident:
        """An incident of these findings, open from now on."""
        now = self.clock.time_ns()
        ids = tuple(one.id for one in (finding, *more))
        incident = Incident(
            f"7d82{finding.id[:8]}",
            finding.device,
            finding.fault,
            finding.severity,
            finding.action,
            now,
            ids,
            finding.summary,
        )
        incident = replace(incident, **({"reason": "Drain the node and power-cycle it."} | about))
        self.exposition.write(observed(self.clock), (), (incident,))
        return incident

    def end(self, incident: Incident, ended: str = "It is read again.") -> None:
        """It is over."""
        over = replace(incident, cleared_ns=self.clock.time_ns(), ended=ended)
        self.exposition.write(observed(self.clock), (), (over,))
        self.past.take((), (over,))

    def is_over(self, finding: Finding, *why: str) -> None:
        """A finding has ended."""
        over = replace(
            finding,
            phase="cleared",
            time_ns=self.clock.time_ns(),
            evidence=(*finding.evidence, *why),
        )
        self._write(observed(self.clock), over)
        self.past.take((over,), ())

    def sees(self, finding: Finding, **now: Any) -> None:
        """The detector sees a finding like this now."""
        self.current[finding.id] = replace(finding, time_ns=self.clock.time_ns(), **now)

    def take_out(self, device: Device, reason: str = "new firmware") -> None:
        """Out of service for an hour, by ada."""
        now = self.clock.time_ns()
        self.out = (
            *self.out,
            Out(device.host, device.kind, device.id, now, now + 3600 * SECOND_NS, reason, "ada"),
        )

    def status(self) -> Mapping[str, Any]:
        """The document."""
        return self.pages.status()

    def page(self) -> str:
        """The page."""
        return page(self.status(), self.pages.recently, "/metrics")

    def _frame(self, kind: str, rows: Sequence[tuple[Device, Mapping[str, float]]]) -> Frame:
        return frame_of(kind, rows, self.clock.time_ns(), self.clock.monotonic_ns())

    def _write(self, observation: Observation, *findings: Finding) -> None:
        self.exposition.write(observation, findings)
        self.recent.write(observation)
