"""The PCIe link of an adapter of the fabric: lanes or a generation that it had, or that the other
adapters of its node have.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from detectors.infiniband.ports import port_name
from detectors.kit.block_clock import StepClock
from detectors.kit.columns import Columns, Ring, rows_where
from detectors.kit.findings import FindingTracker, Verdict
from detectors.kit.groups import Groups
from detectors.kit.instants import Times, milliseconds
from detectors.kit.persistence import Persistence
from detectors.kit.readings import reading
from detectors.kit.stateful import Component
from detectors.kit.stats import grouped_median
from pipeline.finding import Finding
from pipeline.frame import Device, Frame
from pipeline.small_arrays import any_true

WIDTH, GENERATION = "pcie/width", "pcie/generation"
RULES = (("width", WIDTH, "lanes"), ("generation", GENERATION, "generation"))  # gauge, fault, unit
MIN_PEERS = 4
ACCEPT_NS = 7 * 86400 * 10**9  # a week at less: it has been decided to live with it


class AdapterLinks:
    """Compares each adapter with what it was, and with the adapters of its model in its node; never
    above what its slot can do.

    Less than it was, and less than the others have: a page. All of them less than they were is a
    setting, and one that never had what the others have may be meant so: tickets. What a link has
    done for a week is accepted. It begins and ends as that of a GPU does, after so many
    milliseconds in a row.

    >>> links = AdapterLinks(FindingTracker("pcie"), 90_000, 300_000)
    >>> sorted(links.components)
    ['adapter_columns', 'adapter_steps']
    """

    def __init__(self, tracker: FindingTracker, after_ms: int, clear_ms: int) -> None:
        self._standing, self._after_ms = tracker, after_ms
        self._columns = Columns(best=Ring(2, 0.0), slow_ns=Ring(2, 0), **Persistence.fills(2))
        self._runs = Persistence(self._columns, [after_ms] * 2, [clear_ms] * 2)
        self._steps, self._models = StepClock(), Groups(_model)
        nobody = np.zeros((len(RULES), 0))
        self._voted: tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]] = (
            np.zeros(0, np.int64),
            nobody,
            nobody,
        )
        self.components: dict[str, Component] = {
            "adapter_columns": self._columns,
            "adapter_steps": self._steps,
        }

    def frame(self, frame: Frame, at: Times, boot_id: str) -> Iterator[Finding]:
        """What this frame of ports shows of their adapters."""
        columns = self._columns
        columns.show(frame)
        yield from self._standing.swapped(frame, at)
        seconds = self._steps.passed(frame, boot_id)
        if seconds is None:
            return
        now, most = (
            np.stack([columns.wide(reading(frame, f"pcie_{gauge}_{end}")) for gauge, *_ in RULES])
            for end in ("current", "maximum")
        )
        if not any_true(np.isfinite(now)):
            return
        usual = self._usual(now)
        best = columns["best"] = np.fmax(columns["best"], now)
        should = np.fmin(np.fmax(best, usual), most)
        slow = now < should
        if not (any_true(slow) or any_true(columns["run"]) or any_true(columns["set"])):
            return
        holds = np.where(np.isfinite(now) & np.isfinite(most), slow, np.nan)
        now_ms = columns.each(milliseconds(seconds))
        begins, ends = self._runs.step(holds, columns.times_ns(frame), now_ms)
        columns["slow_ns"] = np.where(begins, columns.each(at.mono_ns), columns["slow_ns"])
        for rule, row in np.argwhere(begins).tolist():
            alone = (
                bool(now[rule, row] < best[rule, row]) and not now[rule, row] >= usual[rule, row]
            )
            yield from self._report(
                rule, row, float(now[rule, row]), float(should[rule, row]), at, alone=alone
            )
        for rule, row in np.argwhere(ends).tolist():
            yield from self._standing.ends(columns.devices[row], RULES[rule][1], at)
        self._accept(now, at)

    def _usual(self, now: NDArray[np.float64]) -> NDArray[np.float64]:
        """What most adapters of a model in a node have, (rule, row); NaN where they are too few,
        or half of them have less.
        """
        group = self._models.of(self._columns.devices)
        if self._voted[0] is group and np.array_equal(self._voted[1], now, equal_nan=True):
            return self._voted[2]  # they are read once a minute, and hardly ever change
        usual = np.full(now.shape, np.nan)
        for rule, values in enumerate(now):
            median, count = grouped_median(values, group, len(self._models.names))
            if len(count):
                some = (group >= 0) & (count[group] >= MIN_PEERS)
                had = np.bincount(group[some & (values == median[group])], minlength=len(count)) > 0
                usual[rule] = np.where(some & had[group], median[group], np.nan)
        self._voted = group, now, usual
        return usual

    def _accept(self, now: NDArray[np.float64], at: Times) -> None:
        columns = self._columns
        for rule in range(len(RULES)):
            long = (
                self._runs.is_set(rule)
                & (columns.each(at.mono_ns) - columns["slow_ns"][rule] >= ACCEPT_NS)
                & np.isfinite(now[rule])
            )
            for row in rows_where(long):
                columns["best"][rule, row] = now[rule, row]

    def _report(
        self, rule: int, row: int, now: float, should: float, at: Times, *, alone: bool
    ) -> Iterator[Finding]:
        port, (_, fault, unit) = self._columns.devices[row], RULES[rule]
        runs = (
            f"on {now:.0f} of {should:.0f} lanes"
            if fault == WIDTH
            else f"at generation {now:.0f} of {should:.0f}"
        )
        advice = (
            "reseat the adapter, or replace it"
            if alone
            else "check slot, riser and firmware settings"
        )
        why = (
            "it had more before" if alone else "all had more before, or the others of the node have"
        )
        verdict = Verdict(
            fault,
            "page" if alone else "ticket",
            "CONTACT_SUPPORT",
            f"The PCIe link of {port_name(port)} runs {runs}: {advice}.",
            (
                (
                    f"{unit} {now:.0f} for {self._after_ms // 1000} s; {why}; adapter and slot "
                    f"allow {should:.0f} at least"
                ),
            ),
            now,
            should,
            unit,
        )
        yield from self._standing.holds(port, verdict, at, self._runs.began(rule, row))


def _model(device: Device) -> str:
    model = device.attributes.get("hca_type", "")
    return f"{device.host}/{model}" if model else ""
