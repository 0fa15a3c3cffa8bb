"""Judges a stored history with every detector allowed to alert: the alerts, and how much was
watched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from detectors.paging import PROVED
from history.backtest.judgeable import Judgeable
from pipeline.clock import SECOND_NS
from pipeline.finding import Incident, Severity
from pipeline.judged import JudgedObservation
from pipeline.observation import Observation
from pipeline.store.files.scraped import boot_id

# Time between two reads that counts as watched, at most: beyond it the node was not seen
# (Prometheus' lookback is 5 minutes).
MAX_STEP_NS = 300 * SECOND_NS
MONTH_S = 365.25 / 12 * 86_400
LABELLED = "incident_labelled"
NO_BOOT = boot_id(0)  # of an import without node_boot_time_seconds


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


@dataclass(frozen=True, slots=True)
class Reboot:
    """A node came back with another boot; unix ns of its first reading."""

    node: str
    time_ns: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """An operator's label: the incident that the agent had reported then, when that opened (unix
    ns), its node, and the verdict.
    """

    node: str
    opened_ns: int
    verdict: str
    cause: str


@dataclass(slots=True)
class History:
    """What was judged. Times are unix ns; ``judgeable`` says which detectors could judge it."""

    alerts: list[Alert] = field(default_factory=list)
    gpu_ns: int = 0
    nodes: set[str] = field(default_factory=set)
    gpus: set[tuple[str, str]] = field(default_factory=set)
    reboots: list[Reboot] = field(default_factory=list)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    judgeable: list[Judgeable] = field(default_factory=list)
    begin_ns: int = 0
    end_ns: int = 0

    @property
    def gpu_months(self) -> float:
        """GPUs times the time in which they were watched."""
        return self.gpu_ns / SECOND_NS / MONTH_S

    @property
    def days(self) -> float:
        """From its first reading to its last."""
        return (self.end_ns - self.begin_ns) / SECOND_NS / 86_400


def judged(observations: Iterable[JudgedObservation]) -> History:
    """What a history says, from its observations with the findings and incidents of now."""
    history, watched = History(), _Watched()
    detectors: dict[str, str] = {}  # of each finding
    incidents: dict[str, Incident] = {}
    for one in observations:
        observation = one.observation
        history.begin_ns = min(history.begin_ns or observation.time_ns, observation.time_ns)
        history.end_ns = max(history.end_ns, observation.time_ns)
        history.nodes.add(observation.host)
        watched.take(observation, history)
        _take_verdicts(observation, history)
        detectors.update((finding.id, finding.detector) for finding in one.findings)
        for incident in one.incidents:
            incidents[incident.id] = _worst(incidents.get(incident.id), incident)
    for incident in sorted(incidents.values(), key=lambda one: (one.opened_ns, one.id)):
        if incident.severity != "record":
            by = dict.fromkeys(detectors[name] for name in incident.findings if name in detectors)
            history.alerts.append(Alert(incident, tuple(by)))
    return history


def together(histories: Sequence[History]) -> History:
    """One history of several, each of other nodes: the same however they were divided."""
    verdicts = [item for one in histories for item in one.verdicts.items()]
    return History(
        sorted(
            (alert for one in histories for alert in one.alerts),
            key=lambda alert: (alert.incident.opened_ns, alert.incident.id),
        ),
        sum(one.gpu_ns for one in histories),
        {node for one in histories for node in one.nodes},
        {gpu for one in histories for gpu in one.gpus},
        sorted(
            (reboot for one in histories for reboot in one.reboots),
            key=lambda reboot: (reboot.time_ns, reboot.node),
        ),
        dict(sorted(verdicts, key=lambda item: (item[1].opened_ns, item[0]))),
        begin_ns=min((one.begin_ns for one in histories if one.begin_ns), default=0),
        end_ns=max((one.end_ns for one in histories), default=0),
    )


class _Watched:
    """How long GPUs were watched, and which boots were seen."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], int] = {}
        self._boots: dict[str, str] = {}

    def take(self, observation: Observation, history: History) -> None:
        host, boot = observation.host, observation.boot_id
        boot = "" if boot == NO_BOOT else boot
        before = self._boots.get(host)
        if boot and before not in (None, "", boot):
            history.reboots.append(Reboot(host, observation.time_ns))
        self._boots[host] = boot or before or ""
        for frame in observation.frames:
            if frame.kind == "gpu" and frame.devices:
                key = (host, observation.source)
                step = min(max(frame.time_ns - self._last.get(key, frame.time_ns), 0), MAX_STEP_NS)
                self._last[key] = frame.time_ns
                history.gpu_ns += step * len(frame.devices)
                history.gpus.update((device.host, device.id) for device in frame.devices)


def _take_verdicts(observation: Observation, history: History) -> None:
    for event in observation.events:
        if event.kind == LABELLED:
            about = event.attributes
            history.verdicts[str(about.get("incident"))] = Verdict(
                event.device.host,
                int(about.get("opened_ns", event.time_ns)),
                str(about.get("verdict")),
                str(about.get("cause", "")),
            )


def _worst(before: Incident | None, now: Incident) -> Incident:
    """An incident as it was last, but as urgent as it ever was: who was paged stays paged."""
    order = ("record", "ticket", "page")
    if before is None or order.index(before.severity) <= order.index(now.severity):
        return now
    return before
