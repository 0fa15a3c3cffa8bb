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
from detectors.kit.instants import Times
from detectors.kit.page import Needs, Page, gpu_columns
from detectors.kit.software import Software
from detectors.kit.stateful import Component
from detectors.kit.stats import alpha_of, grouped_median, median_of
from detectors.thermal import idling
from detectors.thermal.idling import Idling
from detectors.thermal.steady import KELVIN_PER_WATT, MAX_CHANGE, MINUTE_S, Steady
from pipeline.finding import Finding, Severity
from pipeline.frame import Device, Frame
from pipeline.small_arrays import any_true, or_else

# Proposed limits, not calibrated on hardware. A rise counts over ten minutes, and only with a level
# that the room does not reach by itself: compressors switch each 4 to 60 minutes and move the inlet
# by 0.2 to 4 K, doors by up to 4 K, in minutes.
ABOVE_K, ABOVE_MINUTES = 5.0, 10
LEARNT_ABOVE_K, LEARNT_HOURS = 4.5, 3  # where the room's own swings are known
UNKNOWN_RISEN_K = 6.0  # until they are: half of a compressor's and a door's at once
SWING = 2.0  # than the room's own swings: so much more
ALONE_ABOVE = 2.0  # where no others are seen, the room's days and seasons are in it too
# eight GPUs agree by chance more easily
RISE_K_PER_MINUTE, RISE_MINUTES = {"rack": 0.3, "node": 0.6}, 10
LOOK_BACK = 20  # minutes: a checkpoint in between takes away some
SETTLED = 3  # steady minutes: the metal is at rest, its time constant is below a minute
SWING_HOURS, HOUR_MINUTES = 24, 60
HALF_LIFE, LEARNT = 1440.0, 60  # minutes of the own past
MIN_GPUS = 4
# Whose cooling fails together: fewer are no rack; and half of those of a rack that work, as the
# others show nothing.
MIN_NODES = 3
MIN_GROUPS = 3  # racks from which the fleet's median shows what the others do
FAULT = "thermal/cooling"
CLEAR_MINUTES = 10
MIN_SHIFTED = 32  # GPUs of a model, four nodes: what another driver makes of them is no chance
ACCEPT_MINUTES = 2 * 1440  # of settled load at the new level: it has been decided to live with it


PAGE = Page(
    formula=(
        "median over the rack's nodes of u = T - R P, less the median of all racks: u - u_usual > "
        "max(5 K, twice the room's own swings) for 10 min, or > max(4.5 K, those) with a rise of "
        "3 K in 10 min; u_usual of load and of idling apart"
    ),
    sources=(
        "JEDEC, JESD51: thermal resistance; the limits are this project's own",
        "Vertiv, Liebert iCOM: staging of compressors",
    ),
    shows=gpu_columns("temperature_celsius", "power_milliwatts"),
    needs=Needs(
        30.0, (("gpu.temperature_celsius",), ("gpu.power_milliwatts", "gpu.energy_millijoules"))
    ),
    next_step="Call facilities about air or coolant of this rack before its GPUs throttle.",
    clears=(
        "After ten minutes in a row below half of both limits; after two days at the new level, "
        "which is normal then."
    ),
    scored_as=("thermal",),
)


class ThermalRack(Blockwise):
    """Judges the median over a rack's nodes, of which at least three and half must be settled,
    without what all racks do; a page.

    Racks of fewer nodes are a ticket. Where fewer racks are seen, a ticket per node.

    Temperatures are taken without what the power makes. A rise of 3 K within ten minutes to a level
    4.5 K above what is usual for these GPUs, or ten minutes 5 K above it; more where the room
    itself swings, which is learnt by the hour: twice the second highest hour of the last day, and
    6 K for a rise until it is known. A node, or a rack in minutes without others, needs twice as
    much. It ends after ten minutes below half.

    What is accepted: days, seasons and warm rooms, which all racks share; another load, as its heat
    is taken away, and a rise counts between minutes of about the same power only; what another
    driver or VBIOS does, as learnt in an hour of load, then taken for those that get it later; a
    new level after two days. In racks, GPUs that idle for half an hour are judged too, by what is
    usual for them when idle.

    >>> ThermalRack().name
    'thermal_rack'
    """

    name = "thermal_rack"
    version = 3

    def __init__(self) -> None:
        # u: temperature without what the power makes, and that power, of the last minutes, the
        # newest first; NaN where it was not settled
        columns = Columns(
            **Steady.fills(),
            u=Ring(LOOK_BACK + 1, np.nan),
            watts=Ring(LOOK_BACK + 1, np.nan),
            m=0.0,
            n=0,
            before=np.nan,  # what was usual under the software before, until it is learnt again
            shift=np.nan,  # and how much more it was then
            **Software.fills(),
            **Idling.fills(),
        )
        # A row per rack or node; highest level of each of the last hours, the newest first, and of
        # the hour that runs, with its minutes.
        self._places = Columns(
            above=0,
            before=0.0,  # kelvin above the usual in the last minute that showed it
            good=0,
            lasted=0,
            swings=Ring(SWING_HOURS, np.nan),
            highest=0.0,
            minutes=0,
        )
        self._steady, self._software = Steady(columns), Software(columns)
        self._idling = Idling(columns, HALF_LIFE, LEARNT)
        self._racks, self._hosts = Groups(rack_of), Groups(host_of)
        super().__init__(MINUTE_S, columns)

    def components(self) -> Mapping[str, Component]:
        """With those of the steady state."""
        nested: dict[str, Component] = {"means": self._steady.means, "steps": self._steady.steps}
        return {**super().components(), **nested}

    def _take(self, frame: Frame, boot_id: str) -> None:
        self._steady.sample(frame, boot_id)
        changed = self._software.changed()
        if any_true(changed):
            self._new_software(changed)

    def _new_software(self, rows: NDArray[np.bool_]) -> None:
        """Fans and clocks may be run otherwise: how warm these GPUs are is what it has made of
        others of their model, or is learnt again where too few have it.
        """
        columns = self._columns
        columns.reset(rows, "u", "watts", "shift")
        self._idling.forget(rows)
        for row in np.flatnonzero(rows).tolist():
            learnt = columns["n"][row] >= LEARNT
            shifts = columns["shift"][self._software.alike(row)]
            known = shifts[np.isfinite(shifts)]
            if learnt and len(known) >= MIN_SHIFTED:
                columns["m"][row] += median_of(known)
                continue
            columns["before"][row] = columns["m"][row] if learnt else np.nan
            columns.reset(np.array([row]), "m", "n")

    def _block(self, at: Times) -> Iterator[Finding]:
        columns, minute = self._columns, self._steady.minute()
        racks, hosts = self._racks.of(columns.devices), self._hosts.of(columns.devices)
        wide = len(self._racks.names) >= MIN_GROUPS and not columns.joined
        loaded = minute.loaded
        # What an idle GPU teaches of a loaded one is wrong by as much as the prior is.
        settled = minute.steady >= np.where(loaded, SETTLED, idling.SETTLED if wide else np.inf)
        u = np.where(settled, minute.temperature - KELVIN_PER_WATT * minute.power, np.nan)
        for name, newest in (("u", u), ("watts", minute.power)):
            columns[name] = np.concatenate((newest[None, :], columns[name][:-1]))
        usual = np.where(columns["n"] >= LEARNT, columns["m"], np.nan)
        above = u - np.where(loaded, usual, self._idling.usual(minute.power))
        kind, group, names = (
            ("rack", racks, self._racks.names) if wide else ("node", hosts, self._hosts.names)
        )
        self._places.place(tuple(Device("" if wide else name, kind, name) for name in names))
        rise = _rise(columns["u"], columns["watts"])
        if wide:
            rack_of_host = np.full(len(self._hosts.names), -1)
            rack_of_host[hosts] = racks
            node_warm, node_rise = (_of_nodes(x, hosts, len(rack_of_host)) for x in (above, rise))
            nodes = np.bincount(rack_of_host[rack_of_host >= 0], minlength=len(names))
            works = np.zeros(len(rack_of_host), np.bool_)
            works[hosts[loaded | settled]] = True
            working = np.bincount(rack_of_host[works & (rack_of_host >= 0)], minlength=len(names))
            quorum = np.minimum(nodes, np.maximum(MIN_NODES, (working + 1) // 2))
            warm, fast = (_of_racks(x, rack_of_host, quorum) for x in (node_warm, node_rise))
        else:
            nodes = np.ones(len(names), np.int64)
            medians = [_of_nodes(x, group, len(names)) for x in (above, rise)]
            if columns.joined:  # no node knows of another
                warm, fast = map(_Medians, medians)
            else:
                warm, fast = map(_less_common, medians)
        yield from self._judge(warm, fast, nodes, at)
        # Without what all do: a rack that learns in an hour would learn how warm the hall was then.
        own = u - warm.common
        self._learn(np.where(loaded, own, np.nan), racks, hosts)
        idles = np.isfinite(own) & ~loaded & ~self._suspected(racks, hosts)
        self._idling.learn(own, minute.power, idles)
        self._follow(warm.common)

    def _suspected(self, racks: NDArray[np.int64], hosts: NDArray[np.int64]) -> NDArray[np.bool_]:
        """GPUs of places under suspicion, (row,)."""
        rows = np.zeros(len(self._columns), np.bool_)
        for finding in self._standing.all():
            names, numbers = (
                (self._racks.names, racks)
                if finding.device.kind == "rack"
                else (self._hosts.names, hosts)
            )
            if finding.device.id in names:
                rows |= numbers == names.index(finding.device.id)
        return rows

    def _learn(
        self, u: NDArray[np.float64], racks: NDArray[np.int64], hosts: NDArray[np.int64]
    ) -> None:
        """What is usual for each GPU under load; those of places under suspicion teach nothing."""
        columns, m = self._columns, self._columns["m"]
        rows = np.isfinite(u) & ~self._suspected(racks, hosts)
        a = np.maximum(alpha_of(HALF_LIFE), 1.0 / (columns["n"] + 1.0))
        columns["m"] = np.where(rows, m + a * (u - m), m)
        columns["n"] += rows
        again = (columns["n"] >= LEARNT) & np.isfinite(columns["before"])
        columns["shift"] = np.where(again, columns["m"] - columns["before"], columns["shift"])
        columns.reset(again, "before")

    def _follow(self, common: float) -> None:
        """What all racks do becomes usual for all of them alike, for minutes without others."""
        columns, moves = self._columns, alpha_of(HALF_LIFE) * common
        for name in ("m", "idle_m", "before"):
            columns[name] = columns[name] + moves

    def _judge(
        self, above: _Medians, rise: _Medians, nodes: NDArray[np.int64], at: Times
    ) -> Iterator[Finding]:
        places = self._places
        warm, fast = places.wide(above.level), places.wide(rise.level)
        size = places.wide(nodes.astype(np.float64))
        level, risen = self._limits(alone=above.alone)
        most_fast = np.array([RISE_K_PER_MINUTE[place.kind] for place in places.devices])
        known = np.isfinite(warm)
        places["above"] = np.where(
            known, np.where(warm > level, places["above"] + 1, 0), places["above"]
        )
        # half of it in the minute before, which is no reading that is wrong once
        rises = (warm > risen) & (fast > most_fast) & (places["before"] > risen / 2)
        places["before"] = np.where(known, warm, places["before"])
        calm = (warm < risen / 2) & (or_else(fast) < most_fast / 2)
        places["good"] = np.where(known, np.where(calm, places["good"] + 1, 0), places["good"])
        bad = (places["above"] >= ABOVE_MINUTES) | rises
        for row in rows_where(bad & known):
            place = places.devices[row]
            severity: Severity = (
                "page" if place.kind == "rack" and size[row] >= MIN_NODES else "ticket"
            )
            verdict = _verdict(
                place, severity, float(warm[row]), float(fast[row]), alone=above.alone
            )
            for finding in self._standing.holds(place, verdict, at):
                places["lasted"][row] = 0
                yield finding
        self._swings(warm)
        yield from self._end(known, at)
        yield from self._standing.due(at)

    def _limits(self, *, alone: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Kelvin above the usual of each place, (place,): for ten minutes, and for one that rises.

        The hour before teaches nothing: a slow rise must not make itself usual.
        """
        past = np.sort(or_else(self._places["swings"][1:]), axis=0)
        known = np.isfinite(self._places["swings"]).sum(axis=0) >= LEARNT_HOURS
        swing = SWING * past[-2]
        nodes = np.array([place.kind == "node" for place in self._places.devices], np.bool_)
        risen = np.maximum(np.where(known, LEARNT_ABOVE_K, UNKNOWN_RISEN_K), swing)
        level = ALONE_ABOVE if alone else 1.0
        return level * np.maximum(ABOVE_K, swing), np.where(nodes | alone, ALONE_ABOVE, 1.0) * risen

    def _swings(self, warm: NDArray[np.float64]) -> None:
        """How far each room swings by itself, hour by hour; not while it is under suspicion."""
        places = self._places
        bad = np.zeros(len(places), np.bool_)
        for finding in self._standing.all():
            if (row := places.row(finding.device)) is not None:
                bad[row] = True
        places["highest"] = np.where(bad, 0.0, np.fmax(places["highest"], warm))
        places["minutes"] = np.where(bad, 0, places["minutes"] + np.isfinite(warm))
        over = places["minutes"] >= HOUR_MINUTES
        if any_true(over):
            moved = np.concatenate((places["highest"][None, :], places["swings"][:-1]))
            places["swings"] = np.where(over, moved, places["swings"])
            places.reset(over, "highest", "minutes")

    def _end(self, known: NDArray[np.bool_], at: Times) -> Iterator[Finding]:
        places = self._places
        places["lasted"] += known
        for finding in self._standing.all():
            row = places.row(finding.device)
            if row is None:
                continue
            if places["lasted"][row] >= ACCEPT_MINUTES:
                members = self._members(finding.device)
                self._columns.reset(members, "m", "n")
                self._idling.forget(members)
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

    ``common``: what was taken away, kelvin. ``alone``: nothing, of too few places.
    """

    level: NDArray[np.float64]
    common: float = 0.0
    alone: bool = True


def _of_nodes(x: NDArray[np.float64], host: NDArray[np.int64], hosts: int) -> NDArray[np.float64]:
    """The median of each node's GPUs, (host,), NaN where too few are settled."""
    median, count = grouped_median(x, host, hosts)
    return np.where(count >= MIN_GPUS, median, np.nan)


def _of_racks(
    x: NDArray[np.float64], rack: NDArray[np.int64], quorum: NDArray[np.int64]
) -> _Medians:
    """The median of each rack's nodes, (rack,), where as many as its ``quorum`` are settled."""
    median, count = grouped_median(x, rack, len(quorum))
    return _less_common(np.where((count >= quorum) & (count > 0), median, np.nan))


def _less_common(median: NDArray[np.float64]) -> _Medians:
    known = np.isfinite(median)
    if np.count_nonzero(known) < MIN_GROUPS:
        return _Medians(median)
    common = median_of(median[known])
    return _Medians(median - common, common, alone=False)


def _rise(u: NDArray[np.float64], watts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Kelvin a minute since the newest settled minute at about this power that is long enough ago,
    (row,), for both (minute, row), the newest first.

    >>> u, watts = np.full((LOOK_BACK + 1, 3), np.nan), np.full((LOOK_BACK + 1, 3), 600.0)
    >>> u[0], u[12, :2], watts[12, 1] = 36.0, 30.0, 300.0
    >>> _rise(u, watts).tolist()
    [0.5, nan, nan]
    """
    alike = np.isfinite(u[RISE_MINUTES:]) & (
        np.abs(watts[RISE_MINUTES:] - watts[0]) < MAX_CHANGE * watts[0]
    )
    ago = RISE_MINUTES + alike.argmax(axis=0)
    rise = (u[0] - np.take_along_axis(u, ago[None, :], axis=0)[0]) / ago
    return np.where(alike.any(axis=0), rise, np.nan)


def _verdict(
    place: Device, severity: Severity, above: float, rise: float, *, alone: bool
) -> Verdict:
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
