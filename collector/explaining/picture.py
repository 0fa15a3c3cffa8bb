"""The evidence of an incident as panels of a plot: the columns that its detectors judge, of its
devices, around its time.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from detectors import PAGES
from pipeline.catalog import KINDS, field
from pipeline.store.files.units import base_name
from pipeline.store.query.canned.question import means, names, risen
from pipeline.store.query.incident_history import IncidentHistory
from pipeline.store.query.plot import Panel
from pipeline.store.query.store import Store, Window

BEFORE, AFTER = 0.5, 0.25  # of the incident's length are shown around it, and at least
MIN_BEFORE, MIN_AFTER = timedelta(minutes=15), timedelta(minutes=5)
MAX_PANELS = 8


def panels(store: Store, history: IncidentHistory) -> list[Panel]:
    """Panels in the order of first evidence, each column once; a device that has no such column (a
    node, a rack) shows its host's devices.
    """
    begin, end = history.span
    length = end - begin
    window = Window(begin - max(BEFORE * length, MIN_BEFORE), end + max(AFTER * length, MIN_AFTER))
    return [
        panel(store, window, kind, column, devices)
        for (kind, column), devices in _columns(store, history, window)
    ]


def _columns(
    store: Store, history: IncidentHistory, window: Window
) -> Iterator[tuple[tuple[str, str], tuple[str, ...]]]:
    """What to show, with whose."""
    wanted: dict[tuple[str, str], dict[str, None]] = {}
    hosts = _devices_of_hosts(store, window)
    for finding in history.findings:
        page = PAGES.get(finding.last["detector"])
        for kind, column in page.shows if page else ():
            if field(kind, column).states:  # names have no height
                continue
            own = (
                [finding.last["device"]]
                if finding.last["device_kind"] == kind
                else hosts.get((finding.host, kind), [])
            )
            wanted.setdefault((kind, column), {}).update(dict.fromkeys(own))
    for key, devices in list(wanted.items())[:MAX_PANELS]:
        if devices:
            yield key, tuple(devices)


def _devices_of_hosts(store: Store, window: Window) -> dict[tuple[str, str], list[str]]:
    """Devices by host and kind."""
    found: dict[tuple[str, str], list[str]] = {}
    for (host, device), kind in names(store, window).kinds.items():
        if kind in KINDS:
            found.setdefault((host, kind), []).append(device)
    return found


def panel(store: Store, window: Window, kind: str, column: str, devices: tuple[str, ...]) -> Panel:
    """A column of some devices: its means, of a counter what it rose by."""
    own, about = Window(window.since, window.until, devices), field(kind, column)
    if about.type == "counter":
        return Panel(f"{column}, increase", "", risen(store, kind, [column], own))
    return Panel(base_name(about), "", means(store, kind, base_name(about), own))
