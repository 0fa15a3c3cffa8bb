"""Which incidents opened and which ended since somebody was last told; what could not be told stays to be told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Incident = Mapping[str, Any]


class Changes:
    """Kept by one teller. A blind agent knows of neither begin nor end, and what is out of service is told to nobody."""

    def __init__(self) -> None:
        self._told: dict[str, Incident] = {}

    def of(self, verdict: Mapping[str, Any]) -> Iterator[tuple[Incident, bool]]:
        """Incidents, each with whether it is over: what opened, became graver or milder, or has ended.

        Where the blame moves to another part, or becomes another class, what was told ends before the same incident opens anew.
        """
        if verdict["verdict"] == "unknown" or verdict["out_of_service"]:
            return
        standing = {incident["id"]: incident for incident in verdict["incidents"] if incident["severity"] != "record"}
        known = dict(self._told)
        for key, incident in standing.items():
            before = known.get(key)
            if before is not None and _blamed(before) != _blamed(incident):
                yield before, True
            if before is None or (before["severity"], _blamed(before)) != (incident["severity"], _blamed(incident)):
                yield incident, False
        yield from ((incident, True) for key, incident in known.items() if key not in verdict["open"])

    def told(self, incident: Incident, *, over: bool) -> None:
        """This one has been told."""
        if over:
            self._told.pop(incident["id"], None)
        else:
            self._told[incident["id"]] = incident


def _blamed(incident: Incident) -> tuple[str, str, str]:
    """What is told to be wrong with which part."""
    return incident["class"], incident["kind"], incident["device"]
