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
from detectors.kit.groups import Groups, host_of
from detectors.kit.instants import Times
from detectors.kit.latest import Latest
from detectors.kit.literature import NVML
from detectors.kit.page import Needs, Page, gpu_columns
from detectors.kit.stateful import Stateful
from detectors.thermal.approach import MIN_SPAN_S, SPAN_S, Approach, Floats, approach, line
from detectors.thermal.peers import NodePeers, State
from detectors.thermal.steady import TAU_S
from pipeline.finding import Finding
from pipeline.frame import Frame
from pipeline.observation import Observation

BLOCK_S = 5.0
SAMPLES = 1 + int(SPAN_S / BLOCK_S)
MIN_RISE_K = 2.0  # over the span: two steps of the sensor are no noise
# Of the readings' variance, by a rise: a cold plate follows each long step of a job by kelvins, to
# and fro.
MIN_EXPLAINS = 0.5
TAU_MIN_S, TAU_MAX_S, TAU_WEIGHT = 30.0, 90.0, 0.05  # of the time constant
MIN_CURVE = 0.02  # K/s: slopes that differ by less do not show the time constant
SOON_S, BLOCKS, CLEAR_BLOCKS = 120.0, 3, 24
# Power that falls takes the heat away by itself: mean of the newest readings against those before;
# and one that is far below all of them, as at the end of a job.
FALLING, DROPPED = 0.95, 0.7
# A new load is distinguished from cooling that fails by the power that the metal has had: its mean
# with a time constant longer than that of most coolers (cold plates 3 to 20 s, sinks 20 to 90 s),
# so that three minutes after a start it is within a twentieth. By then fans that lag have followed.
HEATED_S, MORE = 60.0, 1.05
# While the load is new a GPU is reported that leaves its peers behind, or that is so near its
# limit, K, and rises at so much, K/s, that nothing can stop it in time.
NEAR_K, NEAR_SLOPE = 3.0, 0.2
OFTEN_S = 1.5 * BLOCK_S  # between readings: of fewer the bend of a slope cannot be seen
# A slope so steep, K/s, shows its own bend beyond the steps of the sensor, and is believed when it
# says that the temperature will settle below the limit, with a third more to come than it says.
STEEP, UNSURE, UNSURE_K = 0.4, 1.3, 1.0
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
    formula=(
        "Tinf = T + tau dT/dt; t* = tau ln((Tinf - T) / (Tinf - limit)) < 120 s; while the metal "
        "still warms up to a new load, tau from the bend of the slope itself"
    ),
    sources=(
        f"{NVML}: NVML_TEMPERATURE_THRESHOLD_SLOWDOWN",
        "first-order thermal RC model",
        "Aitken's delta-squared process, for the end of an exponential of unknown time constant",
    ),
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

    Any GPU warms up steeply when its load begins, and what it will settle at cannot be known from
    its slope alone: cold plates follow within seconds, fans a minute later. So for up to three
    minutes after a rise of power, and after its first reading, only a GPU is reported that is well
    above its hottest peer under the same new load and rises faster than all of them, or that is
    within three kelvins of its limit and still rises.

    >>> ThermalImminent().name
    'thermal_imminent'
    """

    name = "thermal_imminent"
    version = 2

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
            heated=0.0,  # the power that the metal has had, mW; of one that was just seen: none
            heated_t=np.nan,
            heated_before=np.nan,  # the reading before
            drawn=np.nan,  # in the newest reading
            run=0,
            good=0,
        )
        self._latest = Latest(self._columns, *READ)
        self._peers = NodePeers(Groups(host_of))
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
        fitted = line(columns["t"], columns["T"], 0.0, SPAN_S, MIN_SPAN_S)
        halves = self._halves()
        falls = self._falls(*halves)
        self._learn_tau(fitted.slope, falls)
        T, tau = columns["T"][0], columns["tau"]  # noqa: N806 - the symbols of the formula
        Tinf = T + tau * fitted.slope  # noqa: N806
        new = self._load_is_new(*halves)
        seen = np.isfinite(fitted.slope)
        rises = (fitted.rise >= MIN_RISE_K) & (fitted.explains > MIN_EXPLAINS) & ~falls
        bent = self._bent(self._peers.beside(rises, columns.devices))
        near = self._near(fitted.slope, bent)
        left = self._left(Tinf, bent, near, new & rises)
        soon = (left < SOON_S) & rises
        columns["run"] = np.where(seen, np.where(soon, columns["run"] + 1, 0), columns["run"])
        columns["run"] = np.where(soon & near, np.maximum(columns["run"], BLOCKS), columns["run"])
        columns["good"] = np.where(
            seen, np.where(Tinf < 0, columns["good"] + 1, 0), columns["good"]
        )
        for row in rows_where((columns["run"] >= BLOCKS) & seen):
            verdict = _verdict(
                -float(T[row]), float(fitted.slope[row]), float(left[row]), float(tau[row])
            )
            yield from self._standing.holds(columns.devices[row], verdict, at)
        for finding in self._standing.all():
            at_row = columns.row(finding.device)
            if at_row is not None and columns["good"][at_row] >= CLEAR_BLOCKS:
                yield from self._standing.ends(finding.device, FAULT, at)

    def _bent(self, rows: NDArray[np.bool_]) -> Approach:
        """How the slopes of some rows bend, (row,), NaN elsewhere: few GPUs warm up at a time."""
        columns, places = self._columns, np.flatnonzero(rows)
        found = Approach(*np.full((len(Approach._fields), len(rows)), np.nan))
        if len(places):
            some = approach(columns["t"][:, places], columns["T"][:, places])
            for whole, part in zip(found, some, strict=True):
                whole[places] = part
        return found

    def _left(
        self,
        Tinf: Floats,  # noqa: N803
        bent: Approach,
        near: NDArray[np.bool_],
        new: NDArray[np.bool_],
    ) -> Floats:
        """Seconds until each GPU slows down, (row,), infinite where it will not or where that
        cannot be known yet, as under a ``new`` load.
        """
        columns = self._columns
        T, tau = columns["T"][0], columns["tau"]  # noqa: N806
        with np.errstate(divide="ignore", invalid="ignore"):
            left = np.where((Tinf > UNSURE_K) & (T < 0), tau * np.log((Tinf - T) / Tinf), np.inf)
        ends = T + UNSURE * (bent.settles - T) + UNSURE_K
        left = np.where((bent.before > STEEP) & (ends < 0), np.inf, left)
        often = columns["t"][0] - columns["heated_before"] <= OFTEN_S
        asked = new & often & (bent.left < SOON_S)
        state = State(T, bent.slope, columns["drawn"], columns["heated"])
        alone = self._peers.leads(asked, columns.devices, state)
        return np.where(new, np.where(asked & (near | alone), bent.left, np.inf), left)

    def _near(self, slope: Floats, bent: Approach) -> NDArray[np.bool_]:
        """Whether nothing can stop each GPU in time, (row,): it is at its limit, or will be in the
        next block under a power that it has had for half a minute.
        """
        T = self._columns["T"][0]  # noqa: N806
        # in the last quarter of a minute, and enough of it in the half to be no step of the sensor
        rises = (bent.slope > NEAR_SLOPE) & (slope > NEAR_SLOPE / 2)
        crosses = self._held() & (T + BLOCK_S * bent.slope > -UNSURE_K)
        return np.asarray(rises & ((T > -NEAR_K) | crosses), np.bool_)

    def _held(self) -> NDArray[np.bool_]:
        """Whether the power was about the same in all readings, (row,)."""
        power = self._columns["P"]
        lowest = np.nanmin(np.where(np.isfinite(power), power, np.inf), axis=0)
        return np.asarray(lowest >= DROPPED * power[0], np.bool_)

    def _falls(self, now: Floats, before: Floats) -> NDArray[np.bool_]:
        """Whether the power of the last quarter of a minute is below that of the one before."""
        power = self._columns["P"]
        highest = np.nanmax(np.where(np.isfinite(power), power, 0.0), axis=0)
        return np.asarray((now < FALLING * before) | (power[0] < DROPPED * highest), np.bool_)

    def _load_is_new(self, now: Floats, before: Floats) -> NDArray[np.bool_]:
        """Whether the metal still warms up to the present power, (row,). Takes the block in;
        ``now`` and ``before`` are its ``_halves``.

        Of a GPU that was just seen, and after a gap of half a minute, nobody knows; of one that
        does not tell its power neither, and it is judged as under a steady load.
        """
        columns = self._columns
        power, read_s = columns["P"], columns["t"]
        passed = read_s[0] - columns["heated_t"]
        known = (passed >= 0) & (passed <= SPAN_S)  # a boot begins at 0 again
        keep = np.exp(-np.where(known, passed, 0.0) / HEATED_S)
        last = np.where(np.isfinite(columns["drawn"]), columns["drawn"], columns["heated"])
        heated = last + keep * (columns["heated"] - last)
        seen = np.isfinite(power[0]) & np.isfinite(read_s[0])
        columns["heated"] = np.where(seen, np.where(known, heated, 0.0), columns["heated"])
        columns["heated_before"] = np.where(seen, columns["heated_t"], columns["heated_before"])
        columns["heated_t"] = np.where(seen, read_s[0], columns["heated_t"])
        columns["drawn"] = np.where(seen, power[0], columns["drawn"])
        drawn = _mean(power, read_s[0] - read_s, 0, SPAN_S)
        return np.asarray((drawn > MORE * columns["heated"]) | (now > MORE * before), np.bool_)

    def _halves(self) -> tuple[Floats, Floats]:
        """Mean power of the last quarter of a minute, and of the one before, (row,)."""
        old, half = self._columns["t"][0] - self._columns["t"], SPAN_S / 2
        power = self._columns["P"]
        return _mean(power, old, 0, half), _mean(power, old, half, SPAN_S)

    def _learn_tau(self, slope: Floats, falls: NDArray[np.bool_]) -> None:
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


def _mean(x: Floats, old: Floats, youngest_s: float, oldest_s: float) -> Floats:
    """Mean of what is of such ages, (row,), NaN where nothing is."""
    use = np.isfinite(x) & (old >= youngest_s) & (old <= oldest_s)
    count = use.sum(axis=0)
    missing = np.full(x.shape[1], np.nan)
    total = np.where(use, x, 0.0).sum(axis=0)
    return np.asarray(np.divide(total, count, out=missing, where=count > 0), np.float64)


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
