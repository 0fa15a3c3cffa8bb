"""Clocks held back by heat or by the power brake, judged by how much of the time; whether it is the
GPU, its node or its rack.

Reasons: nvmlClocksEventReasons (nvml.h). A duty is the share of a minute
(detectors/kit/readings.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from detectors.kit.block_clock import BlockClock, BlockMeans
from detectors.kit.columns import Columns, Ring, rows_where
from detectors.kit.elapsed import Elapsed
from detectors.kit.findings import FindingTracker, Verdict
from detectors.kit.groups import Groups, host_of, rack_of, share_by_group
from detectors.kit.instants import Times
from detectors.kit.literature import NVML
from detectors.kit.page import Default, Needs, Page, gpu_columns
from detectors.kit.readings import duty, reading
from detectors.kit.resets import ResetTracker
from detectors.kit.stateful import Stateful
from pipeline.finding import Action, Finding
from pipeline.frame import Device, Frame
from pipeline.observation import Observation
from pipeline.small_arrays import any_true

BLOCK_S = 60.0
ACTIVE_PERCENT = 50.0  # utilisation of a GPU that works
# hardware slowdown halves clocks or worse (nvml.h), so 10 % of the time costs the job 5 %
PAGE_DUTY = 0.10
SOFT_ALPHA = 1 - 2.0 ** (-1 / 5)  # five-minute half-life
# one day: a drained node has no load, and its pages would otherwise never end
IDLE_BLOCKS = 1440
SETTLE_BLOCKS = 5  # or so many of them in a new epoch, which a repair needs
# the last three blocks decide that it is there, the last five that it is over
RECENT, CALM = 0b111, 0b11111
# this share of a node's GPUs makes it the node's fault; more than this share of a
# rack's nodes, the rack's
VOTE = 0.5
MIN_VOTERS = 2  # voters
SHOWN = 8  # GPUs named in the evidence: a node's
_COUNT = np.array([bits.bit_count() for bits in range(RECENT + 1)])


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason: the duty that is too much, in how many of three blocks, and what it
    then means at each level.

    ``needs_load``: idle GPUs touch the bit when they change state. ``page`` is the
    duty that pages.
    """

    name: str
    fault: str
    limit: float
    page: float
    blocks: int
    needs_load: bool
    action: Action
    gpu: str
    node: str = ""
    rack: str = ""


REASONS = (
    Reason(
        "hw_thermal",
        "thermal/hw_slowdown",
        0.01,
        PAGE_DUTY,
        2,
        needs_load=True,
        action="CONTACT_SUPPORT",
        gpu=(
            "The GPU is so hot that hardware halves its clocks: check its heat "
            "sink, cold plate and air."
        ),
        node="GPUs of this node are too hot together: check its fans or coolant before the GPUs.",
        rack="GPUs in most nodes of this rack are too hot: check the rack's cooling.",
    ),
    Reason(
        "hw_power_brake",
        "throttle/hw_power_brake",
        0.01,
        PAGE_DUTY,
        2,
        needs_load=False,  # the signal comes from outside and brakes idle GPUs too
        action="CONTACT_SUPPORT",
        gpu="The power brake is active on this GPU alone: check its power cabling.",
        node=(
            "The power brake is active on the GPUs of this node together: check its power supplies."
        ),
        rack="The power brake is active in most nodes of this rack: check the rack's power.",
    ),
    # Now and then is the driver's governor at work; a fifth of the time is not.
    Reason(
        "sw_thermal",
        "throttle/sw_thermal",
        0.20,
        np.inf,
        1,
        needs_load=True,
        action="CONTACT_SUPPORT",
        gpu=(
            "The driver lowers the clocks of this GPU to keep core or memory within their "
            "operating temperature."
        ),
    ),
)
NAMES = tuple(reason.name for reason in REASONS)
HARD, SOFT = REASONS[:2], 2
PAST = ("over", "far_over", "warm", "soft")  # what the last blocks of a GPU were


def _each(name: str) -> NDArray[np.float64]:
    return np.array([getattr(reason, name) for reason in REASONS], np.float64)[:, None]


_LIMIT, _PAGE, _BLOCKS = _each("limit"), _each("page"), _each("blocks")


def _throttling(reason: Reason) -> Default:
    value = f"{100 * reason.limit:g} % of the time in {reason.blocks} of 3 minutes"
    page = (
        f"a page above {100 * reason.page:g} %"
        if isfinite(reason.page)
        else "a ticket at most, smoothed"
    )
    return Default(
        reason.name, value, f"{page}; {'under load' if reason.needs_load else 'idle GPUs too'}"
    )


PAGE = Page(
    formula=(
        "duty = d(violation ns) / dt per minute and reason; a ticket at duty > 1 %, a page at duty "
        "> 10 %, in 2 of 3 minutes"
    ),
    sources=(f"{NVML}: nvmlClocksEventReasons, NVML_PERF_POLICY_*",),
    shows=gpu_columns(
        "throttled_hw_thermal_nanoseconds",
        "throttled_hw_power_brake_nanoseconds",
        "sm_clock_megahertz",
    ),
    needs=Needs(30.0, (("gpu.throttled_hw_thermal_nanoseconds", "gpu.clock_event_reasons"),)),
    next_step="Heat: cooling of what is named. Power brake: the power supply of the node or rack.",
    clears=(
        "After five judged minutes in a row at half of the limit or below, on all GPUs of what is "
        "named; a GPU that idles for a day, or for five minutes after a reset, driver load or "
        "boot, counts as below."
    ),
    scored_as=("throttle",),
    limits=tuple(_throttling(reason) for reason in REASONS),
)


class Throttle(Stateful):
    """Judges the duty of every minute.

    Hardware thermal slowdown and power brake above 1 % in two of three blocks are a ticket, above
    10 % a page; software thermal slowdown above 20 %, smoothed over five minutes, is a ticket.
    Where half of a node's GPUs have it together the root cause is the node, and the rack where most
    of its nodes are. A finding ends after five blocks in a row below half of the limit. Blocks
    without enough samples, or without load, decide nothing; but a GPU that idles for a day, or
    right after a reset, driver load or boot, is judged again. Nothing is learnt, so nothing has to
    be accepted: caps, locks and jobs do not raise these reasons.

    >>> from pipeline.frame import frame_of
    >>> from pipeline.rates import Rates
    >>> gpu, throttle, minute = Device("n1", "gpu", "GPU-1"), Throttle(), 60 * 10**9
    >>> rates, findings = None, []
    >>> for n in range(40):
    ...     braked = {
    ...         "gpu_utilization_percent": 99,
    ...         "throttled_hw_power_brake_nanoseconds": n * 2 * 10**9,
    ...     }
    ...     frame = frame_of("gpu", [(gpu, braked)], n * minute // 6, n * minute // 6)
    ...     rates = rates or Rates(frame.schema, 10.0)
    ...     findings += throttle.update(
    ...         Observation(
    ...             "nvml", "n1", "b", n, frame.time_ns, frame.mono_ns, 0, (rates.add(frame),)
    ...         )
    ...     )
    >>> [(f.fault, f.severity, f.phase, round(f.value, 3)) for f in findings]
    [('throttle/hw_power_brake', 'page', 'onset', 0.2)]
    """

    name = "throttle"
    version = 2

    def __init__(self) -> None:
        names = (*NAMES, "busy", "clock")
        # histories: the newest block is bit 0
        bits = dict.fromkeys(("over", "far_over", "warm"), Ring(len(REASONS), 0))
        self._columns = Columns(**BlockMeans.fills(*names), **bits, soft=0.0, idle=0)
        self._means = BlockMeans(self._columns, names)
        self._clock, self._elapsed, self._standing = (
            BlockClock(BLOCK_S),
            Elapsed(),
            FindingTracker(self.name),
        )
        self._hosts, self._racks, self._lives = Groups(host_of), Groups(rack_of), ResetTracker()

    def update(self, observation: Observation) -> Iterable[Finding]:
        """What the blocks say that this observation ends."""
        findings: list[Finding] = []
        for frame in observation.frames:
            if frame.kind == "gpu":
                findings += self._frame(
                    frame, self._elapsed.times(observation), observation.boot_id
                )
        return findings

    def _frame(self, frame: Frame, at: Times, boot_id: str) -> Iterator[Finding]:
        self._columns.show(frame)
        yield from self._standing.swapped(frame, at)
        new = self._columns.wide(self._lives.new(frame, boot_id).astype(np.float64)) > 0
        if any_true(new):
            self._means.drop(new)
            self._columns["idle"][new] = IDLE_BLOCKS - SETTLE_BLOCKS
        ended = self._clock.turned(frame, boot_id)
        if ended is None:
            return
        samples = {reason.name: duty(frame, reason.name) for reason in REASONS}
        samples |= {
            "busy": reading(frame, "gpu_utilization_percent"),
            "clock": reading(frame, "sm_clock_megahertz"),
        }
        self._means.add(**{name: self._columns.wide(x) for name, x in samples.items()})
        for _, then in self._clock.each(ended, at):
            yield from self._block(self._means.close(), then)

    def _block(self, means: dict[str, NDArray[np.float64]], at: Times) -> Iterator[Finding]:
        duty = np.stack([means[name] for name in NAMES])
        idle = means["busy"] < ACTIVE_PERCENT
        self._rested(idle, means["busy"])
        duty[np.array([reason.needs_load for reason in REASONS])[:, None] & idle] = np.nan
        usable = np.isfinite(duty)
        soft = self._columns["soft"]
        self._columns["soft"] = np.where(
            usable[SOFT], soft + SOFT_ALPHA * (duty[SOFT] - soft), soft
        )
        duty[SOFT] = np.where(usable[SOFT], self._columns["soft"], np.nan)
        for name, limit in (("over", _LIMIT), ("far_over", _PAGE), ("warm", _LIMIT / 2)):
            history = self._columns[name]
            self._columns[name] = np.where(usable, (history << 1 | (duty > limit)) & CALM, history)
        yield from self._begin(duty, means["clock"], at)
        yield from self._end(at)
        yield from self._standing.due(at)

    def _rested(self, idle: NDArray[np.bool_], busy: NDArray[np.float64]) -> None:
        """Forget what GPUs did under load once they have had none for long enough."""
        blocks = self._columns["idle"]
        self._columns["idle"] = np.where(idle, blocks + 1, np.where(np.isfinite(busy), 0, blocks))
        self._columns.reset(idle & (self._columns["idle"] == IDLE_BLOCKS), *PAST)

    def _begin(
        self, duty: NDArray[np.float64], clock: NDArray[np.float64], at: Times
    ) -> Iterator[Finding]:
        hot = (_COUNT[self._columns["over"] & RECENT] >= _BLOCKS) & np.isfinite(duty)
        for k, reason in enumerate(REASONS):
            roots: dict[Device, list[int]] = {}
            votes = self._votes(k, np.isfinite(duty[k])) if any_true(hot[k]) else {}
            for row in rows_where(hot[k]):
                roots.setdefault(self._root(reason, row, votes), []).append(row)
            for device, rows in roots.items():
                if k != SOFT or self._standing.get(device, HARD[0].fault) is None:
                    yield from self._standing.holds(
                        device, self._verdict(k, device, rows, duty[k], clock), at
                    )

    def _end(self, at: Times) -> Iterator[Finding]:
        warm = self._columns["warm"] != 0
        for finding in self._standing.all():
            k = next(k for k, reason in enumerate(REASONS) if reason.fault == finding.fault)
            rows = self._rows_of(finding.device)
            if len(rows) and not any_true(warm[k, rows]):
                yield from self._standing.ends(finding.device, finding.fault, at)

    def _votes(self, k: int, asked: NDArray[np.bool_]) -> dict[str, set[str]]:
        """Hosts and racks where enough have it: a GPU votes with the last three blocks, a node
        counts for its rack by its GPUs' vote.
        """
        votes = (self._columns["over"][k] & RECENT) != 0
        host, rack = self._hosts.of(self._columns.devices), self._racks.of(self._columns.devices)
        nodes = share_by_group(votes, asked, host, len(self._hosts.names))
        bad = (nodes.share >= VOTE) & (nodes.votes >= MIN_VOTERS)
        _, first = np.unique(host, return_index=True)  # noqa: TID251 - not with return_index
        racks = share_by_group(bad, nodes.asked > 0, rack[first], len(self._racks.names))
        wide = (racks.share > VOTE) & (racks.votes >= MIN_VOTERS)
        return {
            "node": {self._hosts.names[i] for i in rows_where(bad)},
            "rack": {self._racks.names[i] for i in rows_where(wide)},
        }

    def _root(self, reason: Reason, row: int, votes: dict[str, set[str]]) -> Device:
        """The GPU, or the node or rack that has it as a whole or had when it began."""
        gpu = self._columns.devices[row]
        rack, node = Device("", "rack", rack_of(gpu)), Device(gpu.host, "node", gpu.host)
        if reason.rack and (rack.id in votes["rack"] or self._standing.get(rack, reason.fault)):
            return rack
        if reason.node and (node.id in votes["node"] or self._standing.get(node, reason.fault)):
            return node
        return gpu

    def _rows_of(self, device: Device) -> NDArray[np.intp]:
        """Rows of a GPU, or of all GPUs of a node or rack; none where it was
        not seen since a restart.
        """
        groups = {"node": self._hosts, "rack": self._racks}.get(device.kind)
        if groups is None:
            row = self._columns.row(device)
            return np.array([] if row is None else [row], np.intp)
        numbers = groups.of(self._columns.devices)
        return (
            np.flatnonzero(numbers == groups.names.index(device.id))
            if device.id in groups.names
            else np.array([], np.intp)
        )

    def _verdict(
        self,
        k: int,
        device: Device,
        rows: list[int],
        duty: NDArray[np.float64],
        clock: NDArray[np.float64],
    ) -> Verdict:
        reason = REASONS[k]
        page = any_true(_COUNT[self._columns["far_over"][k, rows] & RECENT] >= reason.blocks)
        summary = {"node": reason.node, "rack": reason.rack}.get(device.kind, reason.gpu)
        worst = sorted(rows, key=lambda row: -duty[row])
        worst_rows = [
            f"{_name(self._columns.devices[row])}: {_describe(reason, duty[row], clock[row])}"
            for row in worst[:SHOWN]
        ]
        more = [f"and {len(rows) - SHOWN} more GPUs"] if len(rows) > SHOWN else []
        return Verdict(
            reason.fault,
            "page" if page else "ticket",
            reason.action,
            summary,
            (*worst_rows, *more),
            float(duty[worst[0]]),
            reason.limit,
            "ratio",
        )


def _name(gpu: Device) -> str:
    index = gpu.attributes.get("index")
    return f"{gpu.host} GPU {index} ({gpu.id})" if index else f"{gpu.host} {gpu.id}"


def _describe(reason: Reason, duty: float, clock: float) -> str:
    words = f"{reason.name.replace('_', ' ')} in {duty:.1%} of the time"
    return words if np.isnan(clock) else f"{words}, SM clock {clock:.0f} MHz on average"
