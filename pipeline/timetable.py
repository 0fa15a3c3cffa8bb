"""When each source is due: one monotonic timetable whose ticks fall on wall-clock
multiples of each period.
"""

from __future__ import annotations

from collections.abc import Mapping

# the wall clock moved against the monotonic one by more than this: it was stepped, not disciplined
STEP_NS = 500_000_000


class Timetable:
    """Pure arithmetic on the two clocks; nothing here waits.

    The first tick is now: slow facts are wanted at the start. A tick that was missed is skipped and
    counted, never made up for. ``periods_ns`` maps a name to its period.

    >>> table = Timetable({"nvml": 1_000_000_000}, wall_ns=10_300_000_000, mono_ns=300_000_000)
    >>> (
    ...     table.done("nvml", 310_000_000),
    ...     table.next_ns("nvml"),
    ... )  # then the whole seconds of the wall clock
    (0, 1000000000)
    >>> table.due("nvml", 1_000_000_000)
    True
    >>> table.done("nvml", 3_200_000_000)  # the read took 2.2 s: two ticks are gone
    2
    >>> table.next_ns("nvml")
    4000000000
    """

    def __init__(self, periods_ns: Mapping[str, int], wall_ns: int, mono_ns: int) -> None:
        self._periods = dict(periods_ns)
        self._offset = wall_ns - mono_ns
        self._due = dict.fromkeys(self._periods, mono_ns)
        self._parked: dict[str, int] = {}

    def due(self, name: str, mono_ns: int) -> bool:
        """Whether its tick has come; never while it is parked."""
        at = self._due.get(name)
        return at is not None and at <= mono_ns

    def next_ns(self, name: str) -> int | None:
        """Monotonic time of its next tick; None while it is parked."""
        return self._due.get(name)

    def done(self, name: str, mono_ns: int) -> int:
        """The read for the tick that was due has ended now: move to the next tick, say how
        many were missed in between.
        """
        period, was = self._periods[name], self._parked.pop(name, self._due.get(name, mono_ns))
        following = max(self._tick_at_or_after(name, mono_ns + 1), was + 1)
        self._due[name] = following
        return max((following - was) // period - 1, 0)

    def park(self, name: str) -> None:
        """Its read may never return: no more ticks until ``done``."""
        self._parked[name] = self._due.pop(name)

    def delay(self, name: str, mono_ns: int) -> None:
        """Not before this time: back-off."""
        self._due[name] = self._tick_at_or_after(name, mono_ns)

    def realign(self, wall_ns: int, mono_ns: int) -> float:
        """Seconds by which the wall clock was stepped since the last alignment, 0.0 if it was not;
        a step re-aligns every tick.
        """
        moved = wall_ns - mono_ns - self._offset
        if abs(moved) <= STEP_NS:
            return 0.0
        self._offset += moved
        self._due = {name: self._tick_at_or_after(name, mono_ns) for name in self._due}
        return moved / 1e9

    def _tick_at_or_after(self, name: str, mono_ns: int) -> int:
        period = self._periods[name]
        return -(-(mono_ns + self._offset) // period) * period - self._offset
