"""Symbol errors that grow: a bit-error rate too high for a link of this speed, found long before it
is high enough to stop a job.

From HDR on symbol errors are counted behind the FEC: a good link makes one in days, so what is
judged are rare counts, by a Poisson CUSUM between the port's own past and the worst rate that is
still good. One constant for all speeds would be wrong for most: 120 errors an hour are 1e-12 on
QDR.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detectors.infiniband.ports import Links, Twins, gigabits, is_active, port_name, saturated
from detectors.kit.block_clock import BlockClock, Seconds, StepClock
from detectors.kit.columns import Columns, Ring, rows_where
from detectors.kit.elapsed import Elapsed
from detectors.kit.findings import FindingTracker, Verdict
from detectors.kit.instants import Times
from detectors.kit.literature import IBTA, PAGE_1954, UFM
from detectors.kit.page import Needs, Page, port_columns
from detectors.kit.readings import reading
from detectors.kit.row_pace import RowPace
from detectors.kit.stateful import Numbers, Stateful
from detectors.kit.stats import alpha_of, poisson_cusum, poisson_k
from pipeline.finding import Finding, Severity
from pipeline.frame import Frame, schema_of
from pipeline.observation import Observation
from pipeline.small_arrays import any_true, or_else

MINUTE_S, WINDOW_MINUTES = 60.0, 5
SYMBOL_ERRORS = np.array([schema_of("ib_port").counter_row["symbol_errors"]])
WINDOW_S = MINUTE_S * WINDOW_MINUTES
# Bit-error rates: good cables do 1e-16 or better; up to 3e-15 a port's own past is believed; above
# 1e-14 it is bad. Cables are tested below 1e-15, the InfiniBand specification asks for 1e-12.
GOOD, BELIEVED, BAD = 1e-16, 3e-15, 1e-14
MIN_RATIO = 4.0  # of the bad rate to the healthy one
PAST_HALF_LIFE = 7 * 86400 / WINDOW_S
# Limits for a mean distance of 1.7e7 windows between false alarms (0.0005 per port-month), by how
# far the healthy rate lies above GOOD: calculated by Markov chain (stats.poisson_arl) for EDR to
# XDR; between two the higher one is taken.
RATIOS, LIMITS = np.array([1.0, 10.0]), np.array([3.5, 6.5, 11.0])
# The second condition for a page, over a short and a long window: minutes and the bit-error rate to
# exceed. As in the packet-drop-rate plug-in of NVIDIA UFM, which takes such links out of service.
SHORT, LONG = (12, 1e-14), (125, 1e-15)
# of an episode that pages: one burst alone, however large, does not
MIN_ERRORS, MIN_WINDOWS = 10, 2
TRAINING_S = 120.0  # a link that has just come up made errors while it trained
CLEAR_BLOCKS, CLEAR_SHARE = 5, 0.25
FULL_SHARE = 0.5  # of a window must have been seen


PAGE = Page(
    formula=(
        "errors per window ~ Poisson(rate x BER); S <- max(0, S + n ln(m1/m0) - (m1 - m0)) > h; "
        "page: 12 min above 1e-14 and 125 min above 1e-15"
    ),
    sources=(UFM, f"{IBTA}: SymbolErrorCounter", PAGE_1954),
    shows=port_columns("symbol_errors", "link_downed"),
    needs=Needs(
        60.0,
        (
            (
                "ib_port.symbol_errors",
                "ib_port.symbol_errors_extended",
                "ib_port.net_receive_crc_errors",
            ),
            ("ib_port.rate_bits_per_second",),
        ),
    ),
    next_step=(
        "Clean and reseat the connectors at both ends, then replace the cable or transceiver."
    ),
    clears=(
        "After five windows in a row, 25 minutes, in which the CUSUM is below a quarter of its "
        "limit."
    ),
    scored_as=("ib-ber",),
)


class IbBer(Stateful):
    """Counts symbol errors in windows of five minutes; a ticket by the CUSUM, a page when
    both of UFM's windows do too.

    >>> IbBer().name
    'ib_ber'
    """

    name = "ib_ber"
    version = 2

    def __init__(self) -> None:
        self._columns = Columns(
            **Twins.fills("symbol_errors"),
            minutes=Ring(LONG[0], 0.0),  # errors of each of the last minutes, in a ring
            n=0.0,  # errors of the running window
            seen=0,  # frames of it in which the port was read
            counted=0,  # and those that gave an increment
            age=0,  # minutes since the first reading
            rate=np.nan,  # data rate, bit/s; the last one known
            past_n=0.0,
            past_t=0.0,
            S=0.0,
            episode=0.0,  # errors since S left 0
            bad_windows=0,  # windows of the episode with errors
            up_s=0.0,
            good=0,
        )
        self._numbers = Numbers(minute=0, frames=0, usual=0)
        self._pace = RowPace(self._columns)
        self._clock, self._step = BlockClock(MINUTE_S), StepClock()
        self._elapsed, self._standing = Elapsed(), FindingTracker(self.name)
        self._twins, self._links = Twins(self._columns, "symbol_errors"), Links()

    def update(self, observation: Observation) -> Iterable[Finding]:
        """Judge the window that ended, then take in the frame."""
        findings: list[Finding] = []
        for frame in observation.frames:
            if frame.kind == "ib_port":
                findings += self._standing.swapped(frame, self._elapsed.times(observation))
                ended = self._clock.turned(frame, observation.boot_id)
                for minutes, then in self._clock.each(ended, self._elapsed.times(observation)):
                    for _ in range(min(minutes, LONG[0])):
                        findings += self._minute(then)
                seconds = self._step.passed(frame, observation.boot_id)
                if ended is not None and seconds is not None:
                    self._count(frame, seconds)
        return findings

    def _count(self, frame: Frame, seconds: Seconds) -> None:
        columns = self._columns
        columns.show(frame)
        rate = columns.wide(reading(frame, "rate_bits_per_second"))
        columns["rate"] = np.where(rate > 0, rate, columns["rate"])
        state = columns.wide(frame.gauge("state"))
        columns["up_s"] = np.where(
            is_active(state),
            columns["up_s"] + columns.each(seconds),
            np.where(np.isnan(state), columns["up_s"], 0.0),
        )
        errors = self._errors(frame)
        amount = np.where(columns["up_s"] > TRAINING_S, np.fmax(errors, 0.0), 0.0)
        columns["n"] += amount
        columns["seen"] += np.isfinite(state)
        columns["counted"] += np.isfinite(errors)
        columns["minutes"][self._slot()] += amount
        if not self._pace.add():
            self._numbers["frames"] += 1

    def _errors(self, frame: Frame) -> NDArray[np.float64]:
        """Symbol errors since the frame before, or frames with a bad checksum, a lower bound, where
        those are more: of a RoCE port the file of symbol errors is missing or, with mlx5, at 0.
        """
        errors = self._twins.increase(frame)
        if any_true(frame.counter("net_receive_crc_errors")[1]):
            crc = self._columns.wide(frame.increase("net_receive_crc_errors"))
            (at_end,) = saturated(frame, SYMBOL_ERRORS).astype(np.float64)
            stuck = self._columns.wide(at_end) > 0
            errors = np.where(np.isnan(errors) & stuck, errors, np.fmax(errors, crc))
        return errors

    def _minute(self, at: Times) -> Iterator[Finding]:
        columns, numbers = self._columns, self._numbers
        columns["age"] += (columns["age"] > 0) | (columns["seen"] > 0)
        for _, then in self._clock.each((numbers["minute"] + 1) % WINDOW_MINUTES == 0, at):
            yield from self._window(then)
        numbers["minute"] = (numbers["minute"] + 1) % LONG[0]
        columns["minutes"][self._slot()] = 0.0

    def _window(self, at: Times) -> Iterator[Finding]:
        """Judge, then learn: while S is high the past is not added to."""
        columns, numbers = self._columns, self._numbers
        numbers["usual"] = np.maximum(numbers["frames"], 0.9 * numbers["usual"])
        usual = self._pace.expected()
        usual = columns.each(numbers["usual"]) if usual is None else usual
        enough = np.maximum(1.0, FULL_SHARE * usual)
        full = (columns["seen"] >= enough) & (columns["counted"] > 0)
        n = np.where(full & np.isfinite(columns["rate"]), columns["n"], np.nan)
        k, h = self._bounds()
        columns["S"] = np.minimum(poisson_cusum(columns["S"], n, k), 2 * h)
        columns["episode"] = np.where(columns["S"] > 0, columns["episode"] + or_else(n), 0.0)
        columns["bad_windows"] = np.where(columns["S"] > 0, columns["bad_windows"] + (n > 0), 0)
        yield from self._report(h, at)
        yield from self._end(h, np.isfinite(n), at)
        learns = np.isfinite(n) & (columns["S"] < h / 2)
        keep = 1 - alpha_of(PAST_HALF_LIFE)
        for name, amount in (("past_n", n), ("past_t", 1.0)):
            columns[name] = np.where(learns, columns[name] * keep + amount, columns[name])
        columns.reset(np.ones(len(columns), np.bool_), "n", "seen", "counted")
        numbers["frames"] = 0

    def _bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Reference value and limit of each port, (row,), from its speed and its past; NaN and the
        highest one without a data rate.
        """
        columns = self._columns
        bits = columns["rate"] * WINDOW_S
        least = bits * GOOD
        past = (0.5 + columns["past_n"]) / (columns["past_t"] + 0.5 / least)
        good = np.minimum(np.maximum(past, least), bits * BELIEVED)
        k = poisson_k(good, np.maximum(bits * BAD, MIN_RATIO * good))
        h = LIMITS[np.searchsorted(RATIOS * (1 + 1e-9), good / least)]
        return k, h

    def _report(self, h: NDArray[np.float64], at: Times) -> Iterator[Finding]:
        columns = self._columns
        alarm = (columns["S"] >= h) & (columns["age"] >= SHORT[0])
        if not any_true(alarm):
            return
        self._links.look(columns.devices)
        windows = {minutes: self._recent(minutes) for minutes, _ in (SHORT, LONG)}
        exceeded = (columns["episode"] >= MIN_ERRORS) & (columns["bad_windows"] >= MIN_WINDOWS)
        for minutes, ber in (SHORT, LONG):
            exceeded &= windows[minutes] > columns["rate"] * minutes * MINUTE_S * ber
        for row in rows_where(alarm):
            severity: Severity = "page" if exceeded[row] else "ticket"
            verdict = self._verdict(
                row, severity, {minutes: float(count[row]) for minutes, count in windows.items()}
            )
            yield from self._standing.holds(columns.devices[row], verdict, at)

    def _recent(self, minutes: int) -> NDArray[np.float64]:
        """Errors of the last minutes, (row,)."""
        rows = np.arange(len(self._columns))
        now = np.broadcast_to(self._columns.each(self._numbers["minute"]), len(rows))
        last = (now.astype(np.int64) - np.arange(minutes)[:, None]) % LONG[0]
        recent: NDArray[np.float64] = self._columns["minutes"][last, rows].sum(axis=0)
        return recent

    def _slot(self) -> Any:
        """Where the errors of this minute are in the ring."""
        columns, minute = self._columns, self._numbers["minute"]
        if not columns.joined:
            return int(minute)
        return columns.each(minute).astype(np.int64), np.arange(len(columns))

    def _verdict(self, row: int, severity: Severity, counts: dict[int, float]) -> Verdict:
        columns = self._columns
        rate, port = float(columns["rate"][row]), columns.devices[row]
        bers = {minutes: count / (rate * minutes * MINUTE_S) for minutes, count in counts.items()}
        windows = [
            f"{counts[minutes]:.0f} in {minutes} minutes: {bers[minutes]:.1e}"
            for minutes, _ in (SHORT, LONG)
        ]
        past = (
            columns["past_n"][row] / (columns["past_t"][row] * WINDOW_S * rate)
            if columns["past_t"][row]
            else 0.0
        )
        worst = max(bers.values())
        return Verdict(
            "ib_ber",
            severity,
            "CONTACT_SUPPORT",
            (
                f"{port_name(port)} receives bit errors at {worst:.0e}{self._sender(row)} (good: "
                f"below {GOOD:.0e}): clean or replace cable or transceiver."
            ),
            (
                (
                    f"symbol errors and bit-error rates at {gigabits(rate)}: "
                    f"{', '.join(windows)}; before {past:.0e}"
                ),
                (
                    f"{columns['episode'][row]:.0f} errors in this episode; CUSUM "
                    f"{columns['S'][row]:.1f}"
                ),
                self._other_end(row),
            ),
            worst,
            GOOD,
            "errors per bit",
        )

    def _sender(self, row: int) -> str:
        """Who sends what arrives damaged, as far as the frames or the topology say."""
        other, leaf = int(self._links.other[row]), self._columns.devices[row].attributes.get("leaf")
        if other >= 0:
            return f" from {port_name(self._columns.devices[other])}"
        return f" from leaf switch {leaf}" if leaf else ""

    def _other_end(self, row: int) -> str:
        other = int(self._links.other[row])
        if other < 0:
            return "the other end of the link is not monitored"
        name, count = (
            port_name(self._columns.devices[other]),
            float(self._columns["minutes"][:, other].sum()),
        )
        if count:
            return f"the other end, {name}, counts {count:.0f} too: cable or both transceivers"
        return (
            f"the other end, {name}, counts none: this receiver, its fibre or the "
            "other end's transmitter"
        )

    def _end(self, h: NDArray[np.float64], seen: NDArray[np.bool_], at: Times) -> Iterator[Finding]:
        columns = self._columns
        if not self._standing.all():
            return
        calm = columns["S"] < CLEAR_SHARE * h
        columns["good"] = np.where(seen, np.where(calm, columns["good"] + 1, 0), columns["good"])
        yield from self._standing.end_rows(columns, columns["good"] >= CLEAR_BLOCKS, at)
