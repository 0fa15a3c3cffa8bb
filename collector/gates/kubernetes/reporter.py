"""Looks at the verdict every few seconds and writes what changed to the Node; follows whether people cordoned it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from collector.config.gates import Kubernetes
from collector.gates.kubernetes.api import Api
from collector.gates.kubernetes.objects import TYPE, condition, event
from collector.gates.policy import off
from pipeline.guard import Guard, Health
from pipeline.interfaces import Clock

log = logging.getLogger("tocsin.gates")

HEARTBEAT_S = 300.0  # as node-problem-detector's, for a condition that does not change
MOST_EVENTS = 10  # of one look: a storm becomes incidents, and incidents beyond these wait for the next look
CLOSE_S = 1.0

Look = Callable[[], Mapping[str, Any]]


class Reporter:
    """``look`` gives the verdict of collector/gates/verdict.py, ``cordoned`` is told whether the Node takes pods.

    ``tick`` is one look, and raises; the thread guards and counts it under the stage ``gate``.
    """

    def __init__(
        self,
        settings: Kubernetes,
        off_file: str,
        host: str,
        look: Look,
        clock: Clock,
        *,
        cordoned: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self._settings, self._off_file, self._look, self._clock = settings, off_file, look, clock
        self._node = settings.node or host
        self._cordoned = cordoned
        self._said: dict[str, Any] | None = None  # the condition as the Node has it
        self._written_ns = 0
        self._open: dict[str, Mapping[str, Any]] = {}  # incidents whose opening was told
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, guard: Guard) -> None:
        """Begin, in a thread of its own."""
        health = Health("the gate to Kubernetes")

        def run() -> None:
            while not self._stop.wait(float(self._settings.period)):
                _, error = guard.call("gate", "kubernetes", self.tick)
                if error is None:
                    health.succeeded()
                else:
                    health.failed(f"{type(error).__name__}: {error}", self._clock.monotonic_ns())

        self._thread = threading.Thread(target=run, name="kubernetes", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop. What the Node says stays: its heartbeat tells that nobody renews it."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    def tick(self) -> None:
        """One look. OSError where the API server cannot be reached or refuses: the next look tries again."""
        if off(self._off_file):
            return
        verdict, now = self._look(), self._now()
        api = Api(self._settings) if self._settings.report == "on" else None
        if self._said is None and api is not None:
            self._learn(api.node(self._node))
        made = condition(verdict, now, self._said)
        if self._differs(made):
            if api is None:
                log.info("dry run: would set condition %s of node %s: %s", TYPE, self._node, made)
            else:
                self._learn(api.patch_status(self._node, made))
            self._said, self._written_ns = made, self._clock.monotonic_ns()
        self._events(api, verdict, now)

    def _differs(self, made: Mapping[str, Any]) -> bool:
        if self._said is None or self._clock.monotonic_ns() - self._written_ns >= HEARTBEAT_S * 1e9:
            return True
        return any(made[name] != self._said.get(name) for name in ("status", "reason", "message"))

    def _learn(self, node: Mapping[str, Any]) -> None:
        conditions = node.get("status", {}).get("conditions", ())
        self._said = next((dict(known) for known in conditions if known.get("type") == TYPE), None)
        if self._settings.cordon:
            self._cordoned(node.get("spec", {}).get("unschedulable") is True)

    def _events(self, api: Api | None, verdict: Mapping[str, Any], now: str) -> None:
        """What opened and what ended since the last look. A blind agent knows of neither, and what is out of service is told to nobody."""
        if verdict["verdict"] == "unknown" or verdict["out_of_service"]:
            return
        standing = {incident["id"]: incident for incident in verdict["incidents"] if incident["severity"] != "record"}
        for number, (incident, over) in enumerate(self._changes(standing)):
            if number >= MOST_EVENTS:
                return
            made = event(incident, self._node, now, over=over)
            if api is None:
                log.info("dry run: would write Event %s: %s", made["metadata"]["name"], made["message"])
            else:
                api.create_event(made)
            self._told(incident, over=over)

    def _changes(self, standing: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], bool]]:
        known = dict(self._open)
        yield from ((incident, False) for key, incident in standing.items() if key not in known)
        yield from ((incident, True) for key, incident in known.items() if key not in standing)

    def _told(self, incident: Mapping[str, Any], *, over: bool) -> None:
        if over:
            self._open.pop(incident["id"], None)
        else:
            self._open[incident["id"]] = incident

    def _now(self) -> str:
        return datetime.fromtimestamp(self._clock.time_ns() / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
