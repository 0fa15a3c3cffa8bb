"""Throttling that is about to begin: at this slope, and with the heat that metal can still take,
the limit is less than two minutes away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from detectors.kit.block_clock import BlockClock
from detectors.kit.columns import Columns, Ring, rows_where
from detectors.kit.elapsed import Elapsed
from detectors.kit.findings import FindingTracker, Verdict
from detectors.kit.instants import Times
from detectors.kit.latest import Latest
from detectors.kit.literature import NVML
from detectors.kit.page import Needs, Page, gpu_columns
from detectors.kit.stateful import Stateful
from detectors.thermal.steady import TAU_S
from pipeline.finding import Finding
from pipeline.frame import Frame
from pipeline.observation import Observation

BLOCK_S = 5.0
SPAN_S, MIN_SPAN_S = 30.0, 15.0  # over which the slope is fitted: sensors step by 1 K
SAMPLES = 1 + int(SPAN_S / BLOCK_S)
MIN_RISE_K = 2.0  # over the span: two steps of the sensor are no noise
TAU_MIN_S, TAU_MAX_S, TAU_WEIGHT = 30.0, 90.0, 0.05  # of the time constant
MIN_CURVE = 0.02  # K/s: slopes that differ by less do not show the time constant
SOON_S, BLOCKS, CLEAR_BLOCKS = 120.0, 3, 24
FALLING = 0.97  # power that fell below this share of what it was takes the heat away by itself
FAULT = "thermal/imminent"
# Kelvin until the GPU slows down: by its own margin (T.Limit), below 0 of which it may; else by the
# slowdown temperature. Of the core alone. Memory has no margin that can be read, only the threshold
# of one (nvml.h, field 195), and its temperature steps by kelvins with its own load, which no slope
# of a heat sink foretells. `throttle` reports when it slows the GPU down.
READ = (
    "temperature_margin_celsius",
    "temperature_slowdown_celsius",
    "temperature_celsius",
    "power_milliwatts",
)


PAGE = Page(
    formula="Tinf = T + tau dT/dt; t* = tau ln((Tinf - T) / (Tinf - limit)) < 120 s",
    sources=(f"{NVML}: NVML_TEMPERATURE_THRESHOLD_SLOWDOWN", "first-order thermal RC model"),
    shows=gpu_columns("temperature_margin_celsius", "temperature_celsius", "power_milliwatts"),
    needs=Needs(
        5.0,
        (
            ("gpu.temperature_margin_celsius", "gpu.temperature_slowdown_celsius"),
            ("gpu.temperature_celsius",),
        ),
    ),
    next_step="Reduce the load now, or lower the power limit; then check fans and coolant.",
    clears="After two minutes in which the temperature was not heading for the limit.",
    scored_as=("thermal",),
)


class ThermalImminent(Stateful):
    """Extrapolates the margin to the slowdown temperature, ``Tinf = T + tau dT/dt``,
    ``t* = tau ln((Tinf-T)/(Tinf-limit))``.

    A ticket when t* stays below two minutes for three blocks of five seconds, unless power falls.
    It ends once nothing has pointed over the limit for two minutes. What is accepted: any
    temperature that settles below the limit; a load that goes down by itself. Memory that grows too
    hot is not foretold.

    >>> ThermalImminent().name
    'thermal_imminent'
    """

    name = "thermal_imminent"

    def __init__(self) -> None:
        self._columns = Columns(
            T=Ring(
                SAMPLES, np.nan
            ),  # kelvin below 0 until the GPU slows down, of the last blocks, the newest first
            P=Ring(SAMPLES, np.nan),
            t=Ring(SAMPLES, np.nan),  # seconds since boot
            tau=TAU_S,
            slope=np.nan,
            slope_T=np.nan,
            run=0,
            good=0,
        )
        self._latest = Latest(self._columns, *READ)
        self._clock, self._elapsed, self._standing = (
            BlockClock(BLOCK_S),
            Elapsed(),
            FindingTracker(self.name),
        )

    def update(self, observation: Observation) -> Iterable[Finding]:
        """One sample per block is enough: the first of it."""
        findings: list[Finding] = []
        for frame in observation.frames:
            if frame.kind == "gpu":
                at = self._elapsed.times(observation)
                self._columns.show(frame)
                self._latest.see(frame)
                findings += self._standing.swapped(frame, at)
                for _, then in self._clock.ended(frame, observation.boot_id, at):
                    findings += self._block(frame, then)
        return findings

    def _block(self, frame: Frame, at: Times) -> Iterator[Finding]:
        columns = self._columns
        (margin, slowdown, temperature, drawn), read_s = self._latest.take(frame)
        left_k = np.where(np.isfinite(margin), margin, slowdown - temperature)
        for name, x in (("T", -left_k), ("P", drawn), ("t", read_s)):
            columns[name] = np.concatenate((x[None, :], columns[name][:-1]))
        slope, rise = _fit(columns["t"], columns["T"])
        power = columns["P"]
        falls = power[0] < FALLING * np.nanmax(np.where(np.isfinite(power), power, 0.0), axis=0)
        self._learn_tau(slope, falls)
        T, tau = columns["T"][0], columns["tau"]  # noqa: N806 - the symbols of the formula
        Tinf = T + tau * slope  # noqa: N806
        crosses = (Tinf > 0) & (T < 0) & (rise >= MIN_RISE_K)
        with np.errstate(divide="ignore", invalid="ignore"):
            left = np.where(crosses, tau * np.log((Tinf - T) / Tinf), np.inf)
        seen = np.isfinite(slope)
        soon = (left < SOON_S) & ~falls
        columns["run"] = np.where(seen, np.where(soon, columns["run"] + 1, 0), columns["run"])
        columns["good"] = np.where(
            seen, np.where(Tinf < 0, columns["good"] + 1, 0), columns["good"]
        )
        for row in rows_where((columns["run"] >= BLOCKS) & seen):
            verdict = _verdict(-float(T[row]), float(slope[row]), float(left[row]), float(tau[row]))
            yield from self._standing.holds(columns.devices[row], verdict, at)
        for finding in self._standing.all():
            at_row = columns.row(finding.device)
            if at_row is not None and columns["good"][at_row] >= CLEAR_BLOCKS:
                yield from self._standing.ends(finding.device, FAULT, at)

    def _learn_tau(self, slope: NDArray[np.float64], falls: NDArray[np.bool_]) -> None:
        """At constant power the slope falls by 1/tau per kelvin:
        ``tau = -(T2-T1)/(s2-s1)`` between two blocks.
        """
        columns = self._columns
        bend = slope - columns["slope"]
        with np.errstate(divide="ignore", invalid="ignore"):
            tau = -(columns["T"][0] - columns["slope_T"]) / bend
        usable = np.isfinite(tau) & (np.abs(bend) > MIN_CURVE) & (tau > 0) & ~falls
        step = TAU_WEIGHT * (np.clip(tau, TAU_MIN_S, TAU_MAX_S) - columns["tau"])
        columns["tau"] = np.where(usable, columns["tau"] + step, columns["tau"])
        columns["slope"], columns["slope_T"] = slope, columns["T"][0]


def _fit(
    t: NDArray[np.float64],
    T: NDArray[np.float64],  # noqa: N803
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Least-squares slope over the newest span, K/s, NaN where it is too short; and
    how much T rose over it.

    All (row,).
    """
    use = np.isfinite(T) & (t[0] - t <= SPAN_S) & (t[0] - t >= 0)
    n = np.maximum(use.sum(axis=0), 1)
    age = np.where(use, t - t[0], 0.0)
    value = np.where(use, T - T[0], 0.0)
    mean_t, mean_v = age.sum(axis=0) / n, value.sum(axis=0) / n
    spread = (np.where(use, age - mean_t, 0.0) ** 2).sum(axis=0)
    shared = (np.where(use, age - mean_t, 0.0) * np.where(use, value - mean_v, 0.0)).sum(axis=0)
    enough = (-age.min(axis=0) >= MIN_SPAN_S) & np.isfinite(T[0])
    slope = np.divide(shared, spread, out=np.full(T.shape[1], np.nan), where=enough & (spread > 0))
    return slope, -value.min(axis=0)


def _verdict(margin: float, slope: float, left: float, tau: float) -> Verdict:
    return Verdict(
        FAULT,
        "ticket",
        "NONE",
        (
            f"The GPU will slow down in about {left:.0f} s: it is {margin:.0f} K below its limit "
            f"and warms up by {slope * 60:.0f} K a minute."
        ),
        (
            (
                f"margin {margin:.0f} K, slope {slope:.2f} K/s, time constant {tau:.0f} "
                "s; power does not fall"
            ),
        ),
        left,
        SOON_S,
        "seconds",
    )
