"""Power limits that are lower than they should be: set by a board controller, or on one
GPU and not on its peers.

The enforced limit includes what was set out of band (nvml.h, NVML_FI_DEV_POWER_CURRENT_LIMIT); the
requested one was set through the driver. Sites cap their GPUs on purpose, both ways: such a cap
covers the complete node, and is requested or declared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import isnan
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from detectors.kit.block_clock import BlockClock
from detectors.kit.columns import Columns, rows_where
from detectors.kit.elapsed import Elapsed
from detectors.kit.findings import FindingTracker, Verdict
from detectors.kit.groups import Groups
from detectors.kit.instants import Times
from detectors.kit.latest import Latest
from detectors.kit.literature import NVML
from detectors.kit.page import Needs, Page, gpu_columns
from detectors.kit.persistence import Persistence
from detectors.kit.stateful import Stateful
from pipeline.distinct import distinct
from pipeline.finding import Finding
from pipeline.frame import Device, Frame
from pipeline.observation import Observation
from pipeline.small_arrays import all_true, any_true

BLOCK_S = 60.0
LIMITS = ("enforced", "default", "requested")
AFTER, CLEAR = 3, 5  # blocks
ROUNDING_MW = 1000.0  # limits are set in integer watts
LOW, POLICY = "power_limit/low", "power_limit/policy"


PAGE = Page(
    formula="enforced limit < expected limit - 1 W, for 3 minutes",
    sources=(f"{NVML}: nvmlDeviceGetEnforcedPowerLimit, NVML_FI_DEV_POWER_CURRENT_LIMIT",),
    shows=gpu_columns("power_limit_enforced_milliwatts", "power_limit_default_milliwatts"),
    needs=Needs(
        60.0, (("gpu.power_limit_enforced_milliwatts",), ("gpu.power_limit_default_milliwatts",))
    ),
    next_step=(
        "Correct the limit (nvidia-smi -pl), or check the board controller and the power supplies "
        "that lowered it."
    ),
    clears=(
        "After five readings in a row, a minute apart, at what is expected; a node when no GPU of "
        "it is below. A policy, when no GPU of the node is held below its default, or what is "
        "declared, any more."
    ),
    scored_as=("power-limit",),
)


class PowerLimit(Stateful):
    """Judges the enforced limit against what is expected: the default, or the site's policy.

    Three minutes below are a ticket.

    Policy is a lower limit that all GPUs of one model in a node share, if it was requested through
    the driver on all of them, or was there when the node was first seen and, as far as is known,
    not set out of band. It is reported as info. What ``declared`` states for ``gpu.power_limit``,
    in watts (detectors/drift.py), takes the default's place where it is lower. All GPUs of a node
    below what is expected: the root cause is the node.

    >>> from pipeline.frame import frame_of
    >>> gpus, detector, findings = (
    ...     [Device("n1", "gpu", f"GPU-{i}") for i in range(2)],
    ...     PowerLimit(),
    ...     [],
    ... )
    >>> for minute in range(9):
    ...     now, limits = minute * 60 * 10**9, {"power_limit_default_milliwatts": 700_000}
    ...     enforced = (700_000, 500_000 if minute > 3 else 700_000)
    ...     values = [
    ...         (gpu, limits | {"power_limit_enforced_milliwatts": x})
    ...         for gpu, x in zip(gpus, enforced)
    ...     ]
    ...     findings += detector.update(
    ...         Observation(
    ...             "nvml", "n1", "b", minute, now, now, 0, (frame_of("gpu", values, now, now),)
    ...         )
    ...     )
    >>> [(f.device.id, f.severity, f.value, f.expected, f.unit) for f in findings]
    [('GPU-1', 'ticket', 500.0, 700.0, 'watts')]
    """

    name = "power_limit"

    def __init__(self, declared: Mapping[str, str] = MappingProxyType({})) -> None:
        self._declared = float(declared.get("gpu.power_limit", "inf")) * 1000
        self._columns = Columns(expected=np.nan, **Persistence.fills(1))
        self._runs = Persistence(self._columns, [AFTER], [CLEAR])
        self._latest = Latest(
            self._columns, *(f"power_limit_{which}_milliwatts" for which in LIMITS)
        )
        self._clock, self._elapsed, self._standing = (
            BlockClock(BLOCK_S),
            Elapsed(),
            FindingTracker(self.name),
        )
        self._peers = Groups(lambda device: f"{device.host}\0{device.attributes.get('name', '')}")

    def update(self, observation: Observation) -> Iterable[Finding]:
        """What begins and ends with the minute that this observation ends."""
        findings: list[Finding] = []
        for frame in observation.frames:
            if frame.kind == "gpu":
                at = self._elapsed.times(observation)
                self._columns.show(frame)
                self._latest.see(frame)
                findings += self._standing.swapped(frame, at)
                for _, then in self._clock.ended(frame, observation.boot_id, at):
                    findings += self._block(frame, then)
        return findings

    def _block(self, frame: Frame, at: Times) -> Iterator[Finding]:
        (enforced, default, requested), _ = self._latest.take(frame)
        yield from self._accept(enforced, np.minimum(default, self._declared), requested, at)
        short = self._columns["expected"] - enforced
        holds = np.where(np.isfinite(short), (short > ROUNDING_MW) * 1.0, np.nan)
        begins, ends = self._runs.step(holds[None, :], self._columns.times_ns(frame))
        if any_true(begins):
            yield from self._begin(rows_where(begins[0]), enforced, requested, at)
        if any_true(ends):
            yield from self._end(at)
        yield from self._standing.due(at)

    def _accept(
        self,
        enforced: NDArray[np.float64],
        default: NDArray[np.float64],
        requested: NDArray[np.float64],
        at: Times,
    ) -> Iterator[Finding]:
        """Learn what is expected of GPUs that are new, and a policy of GPUs that are known."""
        expected = self._columns["expected"]
        peers = self._peers.of(self._columns.devices)
        new = np.isnan(expected) & np.isfinite(enforced) & np.isfinite(default)
        low = enforced < expected - ROUNDING_MW
        asked = low & (np.abs(requested - enforced) <= ROUNDING_MW)
        lowered = requested > enforced + ROUNDING_MW  # out of band
        for group in distinct(peers[new | low]).tolist():
            rows = (peers == group) & np.isfinite(enforced)
            limit, usual = float(enforced[rows].max()), float(default[rows].min())
            settled = expected[rows] <= limit + ROUNDING_MW
            shared = (
                rows.sum() > 1
                and limit - enforced[rows].min() <= ROUNDING_MW
                and limit < usual - ROUNDING_MW
            )
            if shared and (
                any_true(settled) or all_true(asked[rows]) or all_true((new & ~lowered)[rows])
            ):
                expected[rows] = limit
                yield from self._policy(
                    self._columns.devices[int(np.flatnonzero(rows)[0])].host, limit, usual, at
                )
            else:
                expected[rows & new] = default[rows & new]
        at_least = np.fmax(expected, np.fmin(enforced, default))
        np.fmin(
            at_least, default, out=expected, where=np.isfinite(expected)
        )  # what is declared may be newer than what was learnt
        capped = {self._columns.devices[row].host for row in rows_where(~(expected >= default))}
        for finding in self._standing.all():
            if finding.fault == POLICY and finding.device.host not in capped:
                yield from self._standing.ends(finding.device, POLICY, at)

    def _policy(self, host: str, limit: float, default: float, at: Times) -> Iterator[Finding]:
        words = (
            f"All its GPUs have a power limit of {limit / 1000:.0f} W where the default is "
            f"{default / 1000:.0f} W."
        )
        verdict = Verdict(
            POLICY,
            "record",
            "NONE",
            f"{words} It is treated as site policy.",
            (),
            limit / 1000,
            default / 1000,
            "watts",
        )
        node = Device(host, "node", host)
        known = self._standing.get(node, POLICY)
        if known is None or known.value != verdict.value:
            yield from self._standing.ends(node, POLICY, at)
            yield from self._standing.holds(node, verdict, at)

    def _begin(
        self,
        rows: Iterator[int],
        enforced: NDArray[np.float64],
        requested: NDArray[np.float64],
        at: Times,
    ) -> Iterator[Finding]:
        low, devices = self._runs.is_set(0), self._columns.devices
        peers = self._peers.of(devices)
        for row in rows:
            together = np.flatnonzero((peers == peers[row]) & np.isfinite(enforced))
            whole = len(together) > 1 and all_true(low[together])
            device = Device(devices[row].host, "node", devices[row].host) if whole else devices[row]
            yield from self._standing.holds(
                device, self._verdict(row, whole, enforced, requested), at, self._runs.began(0, row)
            )

    def _verdict(
        self, row: int, whole: bool, enforced: NDArray[np.float64], requested: NDArray[np.float64]
    ) -> Verdict:
        milliwatts = (enforced[row], self._columns["expected"][row], requested[row])
        watts, expected, asked = (float(value) / 1000 for value in milliwatts)
        who = "All GPUs of this node are" if whole else "This GPU is"
        if isnan(asked):
            cause = "the requested limit is not known"
        elif asked > watts + ROUNDING_MW / 1000:
            cause = (
                f"{asked:.0f} W were requested: something out of band, such as the board "
                "controller, lowered it"
            )
        else:
            cause = "it was requested through the driver, on this GPU and not on its peers"
        return Verdict(
            LOW,
            "ticket",
            "CONTACT_SUPPORT",
            (
                f"{who} limited to {watts:.0f} W instead of {expected:.0f} W, which slows "
                "down every job there."
            ),
            (f"enforced {watts:.0f} W, expected {expected:.0f} W for {AFTER} minutes; {cause}",),
            watts,
            expected,
            "watts",
        )

    def _end(self, at: Times) -> Iterator[Finding]:
        low, devices = self._runs.is_set(0), self._columns.devices
        bad = {devices[row] for row in rows_where(low)}
        hosts = {device.host for device in bad}
        for finding in self._standing.all():
            still = (
                finding.device in bad
                if finding.device.kind == "gpu"
                else finding.device.host in hosts
            )
            if finding.fault == LOW and not still:
                yield from self._standing.ends(finding.device, LOW, at)
