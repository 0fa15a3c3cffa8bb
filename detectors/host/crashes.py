"""The crashes of each node within a week: a second one within a day is no bad luck."""

from __future__ import annotations

from detectors.host.rules import CRASHES, DAY_S
from detectors.kit.findings import Verdict
from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.clock import SECOND_NS
from pipeline.observation import Event

# A node that crashed may be off until somebody comes, and its ticket is open as long afterwards.
CRASH_OLD_S = 7 * DAY_S
CRASHED = "host/crashed"
PANIC = "kernel_panic"  # after it no kernel goes on
# Lines of one crash come within this; no server boots and crashes again as soon.
ONE_CRASH_S = 120.0
MAX_CRASHES = 64  # crashes of one node that are remembered
# Of the faults of one node 14 % are followed by the next within a day, 35 times as many as by
# chance (InfiniteHBD, 584 faults of 400 nodes).
AGAIN_DAYS = 1


class Crashes:
    """When each node crashed, unix ns, and whether that was reported after its next boot.

    >>> crashes = Crashes()
    >>> crashes.live("n1", 0)
    >>> [crashes.found("n1", second * SECOND_NS) for second in (1, 2, 7200, 90_000)]
    [1, 0, 2, 2]
    """

    def __init__(self) -> None:
        self._of: dict[str, dict[int, bool]] = {}

    def live(self, host: str, at_ns: int) -> None:
        """The last line of a boot was read before its end."""
        if self._known(host, at_ns) is None:
            self._add(host, at_ns, reported=False)

    def found(self, host: str, at_ns: int) -> int:
        """How a boot ended was found after the next one: how many crashes there were within the day
        that ends with it, 0 where this is a further line about one that was reported.
        """
        known = self._known(host, at_ns)
        if known is not None and self._of[host][known]:
            return 0
        crash_ns = at_ns if known is None else known
        self._add(host, crash_ns, reported=True)
        day_ns = AGAIN_DAYS * DAY_S * SECOND_NS
        return sum(crash_ns - day_ns <= one <= crash_ns for one in self._of[host])

    def _known(self, host: str, at_ns: int) -> int | None:
        """The crash that a line is about, if it is known."""
        near_ns = ONE_CRASH_S * SECOND_NS
        return next((one for one in self._of.get(host, ()) if abs(at_ns - one) < near_ns), None)

    def _add(self, host: str, at_ns: int, *, reported: bool) -> None:
        week_ns = CRASH_OLD_S * SECOND_NS
        every = self._of.get(host, {}) | {at_ns: reported}
        recent = sorted(one for one in every if at_ns - one <= week_ns)[-MAX_CRASHES:]
        self._of[host] = {one: every[one] for one in recent}

    def state(self) -> State:
        """All of them."""
        return {"of": text_array([[host, list(of.items())] for host, of in self._of.items()])}

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it is not that."""
        of = {
            str(host): {int(at_ns): bool(reported) for at_ns, reported in crashes}
            for host, crashes in from_text_array(state["of"])
        }

        def commit() -> None:
            self._of = of

        return commit


def crashed(event: Event, host: str, times: int) -> Verdict:
    """The verdict on a node whose last boot ended with this event; ``times`` within a day."""
    how, text = CRASHES[event.kind], str(event.attributes.get("text", ""))
    if times <= 1:
        words = f"Node {host} was restarted after a crash: {how}."
        return Verdict(CRASHED, "ticket", "RUN_FIELDDIAG", words, (text,))
    words = f"Node {host} was restarted after a crash again, {times} within a day: {how}."
    return Verdict(CRASHED, "page", "RUN_FIELDDIAG", words, (text,))


def is_crash(event: Event) -> bool:
    """Whether a boot ended with an event of the log."""
    return event.kind in CRASHES and str(event.attributes.get("severity", "fatal")) == "fatal"
