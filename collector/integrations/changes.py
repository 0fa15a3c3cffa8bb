"""Which incidents opened and which ended since the last report; what could not
be reported stays to be reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Incident = Mapping[str, Any]


class Changes:
    """State of one reporter.

    A blind agent knows of neither begin nor end, and what is out of service is not reported.
    """

    def __init__(self) -> None:
        self._reported: dict[str, Incident] = {}

    def of(self, verdict: Mapping[str, Any]) -> Iterator[tuple[Incident, bool]]:
        """Incidents, each with whether it is over: what opened, became graver or milder, blames
        another part, or has ended.

        What is reported again of another part or class ends first as it was reported before: the
        receiver finds it by these. A class alone that changes, as evidence comes in, is no news.
        """
        if verdict["verdict"] == "unknown" or verdict["out_of_service"]:
            return
        standing = {
            incident["id"]: incident
            for incident in verdict["incidents"]
            if incident["severity"] != "record"
        }
        known = dict(self._reported)
        for key, incident in standing.items():
            before = known.get(key)
            if before is not None and _news(before) == _news(incident):
                continue
            if before is not None and _found_by(before) != _found_by(incident):
                yield before, True
            yield incident, False
        yield from (
            (incident, True) for key, incident in known.items() if key not in verdict["open"]
        )

    def reported(self, incident: Incident, *, over: bool) -> None:
        """Mark this one as reported."""
        if over:
            self._reported.pop(incident["id"], None)
        else:
            self._reported[incident["id"]] = incident


def _news(incident: Incident) -> tuple[str, str, str]:
    """What makes it worth reporting again."""
    return incident["severity"], incident["kind"], incident["device"]


def _found_by(incident: Incident) -> tuple[str, str, str]:
    """By what its end meets its begin."""
    return incident["class"], incident["kind"], incident["device"]
