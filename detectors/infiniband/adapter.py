"""Adapters whose driver says that they are sick: it stops using them, and every collective over them hangs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from detectors.elapsed import Elapsed, Moment
from detectors.infiniband.ports import ACTIVE
from detectors.memory import Commit, Remembering, from_text_array, text_array
from detectors.snapshot import State
from detectors.standing import Standing, Verdict
from pipeline.finding import Action, Finding, Severity
from pipeline.frame import Device, Frame
from pipeline.observation import Event, Observation

# What the mlx5 driver says (drivers/net/ethernet/mellanox/mlx5/core/health.c and port events), how serious it is and what it means.
REASONS: dict[str, tuple[Severity, Action, str]] = {
    "health": ("page", "RESTART_BM", "its firmware is not healthy any more"),
    "fatal": ("page", "RESTART_BM", "its firmware met a fatal error"),
    "temperature": ("ticket", "CONTACT_SUPPORT", "it is too hot"),
    "power": ("ticket", "CONTACT_SUPPORT", "its slot gives it too little power"),
    "cable": ("ticket", "CONTACT_SUPPORT", "its cable or transceiver reports an error"),
}
OLD_S = 600.0  # what happened before the agent came is told only if it is as young as this
CLEAN_S = 126 * 60.0  # without another word it is over: what NVIDIA UFM waits before a link goes back to service
DRIVER = "mlx5_core"
HAS_ADAPTERS = ("ib_port", "node")  # the port where it is known, else its node


class IbAdapter(Remembering):
    """Follows ``hca_health`` events; a reboot, a driver that takes the adapter on anew, or two clean hours with an active port end it.

    >>> IbAdapter().name
    'ib_adapter'
    """

    name = "ib_adapter"
    version = 2

    def __init__(self) -> None:
        self._elapsed, self._standing, self._last = Elapsed(), Standing(self.name), _Last()
        super().__init__(elapsed=self._elapsed, standing=self._standing, last=self._last)

    def update(self, observation: Observation) -> Iterable[Finding]:
        """What the driver said, and what is over."""
        at = self._elapsed.at(observation)
        said: list[Finding] = []
        if self._last.boots.setdefault(observation.host, observation.boot_id) != observation.boot_id:
            self._last.boots[observation.host] = observation.boot_id
            said += self._booted(observation.host, at)
        for frame in observation.frames:
            if frame.kind == "ib_port":
                said += self._standing.swapped(frame, at)
                self._still_sick(frame, at)
        for event in observation.events:
            if event.kind == "hca_health":
                said += self._sick(event, at)
            elif event.kind == "module_loaded" and event.attributes.get("module") == DRIVER:
                said += self._taken_on(event, at)
        for finding in self._standing.all():
            if at.now_ns - self._last.at.get(finding.device, at.now_ns) > CLEAN_S * 1e9:
                said += self._standing.ends(finding.device, finding.fault, at, "nothing more was said for two hours")
        said += self._standing.due(at)
        return said

    def _sick(self, event: Event, at: Moment) -> Iterator[Finding]:
        age_s = (at.time_ns - event.time_ns) / 1e9
        if event.attributes.get("previous_boot") or age_s > OLD_S or event.device.kind not in HAS_ADAPTERS:
            return
        reason = str(event.attributes.get("reason", ""))
        severity, action, words = REASONS.get(reason, ("ticket", "CONTACT_SUPPORT", "it reports a problem"))
        name = event.attributes.get("interface") or event.device.attributes.get("device") or event.attributes.get("pci", "")
        verdict = Verdict(
            f"ib/adapter_{reason or 'unknown'}",
            severity,
            action,
            f"The driver says of adapter {name} of {event.device.host}: {words}.",
            (str(event.attributes.get("text", "")),),
        )
        self._last.at[event.device] = at.now_ns
        yield from self._standing.holds(event.device, verdict, at, event.time_ns)

    def _still_sick(self, frame: Frame, at: Moment) -> None:
        """An adapter that is dead says nothing more: while its port is not active, no silence counts."""
        told = {finding.device for finding in self._standing.all() if finding.severity == "page"}
        if told:
            state = frame.gauge("state")
            dead = np.flatnonzero(np.isfinite(state) & ~np.isin(state, ACTIVE))
            self._last.at |= {frame.devices[row]: at.now_ns for row in dead if frame.devices[row] in told}

    def _taken_on(self, event: Event, at: Moment) -> Iterator[Finding]:
        """The driver took on an adapter, lately; a function that is no port we know ends nothing."""
        for finding in self._standing.all():
            if finding.device == event.device and finding.onset_ns <= event.time_ns:
                yield from self._standing.ends(finding.device, finding.fault, at, "its driver took it on anew")

    def _booted(self, host: str, at: Moment) -> Iterator[Finding]:
        for finding in self._standing.all():
            if finding.device.host == host:
                yield from self._standing.ends(finding.device, finding.fault, at, "its node was booted anew")


class _Last:
    """When something was said of each device last, and the boot of each node."""

    def __init__(self) -> None:
        self.at: dict[Device, int] = {}
        self.boots: dict[str, str] = {}

    def state(self) -> State:
        """All of it."""
        return {"at": text_array([(d.host, d.kind, d.id, at) for d, at in self.at.items()]), "boots": text_array(self.boots)}

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it is not that."""
        at = {Device(str(h), str(k), str(i)): int(t) for h, k, i, t in from_text_array(state["at"])}
        boots = {str(host): str(boot) for host, boot in dict(from_text_array(state["boots"])).items()}

        def commit() -> None:
            self.at, self.boots = at, boots

        return commit
