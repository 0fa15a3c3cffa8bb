"""What the agent and its compacting child say to each other: how long what is
kept, and what was done.

Plain values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from pipeline.catalog import agent
from pipeline.selfmetrics import SelfMetrics

REASONS = {
    "age": "older than the table's retention",
    "budget": "the disk budget was used up",
    "budget_not_uploaded": "the same, and the object store did not have it yet",
}
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Policy:
    """How long tables are kept, in seconds (0: forever), and how many bytes the store may take (0:
    see DEFAULT_BYTES in retain.py).

    ``raw_s`` is for measurements as they were read, with the table ``reads``; ``minute_s`` and
    ``quarter_s`` for their roll-ups; ``events_s`` for events, findings, incidents and devices.
    """

    raw_s: float = 30 * DAY_S
    minute_s: float = 396 * DAY_S  # thirteen months: this month and the same one last year
    quarter_s: float = 0.0
    events_s: float = 0.0
    max_bytes: int = 0

    def to_json(self) -> str:
        """As the child's argument."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Policy:
        """From the child's argument."""
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What one run did and what is there now.

    ``removed``: bytes given up by table and reason (of REASONS); ``sizes``: bytes by table, and of
    ``wal``, ``outbox`` and ``quarantine``; ``oldest_s``: unix time at which a table's oldest day
    begins; ``quarantined``: files that could not be read, why. ``held_back``: bytes by table that
    are too old and were kept; ``skipped``: number of strangers by reason, and some of them by name;
    ``damaged_s``: unix time of the newest damage, 0 for none; ``damaged``: sealed files that are
    known to be damaged and stay where they are, of which ``fresh`` ones were found in this run.
    """

    written: int = 0
    replaced: int = 0
    quarantined: tuple[str, ...] = ()
    removed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    oldest_s: Mapping[str, float] = field(default_factory=dict)
    budget: int = 0
    held_back: Mapping[str, int] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    skipped_names: tuple[str, ...] = ()
    damaged_s: float = 0.0
    damaged: int = 0
    fresh: tuple[str, ...] = ()

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Upkeep:
        """From that line. ValueError or TypeError where it is none."""
        given = json.loads(text)
        named = {key: tuple(given[key]) for key in ("quarantined", "skipped_names", "fresh")}
        return cls(**(given | named))

    def publish(self, metrics: SelfMetrics, now_ns: int) -> None:
        """Set the agent's own metrics from this report."""
        metrics.add(agent.STORE_QUARANTINED, amount=len(self.quarantined))
        for table, reasons in self.removed.items():
            for reason, size in reasons.items():
                metrics.add(agent.STORE_REMOVED_BYTES, table, reason, amount=size)
        if self.removed:
            metrics.set(agent.STORE_LAST_REMOVAL, now_ns / 1e9)
        metrics.replace(
            agent.STORE_BYTES, {(table,): float(size) for table, size in self.sizes.items()}
        )
        metrics.replace(agent.STORE_OLDEST, {(table,): at for table, at in self.oldest_s.items()})
        metrics.set(agent.STORE_BUDGET, self.budget)
        metrics.replace(
            agent.STORE_HELD_BACK, {(table,): float(size) for table, size in self.held_back.items()}
        )
        metrics.replace(
            agent.STORE_SKIPPED, {(reason,): float(n) for reason, n in self.skipped.items()}
        )
        metrics.set(agent.STORE_DAMAGED_FILES, self.damaged)
        if self.damaged_s > (metrics.value(agent.STORE_LAST_DAMAGE) or 0.0):
            metrics.set(agent.STORE_LAST_DAMAGE, self.damaged_s)
