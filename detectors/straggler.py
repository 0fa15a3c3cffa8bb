"""GPUs that silently became slower than their peers: the clock falls without a throttle
reason, and the job waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from detectors.kit.baseline import Limit
from detectors.kit.block_clock import BlockMeans
from detectors.kit.blockwise import Blockwise
from detectors.kit.columns import Columns, rows_where
from detectors.kit.dual_baseline import ACROSS, BlockResiduals, DualBaseline
from detectors.kit.findings import RANK, Verdict
from detectors.kit.instants import Times, ago
from detectors.kit.literature import GREYHOUND
from detectors.kit.page import Needs, Page, Shown
from detectors.kit.peers import SETTINGS, Peers
from detectors.kit.readings import duty, reading
from detectors.kit.regime import Regime
from detectors.kit.stateful import Numbers
from pipeline.finding import SEVERITIES, Finding, Severity
from pipeline.frame import Frame
from pipeline.observation import Event
from pipeline.small_arrays import any_true

BLOCK_S = 60.0  # block means: neighbouring samples of a clock are too alike to be tested one by one
# Effect-size floors and persistence. The floors are well above what silicon does by itself (its
# spread is published: "Not all GPUs are created equal", SC'22) and what a minute of it wanders; how
# many false alarms that leaves, and how late it is, is measured by `tocsin score`.
CRITICAL, WARNING = "critical", "warning"
INSIDE = {CRITICAL: Limit(0.07, 5.0, 3), WARNING: Limit(0.05, 4.0, 5)}
BETWEEN = Limit(0.10, 5.0, 10)
# A slow-down that comes and goes: at least so many separate excursions below the critical limit in
# the last 60 blocks of work, and so many blocks of them: a twelfth, which a dip of two minutes
# every twelve always leaves. Where clocks are read twice a minute, one low reading is half of a
# block: a block beside it must have part in the excursion.
EXCURSIONS, MIN_HITS, HOUR, PART = 4, 5, 60, 0.25
CLEAR_BLOCKS, CLEAR_SHARE = 5, 0.5
ACCEPT_BLOCKS = 1440  # a day of work at the new level is the new normal
IDLE_BLOCKS = 30  # a GPU that idled this long begins another job, whatever the scheduler reports
# A reason that was active for at least half of the share of time that was lost explains the loss:
# duties are exact, clocks are sampled.
EXPLAINS, MIN_DUTY = 0.5, 0.005
REASONS = ("hw_thermal", "hw_power_brake", "sw_thermal")
# One that draws so much more than the median of its peers, in ln units, does more than they do: it
# evaluates or writes alone while they wait in a kernel, and is slower at its power limit than they
# are below it. One that lost its clock draws less. Half of what lies between equal power and the 45
# % of the limit that a kernel that waits draws at most (detectors/hang/activity.py).
WORKS_MORE = 0.4
# At the power limit the clock is that of the work, which is another for each expert or request; a
# GPU that lost its clock draws less: 12 % of the clock is more than 12 % of the power.
AT_LIMIT = 0.9  # of the limit
# A kernel that waits for others computes nothing, and its clocks are free where those of work are
# capped: an hour of it is no pace to compare work with. Such kernels draw 20 to 45 % of the limit,
# by model (detectors/hang/activity.py), which light work does too: where tensor and memory activity
# are not read, only the least counts.
WAITS_PERCENT, WAITS_POWER, WAITS_POWER_ALONE = 2.0, 0.5, 0.3  # of activity; of the limit
# Where jobs are not known a node counts as one, and may serve many. Training draws alike on all
# GPUs, but for what silicon does (15 % where clocks are free); servers of requests do not.
ALIKE = 0.2  # ln units
MEANS = ("d", "level", "power", "used", "active", *REASONS)
NO_LEVEL, TICKET_LEVEL, PAGE_LEVEL = 0, 1 + RANK["ticket"], 1 + RANK["page"]


PAGE = Page(
    formula=(
        "d = ln f - median of peers; r = d - b, b its own exponentially weighted past; r < -max(7 "
        "%, 5 s) for 3 minutes"
    ),
    sources=(GREYHOUND, "P. Sinha et al., Not All GPUs Are Created Equal, SC'22"),
    shows=(
        Shown("gpu", "sm_clock_megahertz"),
        Shown("gpu", "gpu_utilization_percent"),
        Shown("gpu", "power_milliwatts"),
    ),
    needs=Needs(60.0, (("gpu.sm_clock_megahertz",), ("gpu.gpu_utilization_percent",))),
    next_step=(
        "Take the node out of the job at its next checkpoint and run the vendor's diagnosis; the "
        "job runs at its pace until then."
    ),
    clears=(
        "After five blocks in a row within half of the limit (excursions that come and go: after "
        "an hour of such blocks); after a day of work at the new level, which is normal then."
    ),
    scored_as=("straggler",),
)


class Straggler(Blockwise):
    """Compares the SM clock of each working GPU with its peers,
    ``d = ln clock - median``, in blocks of a minute.

    A page after three blocks 7 % below its own baseline among them, a ticket after five 5 % below,
    after ten 10 % below its place in earlier jobs, or after several short excursions; in any case
    only while it is behind the median, where it holds the job up. Blocks in which throttling
    explains the loss are left to its detector; those in which it works while its peers wait, or is
    at its power limit, where the clock is that of its work, are no comparison. It ends after five
    blocks within half of the limit.

    Where jobs are not known, a node is compared within while most of its GPUs draw alike: servers
    of requests are no peers.

    What is accepted: another job, and a setting that was changed (clock lock, power limit, MIG),
    begin a new baseline at once; a level of the peers that moved by 2.5 %, as a lock that cannot be
    read does, after twenty minutes; a slow-down, after a day of work.

    >>> Straggler().name
    'straggler'
    """

    name = "straggler"
    version = 7

    def __init__(self) -> None:
        # history: a bit per block of the last 60, the newest is bit 0: it and the one before are an
        # excursion below the critical limit; before: the share of that limit the last one used up
        fills = (
            BlockMeans.fills(*MEANS)
            | DualBaseline.fills(*INSIDE)
            | Regime.fills()
            | dict.fromkeys(("history", "good", "lasted", "idle"), 0)
            | {"before": 0.0}
        )
        columns = Columns(**fills, **Peers.fills(), reported_level=NO_LEVEL)
        self._numbers = Numbers(**DualBaseline.numbers())
        self._means, self._peers, self._regime = (
            BlockMeans(columns, MEANS),
            Peers(columns),
            Regime(columns),
        )
        self._lanes = DualBaseline(columns, self._numbers, INSIDE, BETWEEN)
        super().__init__(BLOCK_S, columns)

    def _take_events(self, events: Iterable[Event]) -> None:
        self._peers.jobs.take(events)

    def _sample(self, frame: Frame) -> None:
        columns = self._columns
        columns.show(frame)
        self._peers.look(frame)
        if any_true(self._peers.changed):
            self._next_job(self._peers.changed)
        with np.errstate(divide="ignore", invalid="ignore"):
            clock = np.log(columns.wide(reading(frame, "sm_clock_megahertz")))
        used = columns.wide(reading(frame, "gpu_utilization_percent"))
        centred = self._peers.now(clock, used)
        if any_true(centred.dropped):
            self._means.drop(centred.dropped)
        duties = {name: columns.wide(duty(frame, name)) for name in REASONS}
        power = columns.wide(reading(frame, "power_milliwatts"))
        active = np.fmax(
            *(
                columns.wide(reading(frame, f"{name}_activity_percent"))
                for name in ("tensor", "dram")
            )
        )
        self._means.add(
            d=centred.d, level=clock - centred.d, power=power, used=used, active=active, **duties
        )

    def _next_job(self, rows: NDArray[np.bool_]) -> None:
        self._means.drop(rows)
        keep = self._columns["reported_level"] > NO_LEVEL
        self._lanes.next_job(rows, keep)
        self._regime.forget(rows & ~keep)
        self._columns.reset(rows & ~keep, "history", "before")

    def _block(self, at: Times) -> Iterator[Finding]:
        """Judge, then learn: rows under suspicion teach nothing."""
        columns, means = self._columns, self._means.close()
        worked = np.isfinite(means["d"])
        y = self._usable(means)
        judged = self._lanes.judge(y)
        self._remember(-judged.r / judged.limits[CRITICAL])
        yield from self._report(judged, at)
        yield from self._end(y, judged.share_of_limit(WARNING), at)
        self._lanes.learn(y, columns["reported_level"] > NO_LEVEL)
        woke = worked & (columns["idle"] >= IDLE_BLOCKS)
        if any_true(woke):
            self._next_job(woke)
        columns["idle"] = np.where(worked, 0, columns["idle"] + 1)

    def _remember(self, used: NDArray[np.float64]) -> None:
        """Keep whether this block and the one before are an excursion, by the share of the critical
        limit that it uses up, (row,), NaN where it is no evidence.
        """
        columns, before = self._columns, self._columns["before"]
        hit = (np.fmax(used, before) > 1) & (np.fmin(used, before) > PART)
        history = (columns["history"] << 1 | hit) & ((1 << HOUR) - 1)
        columns["history"] = np.where(np.isfinite(used), history, columns["history"])
        columns["before"] = np.where(np.isfinite(used), used, before)

    def _usable(self, means: dict[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        """Distance from the peers, (row,), NaN where the block is no evidence: its level is not the
        usual one, a reason explains it, it waits, or it does more than its peers.
        """
        limit = self._columns["settings"][SETTINGS.index("power_limit_enforced_milliwatts")]
        draws, active = means["power"], means["active"]
        little = np.where(np.isnan(active), WAITS_POWER_ALONE, WAITS_POWER) * limit
        waits = (draws < little) & ~(active >= WAITS_PERCENT)
        here, moved = self._regime.step(np.where(waits, np.nan, means["level"]))
        if any_true(moved):
            self._next_job(moved)
        held = np.fmax.reduce([means[name] for name in REASONS])
        loss = -np.expm1(self._lanes.job.residual(means["d"]))
        explained = held > np.fmax(MIN_DUTY, EXPLAINS * loss)
        with np.errstate(divide="ignore", invalid="ignore"):
            power = np.log(draws)
        more = self._peers.centred(power, means["used"]).d
        explained |= more > WORKS_MORE
        explained |= draws > AT_LIMIT * limit
        explained |= ~self._peers.in_step(means["used"], (power, ALIKE))
        return np.where(here & ~explained, means["d"], np.nan)

    def _report(self, judged: BlockResiduals, at: Times) -> Iterator[Finding]:
        columns, lanes = self._columns, self._lanes
        page = lanes.reached(CRITICAL)
        flickers = (
            self._flickered()
            & (columns["before"] > 1)
            & (np.bitwise_count(columns["history"]) >= MIN_HITS)
        )
        in_job = page | lanes.reached(WARNING) | flickers
        level = np.where(
            page, PAGE_LEVEL, np.where(in_job | lanes.reached(ACROSS), TICKET_LEVEL, NO_LEVEL)
        )
        loss = judged.loss(in_job)
        new = (level > columns["reported_level"]) & np.isfinite(loss)
        for row in rows_where(new):
            verdict, blocks = self._verdict(
                row, SEVERITIES[level[row] - 1], bool(in_job[row]), float(loss[row])
            )
            since_ns = ago(at, columns.devices[row], max(1, blocks) * BLOCK_S)
            for finding in self._standing.holds(columns.devices[row], verdict, at, since_ns):
                columns["reported_level"][row] = 1 + RANK[finding.severity]
                columns["good"][row] = columns["lasted"][row] = 0
                yield finding

    def _end(
        self, y: NDArray[np.float64], share: NDArray[np.float64], at: Times
    ) -> Iterator[Finding]:
        opened, columns = self._standing.all(), self._columns
        if not opened:
            return
        reported, seen = columns["reported_level"] > NO_LEVEL, np.isfinite(share)
        columns["good"] = np.where(
            seen, np.where(share < CLEAR_SHARE, columns["good"] + 1, 0), columns["good"]
        )
        columns["lasted"] = columns["lasted"] + (reported & np.isfinite(y))
        good = reported & (columns["good"] >= np.where(self._flickered(), HOUR, CLEAR_BLOCKS))
        normal = reported & ~good & (columns["lasted"] >= ACCEPT_BLOCKS)
        for finding in opened:
            row = columns.row(finding.device)
            if row is not None and share[row] >= CLEAR_SHARE:
                self._standing.still(finding.device, finding.fault, at)
            if row is not None and (good | normal)[row]:
                why = ("accepted as its new normal after a day of work",) if normal[row] else ()
                yield from self._standing.ends(finding.device, finding.fault, at, *why)
        columns["reported_level"][good | normal] = NO_LEVEL
        if any_true(normal):
            self._lanes.accept(normal)
            columns.reset(normal, "history", "before")

    def _flickered(self) -> NDArray[np.bool_]:
        history = self._columns["history"]
        flickered: NDArray[np.bool_] = np.bitwise_count(history & ~(history << 1)) >= EXCURSIONS
        return flickered

    def _verdict(
        self, row: int, severity: Severity, in_job: bool, loss: float
    ) -> tuple[Verdict, int]:
        """The verdict, and the blocks in a row that it rests on."""
        columns = self._columns
        lane, run, since = (
            (self._lanes.job, WARNING, "this job")
            if in_job
            else (self._lanes.across, ACROSS, "earlier jobs")
        )
        blocks, hits = int(columns[f"run_{run}"][row]), int(columns["history"][row]).bit_count()
        normal = np.expm1(float(lane.b[row]))
        verdict = Verdict(
            "straggler",
            severity,
            "RUN_DCGMEUD",
            (
                f"The GPU runs {loss:.1%} slower than is normal for it and delays its job; no "
                "throttle reason explains it."
            ),
            (
                (
                    f"in {since} its SM clock was {normal:+.1%} from the median of its "
                    f"{self._peers.size(row) - 1} peers"
                ),
                (
                    f"{loss:.1%} below that in the last minute, {blocks} minutes in a row below "
                    f"the limit; all GPUs spread by {lane.spread(row):.1%}"
                ),
                f"{hits} of its last {HOUR} minutes of work in dips below the critical limit",
            ),
            -100 * loss,
            0.0,
            "percent",
        )
        return verdict, blocks
