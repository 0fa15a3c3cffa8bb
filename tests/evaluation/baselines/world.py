"""A node for tests of baselines: what its GPUs and ports show, one frame every ten seconds, with
increments as the engine makes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline.catalog.ib_port import ACTIVE
from pipeline.finding import Finding
from pipeline.frame import Device, Frame, frame_of, schema_of
from pipeline.interfaces import Detector
from pipeline.observation import Event, Observation, Value
from pipeline.rates import Rates
from tests.fakes import FakeClock, gpu

STEP_S = 10.0
Values = Mapping[str, float | int | None]


def port(number: int = 0, link_layer: str = "InfiniBand") -> Device:
    """A port of node n1."""
    return Device(
        "n1",
        "ib_port",
        f"0x{number:016x}",
        {"device": f"mlx5_{number}", "port": "1", "link_layer": link_layer},
    )


class Node:
    """Gives a detector the readings of a test; ``findings`` are all its findings."""

    def __init__(self, detector: Detector) -> None:
        self.detector = detector
        self.clock = FakeClock()
        self.findings: list[Finding] = []
        self._rates = {kind: Rates(schema_of(kind), STEP_S) for kind in ("gpu", "ib_port")}

    def gpus(
        self, *values: Values, epoch: str = "a", steps: int = 1, every_s: float = STEP_S
    ) -> list[Finding]:
        """GPUs 0, 1, ... with these native values, the same for some steps."""
        rows = [(gpu(i, epoch=epoch), v) for i, v in enumerate(values)]
        return [f for _ in range(steps) for f in self._frame("gpu", rows, every_s)]

    def ports(
        self,
        *values: Values,
        link_layer: str = "InfiniBand",
        steps: int = 1,
        every_s: float = STEP_S,
    ) -> list[Finding]:
        """Ports 0, 1, ... that are active unless they say otherwise."""
        rows = [(port(i, link_layer), {"state": ACTIVE} | dict(v)) for i, v in enumerate(values)]
        return [f for _ in range(steps) for f in self._frame("ib_port", rows, every_s)]

    def xid(self, code: int, *, epoch: str = "a", **attributes: Value) -> list[Finding]:
        """The kernel reports an XID of GPU 0."""
        event = Event(
            self.clock.time_ns(),
            self.clock.monotonic_ns(),
            gpu(0, epoch=epoch),
            "xid",
            {"code": code, **attributes},
        )
        return self._show((), (event,))

    def _frame(
        self, kind: str, rows: Sequence[tuple[Device, Values]], every_s: float
    ) -> list[Finding]:
        self.clock.advance(every_s)
        frame = frame_of(kind, rows, self.clock.time_ns(), self.clock.monotonic_ns())
        return self._show((self._rates[kind].add(frame, "boot"),), ())

    def _show(self, frames: tuple[Frame, ...], events: tuple[Event, ...]) -> list[Finding]:
        now = self.clock.time_ns(), self.clock.monotonic_ns()
        new = list(
            self.detector.update(Observation("any", "n1", "boot", 0, *now, 0, frames, events))
        )
        self.findings += new
        return new


def outcomes(findings: list[Finding]) -> list[tuple[str, str, str]]:
    """Rule, phase and severity of each finding."""
    return [(f.summary, f.phase, f.severity) for f in findings]
