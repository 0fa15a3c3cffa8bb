"""Congestion: ports that wait for credit while nothing is broken. It is reported for the switch
or node, never for a port.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from detectors.infiniband.ports import MIN_TRAFFIC, WORD_BITS, Twins
from detectors.kit.block_clock import BlockMeans
from detectors.kit.blockwise import Blockwise
from detectors.kit.columns import Columns, rows_where
from detectors.kit.findings import Verdict
from detectors.kit.groups import Groups, host_of, share_by_group
from detectors.kit.instants import Times
from detectors.kit.literature import IBTA
from detectors.kit.page import Needs, Page, port_columns
from detectors.kit.readings import reading
from detectors.kit.stats import Moments, alpha_of, ew_update, median_of
from pipeline.finding import Finding
from pipeline.frame import Device, Frame

BLOCK_S = 60.0
# ten times its own usual waiting: another job may well wait twice or four times as much
MIN_LOG_RATIO = np.log(10.0)
SIGMAS, FLOOR = 4.0, 0.3
HALF_LIFE, WARM = 720.0, 30  # blocks of the own past
BLOCKS = 5
MIN_PORTS, MIN_SHARE = 3, 0.5
FAULT = "congestion"


PAGE = Page(
    formula=(
        "ln(1 + wait ticks per s) above its own past by 4 spreads at half of a switch's or node's "
        "ports"
    ),
    sources=(f"{IBTA}: PortXmitWait",),
    shows=port_columns("transmit_wait_ticks", "transmit_words"),
    needs=Needs(
        30.0,
        (
            ("ib_port.transmit_wait_ticks", "ib_port.transmit_wait_ticks_extended"),
            ("ib_port.rate_bits_per_second",),
        ),
    ),
    next_step="Nothing is broken: check job placement, routing and adaptive routing.",
    clears=(
        "At the end of the first minute in which fewer than three of the ports, or fewer than half "
        "of those that carry traffic, still wait."
    ),
    scored_as=("congestion",),
)


class IbCongestion(Blockwise):
    """Compares each port's transmit-wait rate with its own past; half of a switch's or node's
    ports together are recorded.

    No calibrated limit is published for this counter (its tick is the vendor's own), so it is
    never more than an info finding.

    >>> IbCongestion().name
    'ib_congestion'
    """

    name = "ib_congestion"
    kind = "ib_port"

    def __init__(self) -> None:
        columns = Columns(
            **Twins.fills("transmit_wait_ticks"),
            **BlockMeans.fills("wait", "bits"),
            rate=np.nan,
            m=0.0,
            v=0.0,
            learnt=0,
            run=0,
        )
        self._means = BlockMeans(columns, ("wait", "bits"))
        self._twins, self._groups = (
            Twins(columns, "transmit_wait_ticks"),
            (Groups(_leaf), Groups(host_of)),
        )
        super().__init__(BLOCK_S, columns)

    def _sample(self, frame: Frame) -> None:
        columns = self._columns
        columns.show(frame)
        if frame.increments is None:
            raise ValueError("increments are made by the engine; this frame has not passed it")
        bits = frame.increments.rate(frame.schema.counter_row["transmit_words"]) * WORD_BITS
        self._means.add(wait=self._twins.increase(frame), bits=columns.wide(bits))
        rate = columns.wide(reading(frame, "rate_bits_per_second"))
        columns["rate"] = np.where(rate > 0, rate, columns["rate"])

    def _block(self, at: Times) -> Iterator[Finding]:
        columns, means = self._columns, self._means.close()
        y = np.where(means["bits"] > MIN_TRAFFIC * columns["rate"], np.log1p(means["wait"]), np.nan)
        moments = Moments(columns["m"], columns["v"], columns["learnt"])
        over = y - moments.m > np.maximum(MIN_LOG_RATIO, SIGMAS * moments.spread(FLOOR))
        warm = (moments.n >= WARM) & np.isfinite(y)
        columns["run"] = np.where(warm, np.where(over, columns["run"] + 1, 0), columns["run"])
        concerned = columns.by_node(columns["run"] >= BLOCKS) | self._standing.opened()
        for _, then in self._clock.each(concerned, at, singly=True):
            yield from self._report(columns.narrowed(warm), columns.narrowed(y), then)
        ew_update(moments, y, alpha_of(HALF_LIFE), FLOOR, frozen=columns["run"] > 0)

    def _report(
        self,
        asked: np.ndarray[tuple[int], np.dtype[np.bool_]],
        y: np.ndarray[tuple[int], np.dtype[np.float64]],
        at: Times,
    ) -> Iterator[Finding]:
        columns = self._columns
        waits = columns["run"] >= BLOCKS
        known = {finding.device for finding in self._standing.all()}
        congested: dict[Device, Verdict] = {}
        for groups, kind in zip(self._groups, ("switch", "node"), strict=True):
            number = groups.of(columns.devices)
            votes = share_by_group(waits, asked, number, len(groups.names))
            for g in rows_where((votes.votes >= MIN_PORTS) & (votes.share >= MIN_SHARE)):
                times = np.exp(median_of((y - columns["m"])[waits & (number == g)]))
                name = groups.names[g]
                congested[Device(name, kind, name)] = _verdict(
                    kind, name, int(votes.votes[g]), float(times)
                )
            if congested:
                break  # the switch explains its nodes
        for device, verdict in congested.items():
            yield from self._standing.holds(device, verdict, at)
        for device in sorted(known - set(congested), key=lambda one: one.id):
            yield from self._standing.ends(device, FAULT, at)


def _leaf(port: Device) -> str:
    return port.attributes.get("leaf", "")


def _verdict(kind: str, name: str, ports: int, times: float) -> Verdict:
    return Verdict(
        FAULT,
        "record",
        "NONE",
        f"Traffic through {kind} {name} is congested: {ports} of its ports wait to send.",
        (
            (
                f"{ports} ports wait {times:.0f} times as long as usual, and none of them has a "
                "fault that explains it"
            ),
        ),
        times,
        1.0,
        "times the usual waiting",
    )
