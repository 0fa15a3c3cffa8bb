"""NVSentinel's NIC and system-log monitors as a detector: fixed rates, fatal or not.

Rules: NVIDIA/NVSentinel, the health monitors' documentation. Fatal is a page here,
everything else a ticket.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from evaluation.baselines.board import Board, Window, gauge, total
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding, Severity
from pipeline.frame import Device, Frame
from pipeline.observation import Event, Observation
from pipeline.xid.table import xid_entry

ACTIVE = 4  # IBTA port state
HOUR_NS = 3600 * SECOND_NS
ESCALATE_AT = 3  # non-fatal events of one port in an hour


@dataclass(frozen=True, slots=True)
class Limit:
    """More than ``most`` increments of a counter within ``seconds``."""

    counter: str
    most: float
    seconds: float
    severity: Severity
    fault: str

    @property
    def rule(self) -> str:
        """The limit as text."""
        return f"{self.counter} > {self.most:g} in {self.seconds:g} s"


LIMITS = (
    Limit("link_downed", 0, 60, "page", "ib-flap"),
    Limit("buffer_overrun_errors", 0, 60, "page", "ib"),
    Limit("local_link_integrity_errors", 0, 60, "page", "ib"),
    Limit("rnr_nak_retry_err", 0, 60, "page", "ib"),
    Limit("symbol_errors", 120, 3600, "page", "ib-ber"),
    Limit("symbol_errors", 10 * 60, 60, "ticket", "ib-ber"),
    Limit("link_error_recoveries", 5, 60, "ticket", "ib"),
    Limit("receive_errors", 10 * 60, 60, "ticket", "ib"),
    Limit("local_ack_timeout_err", 1 * 60, 60, "ticket", "ib"),
    Limit("transmit_discards", 100 * 60, 60, "ticket", "congestion"),
    Limit("roce_slow_restart", 10 * 60, 60, "ticket", "congestion"),
    Limit("net_carrier_changes", 2, 60, "ticket", "ib"),
)

# Codes that its table calls fatal beyond those that NVIDIA's catalogue resets or reboots for.
ALSO_FATAL = (45, 74, 94, 144, 145, 146, 149, 150, 160)


class NvSentinel:
    """Its reading of counters is part of it: rates are not normalised by link speed, and a counter
    that sticks at its maximum has none.

    Application and hardware XIDs are reported one by one, without regard to those that came with
    them; a reset or reboot clears them.
    """

    name = "nvsentinel"

    def __init__(self) -> None:
        self._board = Board(self.name)
        self._windows = [Window(limit.seconds) for limit in LIMITS]
        self._soft: dict[Device, deque[int]] = {}

    def update(self, observation: Observation) -> Iterable[Finding]:
        """Events of all monitors."""
        for event in observation.events:
            yield from self._event(event)
        for frame in observation.frames:
            if frame.kind == "ib_port":
                yield from self._ports(frame)
            elif frame.kind == "gpu":
                yield from self._gpus(frame)

    def _event(self, event: Event) -> Iterator[Finding]:
        if event.kind != "xid":
            return
        code = int(event.attributes["code"])
        entry = xid_entry(code)
        if entry.level == "page" or code in ALSO_FATAL:
            yield from self._board.open(
                event.device, event.time_ns, f"XID {code}", "page", fault="xid"
            )
        elif entry.level == "ticket":
            yield from self._board.open(
                event.device, event.time_ns, f"XID {code}", "ticket", fault="xid"
            )

    def _gpus(self, frame: Frame) -> Iterator[Finding]:
        """Its GPU monitor polls DCGM's health: a row remap that failed and volatile
        double-bit errors are fatal.
        """
        judge = self._board.judge
        yield from self._board.clear_after_reset(frame, "XID")
        failed, known = gauge(frame, "row_remap_failed")
        yield from judge(
            frame, "row remap failed", known & (failed > 0), "page", fault="ecc", known=known
        )
        errors, known = total(frame, ("ecc_uncorrected_volatile",))
        yield from judge(
            frame,
            "volatile double-bit errors",
            known & (errors > 0),
            "page",
            fault="ecc",
            known=known,
        )

    def _ports(self, frame: Frame) -> Iterator[Finding]:
        for limit, window in zip(LIMITS, self._windows, strict=True):
            count = window.add(frame, frame.increase(limit.counter))
            bad = count > limit.most
            for finding in self._board.judge(
                frame,
                limit.rule,
                bad,
                limit.severity,
                fault=limit.fault,
                value=count,
                expected=limit.most,
            ):
                yield finding
                if finding.phase == "onset" and limit.severity == "ticket":
                    yield from self._escalate(finding, frame.mono_ns)
        state, known = gauge(frame, "state")
        yield from self._board.judge(
            frame, "port not active", known & (state != ACTIVE), "page", fault="ib", known=known
        )

    def _escalate(self, finding: Finding, now_ns: int) -> Iterator[Finding]:
        """The third non-fatal event of a port within an hour is fatal."""
        times = self._soft.setdefault(finding.device, deque())
        times.append(now_ns)
        while times[0] <= now_ns - HOUR_NS:
            times.popleft()
        if len(times) >= ESCALATE_AT:
            times.clear()
            yield from self._board.open(
                finding.device, finding.time_ns, "escalated", "page", fault=finding.fault
            )
