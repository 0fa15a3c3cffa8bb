"""The readings around an alert, as pictures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from collector.explaining.picture import panel
from detectors import PAGES
from history.backtest.judged import Alert
from history.backtest.words import device_name
from pipeline.catalog import field
from pipeline.clock import SECOND_NS
from pipeline.frame import Device
from pipeline.store.query.plot import Panel, svg
from pipeline.store.query.store import Store, Window

BEFORE, AFTER = timedelta(hours=1), timedelta(minutes=30)
MAX_PICTURES, MAX_PANELS = 20, 3


def pictures(root: Path, alerts: Iterable[Alert]) -> dict[str, str]:
    """SVG documents of the first pages, by id of incident: the columns that their detectors judge,
    of the device itself, with a line at the alert. What did not move is not drawn, but the first of
    them where none did: a line that ends there is what a lost device shows.
    """
    store = Store(root)
    found: dict[str, str] = {}
    for alert in alerts:
        if alert.severity == "page" and len(found) < MAX_PICTURES:
            panels = _panels(store, alert)
            if panels:
                found[alert.incident.id] = svg(panels)
    return found


def _panels(store: Store, alert: Alert) -> list[Panel]:
    root = alert.incident.root
    opened = datetime.fromtimestamp(alert.incident.opened_ns / SECOND_NS, UTC)
    window = Window(opened - BEFORE, opened + AFTER)
    shown = dict.fromkeys(
        (one.kind, one.column) for name in alert.detectors for one in PAGES[name].shows
    )
    made = [
        panel(store, window, kind, column, (root.id,))
        for kind, column in shown
        if kind == root.kind and not field(kind, column).states
    ]
    mark = alert.incident.opened_ns // 1000
    moving = [one for one in made if _levels(one) > 1]
    still = [one for one in made if _levels(one) == 1]
    return [_named(one, root, mark) for one in moving[:MAX_PANELS] or still[:1]]


def _levels(one: Panel) -> int:
    """How many values it has."""
    values = one.rows["value"]
    return values.filter(values.is_finite()).n_unique()


def _named(one: Panel, root: Device, mark: int) -> Panel:
    """With the device as operators call it."""
    return replace(one.named(device_name(root) or root.id), mark=mark)
