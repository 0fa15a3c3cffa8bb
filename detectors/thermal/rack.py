"""Cooling that fails for many at once: a rack, or a node, whose GPUs all grow warmer at a load that stands still."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from detectors.block_clock import BlockClock
from detectors.columns import Columns, Ring, rows_where
from detectors.elapsed import Elapsed, Moment
from detectors.memory import Remembering
from detectors.places import Groups, host_of, rack_of
from detectors.standing import Standing, Verdict
from detectors.stats import alpha_of, grouped_median
from detectors.thermal.steady import KELVIN_PER_WATT, MINUTE_S, Steady
from pipeline.finding import Finding, Severity
from pipeline.frame import Device
from pipeline.observation import Observation

# Proposed limits, not calibrated on hardware: so far above the others, or a rise so fast, for so many minutes.
ABOVE_K, ABOVE_MINUTES = 5.0, 5
RISE_K_PER_MINUTE, RISE_MINUTES, RISE_HOLDS = {"rack": 0.3, "node": 0.6}, 5, 2  # eight GPUs agree by chance more easily
SETTLED = 8  # steady minutes: the metal is at rest (its time constant is below a minute), at both ends of a rise
HALF_LIFE, LEARNT = 1440.0, 60  # minutes of the own past
LEAST_GPUS = 4
LEAST_GROUPS = 3  # racks from which the fleet's median says what the others do
FAULT = "thermal/cooling"
CLEAR_MINUTES = 10


class ThermalRack(Remembering):
    """Judges the median over a rack's settled GPUs, without what all racks do; a page. Where one node is all that is seen, a ticket of it.

    >>> ThermalRack().name
    'thermal_rack'
    """

    name = "thermal_rack"

    def __init__(self) -> None:
        # u: temperature without what the power makes, of the last minutes, the newest first; NaN where it was not settled
        self._columns = Columns(**Steady.fills(), u=Ring(RISE_MINUTES + 1, np.nan), m=0.0, n=0)
        self._places = Columns(above=0, rising=0, good=0)  # a row per rack or node
        self._clock, self._steady = BlockClock(MINUTE_S), Steady(self._columns)
        self._elapsed, self._standing = Elapsed(), Standing(self.name)
        self._racks, self._hosts = Groups(rack_of), Groups(host_of)
        super().__init__(
            columns=self._columns,
            places=self._places,
            clock=self._clock,
            means=self._steady.means,
            elapsed=self._elapsed,
            standing=self._standing,
        )

    def update(self, observation: Observation) -> Iterable[Finding]:
        """Judge the minute that ended, then take in the frame."""
        said: list[Finding] = []
        for frame in observation.frames:
            if frame.kind == "gpu":
                ended = self._clock.turn(frame.mono_ns, observation.boot_id)
                if ended:
                    said += self._minute(self._elapsed.at(observation))
                if ended is not None:
                    self._steady.sample(frame)
        return said

    def _minute(self, at: Moment) -> Iterator[Finding]:
        columns, minute = self._columns, self._steady.minute()
        settled = minute.steady >= SETTLED - RISE_MINUTES
        u = np.where(settled, minute.temperature - KELVIN_PER_WATT * minute.power, np.nan)
        columns["u"] = np.concatenate((u[None, :], columns["u"][:-1]))
        rise = np.where(minute.steady >= SETTLED, u - columns["u"][RISE_MINUTES], np.nan)
        above = np.where(columns["n"] >= LEARNT, u - columns["m"], np.nan)
        yield from self._judge(above, rise / RISE_MINUTES, at)
        suspects = {finding.device.id for finding in self._standing.all()}
        frozen = (
            np.array([rack_of(d) in suspects or d.host in suspects for d in columns.devices], np.bool_) if suspects else False
        )
        learns = np.isfinite(u) & ~np.asarray(frozen)
        a = np.maximum(alpha_of(HALF_LIFE), 1.0 / (columns["n"] + 1.0))
        columns["m"] = np.where(learns, columns["m"] + a * (u - columns["m"]), columns["m"])
        columns["n"] += learns

    def _judge(self, above: NDArray[np.float64], rise: NDArray[np.float64], at: Moment) -> Iterator[Finding]:
        devices = self._columns.devices
        racks, hosts = self._racks.of(devices), self._hosts.of(devices)
        wide = len(self._racks.names) >= LEAST_GROUPS
        groups, names, kind = (racks, self._racks.names, "rack") if wide else (hosts, self._hosts.names, "node")
        levels = []
        for x in (above, rise):
            median, count = grouped_median(x, groups, len(names))
            median = np.where(count >= LEAST_GPUS, median, np.nan)
            known = np.isfinite(median)
            all_do = float(np.median(median[known])) if np.count_nonzero(known) >= LEAST_GROUPS else 0.0
            levels.append(median - all_do)
        places = tuple(Device("" if kind == "rack" else name, kind, name) for name in names)
        yield from self._places_say(places, levels[0], levels[1], at)

    def _places_say(
        self, named: tuple[Device, ...], above: NDArray[np.float64], rise: NDArray[np.float64], at: Moment
    ) -> Iterator[Finding]:
        places = self._places
        places.place(named)
        above, rise = places.wide(above), places.wide(rise)
        fast = np.array([RISE_K_PER_MINUTE[place.kind] for place in places.devices])
        for name, x, limit in (("above", above, ABOVE_K), ("rising", rise, fast)):
            places[name] = np.where(np.isfinite(x), np.where(x > limit, places[name] + 1, 0), places[name])
        bad = (places["above"] >= ABOVE_MINUTES) | (places["rising"] >= RISE_HOLDS)
        calm = (np.nan_to_num(above) < ABOVE_K / 2) & (np.nan_to_num(rise) < fast / 2)
        seen = np.isfinite(above) | np.isfinite(rise)
        places["good"] = np.where(seen, np.where(calm, places["good"] + 1, 0), places["good"])
        for row in rows_where(bad & seen):
            yield from self._standing.holds(places.devices[row], _verdict(places.devices[row], above[row], rise[row]), at)
        for finding in self._standing.all():
            at_row = places.row(finding.device)
            if at_row is not None and places["good"][at_row] >= CLEAR_MINUTES:
                yield from self._standing.ends(finding.device, FAULT, at)


def _verdict(place: Device, above: float, rise: float) -> Verdict:
    severity: Severity = "page" if place.kind == "rack" else "ticket"
    told = [f"{rise * RISE_MINUTES:+.1f} K in {RISE_MINUTES} minutes at a load that stands still"] if np.isfinite(rise) else []
    more = [f"{above:+.1f} K from what is usual for them at this power"] if np.isfinite(above) else []
    return Verdict(
        FAULT,
        severity,
        "CONTACT_SUPPORT",
        f"All GPUs of {place.kind} {place.id} grow warmer together: check air or coolant before they throttle.",
        ("median of its GPUs, without what the other racks do: " + "; ".join((*told, *more)),),
    )
