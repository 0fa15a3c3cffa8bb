"""A document that is saved behind a queue, so that a slow disk delays neither readings nor
findings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

from pipeline.finding import Finding, Incident
from pipeline.observation import Observation


class DeferredSave:
    """A sink: each write saves the newest document that was put since the last one.

    ``save`` answers False where the disk refused; the document is then saved by a later write. Put
    it behind an ``Outlet``; any thread may put.
    """

    def __init__(self, name: str, save: Callable[[dict[str, Any]], bool]) -> None:
        self.name = name
        self._save = save
        self._lock = Lock()
        self._pending: dict[str, Any] | None = None

    @property
    def pending(self) -> bool:
        """Whether a document waits to be saved."""
        with self._lock:
            return self._pending is not None

    def close(self) -> None:
        """One more try for what the disk refused."""
        self.write()

    def put(self, document: dict[str, Any]) -> None:
        """Save this one at the next write, in place of one that waits."""
        with self._lock:
            self._pending = document

    def write(
        self,
        observation: Observation | None = None,  # noqa: ARG002 - a sink gets all
        findings: Sequence[Finding] = (),  # noqa: ARG002 - a sink gets all
        incidents: Sequence[Incident] = (),  # noqa: ARG002 - a sink gets all
    ) -> None:
        """Save what waits, if anything does."""
        with self._lock:
            document, self._pending = self._pending, None
        if document is None or self._save(document):
            return
        # the disk refused
        with self._lock:
            if self._pending is None:
                self._pending = document
