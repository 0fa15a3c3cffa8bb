"""The PCIe link of a GPU or an adapter of the fabric: lanes lost, a generation too low under load,
packets sent again too often, fatal errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from detectors.kit.block_clock import BlockClock, BlockMeans, StepClock
from detectors.kit.columns import Columns, rows_where
from detectors.kit.elapsed import Elapsed
from detectors.kit.findings import FindingTracker, Verdict
from detectors.kit.instants import Times, instant_of, milliseconds
from detectors.kit.latest import Latest
from detectors.kit.literature import PAGE_1954
from detectors.kit.page import Needs, Page, Shown, gpu_columns
from detectors.kit.persistence import Persistence
from detectors.kit.readings import reading
from detectors.kit.resets import ResetTracker
from detectors.kit.stateful import Component, Stateful
from detectors.kit.stats import bernoulli_cusum, bernoulli_steps
from detectors.pcie.adapter import GENERATION, WIDTH, AdapterLinks
from pipeline.finding import Finding
from pipeline.frame import Device, Frame
from pipeline.observation import Event, Observation
from pipeline.small_arrays import or_else
from pipeline.xid.counts import HISTORY_NS

BLOCK_S = 60.0
ACTIVE_PERCENT = 50.0  # an idle link rests at generation 1
# A link that retrains is back within a second; two readings a minute apart, as those of adapters
# are, are no such moment. Milliseconds in a row.
AFTER, CLEAR = 90_000, 300_000
# Replays per lane and minute that a link within its bit error rate of 1e-12 (PCI Express Base
# Specification) makes at most, by generation: 8 GT/s x 60 s x 1e-12 is half an error a minute and
# lane.
REPLAYS_PER_LANE = {3: 0.48, 4: 0.96, 5: 1.92, 6: 3.84}
# A minute in a thousand above that is healthy, one in forty is not. h = 15 lets a healthy GPU alarm
# once in 4.6e8 minutes of load (Markov chain, detectors/kit/stats/counts.py), which is 0.0001 a
# month; five bad minutes in a row reach it.
STEPS, H = bernoulli_steps(0.001, 0.025), 15.0
QUIET_MINUTES = 120  # a faulty link shows a bad minute in forty: two hours without one is over
CLEAN_NS = 24 * 3600 * 10**9  # after a fatal error without another, or until the next reset
REPLAYS, FATAL = "pcie/replays", "pcie/fatal"


PAGE = Page(
    formula=(
        "width or generation under load below min(GPU, slot), of an adapter below min(slot, what "
        "it or the median of its node had); replays: Bernoulli CUSUM, S <- max(0, S + step), S > 15"
    ),
    sources=("PCI-SIG, PCI Express Base Specification: bit error rate 1e-12", PAGE_1954),
    shows=(
        *gpu_columns("pcie_width_current", "pcie_generation_current", "pcie_replays"),
        Shown("ib_port", "pcie_width_current"),
    ),
    needs=Needs(60.0, (("gpu.pcie_width_current", "ib_port.pcie_width_current"),)),
    next_step="Drain, reset, and if it comes back reseat the GPU or its riser; then replace it.",
    clears=(
        "Lanes and generation: after five minutes at the full value, the generation under load or "
        "at rest since a reset, driver load or boot; of an adapter also after a week at less, "
        "unless the others have more. Replays: after 120 such minutes within what is allowed. "
        "Fatal errors: at the next reset, driver load or boot, or after a day without another."
    ),
    scored_as=("pcie",),
)


class Pcie(Stateful):
    """Width below the highest that GPU and slot allow for a minute and a half, or generation under
    load: a page; health has neither.

    A link is compared with what GPU and slot can do together now, so another slot, riser or BIOS
    setting needs no acceptance; an idle link rests at generation 1, which is no evidence, but that
    it rests since a driver load or a reset: load shows again what is left then. Fatal errors are
    forgotten at once. Replays are a ticket by a Bernoulli CUSUM on minutes above what the link may
    make; the count itself does not matter. A fatal error, by counter or by the kernel's AER line,
    is a page until the next reset, or for a day. An adapter does not rest: its lanes and generation
    are compared with what they were and with its neighbours (pcie_adapter.py).

    >>> from pipeline.frame import frame_of
    >>> gpu, pcie, findings = Device("n1", "gpu", "GPU-1"), Pcie(), []
    >>> for minute in range(6):
    ...     values = {"pcie_width_current": 8 if minute > 2 else 16, "pcie_width_maximum": 16}
    ...     now = minute * 60 * 10**9
    ...     frame = frame_of("gpu", [(gpu, values)], now, now)
    ...     findings += pcie.update(Observation("nvml", "n1", "b", minute, now, now, 0, (frame,)))
    >>> [(f.fault, f.severity, f.value, f.expected, f.unit) for f in findings]
    [('pcie/width', 'page', 8.0, 16.0, 'lanes')]
    """

    name = "pcie"
    version = 3

    def __init__(self) -> None:
        self._columns = Columns(
            **BlockMeans.fills("busy"),
            **Persistence.fills(2),
            replays=np.nan,
            S=0.0,
            quiet=0,
            fatal_ns=0,
            fresh=False,  # no load yet since a new epoch: a repaired node waits idle for its return
        )
        self._means = BlockMeans(self._columns, ["busy"])
        self._latest = Latest(self._columns, "pcie_width_maximum", "pcie_generation_maximum")
        self._runs = Persistence(self._columns, [AFTER, AFTER], [CLEAR, CLEAR])
        self._clock, self._steps = BlockClock(BLOCK_S), StepClock()
        self._elapsed, self._standing, self._lives = (
            Elapsed(),
            FindingTracker(self.name),
            ResetTracker(),
        )
        self._adapters = AdapterLinks(self._standing, AFTER, CLEAR)

    def components(self) -> Mapping[str, Component]:
        """With those of the adapters."""
        return {**super().components(), **self._adapters.components}

    def update(self, observation: Observation) -> Iterable[Finding]:
        """What this observation shows of the links."""
        at = self._elapsed.times(observation)
        findings = [
            finding
            for event in observation.events
            if event.kind == "pcie_error"
            for finding in self._event(event, at)
        ]
        for frame in observation.frames:
            if frame.kind == "gpu":
                findings += self._frame(frame, at, observation.boot_id)
            elif frame.kind == "ib_port":
                findings += self._adapters.frame(frame, at, observation.boot_id)
        return findings

    def _event(self, event: Event, at: Times) -> Iterator[Finding]:
        age_ns = instant_of(at, event.device).time_ns - event.time_ns
        old = event.attributes.get("before_start") and age_ns > HISTORY_NS
        if (
            event.attributes.get("severity") == "fatal"
            and not event.attributes.get("previous_boot")
            and not old
        ):
            text = str(event.attributes.get("text", "the kernel reported a fatal PCIe error"))
            yield from self._fatal(event.device, text, at)

    def _fatal(self, device: Device, evidence: str, at: Times) -> Iterator[Finding]:
        row = self._columns.row(device)
        if row is not None:
            self._columns["fatal_ns"][row] = instant_of(at, device).mono_ns
        summary = "A fatal PCIe error: the link lost or corrupted data."
        yield from self._standing.holds(
            device, Verdict(FATAL, "page", "RESTART_BM", summary, (evidence,)), at
        )

    def _frame(self, frame: Frame, at: Times, boot_id: str) -> Iterator[Finding]:
        columns = self._columns
        columns.show(frame)
        yield from self._standing.swapped(frame, at)
        yield from self._reset(frame, boot_id, at)
        turned = self._clock.turned(frame, boot_id)
        if turned is None:
            return
        busy = columns.wide(reading(frame, "gpu_utilization_percent"))
        self._means.add(busy=busy)
        self._latest.see(frame)
        yield from self._links(frame, busy, boot_id, at)
        if frame.increments is not None:
            columns["replays"] = _sum(
                columns["replays"], columns.wide(frame.increase("pcie_replays"))
            )
            yield from self._fatal_counted(columns.wide(frame.increase("pcie_fatal_errors")), at)
        for blocks, then in self._clock.each(turned, at):
            yield from self._block(frame, blocks, then)

    def _reset(self, frame: Frame, boot_id: str, at: Times) -> Iterator[Finding]:
        new = self._lives.new(frame, boot_id)
        self._columns["fresh"] |= self._columns.wide(new.astype(np.float64)) > 0
        for row in rows_where(new):
            yield from self._standing.ends(
                frame.devices[row], FATAL, at, "the GPU was reset or its driver loaded again"
            )

    def _fatal_counted(self, fatal: NDArray[np.float64], at: Times) -> Iterator[Finding]:
        for row in rows_where(fatal > 0):
            yield from self._fatal(
                self._columns.devices[row],
                f"{fatal[row]:.0f} fatal errors counted since the reading before",
                at,
            )

    def _links(
        self, frame: Frame, busy: NDArray[np.float64], boot_id: str, at: Times
    ) -> Iterator[Finding]:
        """Lanes and generation of this reading, against the highest of each."""
        wide = self._columns.wide
        now, top = (
            np.stack(
                [wide(reading(frame, f"pcie_{name}_{which}")) for name in ("width", "generation")]
            )
            for which in ("current", "maximum")
        )
        holds = np.where(now < top, 1.0, np.where(now >= top, 0.0, np.nan))
        self._columns["fresh"] &= ~(busy >= ACTIVE_PERCENT)
        rests = self._columns["fresh"] & (busy < ACTIVE_PERCENT)
        holds[1] = np.where(
            (holds[1] > 0) & ~(busy >= ACTIVE_PERCENT), np.where(rests, 0.0, np.nan), holds[1]
        )
        passed = self._steps.passed(frame, boot_id)
        lasts = self._columns.each(milliseconds(0.0 if passed is None else passed))
        begins, _ = self._runs.step(holds, self._columns.times_ns(frame), lasts)
        for rule, row in np.argwhere(begins).tolist():
            yield from self._slow(rule, row, float(now[rule, row]), float(top[rule, row]), at)

    def _slow(self, rule: int, row: int, now: float, top: float, at: Times) -> Iterator[Finding]:
        if rule == 0:
            fault, unit = WIDTH, "lanes"
            summary = (
                f"The PCIe link runs on {now:.0f} of its {top:.0f} lanes: reseat "
                "or replace the device."
            )
            evidence = f"x{now:.0f} for {AFTER // 1000} s, GPU and slot allow x{top:.0f}"
        else:
            fault, unit = GENERATION, "generation"
            summary = f"The PCIe link runs at generation {now:.0f} of {top:.0f} under load."
            evidence = (
                f"generation {now:.0f} in {AFTER // 1000} s of load, GPU and slot allow {top:.0f}"
            )
        verdict = Verdict(fault, "page", "CONTACT_SUPPORT", summary, (evidence,), now, top, unit)
        yield from self._standing.holds(
            self._columns.devices[row], verdict, at, self._runs.began(rule, row)
        )

    def _block(self, frame: Frame, blocks: int, at: Times) -> Iterator[Finding]:
        columns = self._columns
        busy = self._means.close()["busy"]
        (width, generation), _ = self._latest.take(frame)
        top = {"width": width, "generation": generation}
        yield from self._replays(busy, top, blocks, at)
        yield from self._end(at)
        yield from self._standing.due(at)
        columns.reset(np.ones(len(columns), np.bool_), "replays")

    def _replays(
        self,
        busy: NDArray[np.float64],
        top: dict[str, NDArray[np.float64]],
        blocks: int,
        at: Times,
    ) -> Iterator[Finding]:
        """Above what is allowed counts at any load; below it, only under load: an
        idle link proves nothing.
        """
        columns = self._columns
        count, allowed = (
            columns["replays"],
            allowed_replays(top["width"], top["generation"]) * blocks,
        )
        hit = np.where(
            count > allowed,
            1.0,
            np.where((count <= allowed) & (busy >= ACTIVE_PERCENT), 0.0, np.nan),
        )
        columns["S"], alarm = bernoulli_cusum(columns["S"], hit, STEPS, H)
        rests = columns["fresh"] & (busy < ACTIVE_PERCENT) & (count <= allowed)
        columns["quiet"] = np.where(hit > 0, 0, columns["quiet"] + ((hit == 0) | rests))
        for row in rows_where(alarm):
            evidence = (
                f"{count[row]:.0f} packets retransmitted in {blocks} min; the specification "
                f"allows {allowed[row]:.0f}"
            )
            verdict = Verdict(
                REPLAYS,
                "ticket",
                "CONTACT_SUPPORT",
                (
                    "The PCIe link repeatedly corrupts packets: reseat the device, "
                    "check riser and retimer."
                ),
                (evidence,),
                float(count[row]),
                float(allowed[row]),
                "replays",
            )
            yield from self._standing.holds(columns.devices[row], verdict, at)

    def _end(self, at: Times) -> Iterator[Finding]:
        for finding in self._standing.all():
            if self._over(finding, at):
                yield from self._standing.ends(finding.device, finding.fault, at)

    def _over(self, finding: Finding, at: Times) -> bool:
        row, at = self._columns.row(finding.device), instant_of(at, finding.device)
        if row is None:  # no GPU, or one that was not seen since a restart
            return finding.fault == FATAL and at.time_ns - finding.time_ns > CLEAN_NS
        if finding.fault == FATAL:
            return bool(at.mono_ns - self._columns["fatal_ns"][row] > CLEAN_NS)
        if finding.fault == REPLAYS:
            return bool(self._columns["quiet"][row] >= QUIET_MINUTES)
        return not self._runs.is_set((WIDTH, GENERATION).index(finding.fault))[row]


def allowed_replays(
    width: NDArray[np.float64], generation: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Replays a minute that links of this width and generation may make, both (device,); NaN
    where either is not known.

    >>> allowed_replays(
    ...     np.array([16.0, 16.0, 8.0, np.nan]), np.array([4.0, 5.0, 5.0, 5.0])
    ... ).tolist()
    [16.0, 31.0, 16.0, nan]
    """
    known = np.isfinite(generation)
    per_lane = np.array(list(REPLAYS_PER_LANE.values()))[
        np.clip(or_else(generation), 3, 6).astype(np.int64) - 3
    ]
    allowed: NDArray[np.float64] = np.where(known, np.ceil(width * per_lane), np.nan)
    return allowed


def _sum(total: NDArray[np.float64], more: NDArray[np.float64]) -> NDArray[np.float64]:
    """A sum that is NaN only until something was observed."""
    return np.where(np.isfinite(more), or_else(total) + more, total)
