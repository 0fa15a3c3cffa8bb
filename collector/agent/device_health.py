"""Counts of what was found, and the health of every device from its active findings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from detectors.incidents import Health, health_of
from pipeline.catalog import agent
from pipeline.finding import Finding, Incident
from pipeline.frame import Device
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics

BEST_FIRST: tuple[Health, ...] = ("ok", "degraded", "predicted_failure", "failed")
# whose health is shown while they are well; of other kinds only who is not
KINDS = ("node", "gpu", "ib_port")
MAX_SHOWN = 500


class DeviceHealthMetrics:
    """The sink that keeps both.

    ``standing`` returns the active findings.
    """

    name = "told"

    def __init__(self, metrics: SelfMetrics, standing: Callable[[], Iterable[Finding]]) -> None:
        self._metrics, self._standing = metrics, standing
        self._open: set[str] = set()
        self._devices: dict[tuple[str, str], tuple[Device, ...]] = {}
        self.health: dict[Device, Health] = {}

    def resume(self, incidents: Iterable[Incident]) -> None:
        """Continue with what was active when the agent stopped: it was counted then."""
        self._open = {incident.id for incident in incidents}
        self._judge()

    def forget(self, sources: Collection[str]) -> None:
        """Leave out the devices of sources that are no longer read, but for what has findings."""
        self._devices = {key: of for key, of in self._devices.items() if key[0] not in sources}
        self._judge()

    def write(
        self,
        observation: Observation,
        findings: Sequence[Finding],
        incidents: Sequence[Incident] = (),
    ) -> None:
        """Count what began, and judge devices again where anything changed."""
        for finding in findings:
            if finding.phase == "onset":
                self._metrics.add(agent.FINDINGS, finding.detector, finding.severity)
        for incident in incidents:
            self._incident(incident)
        if self._came_or_went(observation) or findings:
            self._judge()

    def _incident(self, incident: Incident) -> None:
        if not incident.active:
            self._open.discard(incident.id)
        elif incident.id not in self._open:
            self._open.add(incident.id)
            self._metrics.add(agent.INCIDENTS, incident.fault, incident.severity)

    def _came_or_went(self, observation: Observation) -> bool:
        changed = False
        for frame in observation.frames:
            key = (observation.source, frame.kind)
            if frame.kind in KINDS and self._devices.get(key) is not frame.devices:
                self._devices[key] = frame.devices
                changed = True
        return changed

    def _judge(self) -> None:
        seen = (device for devices in self._devices.values() for device in devices)
        self.health = {**dict.fromkeys(seen, "ok"), **health_of(self._standing())}
        worst_first = sorted(self.health.items(), key=lambda item: -BEST_FIRST.index(item[1]))[
            :MAX_SHOWN
        ]
        self._metrics.replace(
            agent.DEVICE_HEALTH,
            {(device.kind, device.id, health): 1.0 for device, health in worst_first},
        )
