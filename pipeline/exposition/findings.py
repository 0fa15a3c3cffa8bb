"""The findings that stand now, as a bounded number of series without ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from threading import Lock

from pipeline.catalog import agent
from pipeline.exposition.loose import Sample
from pipeline.exposition.text import Family
from pipeline.finding import SEVERITIES, Finding

MAX_SHOWN = 500
MAX_KEPT = 5_000  # beyond it the oldest are let go: a detector gone wild costs bounded memory

_ACTIVE = Family(agent.FINDING_ACTIVE.name, agent.FINDING_ACTIVE.type, agent.FINDING_ACTIVE.help)
_OVERFLOW = Family(
    agent.FINDINGS_OVERFLOW.name, agent.FINDINGS_OVERFLOW.type, agent.FINDINGS_OVERFLOW.help
)


class ActiveFindings:
    """Keeps a finding from its onset to its clearing. Any thread may write or look."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._active: dict[str, Finding] = {}

    def write(self, findings: Iterable[Finding]) -> None:
        """Take over what detectors said."""
        with self._lock:
            for finding in findings:
                if not finding.active:
                    self._active.pop(finding.id, None)
                    continue
                self._active[finding.id] = finding
                if len(self._active) > MAX_KEPT:
                    del self._active[next(iter(self._active))]

    def all(self) -> tuple[Finding, ...]:
        """Everything that stands: the gravest first, then the oldest."""
        with self._lock:
            standing = tuple(self._active.values())
        return tuple(
            sorted(standing, key=lambda f: (-SEVERITIES.index(f.severity), f.onset_ns, f.id))
        )

    def samples(self) -> Iterator[Sample]:
        """One series per (detector, kind, device, severity, action), at most 500, and
        how many more there are.
        """
        names = agent.FINDING_ACTIVE.labels
        rows = dict.fromkeys(
            (f.detector, f.device.kind, f.device.id, f.severity, f.action) for f in self.all()
        )
        for row in list(rows)[:MAX_SHOWN]:
            yield Sample(_ACTIVE, tuple(zip(names, row, strict=True)), 1)
        yield Sample(_OVERFLOW, (), max(len(rows) - MAX_SHOWN, 0))
