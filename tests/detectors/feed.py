"""Feeds a detector with GPUs (or other devices of one kind) of one or more nodes: gauges as given,
counters by what they grow per second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import nan

import numpy as np

from detectors.kit.findings import REST_NS
from pipeline.catalog import field
from pipeline.finding import Finding
from pipeline.frame import Device, Frame, blank, schema_of
from pipeline.interfaces import Detector
from pipeline.observation import Event, Observation, Value
from pipeline.rates import Rates
from tests.fakes import FakeClock

Number = float | None
GPUS = 8


def a_gpu(host: str, index: int, **facts: str) -> Device:
    """A GPU of a node."""
    attributes = {
        "index": str(index),
        "pci_bus_id": f"00000000:{0x10 + index:02X}:00.0",
        "name": "NVIDIA H100",
        "epoch": "580#0",
    }
    return Device(host, "gpu", f"GPU-{host}-{index}", attributes | facts)


class Feed:
    """One detector and the GPUs it sees.

    Counters start at ``begin``, as those of machines that have been on for a while do.

    A value is one number for all GPUs, a list with one per GPU, or None = not observed.
    """

    def __init__(
        self,
        detector: Detector,
        *,
        gpus: Sequence[Device] | int = GPUS,
        period_s: float = 10.0,
        begin: int = 10**6,
    ) -> None:
        self.detector, self.clock, self.period_s, self.begin = (
            detector,
            FakeClock(),
            period_s,
            begin,
        )
        self.gpus = [a_gpu("n1", i) for i in range(gpus)] if isinstance(gpus, int) else list(gpus)
        self.boot = "boot-1"
        self.findings: list[Finding] = []
        self._schema = schema_of(self.gpus[0].kind)
        self._rates = Rates(self._schema, period_s)
        self._totals: dict[tuple[str, str], float] = {}
        self._devices: tuple[Device, ...] = ()
        self._seq = 0

    def run(self, seconds: float, **values: Number | Sequence[Number]) -> list[Finding]:
        """Frames every period for so long."""
        findings: list[Finding] = []
        for _ in range(round(seconds / self.period_s)):
            self.clock.advance(self.period_s)
            findings += self.frame(values)
        return findings

    def once(self, **values: Number | Sequence[Number]) -> list[Finding]:
        """One frame; here a counter grows by the value itself."""
        self.clock.advance(self.period_s)
        return self.frame(values, per_second=False)

    def frame(
        self, values: Mapping[str, Number | Sequence[Number]], *, per_second: bool = True
    ) -> list[Finding]:
        """One frame now."""
        grows = self.period_s if per_second else 1.0
        devices = self._shown()
        gauges, counters, observed = blank(self._schema.kind, devices)
        for name, given in values.items():
            if name in self._schema.gauge_row:
                gauges[self._schema.gauge_row[name]] = _gauge(given)
                continue
            for row, device in enumerate(devices):
                value = given if given is None or isinstance(given, int | float) else given[row]
                if value is not None:
                    index = self._schema.counter_row[name]
                    total = self._totals.get((device.id, name), self.begin) + value * grows
                    self._totals[device.id, name] = total
                    counters[index, row], observed[index, row] = int(total), True
        now = (self.clock.time_ns(), self.clock.monotonic_ns())
        stamps = np.zeros(len(devices), np.int64)
        frame = Frame(self._schema, *now, devices, gauges, counters, observed, stamps)
        return self.observe(self._observation("nvml", frames=(self._rates.add(frame, self.boot),)))

    def _shown(self) -> tuple[Device, ...]:
        """The GPUs as frames have them: as in the agent, the same tuple while they are the same."""
        if len(self._devices) != len(self.gpus) or any(
            was is not now for was, now in zip(self._devices, self.gpus, strict=True)
        ):
            self._devices = tuple(self.gpus)
        return self._devices

    def restart_counters(self) -> None:
        """The driver was loaded again: counters that are not kept on the board go back to 0, and
        the GPUs' epoch changes.
        """
        self._totals = {
            key: total if field(self._schema.kind, key[1]).lifetime else 0.0
            for key, total in self._totals.items()
        }
        number = int(self.gpus[0].attributes["epoch"].partition("#")[2]) + 1
        self.gpus = [
            Device(g.host, g.kind, g.id, {**g.attributes, "epoch": f"580#{number}"})
            for g in self.gpus
        ]

    def events(self, *events: Event, source: str = "kmsg") -> list[Finding]:
        """Events, now."""
        return self.observe(self._observation(source, events=events))

    def event(
        self,
        device: Device,
        kind: str,
        *,
        source: str = "kmsg",
        ago_s: float = 0.0,
        **attributes: Value,
    ) -> list[Finding]:
        """One event."""
        ago = round(ago_s * 1e9)
        return self.events(
            Event(
                self.clock.time_ns() - ago,
                self.clock.monotonic_ns() - ago,
                device,
                kind,
                attributes,
            ),
            source=source,
        )

    def observe(self, observation: Observation) -> list[Finding]:
        """What the detector says."""
        findings = list(self.detector.update(observation))
        self.findings += findings
        return findings

    def _observation(self, source: str, **parts: tuple[object, ...]) -> Observation:
        self._seq += 1
        now = (self.clock.time_ns(), self.clock.monotonic_ns())
        return Observation(source, self.gpus[0].host, self.boot, self._seq, *now, 0, **parts)  # type: ignore[arg-type] # by name


def _gauge(given: Number | Sequence[Number]) -> float | list[float]:
    """Values of a gauge, missing ones as frames have them."""
    if given is None or isinstance(given, int | float):
        return nan if given is None else given
    return [nan if value is None else value for value in given]


def relapse(
    clock: FakeClock, faulty: Callable[[], list[Finding]], healthy: Callable[[], list[Finding]]
) -> list[Finding]:
    """Findings about a fault that was reported, ended, came back within its rest and went again,
    until its rest is long over.
    """
    assert [f.phase for f in (*faulty(), *healthy())] == ["onset", "cleared"]
    until_ns = clock.monotonic_ns() + 2 * REST_NS
    findings = [*faulty(), *healthy()]
    assert clock.monotonic_ns() < until_ns - REST_NS, (
        "it rested no longer when it had come and gone"
    )
    while clock.monotonic_ns() < until_ns:
        findings += healthy()
    return findings


def updates(findings: Sequence[Finding]) -> list[tuple[str, str, str, str, str]]:
    """Findings as (kind, id, fault, severity, phase)."""
    return [(f.device.kind, f.device.id, f.fault, f.severity, f.phase) for f in findings]


def open_findings(findings: Sequence[Finding]) -> list[tuple[str, str, str, str]]:
    """Open findings in the end, as (kind, id, fault, severity), in the order it began."""
    found: dict[str, tuple[str, str, str, str]] = {}
    for f in findings:
        if f.phase == "cleared":
            del found[f.id]
        else:
            found[f.id] = (f.device.kind, f.device.id, f.fault, f.severity)
    return list(found.values())
