"""Fakes at the seams: a clock that jumps, sources that are lists, a sink that remembers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from pipeline.clock import SECOND_NS
from pipeline.finding import Finding, Incident
from pipeline.frame import Device, Frame, frame_of
from pipeline.observation import Observation, Reading

START_NS = 1_800_000_000_000_000_000  # 2027-01-15 08:00:00 UTC


class FakeClock:
    """Stands still until told: ``advance`` moves both clocks, ``step`` the wall clock alone."""

    def __init__(self, wall_ns: int = START_NS, mono_ns: int = 100 * SECOND_NS) -> None:
        self._wall, self._mono = wall_ns, mono_ns

    def time_ns(self) -> int:
        return self._wall

    def monotonic_ns(self) -> int:
        return self._mono

    def advance(self, seconds: float) -> None:
        self._wall += round(seconds * SECOND_NS)
        self._mono += round(seconds * SECOND_NS)

    def step(self, seconds: float) -> None:
        self._wall += round(seconds * SECOND_NS)


class FakeSource:
    """Gives the readings of a list in turn (the last one forever), raising those that are
    exceptions; a callable is called.
    """

    def __init__(
        self, name: str, readings: Iterable[Reading | Exception | Callable[[], Reading]] = ()
    ) -> None:
        self.name = name
        self._readings = list(readings) or [Reading()]
        self.reads = 0
        self.closed = 0

    def read(self) -> Reading:
        reading = self._readings[min(self.reads, len(self._readings) - 1)]
        self.reads += 1
        if isinstance(reading, Exception):
            raise reading
        return reading if isinstance(reading, Reading) else reading()

    def close(self) -> None:
        self.closed += 1


class FakeSink:
    """Remembers everything; raises while ``error`` is set."""

    def __init__(self, name: str = "memory") -> None:
        self.name = name
        self.written: list[tuple[Observation, Sequence[Finding]]] = []
        self.incidents: list[Incident] = []
        self.error: Exception | None = None

    @property
    def observations(self) -> list[Observation]:
        return [observation for observation, _ in self.written]

    @property
    def findings(self) -> list[Finding]:
        return [finding for _, findings in self.written for finding in findings]

    def write(
        self,
        observation: Observation,
        findings: Sequence[Finding],
        incidents: Sequence[Incident] = (),
    ) -> None:
        if self.error is not None:
            raise self.error
        self.written.append((observation, findings))
        self.incidents += incidents


def gpu(index: int = 0, **attributes: str) -> Device:
    """A GPU of node n1."""
    facts = {"index": str(index), "pci_bus_id": f"00000000:{0x1B + index:02X}:00.0"} | attributes
    return Device("n1", "gpu", f"GPU-{index:08x}", facts)


def gpu_frame(clock: FakeClock, *values: Mapping[str, float | int | None]) -> Frame:
    """One frame of GPUs 0, 1, ... with these native values, now."""
    return frame_of(
        "gpu", [(gpu(i), v) for i, v in enumerate(values)], clock.time_ns(), clock.monotonic_ns()
    )


def observed(clock: FakeClock, *frames: Frame, source: str = "nvml", seq: int = 0) -> Observation:
    """An observation of these frames, now."""
    return Observation(
        source, "n1", "boot-1", seq, clock.time_ns(), clock.monotonic_ns(), 0, frames
    )
