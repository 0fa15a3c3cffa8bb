"""A story told to the fusion: who found what when, without detectors, frames only
where the graph needs them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from detectors.incidents import Incidents
from detectors.kit.snapshot import dump, load
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding, Incident, Severity
from pipeline.frame import Device, frame_of
from pipeline.observation import Event, Observation, Value
from tests.fakes import START_NS


def gpu(number: int = 0, host: str = "n1", **facts: str) -> Device:
    """A GPU of a host."""
    return Device(host, "gpu", f"GPU-{host}-{number}", facts)


def port(number: int = 0, host: str = "n1", **facts: str) -> Device:
    """A port of a host, or of a switch."""
    return Device(host, "ib_port", f"{host}-{number}", facts)


def node(host: str = "n1") -> Device:
    """A host as a whole."""
    return Device(host, "node", host)


class Story:
    """Time goes by with ``wait``; what the fusion tells is kept in ``told``, and returned by
    whatever made it say so.
    """

    def __init__(self, fusion: Incidents | None = None) -> None:
        self.fusion = fusion or Incidents()
        self.seconds = 0.0
        self._step_ns = 0  # of the wall clock, in all
        self.updates: list[Incident] = []
        self._seq = 0

    def nodes(self, *hosts: str, gpus: int = 8, **facts: str) -> None:
        """These hosts exist, each with its GPUs."""
        devices = [gpu(n, host, **facts) for host in hosts for n in range(gpus)]
        self.see(frames=[frame_of("gpu", [(device, {}) for device in devices], START_NS, 0)])

    def finds(
        self,
        device: Device,
        fault: str,
        severity: Severity = "page",
        detector: str = "d",
        **more: object,
    ) -> Finding:
        """A detector tells of a fault that began now."""
        at = self.now_ns
        finding = Finding(
            detector,
            device,
            fault,
            "onset",
            severity,
            at,
            at,
            f"{fault} it is.",
            **more,  # type: ignore[arg-type]
        )
        self.see(findings=[finding])
        return finding

    def clears(self, finding: Finding) -> None:
        """What a detector found has ended."""
        self.see(findings=[replace(finding, phase="cleared", time_ns=self.now_ns)])

    def happens(self, kind: str, device: Device, **attributes: Value) -> None:
        """An event."""
        self.see(events=[Event(self.now_ns, 0, device, kind, attributes)])

    def step_clock(self, seconds: float) -> None:
        """The wall clock is set; durations are as before."""
        self._step_ns += round(seconds * SECOND_NS)

    @property
    def now_ns(self) -> int:
        """Of the wall clock."""
        return START_NS + self._step_ns + round(self.seconds * SECOND_NS)

    def wait(self, seconds: float, step: float = 60.0) -> None:
        """Nothing is found for so long."""
        end = self.seconds + seconds
        while self.seconds < end:
            self.seconds = min(self.seconds + step, end)
            self.see()

    def see(
        self,
        findings: Iterable[Finding] = (),
        events: Iterable[Event] = (),
        frames: Iterable[object] = (),
    ) -> None:
        """One observation."""
        self._seq += 1
        ns = round(self.seconds * SECOND_NS)
        seen = Observation(
            "nvml",
            "n1",
            "boot",
            self._seq,
            self.now_ns,
            ns,
            0,
            tuple(frames),  # type: ignore[arg-type]
            tuple(events),
        )
        self.updates += self.fusion.update(seen, tuple(findings))

    def restart(self) -> None:
        """A new fusion with the memory of this one."""
        fresh = Incidents()
        assert load(dump([self.fusion]), [fresh]) == ()
        self.fusion = fresh

    @property
    def pages(self) -> list[str]:
        """Ids of incidents in the order in which somebody was paged for them, once each."""
        return list(dict.fromkeys(i.id for i in self.updates if i.severity == "page" and i.active))

    @property
    def open(self) -> dict[str, tuple[str, str, Severity]]:
        """Root, class and severity of what is open, by id of the root."""
        return {i.root.id: (i.root.kind, i.fault, i.severity) for i in self.fusion.open()}
