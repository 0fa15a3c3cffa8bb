"""Every other error counter of a port, each with what it means and how much of it is too much."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from detectors.infiniband.ports import Twins, port_name
from detectors.kit.blockwise import Blockwise
from detectors.kit.columns import Columns, Ring, rows_where
from detectors.kit.findings import Verdict
from detectors.kit.instants import Times
from detectors.kit.literature import IBTA, UFM
from detectors.kit.page import Default, Needs, Page, port_columns
from pipeline.finding import Finding, Severity
from pipeline.frame import Frame

WINDOW_S = 300.0
CLEAR_WINDOWS = 5
MIN_RATIO = 1e-12  # errors per packet, as the packet-drop-rate plug-in of NVIDIA UFM judges
MIN_PACKETS = 1000.0  # in a window: a port that carries something


@dataclass(frozen=True, slots=True)
class Rule:
    """At least ``least`` in a window, in ``windows`` of the last three.

    ``ratio``: and this many per packet received.

    ``traffic``: only on ports that carry something.
    """

    counter: str
    least: float
    windows: int
    severity: Severity
    words: str
    ratio: float = 0.0
    traffic: bool = False


# Windows and counts of UFM's default port events (200 discards or constraint errors, 50 VL15 drops
# in 300 s). Counters of four bits count bursts: one is enough. Those of eight bits are
# full before a second window could show as many: two together count. The others are ours, and
# tickets at most. What is not here is judged elsewhere: symbol errors (ber), link_downed (flap),
# transmit_wait (congestion).
RULES = (
    Rule(
        "link_error_recoveries",
        5,
        2,
        "ticket",
        "the link retrained: cable or transceiver",
    ),
    Rule(
        "receive_errors",
        10,
        2,
        "ticket",
        "packets arrived damaged: cable or transceiver",
        MIN_RATIO,
        traffic=True,
    ),
    Rule(
        "receive_remote_physical_errors",
        10,
        2,
        "record",
        "packets arrived marked bad: the fault is on another link",
    ),
    Rule(
        "receive_switch_relay_errors",
        200,
        2,
        "record",
        "packets that could not be forwarded: routing",
    ),
    Rule(
        "transmit_discards",
        200,
        2,
        "record",
        "packets were dropped unsent: the other end does not accept them",
    ),
    Rule(
        "transmit_constraint_errors",
        200,
        1,
        "ticket",
        "packets blocked on sending: partition keys or raw filters",
    ),
    Rule(
        "receive_constraint_errors",
        200,
        1,
        "ticket",
        "packets blocked on arrival: partition keys or raw filters",
    ),
    Rule(
        "local_link_integrity_errors",
        1,
        1,
        "ticket",
        "bursts of damaged packets: cable or transceiver",
        traffic=True,
    ),
    Rule(
        "buffer_overrun_errors",
        1,
        1,
        "ticket",
        "flow control failed for several periods: adapter or switch port",
        traffic=True,
    ),
    Rule("vl15_dropped", 50, 2, "record", "management packets were dropped: too many at once"),
    Rule(
        "fec_uncorrectable_blocks",
        10,
        2,
        "ticket",
        "blocks that error correction could not save: cable or transceiver",
    ),
    Rule(
        "sync_header_errors", 10, 2, "ticket", "blocks without their header: cable or transceiver"
    ),
    Rule("unknown_blocks", 10, 2, "ticket", "blocks of no known type: cable or transceiver"),
)
FAULT = "ib/errors"
NAMES = tuple(rule.counter for rule in RULES)
# A register of eight bits is full within seconds, and the end of a window may part what it counted:
# what one window must hold is looked for in it and the one before.
PARTED = np.array([rule.windows == 1 and rule.least > 1 for rule in RULES])[:, None]


def _errors(rule: Rule) -> Default:
    value = (
        f"{rule.least:g} in one window"
        if rule.windows == 1
        else f"{rule.least:g} in {rule.windows} of 3 windows"
    )
    per_packet = f", and more than {rule.ratio:g} of the packets" if rule.ratio else ""
    busy = "; only on ports that carry something" if rule.traffic else ""
    return Default(rule.counter, value + per_packet, f"{rule.severity}: {rule.words}{busy}")


PAGE = Page(
    formula="errors in five minutes over the counter's own limit, by number or per packet (1e-12)",
    sources=(f"{IBTA}, 16.1.3.5: PortCounters", UFM),
    shows=port_columns("receive_errors", "local_link_integrity_errors", "transmit_discards"),
    needs=Needs(
        60.0,
        (
            (
                "ib_port.receive_errors",
                "ib_port.local_link_integrity_errors",
                "ib_port.transmit_discards",
            ),
            ("ib_port.receive_packets",),
        ),
    ),
    next_step=(
        "Read what the counter means in the finding; errors of the link are the cable's, discards "
        "the fabric's or the host's."
    ),
    clears=(
        "After five windows in a row in which the port was read and no counter was over its limit."
    ),
    scored_as=("ib",),
    limits=tuple(_errors(rule) for rule in RULES),
)


class IbErrors(Blockwise):
    """Sums each counter over windows of five minutes and holds it against its
    rule; one finding per port.

    >>> IbErrors().name
    'ib_errors'
    """

    name = "ib_errors"
    version = 2
    kind = "ib_port"

    def __init__(self) -> None:
        columns = Columns(
            **Twins.fills(*NAMES),
            sums=Ring(len(RULES), 0.0),
            before=Ring(len(RULES), 0.0),
            over=Ring(len(RULES), 0),
            packets=0.0,
            seen=0,
            good=0,
        )
        self._twins = Twins(columns, *NAMES)
        super().__init__(WINDOW_S, columns)

    def _sample(self, frame: Frame) -> None:
        columns = self._columns
        columns.show(frame)
        rose = self._twins.increases(frame, at_least=True)
        sums: NDArray[np.float64] = columns["sums"]
        sums += np.fmax(rose, 0.0)  # NaN adds nothing
        columns["seen"] |= np.isfinite(rose).any(axis=0)
        columns["packets"] += np.fmax(columns.wide(frame.increase("receive_packets")), 0.0)

    def _block(self, at: Times) -> Iterator[Finding]:
        columns = self._columns
        sums = columns["sums"] + np.where(PARTED, columns["before"], 0.0)
        packets = columns["packets"]
        # a window without a reading is none: it neither adds to a fault nor heals it
        seen = columns["seen"] > 0
        over = np.stack([self._over(rule, sums[k], packets) for k, rule in enumerate(RULES)])
        columns["over"] = np.where(seen, (columns["over"] << 1 | over) & 0b111, columns["over"])
        needed = np.array([rule.windows for rule in RULES])[:, None]
        bad = over & (np.bitwise_count(columns["over"]) >= needed)
        for row in rows_where(bad.any(axis=0)):
            yield from self._standing.holds(
                columns.devices[row], self._verdict(row, sums[:, row], bad[:, row]), at
            )
        columns["good"] = np.where(over.any(axis=0), 0, columns["good"] + seen)
        yield from self._standing.end_rows(columns, columns["good"] >= CLEAR_WINDOWS, at)
        columns["before"] = columns["sums"].copy()
        columns.reset(np.ones(len(columns), np.bool_), "sums", "packets", "seen")

    @staticmethod
    def _over(
        rule: Rule, n: NDArray[np.float64], packets: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        over = n >= rule.least
        if rule.traffic:
            over &= packets >= MIN_PACKETS
        return over & (n > rule.ratio * packets)

    def _verdict(self, row: int, sums: NDArray[np.float64], bad: NDArray[np.bool_]) -> Verdict:
        rules = [(rule, float(sums[k])) for k, rule in enumerate(RULES) if bad[k]]
        worst, count = next(((rule, n) for rule, n in rules if rule.severity == "ticket"), rules[0])
        packets = float(self._columns["packets"][row])
        return Verdict(
            FAULT,
            worst.severity,
            "CONTACT_SUPPORT" if worst.severity == "ticket" else "NONE",
            f"{port_name(self._columns.devices[row])}: {worst.words}.",
            tuple(
                f"{n:.0f} {rule.counter} in five minutes of {packets:.0f} packets: {rule.words}"
                for rule, n in rules
            ),
            count,
            worst.least,
            f"{worst.counter} in 300 s",
        )
