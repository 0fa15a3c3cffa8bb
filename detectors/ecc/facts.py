"""What the memory-error registers of a GPU show by themselves: one rule per fact, a table.

Facts: NVIDIA GPU Memory Error Management (row remapping, RMA criteria), Dynamic Page Retirement
(before Ampere), nvml.h.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.finding import Action, Severity
from pipeline.frame import Frame

Floats = NDArray[np.float64]

MAX_REMAPS = 512  # uncorrectable ones of a board; the next one fails
MAX_PAGES = 63  # retired pages before Ampere: DCGM's health check fails there, the board holds 64
BAD_PAGES = 15  # double-bit pages, and still growing by one a week: return before the table is full
# rows in 24 hours: a bank's worth; uncorrectable rows in 30 days: one event is no lemon, two are
JUMP, REPEATED = 8, 2
SURVIVED_READS = 6  # after a reset, until its word about pending remaps is believed


@dataclass(frozen=True, slots=True)
class Rule:
    """A fact that is a fault by itself.

    ``holds`` gives 1, 0 or NaN per row; ``after`` readings in a row it is believed.

    Rules of one ``fault`` are one finding, as serious as the most serious of them.
    """

    fault: str
    severity: Severity
    action: Action
    holds: Callable[[Memory], Floats]
    summary: str
    after: int = 1


@dataclass(frozen=True, slots=True)
class Memory:
    """The registers of one frame, and what was counted from them; all arrays
    (row,), NaN = not observed.

    ``pending`` is 0 too where a repair waits with which there is no hurry. ``day`` are rows
    remapped in 24 hours by any cause, ``month`` uncorrectable ones (retired pages before Ampere) in
    30 days, ``week`` in 7. ``survived``: a remap that was pending before the last reset is still
    pending.
    """

    pending: Floats
    survived: Floats
    failed: Floats
    sram: Floats
    unrepairable: Floats
    none: Floats
    low: Floats
    partial: Floats
    high: Floats
    correctable: Floats
    uncorrectable: Floats
    single_bit_pages: Floats
    double_bit_pages: Floats
    day: Floats
    week: Floats
    month: Floats


def counted(frame: Frame, name: str) -> Floats:
    """Values of a counter, (device,), NaN = not observed."""
    value, observed = frame.counter(name)
    return np.where(observed, value.astype(np.float64), np.nan)


def pending(frame: Frame) -> Floats:
    """1 where a repair waits for a reset: of a row, of a page, or
    (Blackwell) of a memory channel.
    """
    flags = ("row_remap_pending", "retired_pages_pending", "repair_pending_memory_channel")
    merged: Floats = np.fmax.reduce([frame.gauge(name) for name in flags])
    return merged


def _at_least(x: Floats, limit: float) -> Floats:
    return np.where(x >= limit, 1.0, np.where(x < limit, 0.0, np.nan))


def _both(a: Floats, b: Floats) -> Floats:
    both: Floats = np.minimum(a, b)  # NaN where either is
    return both


RULES = (
    Rule(
        "ecc/remap_failed",
        "page",
        "RUN_FIELDDIAG",
        lambda m: _at_least(m.failed, 1),
        (
            "A memory row could not be replaced. If the field diagnostic fails, "
            "return the GPU (RMA)."
        ),
    ),
    Rule(
        "ecc/sram",
        "page",
        "RUN_FIELDDIAG",
        lambda m: _at_least(m.sram, 1),
        (
            "SRAM uncorrectable errors exceed the vendor's threshold. If the field diagnostic "
            "fails, return the GPU (RMA)."
        ),
    ),
    Rule(
        "ecc/unrepairable",
        "page",
        "RUN_FIELDDIAG",
        lambda m: _at_least(m.unrepairable, 1),
        (
            "The memory has an unrepairable fault. If the field diagnostic fails, "
            "return the GPU (RMA)."
        ),
    ),
    Rule(
        "ecc/remap_pending",
        "ticket",
        "COMPONENT_RESET",
        lambda m: _at_least(m.pending, 1),
        "A memory repair is pending: reset the GPU when its job ends.",
    ),
    Rule(
        "ecc/remap_pending",
        "page",
        "CONTACT_SUPPORT",
        lambda m: _at_least(m.survived, 1),
        "A memory repair is still pending after a GPU reset: the reset did not complete it.",
        after=SURVIVED_READS,
    ),
    Rule(
        "ecc/spare_rows_gone",
        "ticket",
        "CONTACT_SUPPORT",
        lambda m: _at_least(m.none, 1),
        (
            "A memory bank has no spare rows left: its next uncorrectable error cannot be "
            "repaired. Drain the GPU at the next maintenance."
        ),
    ),
    Rule(
        "ecc/spare_rows_low",
        "ticket",
        "NONE",
        lambda m: _at_least(m.low, 1),
        "A memory bank has few spare rows left: plan for the GPU's replacement.",
    ),
    Rule(
        "ecc/remaps_jumped",
        "page",
        "RUN_FIELDDIAG",
        lambda m: _at_least(m.day, JUMP),
        "Many memory rows are failing: take the GPU out of service and run diagnostics.",
    ),
    Rule(
        "ecc/remaps_repeat",
        "ticket",
        "RUN_DCGMEUD",
        lambda m: _both(_at_least(m.month, REPEATED), _at_least(m.uncorrectable, REPEATED)),
        "Memory rows of this GPU keep failing: run diagnostics when it is free.",
    ),
    Rule(
        "ecc/pages_retired",
        "ticket",
        "RUN_FIELDDIAG",
        lambda m: _at_least(m.single_bit_pages + m.double_bit_pages, MAX_PAGES),
        (
            "The table of retired memory pages is full. If the field diagnostic fails, "
            "return the GPU (RMA)."
        ),
    ),
    Rule(
        "ecc/pages_retired",
        "ticket",
        "RUN_DCGMEUD",
        lambda m: _both(_at_least(m.double_bit_pages, BAD_PAGES + 1), _at_least(m.week, 1)),
        (
            "Memory pages of this GPU keep failing: run diagnostics before the table of "
            "retired pages is full."
        ),
    ),
)
