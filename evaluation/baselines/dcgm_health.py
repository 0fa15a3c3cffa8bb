"""DCGM's background health checks as a detector: what `dcgmi health` says,
pass, warning or failure.

Rules: DCGM's health watches as its documentation and modules/health describe them. A failure is a
page here, a warning a ticket.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from evaluation.baselines.board import Aligned, Board, gauge, moved, total
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding, Severity
from pipeline.frame import Frame
from pipeline.observation import Event, Observation
from pipeline.xid.table import critical_codes

MINUTE_NS = 60 * SECOND_NS
REPLAYS_PER_MINUTE = 8.0  # DCGM_LIMIT: PCIe replays in a minute, before limits by generation came
NVLINK_CRC_PER_SECOND = 100.0
REMAPS = 512.0  # uncorrectable rows remapped in all
RETIRED_PAGES = 63.0

NVLINK_HARD = ("nvlink_replay_errors", "nvlink_recovery_errors")
NVLINK_CRC = ("nvlink_crc_flit_errors", "nvlink_crc_data_errors")
# The violation counters as newer drivers split them.
THERMAL = (
    "throttled_thermal_nanoseconds",
    "throttled_sw_thermal_nanoseconds",
    "throttled_hw_thermal_nanoseconds",
)
POWER = ("throttled_power_cap_nanoseconds",)
WATCHED = (
    "pcie_replays",
    *NVLINK_HARD,
    *NVLINK_CRC,
    *THERMAL,
    *POWER,
)

# Rule, field, least value, severity, class: states.
STATES: tuple[tuple[str, str, float, Severity, str], ...] = (
    ("NVLink down", "nvlinks_down", 1, "page", "nvlink"),
    ("row remap failed", "row_remap_failed", 1, "page", "ecc"),
    ("page retirement pending", "retired_pages_pending", 1, "ticket", "ecc"),
)
# Rule, counters, least sum, severity: counts since the driver was loaded or of a lifetime.
TOTALS: tuple[tuple[str, tuple[str, ...], float, Severity], ...] = (
    ("volatile double-bit errors", ("ecc_uncorrected_volatile",), 1, "page"),
    ("uncorrectable rows remapped", ("remapped_rows_uncorrectable",), REMAPS, "ticket"),
    (
        "retired pages",
        ("retired_pages_single_bit", "retired_pages_double_bit"),
        RETIRED_PAGES + 1,
        "page",
    ),
)


class DcgmHealth:
    """Its own way with counters: the distance between the first and the last value of a minute,
    whatever happened in between.

    So a driver reload that takes a counter from 500 to 0 is a distance of 500; a severe XID is
    remembered until the host engine restarts.
    """

    name = "dcgm-health"

    def __init__(self) -> None:
        self._board = Board(self.name)
        self._minutes = {name: _Minute() for name in WATCHED}

    def update(self, observation: Observation) -> Iterable[Finding]:
        """Checks of all watches."""
        for event in observation.events:
            yield from self._event(event)
        for frame in observation.frames:
            if frame.kind == "gpu":
                yield from self._frame(frame)

    def _event(self, event: Event) -> Iterator[Finding]:
        code = event.attributes.get("code")
        if event.kind == "xid" and code in critical_codes():
            yield from self._board.open(
                event.device, event.time_ns, f"XID {code}", "page", fault="xid"
            )

    def _frame(self, frame: Frame) -> Iterator[Finding]:
        judge = self._board.judge
        moved_by = {name: minute.distance(frame, name) for name, minute in self._minutes.items()}
        replays = moved_by["pcie_replays"]
        yield from judge(
            frame,
            "PCIe replay rate",
            replays > REPLAYS_PER_MINUTE,
            "ticket",
            fault="pcie",
            value=replays,
            expected=REPLAYS_PER_MINUTE,
        )
        hard, crc, thermal, power = (
            np.sum([moved_by[name] for name in names], axis=0)
            for names in (NVLINK_HARD, NVLINK_CRC, THERMAL, POWER)
        )
        yield from judge(frame, "NVLink replay or recovery", hard > 0, "page", fault="nvlink")
        yield from judge(
            frame, "NVLink CRC", crc > NVLINK_CRC_PER_SECOND * 60, "ticket", fault="nvlink"
        )
        yield from judge(
            frame,
            "thermal violation",
            thermal > 0,
            "ticket",
            fault="thermal",
            value=thermal,
            expected=0.0,
        )
        yield from judge(
            frame, "power violation", power > 0, "ticket", fault="power", value=power, expected=0.0
        )
        yield from self._memory(frame)
        for rule, name, least, severity, fault in STATES:
            value, known = gauge(frame, name)
            yield from judge(
                frame, rule, known & (value >= least), severity, fault=fault, known=known
            )
        value, known = gauge(frame, "inforom_valid")
        yield from judge(
            frame, "InfoROM corrupt", known & (value == 0), "ticket", fault="inforom", known=known
        )

    def _memory(self, frame: Frame) -> Iterator[Finding]:
        for rule, names, least, severity in TOTALS:
            value, known = total(frame, names)
            yield from self._board.judge(
                frame, rule, known & (value >= least), severity, fault="ecc", known=known
            )


class _Minute:
    """|last - first| of a counter's raw values over a minute; one that is not
    observed stays as it was.
    """

    def __init__(self) -> None:
        self._values: deque[tuple[int, NDArray[np.float64]]] = deque()
        self._aligned = Aligned()

    def distance(self, frame: Frame, name: str) -> NDArray[np.float64]:
        """It, (device,); 0 before the counter was seen twice."""
        value, observed = frame.counter(name)
        move = self._aligned.follow(frame)
        if move is not None:
            self._values = deque(
                (at, np.where(move >= 0, moved(old, move), np.nan)) for at, old in self._values
            )
        before = self._values[-1][1] if self._values else np.full(len(value), np.nan)
        now = np.where(observed, value.astype(np.float64), before)
        self._values.append((frame.mono_ns, now))
        while self._values[0][0] < frame.mono_ns - MINUTE_NS:
            self._values.popleft()
        return np.nan_to_num(np.abs(now - self._values[0][1]))
