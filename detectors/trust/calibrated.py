"""Incidents that a learnt probability calls hardly ever real are recorded, not reported."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from detectors.kit.snapshot import Snapshotable, State
from detectors.kit.stateful import Commit, Stateful, from_text_array, text_array
from detectors.trust.calibration import Calibration, ModelError
from detectors.trust.openings import BURST_NS, FirstEvidence, Openings, opening_of
from pipeline.arrival_cut import GATEWAY
from pipeline.finding import Finding, Incident
from pipeline.frame import Device
from pipeline.interfaces import Fusion
from pipeline.observation import Event, Observation

log = logging.getLogger("tocsin.calibration")

CHANGED = "calibration_changed"
OWN = "calibrated/"  # of what is remembered here; the rest is the fusion's
# An incident may open long after its first evidence: a record of the last ten minutes, or a finding
# that waited for others of its place.
REMEMBERED_NS = 2 * BURST_NS
MAX_REMEMBERED = 20_000  # beyond it the oldest are forgotten, and their incidents stay tickets


def changed(model: Calibration | None, host: str, time_ns: int) -> Event:
    """From here on incidents are judged by this model, or by none."""
    facts = {} if model is None else {"model": model.text(), "hash": model.hash}
    return Event(time_ns, 0, Device(host, "node", host), CHANGED, facts)


class Calibrated(Stateful):
    """A fusion whose tickets are lowered to records where the model says so.

    The model comes with an event, as everything that judges: a replay meets the same event. Without
    a model nothing changes. An incident that is lowered is so until it pages or ends. A model that
    is damaged is refused, and the one before it stays; one that a node sends is no gateway's.
    """

    def __init__(self, fusion: Fusion) -> None:
        self._fusion = fusion
        self._openings, self._memory = Openings(), _Memory()

    @property
    def name(self) -> str:
        """The fusion's: it is one of them."""
        return self._fusion.name

    @property
    def version(self) -> int:  # type: ignore[override] # the fusion's own
        """Of the fusion's memory; what is added here may be missing in it."""
        return self._inner.version

    @property
    def model(self) -> Calibration | None:
        """The model by which it judges."""
        return self._memory.model

    @property
    def lowered(self) -> int:
        """Tickets that were lowered to info since the start."""
        return self._memory.count

    def update(self, observation: Observation, findings: Sequence[Finding]) -> tuple[Incident, ...]:
        """The fusion's incidents, some of them lowered."""
        for event in observation.events:
            if event.kind == CHANGED and event.device.host == GATEWAY:
                self._follow(event)
        self._memory.remember(findings, observation.time_ns)
        return tuple(map(self._shown, self._fusion.update(observation, findings)))

    def state(self) -> State:
        """The fusion's, and what is known here."""
        own = {f"{OWN}{name}": array for name, array in super().state().items()}
        return {**self._inner.state(), **own}

    def restore(self, state: State) -> None:
        """KeyError, ValueError or TypeError where it does not fit; a state of before this class
        has no part of it.
        """
        own = {n.removeprefix(OWN): a for n, a in state.items() if n.startswith(OWN)}
        self._inner.restore({n: a for n, a in state.items() if not n.startswith(OWN)})
        if own:
            super().restore(own)

    @property
    def _inner(self) -> Snapshotable:
        if not isinstance(self._fusion, Snapshotable):
            raise AttributeError(f"{self._fusion.name} has no memory")  # noqa: TRY004 - as ShadowMode
        return self._fusion

    def _follow(self, event: Event) -> None:
        text = str(event.attributes.get("model", ""))
        try:
            model = Calibration.of(text) if text else None
        except ModelError as error:
            log.warning("a calibration is refused, the one before it stays: %s", error)
            return
        self._memory.model = model

    def _shown(self, incident: Incident) -> Incident:
        memory = self._memory
        if incident.id not in memory.known:
            first = memory.evidence.get(incident.findings[0]) if incident.findings else None
            if first is not None and incident.active:
                opening = opening_of(incident, first)
                numbers = self._openings.take(opening)
                model = memory.model
                lowers = model is not None and model.lowers(opening, model.probability(numbers))
                memory.known[incident.id] = lowers
                memory.count += lowers
        lowers = memory.known.get(incident.id, False)
        if incident.severity == "page":
            lowers = False
            memory.known[incident.id] = False
        if not incident.active:
            memory.known.pop(incident.id, None)
        return replace(incident, severity="record") if lowers else incident


class _Memory:
    """Open incidents, whether they are lowered, the findings that may open others, by id, and the
    model.
    """

    def __init__(self) -> None:
        self.known: dict[str, bool] = {}
        self.evidence: dict[str, FirstEvidence] = {}
        self.model: Calibration | None = None
        self.count = 0

    def remember(self, findings: Iterable[Finding], now_ns: int) -> None:
        """Findings as they were first; ``now_ns``, unix time, lets old ones go."""
        for one in findings:
            if one.active and one.id not in self.evidence:
                first = FirstEvidence(now_ns, one.detector, one.value, one.expected)
                self.evidence[one.id] = first
        while self.evidence:
            oldest, first = next(iter(self.evidence.items()))
            is_old = now_ns - first.time_ns > REMEMBERED_NS
            if not is_old and len(self.evidence) <= MAX_REMEMBERED:
                return
            del self.evidence[oldest]

    def state(self) -> Mapping[str, NDArray[Any]]:
        text = "" if self.model is None else self.model.text()
        return {"about": text_array([self.known, text, self.count, self.evidence])}

    def prepare(self, state: Mapping[str, NDArray[Any]]) -> Commit:
        known, text, count, evidence = from_text_array(state["about"])
        model = Calibration.of(text) if text else None
        values = {str(name): bool(value) for name, value in dict(known).items()}
        first = {str(name): FirstEvidence(*row) for name, row in dict(evidence).items()}

        def commit() -> None:
            self.known, self.model, self.count = values, model, int(count)
            self.evidence = first

        return commit
