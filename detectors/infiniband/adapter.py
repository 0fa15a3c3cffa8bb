"""Adapters whose driver reports a failure: it stops using them, and every
collective over them hangs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from detectors.infiniband.ports import is_active
from detectors.kit.boots import Boots
from detectors.kit.elapsed import Elapsed
from detectors.kit.findings import AGAIN_NS, FindingTracker, Verdict
from detectors.kit.page import Default, Needs, Page, port_columns
from detectors.kit.resting import FOREVER_NS
from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, Stateful, from_text_array, text_array
from pipeline.clock import Instant
from pipeline.finding import Action, Finding, Severity
from pipeline.frame import Device, Frame
from pipeline.observation import Event, Observation

# What the mlx5 driver reports (drivers/net/ethernet/mellanox/mlx5/core/health.c and port events),
# how serious it is and what it means.
REASONS: dict[str, tuple[Severity, Action, str]] = {
    "health": ("page", "RESTART_BM", "its firmware is no longer healthy"),
    "fatal": ("page", "RESTART_BM", "its firmware reported a fatal error"),
    "temperature": ("ticket", "CONTACT_SUPPORT", "it is overheating"),
    "power": ("ticket", "CONTACT_SUPPORT", "its slot supplies too little power"),
    "cable": ("ticket", "CONTACT_SUPPORT", "its cable or transceiver reports an error"),
}
OLD_S = 600.0  # what happened before the agent started is reported only if it is as recent as this
# without another word it is over: what NVIDIA UFM waits before a link goes back to service
CLEAN_S = 126 * 60.0
DRIVER = "mlx5_core"
HAS_ADAPTERS = ("ib_port", "node")  # the port where it is known, else its node


PAGE = Page(
    formula="reports of the mlx5 driver: health compromised, firmware fatal, port module errors",
    sources=("Linux, drivers/net/ethernet/mellanox/mlx5/core/health.c",),
    shows=port_columns("state", "transmit_words"),
    needs=Needs(60.0, (("ib_port.state",),), sources=("kmsg",)),
    next_step="Reload the driver or reboot the node; replace an adapter whose fault recurs.",
    clears=(
        "When its node boots, when the driver initialises the adapter again, or after 126 minutes "
        "without a further report while its port was active."
    ),
    scored_as=("ib",),
    limits=tuple(
        Default(reason, severity, words) for reason, (severity, _, words) in REASONS.items()
    ),
)


class IbAdapter(Stateful):
    """Follows ``hca_health`` events; a reboot, a driver that initialises the adapter again, or two
    clean hours with an active port end it.

    >>> IbAdapter().name
    'ib_adapter'
    """

    name = "ib_adapter"
    version = 3

    def __init__(self) -> None:
        self._elapsed, self._standing, self._last = Elapsed(), FindingTracker(self.name), _Last()
        self._boots = Boots()

    def update(self, observation: Observation) -> Iterable[Finding]:
        """What the driver reported, and what is over."""
        at = self._elapsed.at(observation)
        findings: list[Finding] = []
        for host, since_ns in self._boots.new(observation).items():
            findings += self._booted(host, since_ns, at)
        for frame in observation.frames:
            if frame.kind == "ib_port":
                findings += self._standing.swapped(frame, at)
                self._still_failing(frame, at)
        for event in observation.events:
            if event.kind == "hca_health":
                findings += self._failing(event, at)
            elif event.kind == "module_loaded" and event.attributes.get("module") == DRIVER:
                findings += self._taken_on(event, at)
        for finding in self._standing.all():
            if at.mono_ns - self._last.at.get(finding.device, at.mono_ns) > CLEAN_S * 1e9:
                findings += self._standing.ends(
                    finding.device, finding.fault, at, "no further report for two hours"
                )
        findings += self._standing.due(at)
        return findings

    def rests_ns(self) -> int:
        """As long as no adapter is reported."""
        return FOREVER_NS if self._standing.is_empty() else 0

    def stirs(self, _frame: Frame) -> None:
        """It reads events, and frames while an adapter is reported."""

    def _failing(self, event: Event, at: Instant) -> Iterator[Finding]:
        age_s = (at.time_ns - event.time_ns) / 1e9
        if (
            event.attributes.get("previous_boot")
            or age_s > OLD_S
            or event.device.kind not in HAS_ADAPTERS
        ):
            return
        reason = str(event.attributes.get("reason", ""))
        severity, action, words = REASONS.get(
            reason, ("ticket", "CONTACT_SUPPORT", "it has a problem")
        )
        name = (
            event.attributes.get("interface")
            or event.device.attributes.get("device")
            or event.attributes.get("pci", "")
        )
        verdict = Verdict(
            f"ib/adapter_{reason if reason in REASONS else 'unknown'}",
            severity,
            action,
            f"Adapter {name} of {event.device.host}: the driver reports that {words}.",
            (str(event.attributes.get("text", "")),),
        )
        quiet_ns = at.mono_ns - self._last.at.get(event.device, at.mono_ns)
        self._last.at[event.device] = at.mono_ns
        again_ns = event.time_ns if quiet_ns >= AGAIN_NS else 0
        yield from self._standing.holds(event.device, verdict, at, event.time_ns, again_ns=again_ns)

    def _still_failing(self, frame: Frame, at: Instant) -> None:
        """A dead adapter reports nothing more: while its port is not
        active, no silence counts.
        """
        paged = {finding.device for finding in self._standing.all() if finding.severity == "page"}
        if paged:
            state = frame.gauge("state")
            dead = np.flatnonzero(np.isfinite(state) & ~is_active(state))
            self._last.at |= {
                frame.devices[row]: at.mono_ns for row in dead if frame.devices[row] in paged
            }

    def _taken_on(self, event: Event, at: Instant) -> Iterator[Finding]:
        """The driver initialised an adapter recently; a function that is no
        port we know ends nothing.
        """
        for finding in self._standing.all():
            if finding.device == event.device and finding.onset_ns <= event.time_ns:
                yield from self._standing.ends(
                    finding.device, finding.fault, at, "its driver initialised it again"
                )

    def _booted(self, host: str, since_ns: int, at: Instant) -> Iterator[Finding]:
        for finding in self._standing.all():
            if finding.device.host == host and finding.onset_ns < since_ns:
                yield from self._standing.ends(
                    finding.device, finding.fault, at, "its node was rebooted"
                )


class _Last:
    """When each device was last reported."""

    def __init__(self) -> None:
        self.at: dict[Device, int] = {}

    def state(self) -> State:
        """All of it."""
        return {"at": text_array([(d.host, d.kind, d.id, at) for d, at in self.at.items()])}

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it is not that."""
        at = {Device(str(h), str(k), str(i)): int(t) for h, k, i, t in from_text_array(state["at"])}

        def commit() -> None:
            self.at = at

        return commit
