"""Findings about devices that are out of service or not read any more: reported when the device is
back and the fault is still there.
"""

from __future__ import annotations

from collections.abc import Callable

from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.documents import exact, exact_finding
from pipeline.finding import Finding
from pipeline.frame import Device

MAX_KEPT = 1000  # beyond it the oldest are let go


class SuppressedFindings:
    """Keeps the open findings about devices that are away."""

    def __init__(self) -> None:
        self._findings: dict[str, Finding] = {}

    def keep(self, finding: Finding) -> None:
        """Hold one back; what ended is forgotten."""
        self._findings.pop(finding.id, None)
        if finding.active:
            self._findings[finding.id] = finding
        if len(self._findings) > MAX_KEPT:
            del self._findings[next(iter(self._findings))]

    def is_empty(self) -> bool:
        """Whether nothing is held back."""
        return not self._findings

    def __contains__(self, finding_id: str) -> bool:
        return finding_id in self._findings

    def released(self, back: Callable[[Device], bool]) -> list[Finding]:
        """What is held about devices that are back, the oldest first; it is held no longer."""
        free = [finding for finding in self._findings.values() if back(finding.device)]
        for finding in free:
            del self._findings[finding.id]
        return free

    def state(self) -> State:
        """Everything that is held."""
        return {"findings": text_array([exact(finding) for finding in self._findings.values()])}

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where they are no findings."""
        findings = [exact_finding(document) for document in from_text_array(state["findings"])]

        def commit() -> None:
            self._findings = {finding.id: finding for finding in findings}

        return commit
