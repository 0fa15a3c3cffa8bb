"""What people took out of service, until when and why: learnt from events, kept over restarts,
shown as a metric and on the page.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from collector.node.state import State
from pipeline.catalog import agent
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding, Incident
from pipeline.frame import Device
from pipeline.observation import Event, Observation
from pipeline.selfmetrics import SelfMetrics

log = logging.getLogger("tocsin.state")

DOCUMENT = "maintenance"


@dataclass(frozen=True, slots=True)
class Out:
    """A device, or a whole node, that is out of service.

    Unix ns; ``until_ns`` is 0 where no end is set.
    """

    host: str
    kind: str
    id: str
    since_ns: int
    until_ns: int
    reason: str
    user: str

    @property
    def device(self) -> Device:
        """Whom it is about."""
        return Device(self.host, self.kind, self.id)


class OutOfService:
    """The sink that follows ``maintenance_started`` and ``maintenance_ended``, from any sender.
    ``recorded``: an agent that kept its state here has said before who is out. ``renamed``: under
    another name of this node, which is the one that detectors remember.
    """

    name = "maintenance"

    def __init__(self, host: str, state: State, metrics: SelfMetrics) -> None:
        self._state, self._metrics = state, metrics
        self._out: dict[Device, Out] = {}
        document = state.load(DOCUMENT)
        self.recorded, self.renamed = bool(document), False
        rows = document.get("out", ())
        for row in rows if isinstance(rows, list) else ():
            try:
                out = _kept(row)
            except (KeyError, TypeError, ValueError) as error:
                log.warning("an entry of the file %s cannot be read, left out: %r", DOCUMENT, error)
                continue
            self.renamed |= out.host != host
            mine = _of(host, out)
            self._out[mine.device] = mine
        self._show()

    def write(
        self,
        observation: Observation,
        _findings: Sequence[Finding] = (),
        _incidents: Sequence[Incident] = (),
    ) -> None:
        """Take over who goes and who comes back."""
        for event in observation.events:
            if event.kind in ("maintenance_started", "maintenance_ended"):
                self._take(event)

    def all(self) -> tuple[Out, ...]:
        """Everything that is out, the longest first."""
        return tuple(self._out.values())

    def due(self, now_ns: int) -> tuple[Out, ...]:
        """Those whose time is up."""
        return tuple(out for out in self._out.values() if out.until_ns and now_ns >= out.until_ns)

    def _take(self, event: Event) -> None:
        about, attributes = event.device, event.attributes
        if event.kind == "maintenance_started":
            seconds = float(attributes.get("seconds", 0))
            until_ns = event.time_ns + round(seconds * SECOND_NS) if seconds > 0 else 0
            words = (str(attributes.get("reason", "")), str(attributes.get("user", "")))
            known = self._out.get(about)
            renewed = known is not None and (known.reason, known.user) == words
            since_ns = known.since_ns if known is not None and renewed else event.time_ns
            self._out = {
                **self._out,
                about: Out(about.host, about.kind, about.id, since_ns, until_ns, *words),
            }
        else:
            self._out = {device: out for device, out in self._out.items() if device != about}
        document: dict[str, Any] = {"out": [asdict(out) for out in self._out.values()]}
        self._state.save(DOCUMENT, document)
        self._show()

    def _show(self) -> None:
        self._metrics.replace(
            agent.MAINTENANCE, {(device.kind, device.id): 1.0 for device in self._out}
        )


def _kept(row: Any) -> Out:
    """An entry of the file; what a later version adds to it is passed over.

    KeyError, TypeError or ValueError where it is none.
    """
    host, kind, identity, reason, user = (
        str(row[name]) for name in ("host", "kind", "id", "reason", "user")
    )
    since_ns, until_ns = int(row["since_ns"]), int(row["until_ns"])
    return Out(host, kind, identity, since_ns, until_ns, reason, user)


def _of(host: str, out: Out) -> Out:
    """An entry of this node under its name of now: nobody could end that of a node that was renamed
    in maintenance, and its alerts would be silent for good.
    """
    return replace(out, host=host, id=host if out.kind == "node" else out.id)


def started(out: Out, time_ns: int, mono_ns: int) -> Event:
    """The event that takes it out (again), for what is left of its time."""
    left = {"seconds": (out.until_ns - time_ns) / 1e9} if out.until_ns else {}
    return Event(
        time_ns,
        mono_ns,
        out.device,
        "maintenance_started",
        {"reason": out.reason, "user": out.user, **left},
    )


def ended(device: Device, user: str, time_ns: int, mono_ns: int) -> Event:
    """The event that brings it back."""
    return Event(time_ns, mono_ns, device, "maintenance_ended", {"user": user})
