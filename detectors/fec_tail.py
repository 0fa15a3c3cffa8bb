"""Links whose error correction works harder from day to day: often the
first sign of a failing link.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import log

import numpy as np
from numpy.typing import NDArray

from detectors.kit.block_clock import BlockClock
from detectors.kit.columns import Columns, Ring, rows_where
from detectors.kit.elapsed import Elapsed
from detectors.kit.findings import FindingTracker, Verdict
from detectors.kit.instants import Times, ago
from detectors.kit.page import Needs, Page, Shown, port_columns
from detectors.kit.stateful import Component, Stateful
from detectors.kit.stats import theil_sen
from pipeline.finding import Finding
from pipeline.frame import Device, Frame
from pipeline.observation import Observation
from pipeline.small_arrays import any_true

HOUR_S, DAY = 3600.0, 24
GROWTH = log(10)  # per day: an order of magnitude. Proposed, so a ticket at most.
HOLDS, MIN_HOURS = 2, 18
# What grows does so from each part of the day to the next, if not as fast. A step does once or
# twice, a daily swing in half of them.
PARTS, MIN_OF_PART, STEADY = 6, 2, GROWTH / 18  # a third of what it is at the pace of GROWTH
MIN_ERRORS = 20.0  # an hour: below it one more is no trend
FAULT = "fec_tail"
# Codewords with eight errors and more, near what the correction can do (NVML's FEC history), and
# corrected blocks of InfiniBand.
TAILS = {
    "nvlink": tuple(f"fec_{k}_codewords" for k in range(8, 16)),
    "gpu": tuple(f"nvlink_fec_{k}_codewords" for k in range(8, 16)),
    "ib_port": ("fec_corrected_blocks",),
}


PAGE = Page(
    formula=(
        "slope of ln(1 + codewords with >= 8 errors in the hour) over a day by Theil-Sen > ln 10 a "
        "day, and medians of its six parts each > ln 10 / 18 above the one before, 2 h in a row"
    ),
    sources=(
        (
            "P. K. Sen, Estimates of the regression coefficient based on "
            "Kendall's tau, JASA 63 (1968)"
        ),
        "NVIDIA, nvml.h: FEC history",
    ),
    shows=(Shown("gpu", "nvlink_fec_8_codewords"), *port_columns("fec_corrected_blocks")),
    needs=Needs(60.0, (("gpu.nvlink_fec_8_codewords", "ib_port.fec_corrected_blocks"),)),
    next_step="Plan to replace this link; watch whether symbol errors follow.",
    clears=(
        "After 24 hours in which each hour with a known slope was below the limit, or in which "
        "almost nothing was counted."
    ),
    scored_as=("nvlink",),
)


class FecTail(Stateful):
    """A ticket when ``ln(1 + count in the hour)`` grows by more than ln 10 a day, by Theil-Sen over
    a day, two hours in a row.

    It must have grown from each four hours of the day to the next: neither a step nor a link that
    is worse every afternoon is a trend.

    >>> FecTail().name
    'fec_tail'
    """

    name = "fec_tail"

    def __init__(self) -> None:
        self._tails = {kind: _Tail(names) for kind, names in TAILS.items()}
        self._elapsed, self._standing = Elapsed(), FindingTracker(self.name)

    def components(self) -> Mapping[str, Component]:
        """With those of each kind of device."""
        nested = {
            f"{kind}_{name}": component
            for kind, tail in self._tails.items()
            for name, component in tail.components.items()
        }
        return {**super().components(), **nested}

    def update(self, observation: Observation) -> Iterable[Finding]:
        """Judge the hour that ended, then take in the frame."""
        findings: list[Finding] = []
        at = self._elapsed.times(observation)
        for frame in observation.frames:
            if frame.kind in self._tails and frame.devices:
                findings += self._standing.swapped(frame, at)
                findings += self._tails[frame.kind].frame(
                    frame, observation.boot_id, self._standing, at
                )
        return findings


class _Tail:
    """The devices of one kind."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names
        # y: the newest hour first
        self._columns = Columns(count=0.0, seen=False, y=Ring(DAY, np.nan), run=0, good=0)
        self._clock = BlockClock(HOUR_S)
        self.components: dict[str, Component] = {"columns": self._columns, "clock": self._clock}

    def frame(
        self, frame: Frame, boot_id: str, tracker: FindingTracker, at: Times
    ) -> Iterator[Finding]:
        """Judge what ended, then take in the frame."""
        columns, ended = self._columns, self._clock.turned(frame, boot_id)
        if ended is None:
            return
        for hours, then in self._clock.each(ended, at):
            yield from self._hour(min(hours, DAY), tracker, then)
        columns.show(frame)
        for name in self._names:
            if any_true(frame.counter(name)[1]):
                count = columns.wide(frame.increase(name))
                columns["count"] += np.fmax(count, 0.0)  # NaN adds nothing
                columns["seen"] |= np.isfinite(count)

    def _hour(self, hours: int, tracker: FindingTracker, at: Times) -> Iterator[Finding]:
        columns = self._columns
        y = np.where(columns["seen"], np.log1p(columns["count"]), np.nan)
        gap = np.full((hours - 1, len(columns)), np.nan)
        columns["y"] = np.concatenate((gap, y[None, :], columns["y"]))[:DAY]
        seen = np.isfinite(y)
        slope, steady = self._trend(seen & (y >= log(1 + MIN_ERRORS)) & (hours == 1))
        grows = (slope > GROWTH) & steady
        columns["run"] = np.where(seen, np.where(grows, columns["run"] + 1, 0), columns["run"])
        calm = seen & (
            (slope <= GROWTH) | (y < log(1 + MIN_ERRORS))
        )  # a slope that nobody knows says neither
        columns["good"] = np.where(slope > GROWTH, 0, columns["good"] + calm)
        for row in rows_where(grows & (columns["run"] >= HOLDS)):
            verdict = _verdict(
                columns.devices[row], float(columns["count"][row]), float(slope[row])
            )
            yield from tracker.holds(
                columns.devices[row], verdict, at, ago(at, columns.devices[row], HOLDS * HOUR_S)
            )
        yield from tracker.end_rows(columns, columns["good"] >= DAY, at)
        columns.reset(np.ones(len(columns), np.bool_), "count", "seen")

    def _trend(self, asked: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Growth per day (row,), NaN where not ``asked`` or not known, and whether each part of the
        day was above the one before.
        """
        slope, steady = np.full(len(asked), np.nan), np.zeros(len(asked), np.bool_)
        if any_true(asked):
            y = self._columns["y"][:, asked]
            slope[asked] = theil_sen(-np.arange(DAY) / DAY, y, least=MIN_HOURS)
            parts = _medians(y.reshape(PARTS, DAY // PARTS, -1))
            steady[asked] = (parts[:-1] - parts[1:] > STEADY).all(axis=0)
        return slope, steady


def _medians(parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Medians of parts (part, hour, row) as (part, row); NaN where fewer hours
    than MIN_OF_PART were seen.
    """
    ordered, seen = np.sort(parts, axis=1), np.isfinite(parts).sum(axis=1)
    low, high = (
        np.take_along_axis(ordered, np.maximum(at, 0)[:, None], axis=1)[:, 0]
        for at in ((seen - 1) // 2, seen // 2)
    )
    return np.where(seen >= MIN_OF_PART, (low + high) / 2, np.nan)


def _verdict(device: Device, count: float, slope: float) -> Verdict:
    name = (
        device.attributes.get("device")
        or f"{device.kind} {device.attributes.get('index', device.id)}"
    )
    link = f" link {device.attributes['link']}" if "link" in device.attributes else ""
    family = "ib" if device.kind == "ib_port" else "nvlink"
    return Verdict(
        f"{family}/{FAULT}",
        "ticket",
        "CONTACT_SUPPORT",
        (
            f"The error correction of {name}{link} of {device.host} works {np.exp(slope):.0f} "
            "times as hard each day: plan a change."
        ),
        (
            (
                f"{count:.0f} codewords or blocks near the limit in the last hour; growth by "
                f"{slope / log(10):.1f} orders of magnitude a day"
            ),
        ),
        slope / log(10),
        1.0,
        "orders of magnitude per day",
    )
