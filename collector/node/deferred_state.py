"""State that is saved behind a queue, so that a slow disk delays neither readings nor findings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from collector.node.state import State
from pipeline.finding import Finding, Incident
from pipeline.observation import Observation


class DeferredState(State):
    """A sink, too: each write saves the newest of each document since the last one; one that the
    disk refused is saved by a later write. Put it behind an ``Outlet``; any thread may save and
    load.
    """

    name = "state"

    def __init__(self, path: Path | None) -> None:
        super().__init__(path)
        self._lock = Lock()
        self._newest: dict[str, dict[str, Any]] = {}
        self._waiting: set[str] = set()

    @property
    def pending(self) -> list[str]:
        """Documents that wait to be saved."""
        with self._lock:
            return sorted(self._waiting)

    def load(self, name: str) -> dict[str, Any]:
        """The newest, whether it was written by now or not."""
        with self._lock:
            if name in self._newest:
                return self._newest[name]
        return super().load(name)

    def save(self, name: str, document: dict[str, Any]) -> bool:
        """By a later write; always True."""
        with self._lock:
            self._newest[name] = document
            self._waiting.add(name)
        return True

    def write(
        self,
        observation: Observation | None = None,  # noqa: ARG002 - a sink gets all
        findings: Sequence[Finding] = (),  # noqa: ARG002 - a sink gets all
        incidents: Sequence[Incident] = (),  # noqa: ARG002 - a sink gets all
    ) -> None:
        """Save what waits."""
        with self._lock:
            wanted = {name: self._newest[name] for name in self._waiting}
            self._waiting.clear()
        for name, document in wanted.items():
            if not super().save(name, document):
                with self._lock:
                    self._waiting.add(name)

    def close(self) -> None:
        """One more try for what the disk refused."""
        self.write()
