"""What the sealing child reports to the agent: what it could not read, and how the upload went.

Plain values.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from pipeline.catalog import agent
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.remote.upload_plan import Report


@dataclass(slots=True)
class Losses:
    """What segments held and could not be read: missing ``records`` (by their numbers, or at least
    so many) and skipped bytes; ``quarantined`` segments with the reason.

    ``unended`` segments have no end, as a kill leaves them.
    """

    records: int = 0
    size: int = 0
    unended: int = 0
    quarantined: list[str] = field(default_factory=list)

    def publish(self, metrics: SelfMetrics, now_ns: int) -> None:
        """Add them to the agent's own metrics."""
        metrics.add(agent.STORE_DAMAGED_RECORDS, amount=self.records)
        metrics.add(agent.STORE_DAMAGED_BYTES, amount=self.size)
        metrics.add(agent.STORE_UNENDED, amount=self.unended)
        metrics.add(agent.STORE_QUARANTINED, amount=len(self.quarantined))
        if self.quarantined:
            metrics.set(agent.STORE_LAST_DAMAGE, now_ns / 1e9)


@dataclass(frozen=True, slots=True)
class SealReport:
    """What one child did beside sealing; ``upload`` is None where it had no plan."""

    losses: Losses = field(default_factory=Losses)
    upload: Report | None = None

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> SealReport:
        """From that line. ValueError, KeyError or TypeError where it is none."""
        given = json.loads(text)
        upload = given["upload"]
        return cls(Losses(**given["losses"]), Report(**upload) if upload is not None else None)
