"""What operators took out of service, by host: what the map shows as that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pipeline.frame import Device
from pipeline.observation import Event

MAX_OUT = 64  # of one host: more devices than a node has; a host that names more is not followed


class OutOfService:
    """Follows ``maintenance_started`` and ``maintenance_ended``. Values are replaced, never
    changed: a reader may keep them.
    """

    def __init__(self) -> None:
        self.by_host: Mapping[str, frozenset[Device]] = {}

    def take(self, events: Iterable[Event]) -> None:
        """Events in the order they came; those of other kinds are left alone."""
        for event in events:
            if event.kind not in ("maintenance_started", "maintenance_ended"):
                continue
            device = Device(event.device.host, event.device.kind, event.device.id)
            its = self.by_host.get(device.host, frozenset())
            if event.kind == "maintenance_ended":
                its -= {device}
            elif len(its) < MAX_OUT:
                its |= {device}
            rest = {host: each for host, each in self.by_host.items() if host != device.host}
            self.by_host = {**rest, device.host: its} if its else rest
