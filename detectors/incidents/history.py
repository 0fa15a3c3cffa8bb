"""Info findings that opened no incident: evidence for later findings about their device."""

from __future__ import annotations

from detectors.incidents.book import WINDOW_NS
from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.documents import exact, exact_finding
from pipeline.finding import Finding
from pipeline.frame import Device

MAX_KEPT = 1000  # beyond it the oldest are let go


class Records:
    """Keeps info findings that are open for as long as they may share a cause with what comes."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Finding, int]] = {}

    def keep(self, finding: Finding, now_ns: int) -> None:
        """One more, or no more: what ended is no evidence.

        ``now_ns`` is on the clock of durations.
        """
        self._kept.pop(finding.id, None)
        if finding.active:
            self._kept[finding.id] = (finding, now_ns)
        if len(self._kept) > MAX_KEPT:
            del self._kept[next(iter(self._kept))]

    def about(self, device: Device, now_ns: int) -> list[Finding]:
        """What was recorded about a device within the window, the oldest
        first; it is kept no longer.
        """
        found = [
            finding
            for finding, at_ns in self._kept.values()
            if finding.device == device and now_ns - at_ns <= WINDOW_NS
        ]
        for finding in found:
            del self._kept[finding.id]
        return found

    def state(self) -> State:
        """Everything that is kept."""
        return {
            "kept": text_array([[exact(finding), at_ns] for finding, at_ns in self._kept.values()])
        }

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where these are no findings."""
        kept = [
            (exact_finding(document), int(at_ns))
            for document, at_ns in from_text_array(state["kept"])
        ]

        def commit() -> None:
            self._kept = {finding.id: (finding, at_ns) for finding, at_ns in kept}

        return commit
