"""Ports that lose their link together: what is broken is the leaf switch behind them, or, where the
topology does not name it, whatever their rail has in common.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.infiniband.ports import SWITCH_PORTS, Links
from detectors.kit.columns import rows_where
from detectors.kit.findings import Verdict
from pipeline.finding import Severity
from pipeline.frame import Device
from pipeline.small_arrays import any_true

SWITCH_S = 900.0  # a leaf switch is given the time of a reboot
STOPPED_S = 60.0  # unless the jobs behind it have sent nothing since: none survives that
STOPPED_PAGE_S = 600.0  # as for one port under a job
STOPPED_SHARE = 0.8  # of the nodes with jobs behind it: other rails, other jobs may go on
AT_ONCE_S = 20.0  # between the ports of one cause, two reads of a site that reads every ten seconds
MISSED_SHARE = 0.05  # of the readings of a node, which do not count as time down
OTHERS_SHARE = 0.25  # of the nodes may have lost another rail as well; more have lost more
FAULT = "ib/switch_down"

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


class Lost(NamedTuple):
    """A switch or rail that is down: a row of each node behind it, and for how long."""

    place: Device
    rows: list[int]
    down_s: float


def whole(links: Links, down_s: Floats, host: NDArray[np.int64]) -> Bools:
    """Ports that are down with their switch, (row,): at least eight ports of it and half; of a rail
    at least eight that went within seconds of each other, on nodes that have their other rails.
    """
    down = down_s > 0
    count = links.of_leaf(down)
    enough = down & (count >= SWITCH_PORTS)
    if not any_true(enough):
        return enough
    most = 2 * count >= links.of_leaf(np.ones(len(down), np.bool_))
    return enough & np.where(links.on_rail, _rails(links, down_s, host), most)


def _rails(links: Links, down_s: Floats, host: NDArray[np.int64]) -> Bools:
    """Where a rail was lost at once, and alone, (row,)."""
    down, lost = down_s > 0, np.zeros(len(down_s), np.bool_)
    of_host = np.bincount(host[down], minlength=int(host.max()) + 1)
    for group in sorted({int(links.leaf[row]) for row in rows_where(down & links.on_rail)}):
        rows = np.flatnonzero(down & (links.leaf == group))
        times, apart = np.sort(down_s[rows]), AT_ONCE_S + MISSED_SHARE * down_s[rows]
        near = np.searchsorted(times, down_s[rows] + apart, "right")
        near -= np.searchsorted(times, down_s[rows] - apart, "left")
        here = np.bincount(host[rows], minlength=len(of_host))
        others = (of_host - here)[host[rows]] > 0
        alone = others.mean() <= OTHERS_SHARE
        lost[rows] = (near >= SWITCH_PORTS) & ((here > 0).sum() >= SWITCH_PORTS) & alone
    return lost


def lost(links: Links, which: Bools, down_s: Floats) -> Iterator[Lost]:
    """The switches and rails of these rows."""
    for group in sorted({int(links.leaf[row]) for row in rows_where(which)}):
        rows = np.flatnonzero(which & (links.leaf == group)).tolist()
        yield Lost(links.leaves[group], rows, float(down_s[rows].max()))


class Stopped(NamedTuple):
    """Of the nodes behind a switch: those with jobs, and those of them that send nothing more."""

    busy: int
    stopped: int

    @property
    def most(self) -> bool:
        """Whether the jobs stand still."""
        return self.busy > 0 and self.stopped >= STOPPED_SHARE * self.busy


def verdict(one: Lost, ports: int, jobs: Stopped) -> Verdict | None:
    """What to report of it and of ``ports`` of it in service; None while it may be rebooting and
    no job has stopped.
    """
    halted = jobs.most and one.down_s >= STOPPED_S
    if not halted and one.down_s < SWITCH_S:
        return None
    page = one.down_s >= (STOPPED_PAGE_S if halted else SWITCH_S)
    severity: Severity = "page" if page else "ticket"
    name = one.place.id
    lost_link = f"{ports} of its ports lost their link together."
    summary = f"Leaf switch {name} is down: {lost_link}"
    if one.place.kind == "rail":
        summary = (
            f"Rail {name} is down: {lost_link} Which leaf switch is behind them is not known: name "
            "it in the topology file."
        )
    evidence = [f"{ports} ports not active for {one.down_s:.0f} s and more"]
    if jobs.busy:
        evidence.append(f"{jobs.stopped} of {jobs.busy} nodes with jobs behind it send nothing")
    return Verdict(
        FAULT, severity, "CONTACT_SUPPORT", summary, tuple(evidence), float(ports), 0.0, "ports"
    )
