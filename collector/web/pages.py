"""What the server shows: its interface to the agent, and the agent's implementation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from collector.config.links import Links
from collector.integrations.health import devices, identities, silent
from collector.integrations.verdict import verdict
from collector.node.out_of_service import Out
from collector.web.explained import incident_row
from collector.web.incident_rows import Scene, open_rows, past_rows, time
from collector.web.job_settings import JobSettings
from collector.web.recent import Past, Recent
from collector.web.status import Conclusions, Node, scene_of, status
from pipeline.clock import Clock
from pipeline.exposition import Exposition, Format, Snapshot
from pipeline.finding import Finding
from pipeline.frame import Device
from pipeline.gpu_state import GpuState
from pipeline.past_incidents import PastIncident, PastIncidents
from pipeline.selfmetrics import SelfMetrics


class Pages(Protocol):
    """Everything that the server serves, made from memory."""

    def metrics(self, form: Format) -> bytes:
        """The exposition."""
        ...

    def unhealthy(self) -> str:
        """Why the agent should be restarted; empty while it is healthy."""
        ...

    def unready(self) -> str:
        """What is still missing before its readings are complete; empty when nothing is."""
        ...

    def reloading(self) -> bool:
        """Whether a new configuration is being taken over."""
        ...

    def gpus(self) -> int:
        """GPUs that answer the driver."""
        ...

    def status(self) -> Mapping[str, Any]:
        """Devices, incidents, findings and sources, for the page and for programs."""
        ...

    def recently(self, kind: str, device: str) -> Past:
        """The last minutes of a device by column, the oldest first, NaN = nothing was read."""
        ...

    def incidents(self) -> Sequence[Mapping[str, Any]]:
        """The open incidents alone, the most urgent first."""
        ...

    def closed(self) -> Sequence[Mapping[str, Any]]:
        """Incidents that ended within the last day, the newest first."""
        ...

    def incident(self, text: str) -> Mapping[str, Any] | None:
        """Everything about one incident, open or closed, by its id or the begin of it; None where
        it is not known, or several begin so.
        """
        ...

    def health(self) -> Mapping[str, Any]:
        """The node in one word, and a score per device, for schedulers."""
        ...


def _nothing() -> str:
    return ""


class AgentPages:
    """Pages of an agent. The callables return what is wrong, or an empty string."""

    def __init__(
        self,
        exposition: Exposition,
        metrics: SelfMetrics,
        clock: Clock,
        node: Node,
        *,
        unhealthy: Callable[[], str] = _nothing,
        unready: Callable[[], str] = _nothing,
        reloading: Callable[[], bool] = bool,
        health: Callable[[], Mapping[Device, str]] = dict,
        out: Callable[[], Sequence[Out]] = tuple,
        recent: Recent | None = None,
        current: Callable[[], Mapping[str, Finding]] = dict,
        past: Callable[[], PastIncidents] = PastIncidents,
        settings: JobSettings | None = None,
    ) -> None:
        self._exposition = exposition
        self._metrics = metrics
        self._clock = clock
        self._node = node
        self.unhealthy = unhealthy
        self.unready = unready
        self.reloading = reloading
        self._health, self._out = health, out
        self._recent = recent or Recent()
        self._current, self._past = current, past
        self._settings = settings or JobSettings()
        self.links = Links()

    def metrics(self, form: Format) -> bytes:
        """The exposition."""
        return self._exposition.render(form)

    def gpus(self) -> int:
        """GPUs whose state was ok when they were read last."""
        return sum(
            int((entry.frame.gauge("state") == GpuState.OK.value).sum())
            for entry in self._exposition.snapshot().of("gpu")
        )

    def status(self) -> Mapping[str, Any]:
        """Devices, incidents, findings and sources."""
        document = status(
            self._node,
            self._exposition.snapshot(),
            self._concluded(),
            self._metrics,
            now_ns=self._clock.time_ns(),
            unready=self.unready(),
            links=self.links,
        )
        return document | {"nccl_settings": self._settings.rows()}

    def recently(self, kind: str, device: str) -> Past:
        """The last minutes of a device."""
        return self._recent.of(kind, device, self._clock.monotonic_ns())

    def incidents(self) -> Sequence[Mapping[str, Any]]:
        """The open incidents."""
        concluded = self._concluded()
        return open_rows(concluded.incidents, self._scene(concluded))

    def closed(self) -> Sequence[Mapping[str, Any]]:
        """Incidents of the last day that are over."""
        concluded = self._concluded()
        past = concluded.past.incidents(self._clock.time_ns())
        return past_rows(past, self._scene(concluded))

    def incident(self, text: str) -> Mapping[str, Any] | None:
        """One incident."""
        concluded = self._concluded()
        past = concluded.past.incidents(self._clock.time_ns())
        row = incident_row(text, concluded.incidents, past, self._scene(concluded))
        return row and {
            "node": self._node.host,
            "version": self._node.version,
            "simulated": self._node.simulated or None,
            "time": time(self._clock.time_ns()),
            **row,
            "nccl_settings": self._settings.rows(_jobs(row["id"], concluded, past)),
        }

    def _scene(self, concluded: Conclusions) -> Scene:
        return scene_of(self._exposition.snapshot(), concluded, self.links)

    def health(self) -> Mapping[str, Any]:
        """The verdict, and every device with its score and headroom."""
        snapshot, concluded = self._exposition.snapshot(), self._concluded()
        return self._verdict(snapshot, concluded) | {
            "devices": devices(snapshot, concluded.findings, concluded.health, concluded.out)
        }

    def check(self) -> dict[str, Any]:
        """The verdict, and the identity of each part: the answer to `tocsin check`."""
        snapshot = self._exposition.snapshot()
        parts = {"parts": list(identities(snapshot)), "silent": list(silent(snapshot))}
        return self._verdict(snapshot, self._concluded()) | parts

    def _verdict(self, snapshot: Snapshot, concluded: Conclusions) -> dict[str, Any]:
        return verdict(
            self._node.host,
            snapshot,
            concluded.incidents,
            concluded.out,
            dead=self.unhealthy(),
            unready=self.unready(),
            now_ns=self._clock.time_ns(),
        )

    def _concluded(self) -> Conclusions:
        return Conclusions(
            self._exposition.findings(),
            self._exposition.incidents(),
            self._health(),
            self._out(),
            self._current(),
            self._past(),
        )


def _jobs(named: str, concluded: Conclusions, past: Sequence[PastIncident]) -> Sequence[str]:
    """The jobs that held the devices of an incident when it began."""
    known = (*concluded.incidents, *(one.incident for one in past))
    return next((one.jobs for one in known if one.id == named), ())
