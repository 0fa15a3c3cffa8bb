"""Ports that carry less than the other rails of their node: one slow adapter slows down
every collective of the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from detectors.infiniband.ports import (
    MIN_TRAFFIC,
    WORD_BITS,
    gigabits,
    is_active,
    kind_of,
    port_name,
)
from detectors.kit.baseline import Baseline, Limit, runs
from detectors.kit.block_clock import BlockMeans
from detectors.kit.blockwise import Blockwise
from detectors.kit.columns import Columns, rows_where
from detectors.kit.findings import Verdict
from detectors.kit.groups import Groups, share_by_group
from detectors.kit.instants import Times, ago
from detectors.kit.jobs import JobTracker
from detectors.kit.literature import GREYHOUND
from detectors.kit.page import Needs, Page, Shown
from detectors.kit.readings import reading
from detectors.kit.stateful import Numbers
from detectors.kit.stats import peer_deviation
from pipeline.finding import Finding
from pipeline.frame import Device, Frame
from pipeline.observation import Event

BLOCK_S = 60.0
LIMIT = Limit(0.25, 5.0, 5)  # ln units: rails share a job's traffic evenly, but not exactly
MIN_RAILS = 4
# Of the rails of a node, within the floor of the median, as they share the traffic of one job:
# servers of requests beside each other share nothing, and one of them may be switched off.
MOST = 0.75
CLEAR_BLOCKS = 5
FAULT = "straggler"


PAGE = Page(
    formula=(
        "d = ln(bytes per s) - median of the node's rails; r = d - b < -max(25 %, 5 s) for 5 "
        "minutes"
    ),
    sources=(GREYHOUND,),
    shows=(Shown("ib_port", "transmit_words"), Shown("ib_port", "receive_words")),
    needs=Needs(
        60.0,
        (
            ("ib_port.transmit_words", "ib_port.receive_words"),
            ("ib_port.rate_bits_per_second",),
        ),
    ),
    next_step=(
        "Check cable, leaf port and firmware of this rail; compare with the same rail of another "
        "node."
    ),
    clears="After five minutes with traffic within half of the limit.",
    scored_as=("straggler",),
)


class IbRail(Blockwise):
    """Compares the traffic of each port with the median of its node's rails, and with its
    own past; a ticket at most. Only while most rails carry the same, and no more than one job is
    known on the node.

    >>> IbRail().name
    'ib_rail'
    """

    name = "ib_rail"
    version = 4
    kind = "ib_port"

    def __init__(self) -> None:
        columns = Columns(
            **BlockMeans.fills("bits"), **Baseline.fills("rail"), rate=np.nan, run=0, good=0
        )
        self._numbers = Numbers(**Baseline.numbers("rail"))
        self._lane = Baseline(
            columns, self._numbers, "rail", warm=20, half_life=120.0, clip=lambda s: 3 * s
        )
        self._means, self._nodes = BlockMeans(columns, ("bits",)), Groups(_rails)
        self._jobs = JobTracker()
        self._shared: tuple[object, int, NDArray[np.bool_]] = (None, -1, np.zeros(0, np.bool_))
        super().__init__(BLOCK_S, columns)

    def _take_events(self, events: Iterable[Event]) -> None:
        self._jobs.take(events)

    def _sample(self, frame: Frame) -> None:
        columns = self._columns
        columns.show(frame)
        if frame.increments is None:
            raise ValueError("increments are made by the engine; this frame has not passed it")
        words = [
            frame.increments.rate(frame.schema.counter_row[name])
            for name in ("transmit_words", "receive_words")
        ]
        self._means.add(bits=columns.wide((words[0] + words[1]) * WORD_BITS))
        state = columns.wide(frame.gauge("state"))
        self._means.drop(
            np.isfinite(state) & ~is_active(state)
        )  # a link that is down carries nothing: link and flap report that
        rate = columns.wide(reading(frame, "rate_bits_per_second"))
        columns["rate"] = np.where(rate > 0, rate, columns["rate"])

    def _block(self, at: Times) -> Iterator[Finding]:
        columns, lane = self._columns, self._lane
        bits = self._means.close()["bits"]
        node = self._nodes.of(columns.devices)
        with np.errstate(divide="ignore", invalid="ignore"):
            x = np.where(bits > 0, np.log(bits), np.nan)
        # a port that carries nothing is far below the others
        x = np.where((bits == 0) & np.isfinite(columns["rate"]), 0.0, x)
        y = peer_deviation(x, node, len(self._nodes.names), MIN_RAILS)
        busy = x - y > np.log(
            MIN_TRAFFIC * 2 * columns["rate"]
        )  # the median of its node, both directions
        y = np.where(busy & ~self._of_several_jobs(), y, np.nan)
        near = share_by_group(
            np.abs(y) < LIMIT.floor, np.isfinite(y), node, len(self._nodes.names)
        ).share
        if len(near):
            y = np.where((node >= 0) & (near[node] >= MOST), y, np.nan)
        r = lane.residual(y)
        limit = LIMIT.at(lane.s)
        columns["run"] = runs(columns["run"], r, limit)
        columns["good"] = np.where(
            np.isfinite(r), np.where(r > -limit / 2, columns["good"] + 1, 0), columns["good"]
        )
        for row in rows_where((columns["run"] >= LIMIT.blocks) & np.isfinite(r)):
            verdict = self._verdict(row, float(r[row]), float(bits[row]))
            yield from self._standing.holds(
                columns.devices[row],
                verdict,
                at,
                ago(at, columns.devices[row], float(columns["run"][row]) * BLOCK_S),
            )
        yield from self._standing.end_rows(columns, columns["good"] >= CLEAR_BLOCKS, at)
        lane.learn(y, columns["run"] > 0)

    def _of_several_jobs(self) -> NDArray[np.bool_]:
        """Ports of nodes with more than one job, (row,)."""
        devices, version = self._columns.devices, self._jobs.version
        if self._shared[0] is not devices or self._shared[1] != version:
            hosts = {device.host for device in devices}
            several = {host for host in hosts if len(self._jobs.of_host(host)) > 1}
            here = np.array([device.host in several for device in devices], np.bool_)
            self._shared = devices, version, here
        return self._shared[2]

    def _verdict(self, row: int, r: float, bits: float) -> Verdict:
        lost, port = -np.expm1(r), self._columns.devices[row]
        return Verdict(
            FAULT,
            "ticket",
            "CONTACT_SUPPORT",
            (
                f"{port_name(port)} carries {lost:.0%} less than its usual share among the rails "
                "of its node: check its PCIe link and route."
            ),
            (
                (
                    f"{gigabits(round(bits / 1e9, 1) * 1e9)} in both directions, for "
                    f"{self._columns['run'][row]} minutes"
                ),
                (
                    f"before, it was {np.expm1(float(self._lane.b[row])):+.0%} from the "
                    "median of its node's rails"
                ),
            ),
            -100 * lost,
            0.0,
            "percent",
        )


def _rails(port: Device) -> str:
    """Ports of one node and one kind of work; a switch's ports carry what their nodes send."""
    if port.host == port.attributes.get("leaf"):
        return ""
    return f"{port.host}/{kind_of(port)}"
