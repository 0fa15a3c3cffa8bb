"""What the server shows: the seam to the agent, and the agent's own filling of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from collector.gates.health import devices, identities
from collector.gates.verdict import verdict
from collector.out_of_service import Out
from collector.web.recent import Past, Recent
from collector.web.status import Node, Said, incidents, status
from pipeline.exposition import Exposition, Format, Snapshot
from pipeline.frame import Device
from pipeline.interfaces import Clock
from pipeline.selfmetrics import SelfMetrics


class Pages(Protocol):
    """Everything the server can be asked for. All of it is made from memory, at once."""

    def metrics(self, form: Format) -> bytes:
        """The exposition."""
        ...

    def unhealthy(self) -> str:
        """Why the agent should be restarted; empty while it is well."""
        ...

    def unready(self) -> str:
        """What is still missing before its readings are complete; empty when nothing is."""
        ...

    def reloading(self) -> bool:
        """Whether a new configuration is being taken over."""
        ...

    def status(self) -> Mapping[str, Any]:
        """Devices, incidents, findings and sources for people and programs."""
        ...

    def recently(self, kind: str, device: str) -> Past:
        """The last minutes of a device by column, the oldest first, NaN = nothing was read."""
        ...

    def incidents(self) -> Sequence[Mapping[str, Any]]:
        """The open incidents alone."""
        ...

    def health(self) -> Mapping[str, Any]:
        """The node in one word, and a score per device, for schedulers."""
        ...


def _nothing() -> str:
    return ""


class AgentPages:
    """Pages of an agent. The callables say what is wrong, and the empty string when nothing is."""

    def __init__(
        self,
        exposition: Exposition,
        own: SelfMetrics,
        clock: Clock,
        node: Node,
        *,
        unhealthy: Callable[[], str] = _nothing,
        unready: Callable[[], str] = _nothing,
        reloading: Callable[[], bool] = bool,
        health: Callable[[], Mapping[Device, str]] = dict,
        out: Callable[[], Sequence[Out]] = tuple,
        recent: Recent | None = None,
    ) -> None:
        self._exposition = exposition
        self._own = own
        self._clock = clock
        self._node = node
        self.unhealthy = unhealthy
        self.unready = unready
        self.reloading = reloading
        self._health, self._out = health, out
        self._recent = recent or Recent()

    def metrics(self, form: Format) -> bytes:
        """The exposition."""
        return self._exposition.render(form)

    def status(self) -> Mapping[str, Any]:
        """Devices, incidents, findings and sources."""
        return status(
            self._node,
            self._exposition.snapshot(),
            self._said(),
            self._own,
            now_ns=self._clock.time_ns(),
            unready=self.unready(),
        )

    def recently(self, kind: str, device: str) -> Past:
        """The last minutes of a device."""
        return self._recent.of(kind, device, self._clock.monotonic_ns())

    def incidents(self) -> Sequence[Mapping[str, Any]]:
        """The open incidents."""
        return incidents(self._said())

    def health(self) -> Mapping[str, Any]:
        """The verdict, and every device with its score and headroom."""
        snapshot, said = self._exposition.snapshot(), self._said()
        return self._verdict(snapshot, said) | {"devices": devices(snapshot, said.findings, said.health, said.out)}

    def check(self) -> dict[str, Any]:
        """The verdict, and which parts answer in which of their lives: what `tocsin check` asks for."""
        snapshot = self._exposition.snapshot()
        return self._verdict(snapshot, self._said()) | {"parts": list(identities(snapshot))}

    def _verdict(self, snapshot: Snapshot, said: Said) -> dict[str, Any]:
        return verdict(
            self._node.host,
            snapshot,
            said.incidents,
            said.out,
            dead=self.unhealthy(),
            unready=self.unready(),
            now_ns=self._clock.time_ns(),
        )

    def _said(self) -> Said:
        return Said(self._exposition.findings(), self._exposition.incidents(), self._health(), self._out())
