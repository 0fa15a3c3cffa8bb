"""Cooling that fails for many at once: a rack, or a node, whose GPUs all grow
warmer at a steady load.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.kit.blockwise import Blockwise
from detectors.kit.columns import Columns, Ring, rows_where
from detectors.kit.findings import Verdict
from detectors.kit.groups import Groups, host_of, rack_of
from detectors.kit.page import Page, gpu_columns
from detectors.kit.stateful import Component
from detectors.kit.stats import alpha_of, grouped_median
from detectors.thermal.steady import KELVIN_PER_WATT, MAX_CHANGE, MINUTE_S, Steady
from pipeline.clock import Instant
from pipeline.finding import Finding, Severity
from pipeline.frame import Device, Frame

# Proposed limits, not calibrated on hardware: so far above the others, or a rise so
# fast, for so many minutes.
ABOVE_K, ABOVE_MINUTES = 5.0, 5
ALONE_ABOVE_K = 10.0  # where no others are seen, the room's days and seasons are in it too
# eight GPUs agree by chance more easily
RISE_K_PER_MINUTE, RISE_MINUTES, RISE_HOLDS = {"rack": 0.3, "node": 0.6}, 5, 2
LOOK_BACK = 12  # minutes: a checkpoint in between takes away some
SETTLED = 3  # steady minutes: the metal is at rest, its time constant is below a minute
HALF_LIFE, LEARNT = 1440.0, 60  # minutes of the own past
MIN_GPUS = 4
MIN_GROUPS = 3  # racks from which the fleet's median shows what the others do
FAULT = "thermal/cooling"
CLEAR_MINUTES = 10
ACCEPT_MINUTES = 2 * 1440  # of settled load at the new level: it has been decided to live with it


PAGE = Page(
    formula=(
        "median over the rack of u = T - R P, less the median of all racks: du/dt > 0.3 K/min for "
        "2 min, or u - u_usual > 5 K for 5 min"
    ),
    sources=("JEDEC, JESD51: thermal resistance; the limits are this project's own",),
    shows=gpu_columns("temperature_celsius", "power_milliwatts"),
    next_step="Call facilities about air or coolant of this rack before its GPUs throttle.",
    clears=(
        "After ten minutes in a row below half of both limits; after two days at the new level, "
        "which is normal then."
    ),
    scored_as=("thermal",),
)


class ThermalRack(Blockwise):
    """Judges the median over a rack's settled GPUs, without what all racks do; a page.

    Where fewer racks are seen, a ticket per node.

    Temperatures are taken without what the power makes. Two minutes of a rise by 0.3 K a minute
    over at least five, or five minutes 5 K above what is usual for these GPUs; a node that is alone
    needs 0.6 K a minute, or 10 K. It ends after ten minutes below half.

    What is accepted: days, seasons and warm rooms, which all racks share; another load, as its heat
    is taken away, and a rise counts between minutes of about the same power only; a new level after
    two days.
    >>> ThermalRack().name
    'thermal_rack'
    """

    name = "thermal_rack"

    def __init__(self) -> None:
        # u: temperature without what the power makes, and that power, of the last minutes, the
        # newest first; NaN where it was not settled
        columns = Columns(
            **Steady.fills(),
            u=Ring(LOOK_BACK + 1, np.nan),
            watts=Ring(LOOK_BACK + 1, np.nan),
            m=0.0,
            n=0,
        )
        self._places = Columns(above=0, rising=0, good=0, lasted=0)  # a row per rack or node
        self._steady = Steady(columns)
        self._racks, self._hosts = Groups(rack_of), Groups(host_of)
        super().__init__(MINUTE_S, columns)

    def components(self) -> Mapping[str, Component]:
        """With those of the steady state."""
        nested: dict[str, Component] = {"means": self._steady.means, "steps": self._steady.steps}
        return {**super().components(), **nested}

    def _take(self, frame: Frame, boot_id: str) -> None:
        self._steady.sample(frame, boot_id)

    def _block(self, at: Instant) -> Iterator[Finding]:
        columns, minute = self._columns, self._steady.minute()
        settled = (
            minute.steady >= SETTLED
        ) & minute.loaded  # what an idle GPU teaches is wrong by as much as the prior is
        u = np.where(settled, minute.temperature - KELVIN_PER_WATT * minute.power, np.nan)
        for name, newest in (("u", u), ("watts", minute.power)):
            columns[name] = np.concatenate((newest[None, :], columns[name][:-1]))
        above = np.where(columns["n"] >= LEARNT, u - columns["m"], np.nan)
        racks, hosts = self._racks.of(columns.devices), self._hosts.of(columns.devices)
        wide = len(self._racks.names) >= MIN_GROUPS
        kind, group, names = (
            ("rack", racks, self._racks.names) if wide else ("node", hosts, self._hosts.names)
        )
        self._places.place(tuple(Device("" if wide else name, kind, name) for name in names))
        yield from self._judge(
            _of_groups(above, group, len(names)),
            _of_groups(_rise(columns["u"], columns["watts"]), group, len(names)),
            at,
        )
        self._learn(u, racks, hosts)

    def _learn(
        self, u: NDArray[np.float64], racks: NDArray[np.int64], hosts: NDArray[np.int64]
    ) -> None:
        """What is usual for each GPU; those of places under suspicion teach nothing."""
        columns, learns = self._columns, np.isfinite(u)
        for finding in self._standing.all():
            names, numbers = (
                (self._racks.names, racks)
                if finding.device.kind == "rack"
                else (self._hosts.names, hosts)
            )
            if finding.device.id in names:
                learns &= numbers != names.index(finding.device.id)
        a = np.maximum(alpha_of(HALF_LIFE), 1.0 / (columns["n"] + 1.0))
        columns["m"] = np.where(learns, columns["m"] + a * (u - columns["m"]), columns["m"])
        columns["n"] += learns

    def _judge(self, above: _Medians, rise: _Medians, at: Instant) -> Iterator[Finding]:
        places = self._places
        warm, fast = places.wide(above.level), places.wide(rise.level)
        most = ALONE_ABOVE_K if above.alone else ABOVE_K
        most_fast = np.array([RISE_K_PER_MINUTE[place.kind] for place in places.devices])
        for name, x, limit in (("above", warm, most), ("rising", fast, most_fast)):
            places[name] = np.where(
                np.isfinite(x), np.where(x > limit, places[name] + 1, 0), places[name]
            )
        seen = np.isfinite(warm) | np.isfinite(fast)
        calm = (np.nan_to_num(warm) < most / 2) & (np.nan_to_num(fast) < most_fast / 2)
        places["good"] = np.where(seen, np.where(calm, places["good"] + 1, 0), places["good"])
        bad = (places["above"] >= ABOVE_MINUTES) | (places["rising"] >= RISE_HOLDS)
        for row in rows_where(bad & seen):
            verdict = _verdict(
                places.devices[row], float(warm[row]), float(fast[row]), alone=above.alone
            )
            for finding in self._standing.holds(places.devices[row], verdict, at):
                places["lasted"][row] = 0
                yield finding
        yield from self._end(seen, at)
        yield from self._standing.due(at)

    def _end(self, seen: NDArray[np.bool_], at: Instant) -> Iterator[Finding]:
        places = self._places
        places["lasted"] += seen
        for finding in self._standing.all():
            row = places.row(finding.device)
            if row is None:
                continue
            if places["lasted"][row] >= ACCEPT_MINUTES:
                self._columns.reset(self._members(finding.device), "m", "n")
                places.reset(np.array([row], np.intp))
                yield from self._standing.ends(
                    finding.device, FAULT, at, "accepted as its new normal after two days"
                )
            elif places["good"][row] >= CLEAR_MINUTES:
                yield from self._standing.ends(finding.device, FAULT, at)

    def _members(self, place: Device) -> NDArray[np.bool_]:
        own = (place.id in (rack_of(d), d.host) for d in self._columns.devices)
        return np.fromiter(own, np.bool_, len(self._columns))


class _Medians(NamedTuple):
    """Per place, (place,): the median of its GPUs without what all places do, NaN
    where too few are settled.

    ``alone``: too few places to say what all do; then nothing was taken away.
    """

    level: NDArray[np.float64]
    alone: bool


def _of_groups(x: NDArray[np.float64], group: NDArray[np.int64], groups: int) -> _Medians:
    median, count = grouped_median(x, group, groups)
    median = np.where(count >= MIN_GPUS, median, np.nan)
    known = np.isfinite(median)
    if np.count_nonzero(known) < MIN_GROUPS:
        return _Medians(median, alone=True)
    return _Medians(median - float(np.median(median[known])), alone=False)


def _rise(u: NDArray[np.float64], watts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Kelvin a minute since the newest settled minute at about this power that is long enough ago,
    (row,), for both (minute, row), the newest first.

    >>> u, watts = np.full((LOOK_BACK + 1, 3), np.nan), np.full((LOOK_BACK + 1, 3), 600.0)
    >>> u[0], u[6, :2], watts[6, 1] = 33.0, 30.0, 300.0
    >>> _rise(u, watts).tolist()
    [0.5, nan, nan]
    """
    alike = np.isfinite(u[RISE_MINUTES:]) & (
        np.abs(watts[RISE_MINUTES:] - watts[0]) < MAX_CHANGE * watts[0]
    )
    ago = RISE_MINUTES + alike.argmax(axis=0)
    rise = (u[0] - np.take_along_axis(u, ago[None, :], axis=0)[0]) / ago
    return np.where(alike.any(axis=0), rise, np.nan)


def _verdict(place: Device, above: float, rise: float, *, alone: bool) -> Verdict:
    severity: Severity = "page" if place.kind == "rack" else "ticket"
    rises = [f"{rise:+.2f} K a minute at a steady load"] if np.isfinite(rise) else []
    more = (
        [f"{above:+.1f} K from what is usual for them at this power"] if np.isfinite(above) else []
    )
    others = "no others to compare with" if alone else f"less what the other {place.kind}s do"
    return Verdict(
        FAULT,
        severity,
        "CONTACT_SUPPORT",
        (
            f"All GPUs of {place.kind} {place.id} grow warmer together: check air or coolant "
            "before they throttle."
        ),
        (f"median of its GPUs ({others}): " + "; ".join((*rises, *more)),),
        above,
        0.0,
        "kelvin",
    )
