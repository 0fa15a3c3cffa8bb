"""What one observation changes about the open incidents."""

from __future__ import annotations

from dataclasses import replace

from detectors.incidents.book import OpenIncident
from pipeline.clock import Instant
from pipeline.finding import Incident


class Changes:
    """What one observation changes: incidents to look at again, and what is reported of them."""

    def __init__(self) -> None:
        self.touched: dict[str, OpenIncident] = {}
        self.said: dict[str, Incident] = {}

    def touch(self, *incidents: OpenIncident) -> None:
        """These may have changed."""
        self.touched |= {one.id: one for one in incidents}

    def ended(self, one: OpenIncident, at: Instant, why: str) -> None:
        """It is over; nobody reads of one that never was reported."""
        if one.reported is not None:
            self.said[one.id] = replace(
                one.reported,
                cleared_ns=end_of(one, at),
                summary=f"{why}: {one.reported.summary}",
                ended=f"{why}.",
            )


def end_of(one: OpenIncident, at: Instant) -> int:
    """When it ended, unix ns: not before it opened, however the wall clock was set since."""
    return max(at.time_ns, one.opened_ns)
