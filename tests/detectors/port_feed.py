"""Feeds a detector with the ports of nodes and of their leaf switches: gauges as given,
counters by what they grow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline.catalog import field
from pipeline.finding import Finding
from pipeline.frame import Device, frame_of, schema_of
from pipeline.interfaces import Detector
from pipeline.observation import Event, Observation, Value
from pipeline.rates import Rates
from tests.fakes import FakeClock

Reading = Mapping[str, float | int | None]
ACTIVE, DOWN, ABSENT = 4, 1, 16
NDR = 400e9
WELL: dict[str, float] = {
    "state": ACTIVE,
    "expected": 1,
    "rate_bits_per_second": NDR,
    "width_lanes": 4,
}


def a_port(host: str, rail: int = 0, **facts: str) -> Device:
    """A node's port on a rail."""
    attributes = {
        "device": f"mlx5_{rail}",
        "port": "1",
        "hca_type": "MT4129",
        "link_layer": "InfiniBand",
        "rail": str(rail),
    }
    return Device(host, "ib_port", f"{host}/{rail}", attributes | facts)


def a_link(host: str, rail: int = 0) -> tuple[Device, Device]:
    """A node's port, and the port of the leaf switch at the other end."""
    leaf = f"leaf-{rail}"
    near = a_port(host, rail, leaf=leaf, peer=f"{leaf}/{host}")
    return near, Device(
        leaf,
        "ib_port",
        f"{leaf}/{host}",
        {"device": leaf, "port": host, "leaf": leaf, "peer": near.id},
    )


class PortFeed:
    """One detector and the ports it sees.

    Values of all ports, and by port id those that differ; counters are cut to their register.
    """

    def __init__(
        self, detector: Detector, ports: Sequence[Device], *, period_s: float = 10.0
    ) -> None:
        self.detector, self.ports, self.period_s = detector, tuple(ports), period_s
        self.clock, self.boot = FakeClock(), "boot-1"
        self.totals: dict[tuple[str, str], int] = {}
        self._rates = Rates(schema_of("ib_port"), period_s)
        self._seq = 0

    def run(
        self, seconds: float, own: Mapping[str, Reading] | None = None, **values: float | None
    ) -> list[Finding]:
        """Frames every period for so long; counters named here grow by so much in each frame."""
        findings: list[Finding] = []
        for _ in range(round(seconds / self.period_s)):
            findings += self.once(own, **values)
        return findings

    def once(
        self, own: Mapping[str, Reading] | None = None, **values: float | None
    ) -> list[Finding]:
        """One frame."""
        self.clock.advance(self.period_s)
        readings = [
            (port, self._reading(port, {**WELL, **values, **(own or {}).get(port.id, {})}))
            for port in self.ports
        ]
        frame = frame_of("ib_port", readings, self.clock.time_ns(), self.clock.monotonic_ns())
        return self._observe(frames=(self._rates.add(frame, self.boot),))

    def booted(self, host: str) -> list[Finding]:
        """The host's agent says that the node was booted now."""
        boot_s = self.clock.time_ns() // 10**9
        node = (Device(host, "node", host), {"boot_time_seconds": boot_s})
        return self._observe(
            frames=(frame_of("node", [node], self.clock.time_ns(), self.clock.monotonic_ns()),)
        )

    def event(
        self, device: Device, kind: str, *, ago_s: float = 0.0, **attributes: Value
    ) -> list[Finding]:
        """Something that happened."""
        ago = round(ago_s * 1e9)
        return self._observe(
            events=(Event(self.clock.time_ns() - ago, 0, device, kind, attributes),)
        )

    def _reading(self, port: Device, values: Reading) -> dict[str, float | int | None]:
        reading: dict[str, float | int | None] = {}
        for name, value in values.items():
            reading[name] = value
            if name in schema_of("ib_port").counter_row and value is not None:
                top = 2 ** field("ib_port", name).width - 1
                self.totals[port.id, name] = reading[name] = min(
                    self.totals.get((port.id, name), 0) + int(value), top
                )
        return reading

    def _observe(self, **parts: tuple[object, ...]) -> list[Finding]:
        self._seq += 1
        now = (self.clock.time_ns(), self.clock.monotonic_ns())
        host = self.ports[0].host
        return list(
            self.detector.update(
                Observation("infiniband", host, self.boot, self._seq, *now, 0, **parts)  # type: ignore[arg-type]
            )
        )
