"""Uncorrectable errors that were counted, and the XIDs that say how serious they
are; each may come first.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from detectors.kit.columns import Columns, Ring, rows_where
from pipeline.clock import SECOND_NS
from pipeline.small_arrays import any_true, or_else

# XIDs that say how serious an uncorrectable error was (NVIDIA XID catalogue): not contained,
# contained, and undecided.
UNCONTAINED, CONTAINED, UNDECIDED = range(3)
XIDS = {
    64: UNCONTAINED,
    95: UNCONTAINED,
    140: UNCONTAINED,
    94: CONTAINED,
    48: UNDECIDED,
    171: UNDECIDED,
    172: UNDECIDED,
}
# within which the XID of an uncorrectable error comes, before or after it was counted
PATIENCE_NS = 60 * SECOND_NS
DECIDE_NS = 10 * SECOND_NS  # and within which the driver reports whether it was contained
CLEAN_NS = 24 * 3600 * SECOND_NS  # without another error, or until the next reset

Now = int | NDArray[np.int64]  # ns on the clock of durations; (row,) where nodes are joined


class Errors:
    """Joins the counts with the XIDs, per GPU."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    @staticmethod
    def fills() -> dict[str, int | Ring]:
        """The columns it needs.

        Errors that wait for their XID, since when they do, and the last reading without them; the
        last reading, when the GPU's epoch began, when the last error was counted, when an XID came.
        """
        return {
            "errors": 0,
            "waits_ns": 0,
            "from_ns": 0,
            "read_ns": 0,
            "life_ns": 0,
            "error_ns": 0,
            "xid_ns": Ring(3, 0),
        }

    def add_xid(self, row: int, code: int, at_ns: int) -> None:
        """The driver reported an XID."""
        if code in XIDS:
            self._columns["xid_ns"][XIDS[code], row] = at_ns

    def poisoned(self, row: int, at_ns: int, *, fatal: bool) -> None:
        """The driver announced that a program used memory with such an error."""
        self._columns["xid_ns"][UNCONTAINED if fatal else CONTAINED, row] = at_ns
        if fatal:
            self._columns["error_ns"][row] = at_ns

    def add(self, errors: NDArray[np.float64], now_ns: Now) -> Iterator[tuple[int, bool, bool]]:
        """New errors of one frame, (row,), NaN = not observed.

        Rows to report: whether it is a page, and whether any XID reported it.

        Reported rows wait until ``done`` is called.
        """
        columns, new = self._columns, errors > 0
        waiting = columns["waits_ns"] > 0
        begins = new & ~waiting
        columns["errors"] = np.where(
            new, np.where(waiting, columns["errors"], 0) + or_else(errors), columns["errors"]
        )
        columns["from_ns"] = np.where(
            begins, np.where(columns["read_ns"] > 0, columns["read_ns"], now_ns), columns["from_ns"]
        )
        columns["waits_ns"] = np.where(begins, now_ns, columns["waits_ns"])
        columns["error_ns"] = np.where(new, now_ns, columns["error_ns"])
        columns["read_ns"] = np.where(np.isfinite(errors), now_ns, columns["read_ns"])
        if any_true(columns["waits_ns"]):
            xids = self._xids()
            page = self._page(xids, now_ns)
            for row in rows_where(page | xids[CONTAINED] | self._past()):
                yield row, bool(page[row]), any_true(xids[:, row])

    def done(self, now_ns: Now) -> None:
        """Wait no more for those with their highest severity, or that waited long enough."""
        if any_true(self._columns["waits_ns"]):
            self._columns.reset(
                self._page(self._xids(), now_ns) | self._late(now_ns) | self._past(), "waits_ns"
            )

    def count(self, row: int) -> int:
        """Errors that are reported together."""
        return int(self._columns["errors"][row])

    def since_ns(self, row: int) -> int:
        """When the first of them was counted."""
        return int(self._columns["waits_ns"][row])

    def past(self, row: int) -> bool:
        """Whether they may be of the GPU's previous epoch."""
        return bool(self._past()[row])

    def over(self, row: int, now_ns: int) -> bool:
        """Whether the last one was long ago."""
        return bool(now_ns - self._columns["error_ns"][row] >= CLEAN_NS)

    def _xids(self) -> NDArray[np.bool_]:
        """Which kinds of XIDs report the errors that wait, (kind, row)."""
        waits = self._columns["waits_ns"]
        # the agent may have been away while they came
        since = np.minimum(waits - PATIENCE_NS, self._columns["from_ns"])
        reported: NDArray[np.bool_] = (waits > 0) & (self._columns["xid_ns"] >= since)
        return reported

    def _past(self) -> NDArray[np.bool_]:
        """Not read since the last reset, and no XID came since."""
        columns = self._columns
        quiet = ~(columns["xid_ns"] >= columns["life_ns"]).any(axis=0)
        past: NDArray[np.bool_] = (
            (columns["waits_ns"] > 0) & (columns["from_ns"] < columns["life_ns"]) & quiet
        )
        return past

    def _late(self, now_ns: Now) -> NDArray[np.bool_]:
        waits = self._columns["waits_ns"]
        late: NDArray[np.bool_] = (waits > 0) & (now_ns - waits >= PATIENCE_NS)
        return late

    def _page(self, xids: NDArray[np.bool_], now_ns: Now) -> NDArray[np.bool_]:
        """Not contained, or not reported as contained, and no reset since."""
        undecided = xids[UNDECIDED] & (now_ns - self._columns["xid_ns"][UNDECIDED] >= DECIDE_NS)
        severe = xids[UNCONTAINED] | (~xids[CONTAINED] & (undecided | self._late(now_ns)))
        page: NDArray[np.bool_] = severe & ~self._past()
        return page
