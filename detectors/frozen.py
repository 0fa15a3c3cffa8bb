"""GPU readings that stopped or repeat themselves while the node is up: nothing else shown for these
GPUs can be trusted then.

No powered GPU uses no energy: its counter (nvml.h, nvmlDeviceGetTotalEnergyConsumption) moves by 70
J a second even at idle. Where it does not change from poll to poll, a stale reading is repeated.
Boards without the counter are not judged for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detectors.kit.block_clock import Seconds, StepClock
from detectors.kit.columns import Columns, rows_where
from detectors.kit.elapsed import Elapsed
from detectors.kit.findings import FindingTracker, Verdict
from detectors.kit.groups import Groups, host_of
from detectors.kit.instants import Times, ago
from detectors.kit.literature import NVML
from detectors.kit.maintenance import Maintenance
from detectors.kit.page import Needs, Page, gpu_columns
from detectors.kit.stateful import Stateful
from detectors.kit.steps import Steps
from pipeline.clock import SECOND_NS
from pipeline.distinct import distinct
from pipeline.finding import Finding
from pipeline.frame import Device, Frame, schema_of
from pipeline.observation import Observation
from pipeline.small_arrays import any_true

FROZEN, UNREAD = "observability/frozen", "observability/unread"
STILL_POLLS, STILL_S = 5, 30.0
# Readings get lost. A run of misses counts when chance gives one in ten million polls, by the
# node's own share of lost readings.
UNREAD_POLLS, UNREAD_S, CHANCE = 8, 60.0, 1e-7
SHARE_START, SHARE_LEARN, SHARE_MOST = 0.02, 1 / 500, 0.5
CLEAR_POLLS = 3
# another source of the node gave something in the last half of the run: the node
# and its agent run
HEARD_SHARE = 0.5
SEEN_BY = [
    schema_of("gpu").gauge_row[name]
    for name in ("state", "gpu_utilization_percent", "power_milliwatts", "temperature_celsius")
]


PAGE = Page(
    formula=(
        "energy counter of every GPU unchanged for n polls; or no reading for a run of misses with "
        "share^n < 1e-7"
    ),
    sources=(f"{NVML}: nvmlDeviceGetTotalEnergyConsumption",),
    shows=gpu_columns("energy_millijoules", "power_milliwatts"),
    needs=Needs(60.0, (("gpu.energy_millijoules",),)),
    next_step=(
        "Restart the process that reads the GPUs on this node; ignore other findings about it "
        "until then."
    ),
    clears=(
        "After three polls in a row that moved or were read, or when the node is taken into "
        "maintenance."
    ),
    scored_as=("observability",),
)


class Frozen(Stateful):
    """Judges whether the GPUs of a node are still read: a ticket about the node, or about one GPU
    that stops by itself.

    Five polls in which no energy counter moved, or eight without any reading while the node's ports
    (of nodes without ports: the host's own facts) are still read. A node that often loses readings
    is given more time. Ends after three good polls.

    >>> Frozen().name
    'frozen'
    """

    name = "frozen"

    def __init__(self) -> None:
        self._gpus = Columns(still=0, still_s=0.0, moves=0)
        self._nodes = Columns(
            unread=0,
            unread_s=0.0,
            share=SHARE_START,
            good=0,
            still=0,
            still_s=0.0,
            heard_ns=0,
            ports=False,
        )
        self._clock, self._elapsed, self._standing = (
            StepClock(),
            Elapsed(),
            FindingTracker(self.name),
        )
        self._maintenance, self._hosts = Maintenance(), Groups(host_of)
        self._others: dict[
            str, tuple[tuple[Device, ...], tuple[Device, ...], NDArray[np.intp]]
        ] = {}
        self._placed: tuple[Device, ...] | None = None

    def update(self, observation: Observation) -> Iterable[Finding]:
        """What begins and ends with this observation."""
        at = self._elapsed.times(observation)
        self._maintenance.take(observation.events)
        findings: list[Finding] = []
        whole = any(frame.kind == "gpu" for frame in observation.frames)
        for frame in observation.frames:
            if frame.kind == "gpu":
                findings += self._standing.swapped(frame, at)
                step_s = self._clock.passed(frame, observation.boot_id)
                if step_s is not None:
                    findings += self._polled(frame, step_s, at)
            elif frame.kind == "ib_port" or (
                frame.kind == "node" and not whole and observation.source != "infiniband"
            ):
                self._heard(frame, at)
        return findings

    def _heard(self, frame: Frame, at: Times) -> None:
        """Another source gave something of these hosts.

        Ports represent a node that has any: its facts come from the host's files.
        """
        if not len(self._nodes) or not frame.devices:
            return
        ports = frame.kind == "ib_port"
        rows = self._rows_of(frame)
        seen = np.isfinite(frame.gauges).any(axis=0) & (rows >= 0)
        answered = distinct(rows[seen])
        if ports:
            self._nodes["ports"][answered] = True
        else:
            answered = answered[~self._nodes["ports"][answered]]
        now_ns = self._nodes.each(at.mono_ns)
        several = isinstance(now_ns, np.ndarray)
        self._nodes["heard_ns"][answered] = now_ns[answered] if several else now_ns

    def _rows_of(self, frame: Frame) -> NDArray[np.intp]:
        """The row of the node of each device of a frame, -1 for hosts without GPUs; worked out
        again when either changes.
        """
        kept = self._others.get(frame.kind)
        if kept is None or kept[0] is not frame.devices or kept[1] is not self._nodes.devices:
            rows = [self._nodes.row(_node(device.host)) for device in frame.devices]
            kept = (
                frame.devices,
                self._nodes.devices,
                np.array([-1 if row is None else row for row in rows], np.intp),
            )
            self._others[frame.kind] = kept
        return kept[2]

    def _polled(self, frame: Frame, step_s: Seconds, at: Times) -> Iterator[Finding]:
        gpus, nodes = self._gpus, self._nodes
        gpus.show(frame)
        group = self._hosts.of(gpus.devices)
        if self._placed is not gpus.devices:
            self._placed = gpus.devices
            nodes.place(tuple(_node(host) for host in self._hosts.names))
        moved = gpus.wide(frame.increase("energy_millijoules"))
        powered = gpus.wide(frame.gauge("power_milliwatts")) > 0
        still, moves = (moved == 0) & powered, moved > 0
        seen = np.isfinite(gpus.wide(frame.gauges[SEEN_BY])).any(axis=0)
        unread = gpus.unread()
        read = gpus.present() if unread is None else ~unread
        here, seen_here, still_here, moving_here = (
            np.bincount(group[rows], minlength=len(nodes)) for rows in (read, seen, still, moves)
        )
        node_s = self._of_nodes(step_s, group)
        gpus["still"] = np.where(still, gpus["still"] + 1, np.where(moves, 0, gpus["still"]))
        gpus["still_s"] = np.where(
            still, gpus["still_s"] + gpus.each(step_s), np.where(moves, 0.0, gpus["still_s"])
        )
        gpus["moves"] = np.where(moves, gpus["moves"] + 1, np.where(still, 0, gpus["moves"]))
        nodes["still"] = np.where(moving_here > 0, 0, nodes["still"] + (still_here > 0))
        nodes["still_s"] = np.where(
            moving_here > 0, 0.0, nodes["still_s"] + node_s * (still_here > 0)
        )
        self._misses(here > 0, seen_here > 0, node_s)
        yield from self._report(group, at)
        yield from self._standing.due(at)
        if findings := self._standing.all():
            yield from self._end(findings, at)

    def _of_nodes(self, step_s: Seconds, group: NDArray[np.int64]) -> Any:
        """Seconds since each node was read before, (node,); one number of a node alone."""
        if not isinstance(step_s, Steps):
            return self._nodes.each(step_s)
        seconds = np.zeros(len(self._nodes))
        np.maximum.at(seconds, group, self._gpus.each(step_s))
        return seconds

    def _misses(
        self,
        here: NDArray[np.bool_],
        seen: NDArray[np.bool_],
        node_s: Any,
    ) -> None:
        nodes = self._nodes
        missed = here & ~seen
        nodes["unread"] = np.where(missed, nodes["unread"] + 1, np.where(seen, 0, nodes["unread"]))
        nodes["unread_s"] = np.where(
            missed, nodes["unread_s"] + node_s, np.where(seen, 0.0, nodes["unread_s"])
        )
        nodes["good"] = np.where(seen, nodes["good"] + 1, np.where(missed, 0, nodes["good"]))
        usual = here & (
            nodes["unread"] < UNREAD_POLLS
        )  # what lasts is an outage, and is no evidence about readings that get lost
        share = nodes["share"]
        nodes["share"] = np.where(
            usual, np.minimum(share + SHARE_LEARN * (missed - share), SHARE_MOST), share
        )

    def _report(self, group: NDArray[np.int64], at: Times) -> Iterator[Finding]:
        gpus, nodes = self._gpus, self._nodes
        frozen = (nodes["still"] >= STILL_POLLS) & (nodes["still_s"] >= STILL_S)
        enough = np.maximum(UNREAD_POLLS, np.ceil(np.log(CHANCE) / np.log(nodes["share"])))
        alive = (nodes["heard_ns"] > 0) & (
            nodes.each(at.mono_ns) - nodes["heard_ns"]
            <= HEARD_SHARE * SECOND_NS * nodes["unread_s"]
        )
        unread = (nodes["unread"] >= enough) & (nodes["unread_s"] >= UNREAD_S) & alive
        for row in rows_where(frozen):
            yield from self._holds(
                nodes.devices[row], _frozen(int(nodes["still"][row])), nodes["still_s"][row], at
            )
        for row in rows_where(unread):
            verdict = _unread(int(nodes["unread"][row]), float(nodes["share"][row]))
            yield from self._holds(nodes.devices[row], verdict, nodes["unread_s"][row], at)
        alone = (gpus["still"] >= STILL_POLLS) & (gpus["still_s"] >= STILL_S)
        if any_true(alone):
            alone &= nodes["still"][group] == 0  # its peers move
        for row in rows_where(alone):
            yield from self._holds(
                gpus.devices[row], _frozen(int(gpus["still"][row])), gpus["still_s"][row], at
            )

    def _holds(
        self, device: Device, verdict: Verdict, since_s: float, at: Times
    ) -> Iterator[Finding]:
        if not self._maintenance.covers(device):
            yield from self._standing.holds(device, verdict, at, ago(at, device, float(since_s)))

    def _end(self, findings: list[Finding], at: Times) -> Iterator[Finding]:
        gpus, nodes = self._gpus, self._nodes
        for finding in findings:
            if finding.device.kind == "gpu":
                row = gpus.row(finding.device)
                over = row is not None and gpus["moves"][row] >= CLEAR_POLLS
            else:
                row = nodes.row(finding.device)
                over = (
                    row is not None
                    and nodes["good"][row] >= CLEAR_POLLS
                    and nodes["still"][row] == 0
                )
            if over or self._maintenance.covers(finding.device):
                yield from self._standing.ends(finding.device, finding.fault, at)


def _node(host: str) -> Device:
    return Device(host, "node", host)


def _frozen(polls: int) -> Verdict:
    return Verdict(
        FROZEN,
        "ticket",
        "CONTACT_SUPPORT",
        "Readings of its GPUs are frozen: no value shown for them is current.",
        (f"the energy counter did not change for {polls} polls, at a power above 0",),
    )


def _unread(polls: int, share: float) -> Verdict:
    return Verdict(
        UNREAD,
        "ticket",
        "CONTACT_SUPPORT",
        "None of its GPUs can be read, although the node is up: their faults go undetected.",
        (f"{polls} polls in a row failed; usually {share:.1%} do",),
    )
