"""Thermal resistance that grows: the same power makes a GPU warmer than before,
days before it throttles.

Each GPU's temperature is a line over its own power, learnt over days; what the complete rack does
(inlet air, seasons, weekends) is removed by the median of its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from detectors.kit.blockwise import Blockwise
from detectors.kit.columns import Columns, rows_where
from detectors.kit.findings import Verdict
from detectors.kit.groups import Groups, host_of, rack_of
from detectors.kit.instants import Times, ago
from detectors.kit.page import Needs, Page, gpu_columns
from detectors.kit.stateful import Component, Numbers
from detectors.kit.stats import alpha_of, peer_deviation
from detectors.thermal.steady import MINUTE_S, Minute, Steady
from pipeline.finding import Finding
from pipeline.frame import Frame
from pipeline.small_arrays import any_true

HALF_LIFE = 3 * 1440.0  # minutes
# A GPU that is not known yet: 50 C at 300 W, 0.055 K/W.
START_C, START_W, START_VARIANCE, START_COVARIANCE = 50.0, 300.0, 1e4, 550.0
MIN_VARIANCE = 400.0  # W^2: below this the load varies too little to estimate the slope
CLIP_K, CLIP_AFTER = 3.0, 2 * 1440  # after two days one bad hour moves the line little
BLOCK_MINUTES, MIN_MINUTES = 15, 6
LIMIT_K, BLOCKS, FREEZE_BLOCKS = 3.0, 4, 2
SILENT_MINUTES = 5 * 1440  # since the GPU was first seen
MIN_LEARNT = 1440  # steady minutes
CLEAR_BLOCKS, CLEAR_SHARE = 5, 0.5
ACCEPT_BLOCKS = 7 * 96  # a week at the new level: it has been decided to live with it
MIN_IN_RACK, MIN_IN_NODE = 9, 4  # steady neighbours that a median needs
FAULT = "thermal/resistance"


PAGE = Page(
    formula=(
        "T = T0 + R P by exponentially weighted least squares; residual r = T - T0 - R P, less the "
        "median of the neighbours; r > 3 K"
    ),
    sources=("JEDEC, JESD51: thermal resistance",),
    shows=gpu_columns("temperature_celsius", "power_milliwatts"),
    needs=Needs(
        30.0, (("gpu.temperature_celsius",), ("gpu.power_milliwatts", "gpu.energy_millijoules"))
    ),
    next_step=(
        "Check fan, cold plate and paste of this GPU at the next service; compare with its "
        "neighbours under load."
    ),
    clears=(
        "After five quarters of an hour in a row below half of the limit; after a week at the new "
        "level, which is normal then."
    ),
    scored_as=("thermal",),
)


class ThermalResistance(Blockwise):
    """A ticket when a GPU is 3 K warmer than it used to be at the same power, in four
    quarters of an hour in a row.

    Silent in the first five days of a GPU. It ends after five quarters below 1.5 K. Not
    reported: a warmer room, which the neighbours show too; another load, as each GPU has its own
    line; a new part, which starts a new baseline; a level that lasted for a week.

    >>> ThermalResistance().name
    'thermal_resistance'
    """

    name = "thermal_resistance"

    def __init__(self) -> None:
        columns = Columns(
            **Steady.fills(),
            Tb=START_C,
            Pm=START_W,
            vP=START_VARIANCE,
            cPT=START_COVARIANCE,
            n=0,
            age=0,  # minutes since it was first seen
            total_r=0.0,
            count_r=0,
            run=0,
            good=0,
            lasted=0,
            reported=False,
        )
        self._numbers = Numbers(minute=0)
        self._steady = Steady(columns)
        self._racks, self._hosts = Groups(rack_of), Groups(host_of)
        super().__init__(MINUTE_S, columns)

    def components(self) -> Mapping[str, Component]:
        """With those of the steady state."""
        nested: dict[str, Component] = {"means": self._steady.means, "steps": self._steady.steps}
        return {**super().components(), **nested}

    def _take(self, frame: Frame, boot_id: str) -> None:
        self._steady.sample(frame, boot_id)

    def _ended(self, blocks: int, at: Times) -> Iterator[Finding]:
        self._columns["age"] += blocks
        self._minute(self._steady.minute())
        yield from self._quarter(blocks, at)

    def _minute(self, minute: Minute) -> None:
        """Residual of the line, then the line itself; rows under suspicion teach nothing."""
        columns = self._columns
        T, P = minute.temperature, minute.power  # noqa: N806 - the symbols of the recurrences
        beta = columns["cPT"] / np.maximum(columns["vP"], MIN_VARIANCE)
        dP = np.where((minute.steady > 0) & minute.loaded, P - columns["Pm"], np.nan)  # noqa: N806
        r = self._above_neighbours(T - (columns["Tb"] + beta * dP))
        seen = np.isfinite(r)
        columns["total_r"] += np.where(seen, r, 0.0)
        columns["count_r"] += seen

        n = columns["n"]
        a = np.maximum(alpha_of(HALF_LIFE), 1.0 / (n + 1.0))
        rc = np.where(n >= CLIP_AFTER, np.clip(r, -CLIP_K, CLIP_K), r)
        learns = seen & (columns["run"] < FREEZE_BLOCKS) & ~columns["reported"]
        moves = {
            "Pm": a * dP,
            "vP": a * (dP * dP - columns["vP"]),
            "Tb": a * (rc + beta * dP),
            "cPT": a * (dP * (rc + beta * dP) - columns["cPT"]),
        }
        for name, move in moves.items():
            columns[name] = np.where(learns, columns[name] + move, columns[name])
        columns["n"] = n + learns

    def _above_neighbours(self, r: NDArray[np.float64]) -> NDArray[np.float64]:
        """What is left without the median of the rack, or of the node where only
        one of the rack is seen.

        NaN where too few neighbours are steady: without them the air cannot be separated from the
        GPU. A node with fewer GPUs has no median.
        """
        devices = self._columns.devices
        rack, host = self._racks.of(devices), self._hosts.of(devices)
        in_rack = np.bincount(rack[rack >= 0], minlength=1)
        in_host = np.bincount(host, minlength=1)
        wide = (rack >= 0) & (in_rack[rack] >= MIN_IN_RACK)
        alone = ~wide & (in_host[host] < MIN_IN_NODE)
        by_rack = (
            peer_deviation(r, np.where(wide, rack, -1), len(self._racks.names), MIN_IN_RACK)
            if any_true(wide)
            else r
        )
        return np.where(
            wide,
            by_rack,
            np.where(alone, r, peer_deviation(r, host, len(self._hosts.names), MIN_IN_NODE)),
        )

    def _quarter(self, minutes: int, at: Times) -> Iterator[Finding]:
        passed = self._numbers["minute"] + minutes
        self._numbers["minute"] = passed % BLOCK_MINUTES
        for _, then in self._clock.each(passed >= BLOCK_MINUTES, at):
            yield from self._judge(then)

    def _judge(self, at: Times) -> Iterator[Finding]:
        columns, count = self._columns, self._columns["count_r"]
        r = np.divide(
            columns["total_r"], count, out=np.full(len(count), np.nan), where=count >= MIN_MINUTES
        )
        columns.reset(np.ones(len(columns), np.bool_), "total_r", "count_r")
        seen = np.isfinite(r)
        known = (columns["age"] >= SILENT_MINUTES) & (columns["n"] >= MIN_LEARNT)
        columns["run"] = np.where(
            seen & known, np.where(r > LIMIT_K, columns["run"] + 1, 0), columns["run"]
        )
        for row in rows_where((columns["run"] >= BLOCKS) & seen):
            since_ns = ago(
                at, columns.devices[row], float(columns["run"][row]) * BLOCK_MINUTES * MINUTE_S
            )
            for finding in self._standing.holds(
                columns.devices[row], self._verdict(row, float(r[row])), at, since_ns
            ):
                columns["reported"][row] = True
                yield finding
        yield from self._end(r, at)

    def _end(self, r: NDArray[np.float64], at: Times) -> Iterator[Finding]:
        columns, reported = self._columns, self._columns["reported"]
        if not any_true(reported):
            return
        columns["good"] = np.where(
            np.isfinite(r),
            np.where(r < CLEAR_SHARE * LIMIT_K, columns["good"] + 1, 0),
            columns["good"],
        )
        columns["lasted"] = np.where(reported, columns["lasted"] + np.isfinite(r), 0)
        normal = reported & (columns["lasted"] >= ACCEPT_BLOCKS)
        for row in rows_where(reported & ((columns["good"] >= CLEAR_BLOCKS) | normal)):
            why = ("accepted as its new normal after a week",) if normal[row] else ()
            yield from self._standing.ends(columns.devices[row], FAULT, at, *why)
            columns["reported"][row] = False
        columns.reset(normal, "n", "run")

    def _verdict(self, row: int, r: float) -> Verdict:
        columns = self._columns
        Tb, Pm = float(columns["Tb"][row]), float(columns["Pm"][row])  # noqa: N806
        beta = float(columns["cPT"][row] / max(columns["vP"][row], MIN_VARIANCE))
        return Verdict(
            FAULT,
            "ticket",
            "CONTACT_SUPPORT",
            (
                f"The GPU runs {r:.1f} K warmer at the same power than it used to: check heat "
                "sink, cold plate, paste and air."
            ),
            (
                (
                    f"{r:.1f} K above its own baseline and its neighbours, {columns['run'][row]} "
                    "quarters of an hour in a row"
                ),
                (
                    f"its baseline: {Tb:.0f} C at {Pm:.0f} W and {beta:.3f} K/W, learnt in "
                    f"{columns['n'][row] / 1440:.1f} days of steady load"
                ),
            ),
            r,
            0.0,
            "kelvin",
        )
