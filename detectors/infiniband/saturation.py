"""Port error counters that have reached their highest value: they count no further, so new errors
go unseen until they are reset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from detectors.infiniband.ports import is_active, port_name, saturated
from detectors.kit.block_clock import Seconds, StepClock
from detectors.kit.columns import Columns, rows_where
from detectors.kit.elapsed import Elapsed
from detectors.kit.findings import FindingTracker, Verdict
from detectors.kit.instants import Times
from detectors.kit.literature import IBTA
from detectors.kit.page import Default, Needs, Page, port_columns
from detectors.kit.stateful import Stateful
from pipeline.finding import Finding
from pipeline.frame import Frame, schema_of
from pipeline.observation import Observation

FAULT = "counter_saturated"
# Counters of the classical PortCounters set that raise findings; each sticks at its
# end until it is reset (IBTA volume 1, 16.1.3.5). Those that are only info, or are at
# their end on every busy port (PortXmitWait), are left out.
JUDGED = (
    "symbol_errors",
    "link_error_recoveries",
    "link_downed",
    "receive_errors",
    "receive_remote_physical_errors",
    "local_link_integrity_errors",
    "buffer_overrun_errors",
    "transmit_constraint_errors",
    "receive_constraint_errors",
)
_ROWS = schema_of("ib_port").counter_row
COUNTERS = np.array([_ROWS[name] for name in JUDGED], np.intp)
WITH_TWIN = np.array([f"{name}_extended" in _ROWS for name in JUDGED], np.bool_)
TWINS = np.array([_ROWS[f"{n}_extended"] for n in JUDGED if f"{n}_extended" in _ROWS], np.intp)
# The 64-bit counters are asked about in a thread of its own, only of ports that are active: so long
# they may be missing after the port was first seen, and after they were shown last.
FIRST_S, AGAIN_S = 30.0, 300.0
BITS = 1 << np.arange(len(JUDGED), dtype=np.int64)[:, None]


PAGE = Page(
    formula=(
        "a counter is at its maximum, and no 64-bit counterpart was shown in the first 30 s of an "
        "active port, or in the last 5 min"
    ),
    sources=(f"{IBTA}, 16.1.3.5: PortCounters stick at their maximum",),
    shows=port_columns("symbol_errors", "link_downed"),
    needs=Needs(60.0, (("ib_port.symbol_errors",), ("ib_port.link_downed",))),
    next_step="Reset the counters (perfquery -R), or let the agent read the 64-bit ones.",
    clears="At the first reading in which none of these counters is at its maximum.",
    scored_as=("observability",),
    limits=(Default("judged", ", ".join(JUDGED), "these counters raise tickets or pages"),),
)


class IbSaturation(Stateful):
    """A ticket per port with judged counters at their highest value that have no 64-bit twin; it
    ends when all count again.

    >>> IbSaturation().name
    'ib_saturation'
    """

    name = "ib_saturation"
    version = 2

    def __init__(self) -> None:
        self._columns = Columns(
            stuck=0,  # a bit per counter of JUDGED
            awaits_s=FIRST_S,  # its 64-bit counters, for so long
        )
        self._clock = StepClock()
        self._elapsed, self._standing = Elapsed(), FindingTracker(self.name)

    def update(self, observation: Observation) -> Iterable[Finding]:
        """Counters that reached their end, or left it."""
        at = self._elapsed.times(observation)
        findings: list[Finding] = []
        for frame in observation.frames:
            if frame.kind == "ib_port":
                seconds = self._clock.passed(frame, observation.boot_id)
                if seconds is not None:
                    findings += self._frame(frame, seconds, at)
        return findings

    def _frame(self, frame: Frame, seconds: Seconds, at: Times) -> Iterator[Finding]:
        yield from self._standing.swapped(frame, at)
        columns = self._columns
        columns.show(frame)
        state = columns.wide(frame.gauge("state"))
        asked_s = np.where(np.isnan(state) | is_active(state), columns.each(seconds), 0.0)
        shown = (columns.wide(frame.observed[TWINS].astype(np.float64)) > 0).any(axis=0)
        columns["awaits_s"] = np.where(
            shown, AGAIN_S, np.maximum(columns["awaits_s"] - asked_s, 0.0)
        )
        blind = columns.wide(saturated(frame, COUNTERS).astype(np.float64)) > 0
        blind[WITH_TWIN] &= columns["awaits_s"] == 0
        unread = columns.wide((~frame.observed[COUNTERS]).astype(np.float64)) != 0
        before = columns["stuck"]
        bits = np.where(unread, before & BITS, np.where(blind, BITS, 0))
        columns["stuck"] = now = np.bitwise_or.reduce(bits)
        for row in rows_where((now == before) & (now != 0)):
            self._standing.still(columns.devices[row], FAULT, at)
        for row in rows_where(now != before):
            device = columns.devices[row]
            stuck = [name for bit, name in enumerate(JUDGED) if now[row] >> bit & 1]
            if stuck:
                yield from self._standing.holds(device, _verdict(port_name(device), stuck), at)
            else:
                yield from self._standing.ends(device, FAULT, at)
        yield from self._standing.due(at)


def _verdict(port: str, stuck: list[str]) -> Verdict:
    return Verdict(
        FAULT,
        "ticket",
        "NONE",
        (
            f"{port} has error counters at their maximum: reset them (perfquery -R) "
            "to see errors again."
        ),
        (f"at maximum: {', '.join(stuck)}",),
    )
