"""An hour of a host from its series: what each exporter gave at each of its scrapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from history.meaning.column import Column
from history.site.series import Series

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Times = NDArray[np.int64]
    Values = NDArray[np.float64]

Part = tuple["Times", "Values"]
Replica = tuple[str, ...]


@dataclass(slots=True)
class Twin:
    """What one server recorded of one exporter: series by device and column, and when it scraped.

    ``cells`` are parts of the same counter: a series ends and another begins when a label changes.
    """

    cells: dict[tuple[str, Column], list[Part]] = field(default_factory=dict)

    def add(self, device: str, column: Column, series: Series) -> None:
        """Take a series, or a part of one."""
        self.cells.setdefault((device, column), []).append((series.times_ms, series.values))

    def times(self) -> Times:
        """When any of them has a sample, rising."""
        # one scrape gives all series the same time: most of these arrays are equal
        parts = {t.tobytes(): t for found in self.cells.values() for t, _ in found}
        if len(parts) == 1:
            return next(iter(parts.values()))
        return np.unique(np.concatenate([*parts.values()])) if parts else np.zeros(0, np.int64)


@dataclass(slots=True)
class Joined:
    """All twins of an exporter as one: ``times_ms`` (scrape,), and by device and column values
    (scrape,), NaN = none. ``conflicts`` are samples that two series give differently at one time.
    """

    times_ms: Times
    cells: dict[tuple[str, Column], Values]
    conflicts: int = 0


def joined(twins: Mapping[Replica, Twin], *, collects: bool) -> Joined:
    """One history of an exporter that several servers, or two exporters of one host, recorded;
    ``collects``: it reads at a pace of its own, and gives the same again if scraped before.

    The one with most scrapes counts; the others where it has a gap. So a pair of servers for
    availability is one history, and a scrape is never half of each.
    """
    order = sorted(twins, key=lambda name: (-len(twins[name].times()), name))
    chosen = [(twins[name], twins[name].times()) for name in order]
    times, kept = np.zeros(0, np.int64), []
    for twin, all_of_it in chosen:
        own = all_of_it[_is_far(all_of_it, times)]
        kept.append((twin, own))
        times = np.union1d(times, own)
    result = Joined(times, {})
    for twin, own in kept:
        for cell, parts in twin.cells.items():
            for at, what in parts:
                if cell not in result.cells and np.array_equal(at, own) and len(own) == len(times):
                    result.cells[cell] = what.copy()
                    continue
                values = result.cells.setdefault(cell, np.full(len(times), np.nan))
                wanted = _among(at, own)
                places = np.searchsorted(times, at[wanted])
                before, new = values[places], what[wanted]
                result.conflicts += int((~np.isnan(before) & (before != new)).sum())
                values[places] = np.where(np.isnan(before), new, before)
    return _without_copies(result) if collects else result


def _among(at: Times, own: Times) -> NDArray[np.bool_]:
    """Which of some times are among rising others."""
    if not len(own):
        return np.zeros(len(at), np.bool_)
    places = np.minimum(np.searchsorted(own, at), len(own) - 1)
    found: NDArray[np.bool_] = own[places] == at
    return found


def _is_far(own: Times, times: Times) -> NDArray[np.bool_]:
    """Which scrapes lie in gaps: farther from any other than one and a half usual intervals."""
    if not len(times) or not len(own):
        return np.ones(len(own), np.bool_)
    usual = int(np.median(np.diff(times))) if len(times) > 1 else 60_000
    after = np.searchsorted(times, own)
    right = np.abs(times[np.minimum(after, len(times) - 1)] - own)
    left = np.abs(own - times[np.maximum(after - 1, 0)])
    far: NDArray[np.bool_] = np.minimum(left, right) > 1.5 * usual
    return far


def _without_copies(whole: Joined) -> Joined:
    """Without scrapes that repeat the one before in every value: dcgm-exporter collects every 30
    seconds and is scraped every 15. Only one in a row: what stays longer is the device's own.
    """
    if len(whole.times_ms) < 2 or len(whole.cells) < 3:
        return whole
    values = np.stack(list(whole.cells.values()))
    same = (
        (values[:, 1:] == values[:, :-1]) | (np.isnan(values[:, 1:]) & np.isnan(values[:, :-1]))
    ).all(axis=0)
    kept = np.ones(len(whole.times_ms), np.bool_)
    for i in np.flatnonzero(same).tolist():
        kept[i + 1] = not kept[i]
    cells = {cell: column[kept] for cell, column in whole.cells.items()}
    return Joined(whole.times_ms[kept], cells, whole.conflicts)


def changes(times_ms: Times, values: Values, before: float) -> Iterable[tuple[int, float]]:
    """When a value became another, with the new one; ``before`` is the last of the hour before, NaN
    where none is known (the first value is then no change).
    """
    known = ~np.isnan(values)
    for ms, value in zip(times_ms[known].tolist(), values[known].tolist(), strict=True):
        if not np.isnan(before) and value != before:
            yield ms, value
        before = value
