"""Earlier measurements, from the store: of this node, and of others where the store is shared."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from collector.config.settings import Config
from collector.preflight.standard import Measured
from pipeline.store.query.events_of import events_of
from pipeline.store.query.store import Store, Window

LOOK_BACK = timedelta(days=90)
MAX_RESULTS = 100_000
MEASURED = "preflight_measured"


def earlier(config: Config, now: datetime | None = None) -> list[Measured]:
    """The newest, in the order of time. OSError where there is no store."""
    url = config.storage.path
    store = Store(url, target=replace(config.storage.upload.target, url=url))
    since = (now or datetime.now(UTC)) - LOOK_BACK
    found = (
        Measured(
            event.device.id,
            str(event.attributes.get("model", "")),
            str(event.attributes["measure"]),
            float(event.attributes["value"]),
        )
        for event in events_of(store, Window(since), (MEASURED,))
    )
    return list(deque(found, MAX_RESULTS))
