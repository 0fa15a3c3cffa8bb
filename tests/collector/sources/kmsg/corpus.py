"""Classes of kernel lines with their events (tests/data/kmsg/corpus.toml), and lines of healthy
machines, of which none is an event (harmless.txt).
"""

from __future__ import annotations

import tomllib
from typing import Any, NamedTuple

from pipeline.observation import Event
from tests.collector.sources.kmsg.logs import DATA


class Case(NamedTuple):
    """One class: the records of one occurrence, and the events with chosen attributes."""

    name: str
    texts: tuple[str, ...]
    events: tuple[dict[str, Any], ...]

    def chosen(self, found: list[Event]) -> list[dict[str, Any]]:
        """Kind and the chosen attributes of events found, in order."""
        return [
            {
                name: event.kind if name == "kind" else event.attributes.get(name)
                for name in expected
            }
            for event, expected in zip(found, self.events, strict=False)
        ]


CORPUS = tuple(
    Case(one["name"], tuple(one["records"]), tuple(one["events"]))
    for one in tomllib.loads((DATA / "corpus.toml").read_text())["case"]
)
HARMLESS = tuple(
    line
    for line in (DATA / "harmless.txt").read_text().splitlines()
    if line and not line.startswith("# ")
)
