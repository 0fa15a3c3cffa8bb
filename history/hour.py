"""An hour of a host from its series: what each exporter gave at each of its scrapes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from history.meaning.column import Column
from history.site.series import Series, interval_ms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Times = NDArray[np.int64]
    Values = NDArray[np.float64]

Part = tuple["Times", "Values"]
Replica = tuple[str, ...]
Cell = tuple[str, Column]
# A device is looked for so many intervals before and after scrapes that have it; of one scrape the
# interval is Prometheus' default.
AROUND, DEFAULT_MS = 2, 60_000


@dataclass(slots=True)
class Twin:
    """What one server recorded of one exporter: series by device and column, and when it scraped.

    ``cells`` are parts of the same counter: a series ends and another begins when a label changes.
    """

    cells: dict[Cell, list[Part]] = field(default_factory=dict)

    def add(self, device: str, column: Column, series: Series) -> None:
        """Take a series, or a part of one."""
        self.cells.setdefault((device, column), []).append((series.times_ms, series.values))

    def only(self, cells: Collection[Cell]) -> Twin:
        """With some of its cells."""
        if len(cells) == len(self.cells):
            return self
        return Twin({cell: parts for cell, parts in self.cells.items() if cell in cells})

    def devices(self) -> frozenset[str]:
        """Devices that it has."""
        return frozenset(device for device, _ in self.cells)

    def times(self) -> Times:
        """When any of them has a sample, rising."""
        # one scrape gives all series the same time: most of these arrays are equal
        parts = {t.tobytes(): t for found in self.cells.values() for t, _ in found}
        if len(parts) == 1:
            return next(iter(parts.values()))
        return np.unique(np.concatenate([*parts.values()])) if parts else np.zeros(0, np.int64)

    def samples(self, device: str, column: Column) -> Part:
        """Times, rising, and values of a cell; none where it has none."""
        parts = self.cells.get((device, column), [])
        times = np.concatenate([np.zeros(0, np.int64), *(times for times, _ in parts)])
        values = np.concatenate([np.zeros(0), *(values for _, values in parts)])
        order = np.argsort(times, kind="stable")
        return times[order], values[order]


@dataclass(frozen=True, slots=True)
class Strand:
    """Scrapes that were made together: their times, rising, and the devices that they list."""

    times_ms: Times
    devices: frozenset[str]

    def is_about(self, times_ms: Times) -> NDArray[np.bool_]:
        """Which times are between its first scrape and its last, or near."""
        if not len(self.times_ms):
            return np.zeros(len(times_ms), np.bool_)
        near = AROUND * (interval_ms(self.times_ms) or DEFAULT_MS)
        first, last = self.times_ms[0] - near, self.times_ms[-1] + near
        about: NDArray[np.bool_] = (times_ms >= first) & (times_ms <= last)
        return about


@dataclass(slots=True)
class Joined:
    """All twins of an exporter as one: ``times_ms`` (scrape,), and by device and column values
    (scrape,), NaN = none. ``conflicts`` are samples that two series give differently at one time;
    ``strands`` the scrapes that it was joined of.
    """

    times_ms: Times
    cells: dict[Cell, Values]
    conflicts: int = 0
    strands: tuple[Strand, ...] = ()

    def elsewhere(self, devices: Sequence[str]) -> NDArray[np.bool_]:
        """Which devices, (scrape, device), are listed about then, by scrapes of others alone."""
        shape = len(self.times_ms), len(devices)
        here, about = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
        for strand in self.strands if len(self.strands) > 1 else ():
            has = np.array([device in strand.devices for device in devices], np.bool_)
            here |= _among(self.times_ms, strand.times_ms)[:, None] & has
            about |= strand.is_about(self.times_ms)[:, None] & has
        return about & ~here


def joined(
    twins: Mapping[Replica, Twin], *, collects: bool, fillers: Collection[Column] = ()
) -> Joined:
    """One history of an exporter that several servers, or several exporters of one host, recorded;
    ``collects``: it reads at a pace of its own, and gives the same again if scraped before.

    Of cells that several twins have, the one with most scrapes counts; the others where it has a
    gap. So a pair of servers for availability is one history, and a scrape is never half of each.
    Cells that one twin alone has are taken at its own scrapes; of columns that are ``fillers`` in
    gaps of the others only.
    """
    order = _best_first(twin for _, twin in sorted(twins.items()))
    found = [_one_history(copies) for copies in _copies(order, fillers)]
    return _side_by_side([_without_repeats(one) for one in found] if collects else found)


def _copies(twins: Iterable[Twin], fillers: Collection[Column]) -> Iterator[list[Twin]]:
    """Twins that have cells in common, with these, best first. What a twin has beside is a twin by
    itself; its ``fillers`` stay with the rest.
    """
    found: list[tuple[set[Cell], list[Twin]]] = []
    for twin in twins:
        left = set(twin.cells)
        filling = {cell for cell in left if cell[1] in fillers}
        for cells, copies in found:
            if left & cells or (left and left <= filling):
                own = left & (cells | filling)
                copies.append(twin.only(own))
                cells.update(own)
                left -= own
        if left:
            found.append((left, [twin.only(left)]))
    for _, copies in found:
        yield _best_first(copies)


def _best_first(twins: Iterable[Twin]) -> list[Twin]:
    """Those with most scrapes first."""
    listed = list(twins)
    return sorted(listed, key=lambda one: -len(one.times())) if len(listed) > 1 else listed


def _one_history(twins: Sequence[Twin]) -> Joined:
    """Of twins that are copies, the best first."""
    times, kept = np.zeros(0, np.int64), []
    for twin in twins:
        all_of_it = twin.times()
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
    return result


def _side_by_side(found: Sequence[Joined]) -> Joined:
    """Histories that have no cell in common, each at its own scrapes."""
    strands = tuple(
        Strand(one.times_ms, frozenset(device for device, _ in one.cells)) for one in found
    )
    if len(found) == 1:
        return Joined(found[0].times_ms, found[0].cells, found[0].conflicts, strands)
    times = np.unique(np.concatenate([np.zeros(0, np.int64), *(one.times_ms for one in found)]))
    result = Joined(times, {}, sum(one.conflicts for one in found), strands)
    for one in found:
        places = np.searchsorted(times, one.times_ms)
        for cell, own in one.cells.items():
            values = result.cells[cell] = np.full(len(times), np.nan)
            values[places] = own
    return result


def side_by_side_ms(twins: Collection[Twin]) -> int:
    """Until when (unix time, ms) exporters without a device in common were scraped at the same
    time: two machines have one name. 0 where there are no such.
    """
    groups: list[tuple[frozenset[str], int, int]] = []
    for twin in twins if len(twins) > 1 else ():
        times, devices = twin.times(), twin.devices()
        if not len(times):
            continue
        merged = devices, int(times[0]), int(times[-1])
        for group in [group for group in groups if group[0] & devices]:
            groups.remove(group)
            first, last = min(merged[1], group[1]), max(merged[2], group[2])
            merged = merged[0] | group[0], first, last
        groups.append(merged)
    return max(
        (min(a[2], b[2]) for a, b in combinations(groups, 2) if max(a[1], b[1]) <= min(a[2], b[2])),
        default=0,
    )


def is_near(times_ms: Times, own: Times) -> NDArray[np.bool_]:
    """Which times are at most ``AROUND`` intervals from one of some rising others, unix ms.

    >>> is_near(np.array([0, 70, 150]), np.array([10, 30, 50])).tolist()
    [True, True, False]
    """
    if not len(own):
        return np.zeros(len(times_ms), np.bool_)
    after = np.searchsorted(own, times_ms)
    right = np.abs(own[np.minimum(after, len(own) - 1)] - times_ms)
    left = np.abs(times_ms - own[np.maximum(after - 1, 0)])
    near: NDArray[np.bool_] = np.minimum(left, right) <= AROUND * (interval_ms(own) or DEFAULT_MS)
    return near


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


def _without_repeats(whole: Joined) -> Joined:
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
