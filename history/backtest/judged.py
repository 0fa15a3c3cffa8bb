"""Judges a stored history with every detector allowed to alert: the alerts, and how much was
watched.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from detectors.paging import PROVED
from pipeline.clock import SECOND_NS
from pipeline.finding import Incident, Severity
from pipeline.frame import Frame
from pipeline.judged import JudgedObservation

# Time between two reads that counts as watched, at most: beyond it the node was not seen
# (Prometheus' lookback is 5 minutes).
MAX_STEP_NS = 300 * SECOND_NS
MONTH_S = 365.25 / 12 * 86_400


@dataclass(frozen=True, slots=True)
class Alert:
    """An incident that would have alerted: with the detectors whose findings it has, in the order
    of their evidence. ``installed``: also as installed, where only proved detectors alert.
    """

    incident: Incident
    detectors: tuple[str, ...]

    @property
    def severity(self) -> Severity:
        """Page or ticket."""
        return self.incident.severity

    @property
    def installed(self) -> bool:
        """Whether a detector that alerts as installed is among them."""
        return any(name in PROVED for name in self.detectors)


@dataclass(slots=True)
class History:
    """What was judged. Times are unix ns; ``columns`` are (kind, column) that had a value."""

    alerts: list[Alert] = field(default_factory=list)
    gpu_seconds: float = 0.0
    nodes: set[str] = field(default_factory=set)
    gpus: set[tuple[str, str]] = field(default_factory=set)
    sources: set[str] = field(default_factory=set)
    columns: set[tuple[str, str]] = field(default_factory=set)
    begin_ns: int = 0
    end_ns: int = 0

    @property
    def gpu_months(self) -> float:
        """GPUs times the time in which they were watched."""
        return self.gpu_seconds / MONTH_S


def judged(observations: Iterable[JudgedObservation]) -> History:
    """What a history says, from its observations with the findings and incidents of now."""
    history = History()
    last: dict[tuple[str, str], int] = {}
    detectors: dict[str, str] = {}  # of each finding
    incidents: dict[str, Incident] = {}
    for one in observations:
        observation = one.observation
        history.begin_ns = min(history.begin_ns or observation.time_ns, observation.time_ns)
        history.end_ns = max(history.end_ns, observation.time_ns)
        history.nodes.add(observation.host)
        history.sources.add(observation.source)
        for frame in observation.frames:
            _learn(history, frame)
            if frame.kind == "gpu" and frame.devices:
                key = (observation.host, observation.source)
                step = min(max(frame.time_ns - last.get(key, frame.time_ns), 0), MAX_STEP_NS)
                last[key] = frame.time_ns
                history.gpu_seconds += step / SECOND_NS * len(frame.devices)
                history.gpus.update((device.host, device.id) for device in frame.devices)
        detectors.update((finding.id, finding.detector) for finding in one.findings)
        for incident in one.incidents:
            incidents[incident.id] = _worst(incidents.get(incident.id), incident)
    for incident in sorted(incidents.values(), key=lambda one: (one.opened_ns, one.id)):
        if incident.severity != "record":
            by = dict.fromkeys(detectors[name] for name in incident.findings if name in detectors)
            history.alerts.append(Alert(incident, tuple(by)))
    return history


def _worst(before: Incident | None, now: Incident) -> Incident:
    """An incident as it was last, but as urgent as it ever was: who was paged stays paged."""
    order = ("record", "ticket", "page")
    if before is None or order.index(before.severity) <= order.index(now.severity):
        return now
    return before


def _learn(history: History, frame: Frame) -> None:
    """Which columns have a value: looked for until each was seen."""
    for name, row in frame.schema.gauge_row.items():
        if (frame.kind, name) not in history.columns and not np.isnan(frame.gauges[row]).all():
            history.columns.add((frame.kind, name))
    for name, row in frame.schema.counter_row.items():
        if (frame.kind, name) not in history.columns and frame.observed[row].any():
            history.columns.add((frame.kind, name))
