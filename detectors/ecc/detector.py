"""GPU memory errors: failed repairs and uncorrectable errors within a minute, correctable ones
when they keep coming back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import isfinite, isinf

import numpy as np
from numpy.typing import NDArray

from detectors.ecc.errors import PATIENCE_NS, Errors
from detectors.ecc.facts import RULES, Memory, counted, pending
from detectors.ecc.trend import Trend
from detectors.ecc.wear import DAYS, Wear, days_left
from detectors.kit.columns import Columns, rows_where
from detectors.kit.elapsed import Elapsed
from detectors.kit.findings import AGAIN_NS, FindingTracker, Verdict
from detectors.kit.instants import Times, instant_of
from detectors.kit.literature import MEMORY, PAGE_1954, XIDS
from detectors.kit.page import Needs, Page, Part, gpu_columns
from detectors.kit.persistence import Persistence
from detectors.kit.resets import ResetTracker
from detectors.kit.stateful import Component, Stateful
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding
from pipeline.frame import Device, Frame, schema_of
from pipeline.observation import Event, Observation
from pipeline.small_arrays import any_true, or_else

CLEAR_READS = 10  # readings without the flag until it counts as gone
MANY_CORRECTED = 92  # the driver's own alarm about the rate of single-bit errors
# Errors between two readings: an increase this large is a marker for "no value" (0x7ffffff0 and
# above, dcgm_fields.h).
IMPOSSIBLE = 2.0**30
# a repair because of corrected errors waits so long for a reset before it is reported
PATIENT_NS = 24 * 3600 * SECOND_NS
UNCORRECTABLE, TREND = "ecc/uncorrectable", "ecc/correctable_trend"
_FLAGS = ("failed", "pending", *(f"banks_{spare}" for spare in ("none", "low", "partial", "high")))
_REPAIRS = (
    "sram_threshold_exceeded",
    "memory_unrepairable",
    "retired_pages_pending",
    "repair_pending_memory_channel",
)
GAUGES = [
    schema_of("gpu").gauge_row[name]
    for name in (*(f"row_remap_{flag}" for flag in _FLAGS), *_REPAIRS)
]
_ROWS = (
    "remapped_rows_correctable",
    "remapped_rows_uncorrectable",
    "retired_pages_single_bit",
    "retired_pages_double_bit",
)
COUNTERS = [schema_of("gpu").counter_row[name] for name in _ROWS]
FAULTS = tuple(dict.fromkeys(rule.fault for rule in RULES))
ANNOUNCED = frozenset({"ecc_storm", "memory_poison"})  # kinds of event
UNCONTAINED = "Uncontained uncorrectable memory error: drain and reset the GPU."


PAGE = Page(
    formula=(
        "facts: flag = 1 or increment > 0; trend: S <- max(0, S + ln(p1/p0)) per hour with errors, "
        "S <- max(0, S + ln((1-p1)/(1-p0))) without, a finding at S > h"
    ),
    sources=(MEMORY, XIDS, PAGE_1954),
    shows=gpu_columns(
        "ecc_corrected_aggregate",
        "ecc_uncorrected_volatile",
        "remapped_rows_uncorrectable",
        "remapped_rows_correctable",
        "row_remap_pending",
        "row_remap_banks_none",
    ),
    needs=Needs(
        60.0,
        (
            (
                "gpu.ecc_uncorrected_aggregate",
                "gpu.ecc_uncorrected_volatile",
                "gpu.remapped_rows_uncorrectable",
                "gpu.row_remap_failed",
            ),
        ),
        parts=(
            Part(
                "uncorrectable errors before a reset remaps their row",
                ("gpu.ecc_uncorrected_aggregate", "gpu.ecc_uncorrected_volatile"),
            ),
        ),
    ),
    next_step=(
        "Pending remap: reset the GPU. Failed remap, or no spare row left: replace the GPU (RMA)."
    ),
    clears=(
        "Facts: after ten readings in a row without. Uncorrectable errors: at the next reset, "
        "driver load or boot, or after a day without another. Correctable ones: after a week of "
        "observed hours without any."
    ),
    scored_as=("ecc",),
)


class Ecc(Stateful):
    """Judges the memory of every GPU.

    Failed or pending repairs and missing spare rows are reported as they are. An uncorrectable
    error is as serious as its XID: a ticket where it was contained, else a page; so is one without
    an XID within a minute. What may have come before the last reset or reboot is a ticket.
    Correctable errors are a ticket when too many hours have any. What was counted before the agent
    came is history: only new errors matter.

    >>> from pipeline.frame import Device, frame_of
    >>> gpu, ecc = Device("n1", "gpu", "GPU-1"), Ecc()
    >>> frame = frame_of(
    ...     "gpu",
    ...     [
    ...         (
    ...             gpu,
    ...             {
    ...                 "row_remap_failed": 1,
    ...                 "row_remap_banks_none": 1,
    ...                 "remapped_rows_uncorrectable": 9,
    ...             },
    ...         )
    ...     ],
    ...     0,
    ...     0,
    ... )
    >>> for f in ecc.update(Observation("nvml", "n1", "b", 0, 0, 0, 0, (frame,))):
    ...     print(f.fault, f.severity, f.action)
    ecc/remap_failed page RUN_FIELDDIAG
    ecc/spare_rows_gone ticket CONTACT_SUPPORT
    """

    name = "ecc"
    version = 2

    def __init__(self) -> None:
        self._columns = Columns(
            **Persistence.fills(len(RULES)),
            **Wear.fills(),
            **Trend.fills(),
            **Errors.fills(),
            asked=False,  # a repair waits for a reset in this epoch
            asked_ns=0,  # since when
            # a row was remapped in this epoch because its errors were corrected too often
            corrected=False,
            lost=False,  # or because one was not corrected
            survived=False,
        )
        self._runs = Persistence(
            self._columns, [rule.after for rule in RULES], [CLEAR_READS] * len(RULES)
        )
        self._wear, self._trend, self._errors = (
            Wear(self._columns),
            Trend(self._columns),
            Errors(self._columns),
        )
        self._elapsed, self._standing, self._lives = (
            Elapsed(),
            FindingTracker(self.name),
            ResetTracker(),
        )
        self._before: (
            tuple[tuple[Device, ...], NDArray[np.float64], NDArray[np.uint64], NDArray[np.bool_]]
            | None
        ) = None

    def components(self) -> Mapping[str, Component]:
        """With those of the wear and of the trend."""
        wear, trend = self._wear, self._trend
        nested: dict[str, Component] = {
            "hour": wear.hour,
            "midnight": wear.midnight,
            "clock": trend.clock,
            "means": trend.means,
            "fleet": trend.fleet,
        }
        return {**super().components(), **nested}

    def update(self, observation: Observation) -> Iterable[Finding]:
        """What this observation says of the memories."""
        at = self._elapsed.times(observation)
        findings: list[Finding] = []
        for event in observation.events:
            self._take_events(event, at)
            findings += self._announced(event, at)
        for frame in observation.frames:
            if frame.kind == "gpu":
                findings += self._frame(frame, at, observation.boot_id)
        return findings

    def _take_events(self, event: Event, at: Times) -> None:
        """Remember what the driver says of memory errors."""
        row, code = (
            self._columns.row(event.device) if event.kind == "xid" else None,
            event.attributes.get("code"),
        )
        if row is None or event.attributes.get("previous_boot"):
            return
        if code == MANY_CORRECTED:
            self._trend.hit(row)
        elif isinstance(code, int):
            now = instant_of(at, event.device)
            self._errors.add_xid(row, code, now.mono_ns - max(0, now.time_ns - event.time_ns))

    def _announced(self, event: Event, at: Times) -> Iterator[Finding]:
        """What NVML announces beside XIDs."""
        row = self._columns.row(event.device) if event.kind in ANNOUNCED else None
        if row is None:
            return
        if event.kind == "ecc_storm":
            self._trend.hit(row)
            return
        fatal = event.attributes.get("severity") == "fatal"
        self._errors.poisoned(row, instant_of(at, event.device).mono_ns, fatal=fatal)
        if fatal:
            words = ("a program used memory with such an error, as the driver announced",)
            verdict = Verdict(UNCORRECTABLE, "page", "COMPONENT_RESET", UNCONTAINED, words)
            yield from self._standing.holds(self._columns.devices[row], verdict, at)

    def _frame(self, frame: Frame, at: Times, boot_id: str) -> Iterator[Finding]:
        self._columns.show(frame)
        yield from self._standing.swapped(frame, at)
        yield from self._reset(frame, boot_id, at)
        if self._registers_changed(frame) or any(
            any_true(self._columns[name]) for name in ("set", "run", "asked")
        ):
            yield from self._facts(frame, at)
        yield from self._uncorrectable(frame, at)
        errors = _grew(frame, self._columns, "ecc_corrected")
        for alarm, then in self._trend.add(errors, frame, boot_id, at):
            yield from self._hour(alarm, then)

    def _registers_changed(self, frame: Frame) -> bool:
        """Whether any register of the facts differs from the frame before: mostly none does, and
        then nothing needs to be judged.
        """
        gauges, counts, observed = (
            frame.gauges[GAUGES],
            frame.counters[COUNTERS],
            frame.observed[COUNTERS],
        )
        before, self._before = self._before, (frame.devices, gauges, counts, observed)
        return (
            before is None
            or before[0] is not frame.devices
            or not np.array_equal(before[1], gauges, equal_nan=True)
            or not np.array_equal(before[2], counts)
            or not np.array_equal(before[3], observed)
        )

    def _facts(self, frame: Frame, at: Times) -> Iterator[Finding]:
        memory = self._read(frame, at)
        begins, ends = self._runs.step(
            np.stack([rule.holds(memory) for rule in RULES]), self._columns.times_ns(frame)
        )
        for number, row in np.argwhere(begins).tolist():
            verdict = _verdict(number, memory, row)
            yield from self._standing.holds(
                self._columns.devices[row], verdict, at, self._runs.began(number, row)
            )
        if any_true(ends):
            yield from self._end(at)

    def _reset(self, frame: Frame, boot_id: str, at: Times) -> Iterator[Finding]:
        """A new epoch: what was pending should be repaired, and what was lost is lost."""
        new = self._lives.new(frame, boot_id)
        if any_true(new):
            fresh = or_else(self._columns.wide(new.astype(np.float64))) > 0
            self._columns["survived"] |= fresh & self._columns["asked"]
            self._columns.reset(fresh, "asked", "corrected", "lost", "waits_ns")
            self._columns["life_ns"] = np.where(
                fresh, self._columns.each(at.mono_ns), self._columns["life_ns"]
            )
            for row in rows_where(new):
                yield from self._standing.ends(
                    frame.devices[row],
                    UNCORRECTABLE,
                    at,
                    "the GPU was reset or its driver loaded again",
                )

    def _read(self, frame: Frame, at: Times) -> Memory:
        wide, columns = self._columns.wide, self._columns
        waits = wide(pending(frame))
        columns["asked_ns"] = np.where(
            (waits > 0) & ~columns["asked"], columns.each(at.mono_ns), columns["asked_ns"]
        )
        columns["asked"] = np.where(np.isfinite(waits), waits > 0, columns["asked"])
        columns["survived"] &= ~(waits == 0)
        grew = {
            cause: _increase(frame, columns, f"remapped_rows_{cause}")
            for cause in ("correctable", "uncorrectable")
        }
        columns["corrected"] |= grew["correctable"] > 0
        columns["lost"] |= grew["uncorrectable"] > 0
        # Nothing was lost and nothing will be: the reset between two jobs is soon enough.
        patient = (
            columns["corrected"]
            & ~columns["lost"]
            & (columns.each(at.mono_ns) - columns["asked_ns"] < PATIENT_NS)
        )
        pages = _increase(frame, columns, "retired_pages_double_bit")
        self._wear.add(
            or_else(grew["correctable"]) + or_else(grew["uncorrectable"]),
            or_else(grew["uncorrectable"]) + or_else(pages),
            at,
        )
        unread = columns.unread()
        seen = columns.present() if unread is None else ~unread
        return Memory(
            pending=np.where(patient, np.minimum(waits, 0.0), waits),
            survived=np.where(np.isfinite(waits), columns["survived"] & (waits > 0), np.nan),
            failed=wide(frame.gauge("row_remap_failed")),
            sram=wide(frame.gauge("sram_threshold_exceeded")),
            unrepairable=wide(frame.gauge("memory_unrepairable")),
            **{
                name: wide(frame.gauge(f"row_remap_banks_{name}"))
                for name in ("none", "low", "partial", "high")
            },
            **{cause: wide(counted(frame, f"remapped_rows_{cause}")) for cause in grew},
            **{
                f"{bits}_bit_pages": wide(counted(frame, f"retired_pages_{bits}_bit"))
                for bits in ("single", "double")
            },
            day=np.where(seen, self._wear.day(), np.nan),
            week=np.where(seen, self._wear.days(7), np.nan),
            month=np.where(seen, self._wear.days(DAYS), np.nan),
        )

    def _end(self, at: Times) -> Iterator[Finding]:
        for finding in self._standing.all():
            row = self._columns.row(finding.device)
            if row is not None and finding.fault in FAULTS:
                rules = [number for number, rule in enumerate(RULES) if rule.fault == finding.fault]
                if not any(self._runs.is_set(number)[row] for number in rules):
                    yield from self._standing.ends(finding.device, finding.fault, at)

    def _uncorrectable(self, frame: Frame, at: Times) -> Iterator[Finding]:
        """Errors whose XID has come, or does not."""
        now_ns = self._columns.each(at.mono_ns)
        for row, page, reported in self._errors.add(
            _grew(frame, self._columns, "ecc_uncorrected"), now_ns
        ):
            gpu = self._columns.devices[row]
            known = self._standing.get(gpu, UNCORRECTABLE)
            last_ns = 0 if known is None else max(known.onset_ns, known.again_ns)
            now = instant_of(at, gpu)
            onset_ns = now.time_ns - (now.mono_ns - self._errors.since_ns(row))
            # another error, not a fault that flickers: no rest for it
            yield from self._standing.holds(
                gpu,
                self._error(row, page, reported),
                at,
                onset_ns,
                recurred=known is None,
                again_ns=onset_ns if onset_ns - last_ns >= AGAIN_NS else 0,
            )
        self._errors.done(now_ns)

    def _error(self, row: int, page: bool, reported: bool) -> Verdict:
        errors = f"{self._errors.count(row)} uncorrectable errors counted"
        if self._errors.past(row):
            summary = (
                "Uncorrectable memory errors, probably before the last GPU reset: results from "
                "that time may be wrong."
            )
            return Verdict(
                UNCORRECTABLE,
                "ticket",
                "NONE",
                summary,
                (f"{errors} since the last reading before the reset",),
            )
        if not page:
            summary = (
                "Uncorrectable memory error, contained to one process: restart it; reset the GPU "
                "when the job has ended."
            )
            return Verdict(
                UNCORRECTABLE,
                "ticket",
                "RESTART_APP",
                summary,
                (f"{errors}, contained according to XID 94",),
            )
        if reported:
            return Verdict(
                UNCORRECTABLE,
                "page",
                "COMPONENT_RESET",
                UNCONTAINED,
                (f"{errors}, no XID reports containment",),
            )
        summary = (
            "The GPU counted uncorrectable memory errors without an XID: its results may be wrong."
        )
        words = f"{errors}, no matching XID within {PATIENCE_NS // SECOND_NS} s"
        return Verdict(UNCORRECTABLE, "page", "COMPONENT_RESET", summary, (words,))

    def _hour(self, alarm: NDArray[np.bool_], at: Times) -> Iterator[Finding]:
        columns, share = self._columns, self._trend.share
        for row in rows_where(alarm):
            hits, hours = int(columns["hits"][row]), int(columns["hours"][row])
            verdict = Verdict(
                TREND,
                "ticket",
                "RUN_DCGMEUD",
                ("Correctable memory errors recur on this GPU: its memory is wearing out."),
                (
                    (
                        f"{hits} of {hours} observed hours had an error, "
                        f"{self._trend.in_week(row)} of them in the last week"
                    ),
                    f"{share:.1%} of hours on healthy GPUs",
                ),
                hits / hours,
                share,
                "ratio",
            )
            yield from self._standing.holds(columns.devices[row], verdict, at)
        for finding in self._standing.all():
            row_or_none = columns.row(finding.device)
            if row_or_none is not None and self._over(finding.fault, row_or_none, at):
                yield from self._standing.ends(finding.device, finding.fault, at)
        yield from self._standing.due(at)

    def _over(self, fault: str, row: int, at: Times) -> bool:
        if fault == UNCORRECTABLE:
            return self._errors.over(row, instant_of(at, self._columns.devices[row]).mono_ns)
        return fault == TREND and self._trend.over(row)


def _increase(frame: Frame, columns: Columns, name: str) -> NDArray[np.float64]:
    return (
        columns.wide(frame.increase(name))
        if frame.increments is not None
        else columns.wide(np.full(len(frame.devices), np.nan))
    )


def _grew(frame: Frame, columns: Columns, name: str) -> NDArray[np.float64]:
    """New errors by either count: the aggregate one survives a reload of the driver; the
    larger is true, never the sum.
    """
    counts = [_increase(frame, columns, f"{name}_{count}") for count in ("volatile", "aggregate")]
    grew: NDArray[np.float64] = np.fmax(
        *(np.where(count < IMPOSSIBLE, count, np.nan) for count in counts)
    )
    return grew


def _verdict(number: int, memory: Memory, row: int) -> Verdict:
    rule = RULES[number]
    words = {
        "rows remapped for uncorrectable errors": memory.uncorrectable[row],
        "rows remapped for correctable errors": memory.correctable[row],
        "banks without spare rows": memory.none[row],
        "banks with few spare rows": memory.low[row],
        "rows failed in 24 hours": memory.day[row],
        f"rows failed in {DAYS} days": memory.month[row],
        "pages retired for double-bit errors": memory.double_bit_pages[row],
    }
    evidence = [
        ", ".join(
            f"{value:.0f} {what}" for what, value in words.items() if isfinite(value) and value > 0
        )
    ]
    left = days_left(memory, row)
    if not isinf(left):
        evidence.append(
            f"at the rate of the last {DAYS} days the spare rows of the worst bank may "
            f"last {left:.1f} days"
        )
    return Verdict(
        rule.fault,
        rule.severity,
        rule.action,
        rule.summary,
        tuple(words for words in evidence if words),
    )
