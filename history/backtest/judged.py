"""Judges a stored history with every detector allowed to alert: the alerts, and how much was
watched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from collector.replaying.nodes import JudgedRound
from detectors.node_horizon import Said
from detectors.paging import PROVED
from history.backtest.judgeable import Judgeable
from pipeline.clock import SECOND_NS
from pipeline.finding import Incident, Severity
from pipeline.frame import Device
from pipeline.judged import JudgedObservation
from pipeline.observation import Event, Observation
from pipeline.round import Round
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

    def watch(self, host: str, first_ns: int, last_ns: int) -> None:
        """A node was read, from one time to another."""
        self.nodes.add(host)
        self.begin_ns = min(self.begin_ns or first_ns, first_ns)
        self.end_ns = max(self.end_ns, last_ns)

    @property
    def gpu_months(self) -> float:
        """GPUs times the time in which they were watched."""
        return self.gpu_ns / SECOND_NS / MONTH_S

    @property
    def days(self) -> float:
        """From its first reading to its last."""
        return (self.end_ns - self.begin_ns) / SECOND_NS / 86_400


def judged(observations: Iterable[JudgedObservation | JudgedRound]) -> History:
    """What a history says, from its observations with the findings and incidents of now: of one
    node, or of many in rounds.
    """
    history, watched = History(), _Watched()
    detectors: dict[str, str] = {}  # of each finding
    incidents: dict[str, Incident] = {}
    for one in observations:
        said: Iterable[JudgedObservation | Said]
        events: Iterable[Event]
        if isinstance(one, JudgedRound):
            watched.take_round(one.round, history)
            events, said = chain.from_iterable(one.round.events.values()), one.said.values()
        else:
            watched.take(one.observation, history)
            events, said = one.observation.events, (one,)
        _take_verdicts(events, history)
        for each in said:
            detectors.update((finding.id, finding.detector) for finding in each.findings)
            for incident in each.incidents:
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
        self._last: dict[tuple[str, str], tuple[int, tuple[Device, ...] | None]] = {}
        self._boots: dict[str, str] = {}

    def take(self, observation: Observation, history: History) -> None:
        """One of a node."""
        host, time_ns = observation.host, observation.time_ns
        history.watch(host, time_ns, time_ns)
        self._boot(host, observation.boot_id, time_ns, history)
        for frame in observation.frames:
            if frame.kind == "gpu" and frame.devices:
                self._gpus((host, observation.source), frame.time_ns, frame.devices, history)

    def take_round(self, one: Round, history: History) -> None:
        """One of each of many nodes."""
        times_ns = one.time_ns.tolist()
        for host, boot, time_ns in zip(one.names, one.boots, times_ns, strict=True):
            self._boot(host, boot, time_ns, history)
            history.nodes.add(host)
        history.watch(one.names[0], min(times_ns), max(times_ns))
        for rows in one.frames:
            if rows.schema.kind == "gpu":
                of_rows = zip(one.names, rows.time_ns.tolist(), rows.parts, strict=True)
                for host, time_ns, devices in of_rows:
                    if devices:
                        self._gpus((host, one.source), time_ns, devices, history)

    def _boot(self, host: str, boot_id: str, time_ns: int, history: History) -> None:
        boot = "" if boot_id == NO_BOOT else boot_id
        before = self._boots.get(host)
        if boot and before not in (None, "", boot):
            history.reboots.append(Reboot(host, time_ns))
        self._boots[host] = boot or before or ""

    def _gpus(
        self, key: tuple[str, str], time_ns: int, devices: tuple[Device, ...], history: History
    ) -> None:
        last_ns, known = self._last.get(key, (time_ns, None))
        history.gpu_ns += min(max(time_ns - last_ns, 0), MAX_STEP_NS) * len(devices)
        self._last[key] = time_ns, devices
        if known is not devices:
            history.gpus.update((device.host, device.id) for device in devices)


def _take_verdicts(events: Iterable[Event], history: History) -> None:
    for event in events:
        if event.kind == LABELLED:
            about = event.attributes
            history.verdicts[str(about.get("incident"))] = Verdict(
                event.device.host,
                int(about.get("opened_ns", event.time_ns)),
                str(about.get("verdict")),
                str(about.get("cause", "")),
            )


def _worst(before: Incident | None, now: Incident) -> Incident:
    """An incident as it was when it was most urgent, with what came to it later and its end: who
    was paged stays paged.
    """
    order = ("record", "ticket", "page")
    if before is None or order.index(before.severity) <= order.index(now.severity):
        return now
    return replace(
        before,
        findings=now.findings,
        cleared_ns=now.cleared_ns,
        ended=now.ended,
        times=now.times,
        again_ns=now.again_ns,
    )
