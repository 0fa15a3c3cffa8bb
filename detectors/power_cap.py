"""A GPU that runs into the power limit its peers do not reach, and is slower than they are: it
needs more power for less work.

The software power cap is normal at full load (nvml.h, nvmlClocksEventReasonSwPowerCap): only the
difference from GPUs with the same work is evidence, and only at the default limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from detectors.kit.block_clock import BlockMeans
from detectors.kit.blockwise import Blockwise
from detectors.kit.columns import Columns, rows_where
from detectors.kit.dual_baseline import BEHIND
from detectors.kit.findings import Verdict
from detectors.kit.instants import Times
from detectors.kit.literature import NVML, SILICON
from detectors.kit.page import Needs, Page, gpu_columns
from detectors.kit.peers import Peers
from detectors.kit.readings import duty, reading
from detectors.kit.recent_blocks import RecentBlocks
from pipeline.finding import Finding
from pipeline.frame import Frame
from pipeline.observation import Event
from pipeline.small_arrays import any_true

BLOCK_S = 60.0
AFTER, CLEAR = 5, 5  # blocks: of the last RECENT, as a job that evaluates or saves is not capped
RECENT = 10
# Of a block in how far the clock is behind, once that is the mean of four: clocks wander by more
# than BEHIND.
WEIGHT = 0.25
ABOVE = 1.5  # of the logit of the duty: 60 % of the time against 25 %; proposed, so a ticket
MIN_DUTY, MAX_DUTY = 0.01, 0.99  # the logit has no end
ROUNDING_MW = 1000.0  # limits are set in integer watts
MEANS = ("duty", "clock", "used")
FAULT = "throttle/power_cap"


PAGE = Page(
    formula=(
        "logit(duty of the software power cap) - median of the peers > 1.5 in 5 of 10 min, and "
        "clock 2 % below theirs in the mean of such minutes, at the default limit"
    ),
    sources=(f"{NVML}: nvmlClocksEventReasonSwPowerCap", SILICON),
    shows=gpu_columns("power_milliwatts", "sm_clock_megahertz", "power_limit_enforced_milliwatts"),
    needs=Needs(
        30.0,
        (
            ("gpu.throttled_power_cap_nanoseconds", "gpu.clock_event_reasons"),
            ("gpu.sm_clock_megahertz",),
            ("gpu.power_limit_enforced_milliwatts",),
        ),
    ),
    next_step=(
        "Compare efficiency with its peers on the node under the same load; replace it if it "
        "delays the job."
    ),
    clears="After five minutes in a row, each with enough data, in which it is not capped.",
    scored_as=("throttle",),
)


class PowerCap(Blockwise):
    """A ticket when a GPU is capped far more than its peers in five of ten minutes at the default
    limit, and 2 % slower than they are in those.

    Fast silicon reaches the limit first and is not behind: silent. What is accepted at once: a
    limit below the default (that is power_limit's matter), another job, other settings; all peers
    capped together. It ends after five minutes without.

    >>> PowerCap().name
    'power_cap'
    """

    name = "power_cap"
    version = 4

    def __init__(self) -> None:
        columns = Columns(
            **BlockMeans.fills(*MEANS),
            **RecentBlocks.fills(RECENT),
            **Peers.fills(),
            lowered=False,
            behind=0.0,  # of the peers' clock, the mean of the minutes in which it is capped
            capped=0,  # and how many these are
        )
        self._recent = RecentBlocks(columns, AFTER, CLEAR)
        self._means, self._peers = BlockMeans(columns, MEANS), Peers(columns)
        super().__init__(BLOCK_S, columns)

    def _take_events(self, events: Iterable[Event]) -> None:
        self._peers.jobs.take(events)

    def _sample(self, frame: Frame) -> None:
        columns = self._columns
        columns.show(frame)
        self._peers.look(frame)
        if any_true(self._peers.changed):
            self._means.drop(self._peers.changed)
            columns.reset(self._peers.changed, "behind", "capped")
        enforced, default = (
            columns.wide(reading(frame, f"power_limit_{which}_milliwatts"))
            for which in ("enforced", "default")
        )
        columns["lowered"] = np.where(
            np.isnan(enforced), columns["lowered"], ~(enforced >= default - ROUNDING_MW)
        )
        samples = {"duty": duty(frame, "power_cap")}
        samples |= {
            "clock": reading(frame, "sm_clock_megahertz"),
            "used": reading(frame, "gpu_utilization_percent"),
        }
        self._means.add(**{name: columns.wide(x) for name, x in samples.items()})

    def _block(self, at: Times) -> Iterator[Finding]:
        columns, means = self._columns, self._means.close()
        logit = _logit(means["duty"])
        above = self._peers.centred(logit, means["used"]).d
        behind = self._peers.centred(np.log(means["clock"]), means["used"]).d
        known = np.isfinite(above) & np.isfinite(behind)
        capped = known & (above > ABOVE) & ~columns["lowered"]
        columns["capped"] = columns["capped"] + capped
        weight = np.maximum(WEIGHT, 1 / np.maximum(columns["capped"], 1))
        step = np.where(capped, weight * (behind - columns["behind"]), 0.0)
        mean = columns["behind"] + step
        columns["behind"] = mean
        bad = capped & (mean < -BEHIND)
        begins, ends = self._recent.step(
            np.where(known, bad * 1.0, np.nan), columns.each(at.time_ns)
        )
        for row in rows_where(begins):
            usual = float(1 / (1 + np.exp(above[row] - logit[row])))
            verdict = _verdict(
                float(means["duty"][row]), usual, float(np.expm1(mean[row])), self._peers.size(row)
            )
            yield from self._standing.holds(
                columns.devices[row], verdict, at, self._recent.began(row)
            )
        for row in rows_where(ends):
            yield from self._standing.ends(columns.devices[row], FAULT, at)
        yield from self._standing.due(at)


def _verdict(share: float, usual: float, behind: float, peers: int) -> Verdict:
    capped = (
        f"capped {share:.0%} of the last minute at the default limit, half of its {peers - 1} "
        f"peers {usual:.0%} or less"
    )
    return Verdict(
        FAULT,
        "ticket",
        "RUN_FIELDDIAG",
        (
            "The GPU runs into its power limit more than its peers and is slower than they are: it "
            "needs more power for less work."
        ),
        (capped, f"its SM clock is {behind:+.1%} from their median while it is"),
        share,
        usual,
        "ratio",
    )


def _logit(share: NDArray[np.float64]) -> NDArray[np.float64]:
    share = np.clip(share, MIN_DUTY, MAX_DUTY)
    logit: NDArray[np.float64] = np.log(share / (1 - share))
    return logit
