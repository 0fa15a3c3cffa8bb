"""The switches of the dialect, and the seams it looks through."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pipeline.dcgm.counters import Compat, Counters
from pipeline.dcgm.entities import LabelStyle
from pipeline.dcgm.jobs import JobLabels
from pipeline.dcgm.select import FLEX, Selection
from pipeline.frame import Device

# dcgm-exporter's defaults: --xid-count-window-size,
# --clock-events-count-window-size, --collect-interval.
WINDOW_MS, COLLECT_INTERVAL_MS = 300_000, 30_000


class Xids(Protocol):
    """What the XID families need to know."""

    def series(self) -> Iterable[tuple[Device, int, int, int]]:
        """(device, code, count, unix ns of the last one)."""
        ...

    def last(self, device_id: str) -> int:
        """Code of the last XID of a device, 0 where there was none."""
        ...

    def recent(self, device_id: str, window_ns: int, now_ns: int) -> Mapping[int, int]:
        """Occurrences per code within a window."""
        ...


class NoXids:
    """Nothing ever happened."""

    def series(self) -> Iterable[tuple[Device, int, int, int]]:
        """None."""
        return ()

    def last(self, device_id: str) -> int:  # noqa: ARG002 - the seam passes it
        """None."""
        return 0

    def recent(self, device_id: str, window_ns: int, now_ns: int) -> Mapping[int, int]:  # noqa: ARG002 - the seam passes them
        """None."""
        return {}


@dataclass(frozen=True, slots=True)
class Options:
    """Everything that changes the page; windows and interval in ms as in dcgm-exporter's flags."""

    counters: Counters
    compat: Compat = "dcgm-4.8"
    style: LabelStyle = field(default_factory=LabelStyle)
    selection: Selection = FLEX
    xid_window_ms: int = WINDOW_MS
    clock_window_ms: int = WINDOW_MS
    collect_interval_ms: int = COLLECT_INTERVAL_MS
    jobs: JobLabels = field(default_factory=JobLabels)
