"""What people tell a running agent through its socket: that they take an incident on, whether it
was real, that a device is out of service.

Each is an event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from collector.agent.label_request import Reported, label_event, labelled
from collector.agent.labels import Labels
from collector.agent.preflight_results import preflight_events
from collector.agent.repair_steps import repair_event
from collector.agent.request_text import request_text
from collector.node.inventory import pci_key
from collector.node.out_of_service import Out, OutOfService, ended, started
from pipeline.clock import Clock, Instant, instant
from pipeline.exposition import Exposition
from pipeline.finding import Incident
from pipeline.frame import Attributes, Device
from pipeline.guard import Guard
from pipeline.observation import Event, Value
from pipeline.past_incidents import PastIncidents
from pipeline.short_ids import LATEST, UnknownIdError, resolve

MAX_S = 365 * 86400.0
MIN_PREFIX = 4  # characters of an incident's id that stand for it
Publish = Callable[[Sequence[Event]], bool]


class OperatorCommands:
    """Answers requests of the socket.

    ValueError says what is wrong with one, or that cannot answer: the
    socket goes on answering.

    ``publish`` numbers, judges and stores events before it returns; it says False while there is
    nobody to do it. ``check`` gives the answer to `tocsin check`.
    """

    def __init__(
        self,
        host: str,
        clock: Clock,
        exposition: Exposition,
        out: OutOfService,
        publish: Publish,
        *,
        guard: Guard,
        check: Callable[[], dict[str, Any]] = dict,
        past: Callable[[], PastIncidents] = PastIncidents,
        labels: Labels | None = None,
    ) -> None:
        self._past, self._labels = past, labels
        self._node, self._guard, self._check = Device(host, "node", host), guard, check
        self._clock, self._exposition, self._out, self._publish = clock, exposition, out, publish

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what is asked, and say what was done."""
        made, error = self._guard.call("web", "people", lambda: self._done_or_refused(request))
        if made is None:
            raise ValueError(f"cannot answer: {error!r}")
        if isinstance(made, ValueError):
            raise made
        return made

    def _done_or_refused(self, request: dict[str, Any]) -> dict[str, Any] | ValueError:
        """A refusal is no failure, and is not counted as one."""
        try:
            return self._done(request)
        except ValueError as refusal:
            return refusal

    def _done(self, request: dict[str, Any]) -> dict[str, Any]:
        commands: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "ack": self._ack,
            "label": self._label,
            "maintenance": self._maintenance,
            "status": self._status,
            "check": lambda _: self._check(),
            "preflight": self._preflight,
            "repair": self._repair,
        }
        command = request.get("command")
        if not isinstance(command, str) or command not in commands:
            raise ValueError(f"unknown command {command!r}; known: {', '.join(commands)}")
        return commands[command](request)

    def watch(self) -> None:
        """Bring back what was out for long enough."""
        now = self._now()
        due = self._out.due(now.time_ns)
        if due:
            self._publish([ended(out.device, "tocsin", *now) for out in due])

    def remind(self, *, gateway: bool = False) -> None:
        """Say again what is out of service, to detectors that know nothing of it; what came
        due meanwhile comes back.

        To a ``gateway`` an agent without a record says that its node is in service: one that was
        installed again in maintenance would stay out of it there, and its incidents unreported.
        """
        if gateway and not self._out.recorded:
            self._publish([ended(self._node, "tocsin", *self._now())])
        self.watch()
        if self._out.all():
            self._publish([started(out, *self._now()) for out in self._out.all()])

    def remind_of_labels(self) -> None:
        """Publish what labels have changed, for a replay that begins here."""
        changed = list(self._labels.deviations(self._node.id, self._now())) if self._labels else []
        if changed:
            self._publish(changed)

    def _label(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._labels is None:
            raise ValueError("this process keeps no labels")
        now = self._now()
        known = Reported.of(self._exposition, self._past(), now.time_ns)
        label, device = labelled(request, known, now.time_ns)
        if label is None:
            return {"known": False}
        changes = self._labels.take(label, now)
        self._tell(label_event(label, device, now), *changes)
        return {
            "known": True,
            "incident": label.incident,
            "detector": label.detector,
            "changes": [[one.kind, str(one.attributes["detector"])] for one in changes],
        }

    def _ack(self, request: dict[str, Any]) -> dict[str, Any]:
        incident = self._incident(request_text(request, "incident"))
        note, user = request_text(request, "note"), request_text(request, "user")
        if not note:
            raise ValueError("note: required; what is being done about it")
        attributes = {"incident": incident.id, "note": note, "user": user}
        self._tell(Event(*self._now(), incident.root, "incident_acknowledged", attributes))
        return {"incident": incident.id, "summary": incident.summary}

    def _maintenance(self, request: dict[str, Any]) -> dict[str, Any]:
        device, user, on = (
            self._device(request_text(request, "device")),
            request_text(request, "user"),
            request.get("on"),
        )
        known = {out.device: out for out in self._out.all()}
        if not isinstance(on, bool):
            raise ValueError(f"on: expected true or false, got {on!r}")  # noqa: TRY004 - the client is wrong, not a caller
        if not on:
            if device not in known:
                raise ValueError(f"{device.kind} {device.id} is not out of service")
            self._tell(ended(device, user, *self._now()))
            return {"kind": device.kind, "device": device.id, "out_of_service": False}
        reason, seconds = request_text(request, "reason"), request.get("seconds", 0)
        if not reason:
            raise ValueError("reason: required")
        if (
            isinstance(seconds, bool)
            or not isinstance(seconds, int | float)
            or not 0 <= seconds <= MAX_S
        ):
            raise ValueError(f"seconds: expected at most a year, got {seconds!r}")
        attributes: dict[str, Value] = {"reason": reason, "user": user} | (
            {"seconds": float(seconds)} if seconds else {}
        )
        self._tell(Event(*self._now(), device, "maintenance_started", attributes))
        return {"kind": device.kind, "device": device.id, "out_of_service": True}

    def _preflight(self, request: dict[str, Any]) -> dict[str, Any]:
        """Store the result of a preflight."""
        events = preflight_events(request, self._node, self._now())
        self._tell(*events)
        return {"stored": len(events)}

    def _repair(self, request: dict[str, Any]) -> dict[str, Any]:
        """Store a step of a repair."""
        event = repair_event(request, self._node, self._now())
        self._tell(event)
        return {"kind": event.device.kind, "device": event.device.id}

    def _status(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"out_of_service": [_row(out) for out in self._out.all()]}

    def _incident(self, wanted: str) -> Incident:
        newest_first = sorted(
            self._exposition.incidents(), key=lambda one: one.opened_ns, reverse=True
        )
        incidents = {one.id: one for one in newest_first}
        if wanted == LATEST and incidents:
            return newest_first[0]
        if len(wanted) < MIN_PREFIX:
            raise ValueError(f"incident: {wanted!r} is too short: give {MIN_PREFIX} characters")
        about = {one.id: f"{one.fault}, {one.root.kind} {one.root.id}" for one in newest_first}
        try:
            return incidents[resolve(wanted, about, "open incident")]
        except UnknownIdError as error:
            raise ValueError(str(error)) from error

    def _device(self, name: str) -> Device:
        """By identity, or as people call it: gpu3, a PCI address, mlx5_5 or mlx5_5/1; nothing, or
        the host's name, is the node.
        """
        if name in ("", self._node.id):
            return self._node
        # A part that was swapped in maintenance is known by that alone: it has to end some time.
        gone: dict[Device, Attributes] = {out.device: {} for out in self._out.all()}
        devices = gone | dict(self._exposition.snapshot().attributes)
        wanted = pci_key(name)
        found = [device for device, facts in devices.items() if wanted in _names(device, facts)]
        if len(found) != 1:
            some = sorted(
                {
                    _names(device, facts)[-1]
                    for device, facts in devices.items()
                    if device.kind in ("gpu", "ib_port")
                }
            )
            raise ValueError(
                f"device: {'several match' if found else 'nothing matches'} {name!r}; "
                f"known: {', '.join(some)}"
            )
        return found[0]

    def _tell(self, *events: Event) -> None:
        if not self._publish(events):
            raise ValueError("the agent is reloading its configuration or stopping: try again")

    def _now(self) -> Instant:
        return instant(self._clock)


def _names(device: Device, facts: Attributes) -> list[str]:
    names = [device.id]
    if device.kind == "gpu" and facts.get("pci_bus_id"):
        names.append(pci_key(facts["pci_bus_id"]))  # lspci and the kernel log spell it otherwise
    if device.kind == "gpu" and "index" in facts:
        names.append(f"gpu{facts['index']}")
    if device.kind == "ib_port" and "device" in facts:
        names += [f"{facts['device']}/{facts.get('port', '')}", facts["device"]]
    return names


def _row(out: Out) -> dict[str, Any]:
    until = out.until_ns / 1e9 if out.until_ns else None
    return {
        "kind": out.kind,
        "device": out.id,
        "since": out.since_ns / 1e9,
        "until": until,
        "reason": out.reason,
        "user": out.user,
    }
