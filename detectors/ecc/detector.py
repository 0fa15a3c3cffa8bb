"""GPU memory errors: failed repairs and uncorrectable errors within a minute, correctable ones when they keep coming back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isfinite, isinf

import numpy as np
from numpy.typing import NDArray

from detectors.columns import Columns, rows_where
from detectors.ecc.errors import PATIENCE_NS, Errors
from detectors.ecc.facts import RULES, Memory, counted, pending
from detectors.ecc.trend import Trend
from detectors.ecc.wear import DAYS, Wear, days_left
from detectors.elapsed import Elapsed, Moment
from detectors.lives import Lives
from detectors.memory import Remembering
from detectors.runs import Runs
from detectors.standing import Standing, Verdict
from pipeline.finding import Finding
from pipeline.frame import Device, Frame, schema_of
from pipeline.observation import Event, Observation

CLEAR_READS = 10  # a flag that is gone for so many readings is gone
MANY_CORRECTED = 92  # the driver's own alarm about the rate of single-bit errors
S = 10**9
# New errors between two readings: a count that rose by so many shows a mark of no value (0x7ffffff0 and above, dcgm_fields.h).
IMPOSSIBLE = 2.0**30
PATIENT_NS = 24 * 3600 * S  # a repair because of corrected errors waits so long for a reset before anybody is told
UNCORRECTABLE, TREND = "ecc/uncorrectable", "ecc/correctable_trend"
_FLAGS = ("failed", "pending", *(f"banks_{spare}" for spare in ("none", "low", "partial", "high")))
_REPAIRS = ("sram_threshold_exceeded", "memory_unrepairable", "retired_pages_pending", "repair_pending_memory_channel")
GAUGES = [schema_of("gpu").gauge_row[name] for name in (*(f"row_remap_{flag}" for flag in _FLAGS), *_REPAIRS)]
_ROWS = ("remapped_rows_correctable", "remapped_rows_uncorrectable", "retired_pages_single_bit", "retired_pages_double_bit")
COUNTERS = [schema_of("gpu").counter_row[name] for name in _ROWS]
FAULTS = tuple(dict.fromkeys(rule.fault for rule in RULES))


class Ecc(Remembering):
    """Judges the memory of every GPU.

    Failed or pending repairs and missing spare rows are told as they stand. An uncorrectable error is as serious as its XID says:
    a ticket where it was contained, else a page; so is one of which no XID tells within a minute. What may have come before the last
    reset or reboot is a ticket. Correctable errors are a ticket when too many hours have any. What was counted before the agent came
    is history: only new errors matter.

    >>> from pipeline.frame import Device, frame_of
    >>> gpu, ecc = Device("n1", "gpu", "GPU-1"), Ecc()
    >>> frame = frame_of("gpu", [(gpu, {"row_remap_failed": 1, "row_remap_banks_none": 1, "remapped_rows_uncorrectable": 9})], 0, 0)
    >>> for f in ecc.update(Observation("nvml", "n1", "b", 0, 0, 0, 0, (frame,))):
    ...     print(f.fault, f.severity, f.action)
    ecc/remap_failed page RUN_FIELDDIAG
    ecc/spare_rows_gone ticket CONTACT_SUPPORT
    """

    name = "ecc"
    version = 2

    def __init__(self) -> None:
        self._columns = Columns(
            **Runs.fills(len(RULES)),
            **Wear.fills(),
            **Trend.fills(),
            **Errors.fills(),
            asked=False,  # a repair waits for a reset in this life
            asked_ns=0,  # since when
            corrected=False,  # a row was remapped in this life because its errors were corrected too often
            lost=False,  # or because one was not corrected
            survived=False,
        )
        self._runs = Runs(self._columns, [rule.after for rule in RULES], [CLEAR_READS] * len(RULES))
        self._wear, self._trend, self._errors = Wear(self._columns), Trend(self._columns), Errors(self._columns)
        self._elapsed, self._standing, self._lives = Elapsed(), Standing(self.name), Lives()
        self._before: tuple[tuple[Device, ...], NDArray[np.float64], NDArray[np.uint64], NDArray[np.bool_]] | None = None
        super().__init__(
            columns=self._columns,
            hour=self._wear.hour,
            midnight=self._wear.midnight,
            clock=self._trend.clock,
            means=self._trend.means,
            fleet=self._trend.fleet,
            elapsed=self._elapsed,
            standing=self._standing,
            lives=self._lives,
        )

    def update(self, observation: Observation) -> Iterable[Finding]:
        """What this observation says of the memories."""
        at = self._elapsed.at(observation)
        for event in observation.events:
            self._hear(event, at)
        said: list[Finding] = []
        for frame in observation.frames:
            if frame.kind == "gpu":
                said += self._frame(frame, at, observation.boot_id)
        return said

    def _hear(self, event: Event, at: Moment) -> None:
        """Remember what the driver says of memory errors."""
        row, code = self._columns.row(event.device) if event.kind == "xid" else None, event.attributes.get("code")
        if row is None or event.attributes.get("previous_boot"):
            return
        if code == MANY_CORRECTED:
            self._trend.hit(row)
        elif isinstance(code, int):
            self._errors.hear(row, code, at.now_ns - max(0, at.time_ns - event.time_ns))

    def _frame(self, frame: Frame, at: Moment, boot_id: str) -> Iterator[Finding]:
        self._columns.place(frame.devices)
        yield from self._standing.swapped(frame, at)
        yield from self._reset(frame, boot_id, at)
        if self._registers_changed(frame) or any(self._columns[name].any() for name in ("stands", "run", "asked")):
            yield from self._facts(frame, at)
        yield from self._uncorrectable(frame, at)
        alarm = self._trend.add(_grew(frame, self._columns, "ecc_corrected"), frame.mono_ns, boot_id)
        if alarm is not None:
            yield from self._hour(alarm, at)

    def _registers_changed(self, frame: Frame) -> bool:
        """Whether any register of the facts differs from the frame before: mostly none does, and then nothing needs to be judged."""
        gauges, counts, observed = frame.gauges[GAUGES], frame.counters[COUNTERS], frame.observed[COUNTERS]
        before, self._before = self._before, (frame.devices, gauges, counts, observed)
        return (
            before is None
            or before[0] is not frame.devices
            or not np.array_equal(before[1], gauges, equal_nan=True)
            or not np.array_equal(before[2], counts)
            or not np.array_equal(before[3], observed)
        )

    def _facts(self, frame: Frame, at: Moment) -> Iterator[Finding]:
        memory = self._read(frame, at)
        begins, ends = self._runs.step(np.stack([rule.holds(memory) for rule in RULES]), frame.time_ns)
        for number, row in np.argwhere(begins).tolist():
            verdict = _verdict(number, memory, row)
            yield from self._standing.holds(self._columns.devices[row], verdict, at, self._runs.began(number, row))
        if ends.any():
            yield from self._end(at)

    def _reset(self, frame: Frame, boot_id: str, at: Moment) -> Iterator[Finding]:
        """A new life: what was pending should be repaired, and what was lost is lost."""
        new = self._lives.new(frame, boot_id)
        if new.any():
            fresh = np.nan_to_num(self._columns.wide(new.astype(np.float64))) > 0
            self._columns["survived"] |= fresh & self._columns["asked"]
            self._columns.reset(fresh, "asked", "corrected", "lost", "waits_ns")
            self._columns["life_ns"] = np.where(fresh, at.now_ns, self._columns["life_ns"])
            for row in rows_where(new):
                yield from self._standing.ends(
                    frame.devices[row], UNCORRECTABLE, at, "the GPU was reset or its driver loaded again"
                )

    def _read(self, frame: Frame, at: Moment) -> Memory:
        wide, columns = self._columns.wide, self._columns
        waits = wide(pending(frame))
        columns["asked_ns"] = np.where((waits > 0) & ~columns["asked"], at.now_ns, columns["asked_ns"])
        columns["asked"] = np.where(np.isfinite(waits), waits > 0, columns["asked"])
        columns["survived"] &= ~(waits == 0)
        grew = {cause: _increase(frame, columns, f"remapped_rows_{cause}") for cause in ("correctable", "uncorrectable")}
        columns["corrected"] |= grew["correctable"] > 0
        columns["lost"] |= grew["uncorrectable"] > 0
        # Nothing was lost and nothing will be: the reset between two jobs is soon enough.
        patient = columns["corrected"] & ~columns["lost"] & (at.now_ns - columns["asked_ns"] < PATIENT_NS)
        pages = _increase(frame, columns, "retired_pages_double_bit")
        self._wear.add(
            np.nan_to_num(grew["correctable"]) + np.nan_to_num(grew["uncorrectable"]),
            np.nan_to_num(grew["uncorrectable"]) + np.nan_to_num(pages),
            at.now_ns,
            "",
        )
        seen = columns.present()
        return Memory(
            pending=np.where(patient, np.minimum(waits, 0.0), waits),
            survived=np.where(np.isfinite(waits), columns["survived"] & (waits > 0), np.nan),
            failed=wide(frame.gauge("row_remap_failed")),
            sram=wide(frame.gauge("sram_threshold_exceeded")),
            unrepairable=wide(frame.gauge("memory_unrepairable")),
            **{name: wide(frame.gauge(f"row_remap_banks_{name}")) for name in ("none", "low", "partial", "high")},
            **{cause: wide(counted(frame, f"remapped_rows_{cause}")) for cause in grew},
            **{f"{bits}_bit_pages": wide(counted(frame, f"retired_pages_{bits}_bit")) for bits in ("single", "double")},
            day=np.where(seen, self._wear.day(), np.nan),
            week=np.where(seen, self._wear.days(7), np.nan),
            month=np.where(seen, self._wear.days(DAYS), np.nan),
        )

    def _end(self, at: Moment) -> Iterator[Finding]:
        for finding in self._standing.all():
            row = self._columns.row(finding.device)
            if row is not None and finding.fault in FAULTS:
                rules = [number for number, rule in enumerate(RULES) if rule.fault == finding.fault]
                if not any(self._runs.stands(number)[row] for number in rules):
                    yield from self._standing.ends(finding.device, finding.fault, at)

    def _uncorrectable(self, frame: Frame, at: Moment) -> Iterator[Finding]:
        """Errors whose XID has come, or does not."""
        for row, page, told in self._errors.add(_grew(frame, self._columns, "ecc_uncorrected"), at.now_ns):
            onset_ns = at.time_ns - (at.now_ns - self._errors.since_ns(row))
            gpu = self._columns.devices[row]
            anew = self._standing.get(gpu, UNCORRECTABLE) is None  # another error, not a fault that flickers: no rest for it
            yield from self._standing.holds(gpu, self._error(row, page, told), at, onset_ns, anew=anew)
        self._errors.done(at.now_ns)

    def _error(self, row: int, page: bool, told: bool) -> Verdict:
        errors = f"{self._errors.count(row)} uncorrectable errors counted"
        if self._errors.past(row):
            summary = "Uncorrectable memory errors, it seems before the GPU was last reset: what it computed then may be wrong."
            return Verdict(UNCORRECTABLE, "ticket", "NONE", summary, (f"{errors} since the last reading before the reset",))
        if not page:
            summary = "An uncorrectable memory error, contained to one program: restart it; reset the GPU when the job has ended."
            return Verdict(UNCORRECTABLE, "ticket", "RESTART_APP", summary, (f"{errors}, XID 94 says contained",))
        if told:
            summary = "An uncorrectable memory error that was not contained: drain and reset the GPU."
            return Verdict(
                UNCORRECTABLE, "page", "COMPONENT_RESET", summary, (f"{errors}, and no XID says that it was contained",)
            )
        summary = "The GPU counted uncorrectable memory errors and no XID told of them: what it computes may be wrong."
        words = f"{errors}, no XID of them within {PATIENCE_NS // S} s"
        return Verdict(UNCORRECTABLE, "page", "COMPONENT_RESET", summary, (words,))

    def _hour(self, alarm: NDArray[np.bool_], at: Moment) -> Iterator[Finding]:
        columns, share = self._columns, self._trend.share
        for row in rows_where(alarm):
            hits, hours = int(columns["hits"][row]), int(columns["hours"][row])
            verdict = Verdict(
                TREND,
                "ticket",
                "RUN_DCGMEUD",
                "Correctable memory errors of this GPU keep coming back: its memory is wearing out.",
                (
                    f"{hits} of {hours} observed hours had an error, {self._trend.in_week(row)} of them in the last week",
                    f"{share:.1%} of hours do on healthy GPUs",
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

    def _over(self, fault: str, row: int, at: Moment) -> bool:
        if fault == UNCORRECTABLE:
            return self._errors.over(row, at.now_ns)
        return fault == TREND and self._trend.over(row)


def _increase(frame: Frame, columns: Columns, name: str) -> NDArray[np.float64]:
    return (
        columns.wide(frame.increase(name)) if frame.increments is not None else columns.wide(np.full(len(frame.devices), np.nan))
    )


def _grew(frame: Frame, columns: Columns, name: str) -> NDArray[np.float64]:
    """New errors by either count: the aggregate one survives a reload of the driver; the larger is true, never the sum."""
    counts = [_increase(frame, columns, f"{name}_{count}") for count in ("volatile", "aggregate")]
    grew: NDArray[np.float64] = np.fmax(*(np.where(count < IMPOSSIBLE, count, np.nan) for count in counts))
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
    evidence = [", ".join(f"{value:.0f} {what}" for what, value in words.items() if isfinite(value) and value > 0)]
    left = days_left(memory, row)
    if not isinf(left):
        evidence.append(f"at the pace of the last {DAYS} days the spare rows of the worst bank may last {left:.1f} days")
    return Verdict(rule.fault, rule.severity, rule.action, rule.summary, tuple(words for words in evidence if words))
