"""What the detectors suspect, fed back to the NCCL source: jobs are polled only when there is a
reason.

This is the one place where something flows upstream. It decides what is read, never what is
concluded: whatever is read is in the observation.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from collector.sources.nccl.stillness import Stillness
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding, Incident
from pipeline.observation import Observation

# detectors whose every finding is about a stall: as long as one is active
STALL_DETECTORS = frozenset({"hang", "nccl"})
HARD_NS = 600 * SECOND_NS  # any other page on a node explains a stall that follows within this time
MAX_FINDINGS = 1000


class Suspicions:
    """A sink of findings and of what the GPUs do; any thread may ask ``since_ns``."""

    name = "suspicions"

    def __init__(self) -> None:
        self._lock = Lock()
        self._stillness = Stillness()
        self._active: dict[
            str, tuple[int, bool]
        ] = {}  # finding: monotonic time of the first report, and whether it lasts

    def write(
        self,
        observation: Observation,
        findings: Sequence[Finding],
        incidents: Sequence[Incident] = (),  # noqa: ARG002 - a sink gets all
    ) -> None:
        """See Sink. Incidents add nothing to their findings."""
        with self._lock:
            for frame in observation.frames:
                if frame.kind == "gpu":
                    self._stillness.look(frame, observation.boot_id)
            for finding in findings:
                if not finding.active:
                    self._active.pop(finding.id, None)
                elif finding.detector in STALL_DETECTORS or finding.severity == "page":
                    self._active.setdefault(
                        finding.id, (observation.mono_ns, finding.detector in STALL_DETECTORS)
                    )
            while len(self._active) > MAX_FINDINGS:
                del self._active[next(iter(self._active))]

    def since_ns(self, now_ns: int) -> int | None:
        """Since when something is suspected (monotonic), None where nothing is."""
        with self._lock:
            since = [at for at, lasts in self._active.values() if lasts or now_ns - at < HARD_NS]
            still = self._stillness.since_ns()
            return min(since if still is None else [*since, still], default=None)
