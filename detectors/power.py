"""GPUs that draw less power than their work should take: a regulator that fails, or
results that are not computed.

The expected power follows from clock, tensor and memory activity by a continuous regression over
all GPUs of the model; the residual is compared with peers and with its own past, as the clocks of
stragglers are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from detectors.kit.baseline import Limit
from detectors.kit.block_clock import BlockMeans
from detectors.kit.blockwise import Blockwise
from detectors.kit.columns import Columns, rows_where
from detectors.kit.dual_baseline import ACROSS, BlockResiduals, DualBaseline
from detectors.kit.findings import Verdict
from detectors.kit.instants import Times, ago
from detectors.kit.literature import SILICON
from detectors.kit.page import Needs, Page, gpu_columns
from detectors.kit.peers import ACTIVE_PERCENT, Peers
from detectors.kit.readings import duty, per_second, reading
from detectors.kit.regression import CAUSES, Regressions
from detectors.kit.stateful import Numbers
from pipeline.finding import Finding
from pipeline.frame import Frame
from pipeline.observation import Event
from pipeline.small_arrays import any_true, or_else

BLOCK_S = 60.0
WARNING = "warning"
LIMIT = Limit(0.10, 5.0, 10)  # ln units; proposed, so a ticket at most
# of tensor and of memory activity: a kernel that waits for others is busy and computes nothing
IDLE_PERCENT = 2.0
# Of tensor and of memory activity, from the median of peers, as a share of it and at least: a GPU
# that is so much more or less active than they are does other work, such as requests of its own,
# and the regression was learnt near the median.
NEAR, AT_LEAST = 0.2, 0.03
# Of a block, held back by a limit or by heat: then power is what is given and the clock follows, as
# good as each die is.
REASONS, HELD = ("power_cap", "sw_thermal", "hw_thermal", "hw_power_brake"), 0.05
CLEAR_BLOCKS, CLEAR_SHARE = 5, 0.5
ACCEPT_BLOCKS = 1440  # a day of work at the new level is the new normal
FAULT = "power"


PAGE = Page(
    formula=(
        "ln P = c + a ln f + b tensor + g dram (weighted least squares over the model); residual "
        "below peers and own past by 10 %"
    ),
    sources=(SILICON, "P. H. Hochschild et al., Cores that don't count, HotOS'21"),
    shows=gpu_columns("power_milliwatts", "energy_millijoules", "sm_clock_megahertz"),
    needs=Needs(
        30.0,
        (
            ("gpu.power_milliwatts", "gpu.energy_millijoules"),
            ("gpu.sm_clock_megahertz",),
            ("gpu.tensor_activity_percent",),
            ("gpu.dram_activity_percent",),
        ),
    ),
    next_step=(
        "Run the vendor's diagnosis on this GPU, with results checked: it may compute less, or "
        "incorrectly."
    ),
    clears=(
        "After five blocks in a row within half of the limit; after a day of work at the new "
        "level, which is normal then."
    ),
    scored_as=("power",),
)


class Power(Blockwise):
    """A ticket when a working GPU draws 10 % less for ten minutes than its clock and activity, its
    peers and its past imply. Nothing is said while a limit or heat holds back its clocks, or those
    of most of its peers, or while it is less or more active than its peers.

    It ends after five blocks within half of that. What is accepted: another job, and a setting that
    was changed (power limit, clock lock, MIG), begin a new baseline; another load is what all peers
    have; a GPU that draws less is normal after a day of work.

    >>> Power().name
    'power'
    """

    name = "power"
    version = 5

    def __init__(self) -> None:
        names = ("watts", "used", "held", *CAUSES)
        fills = BlockMeans.fills(*names) | DualBaseline.fills(WARNING) | {"good": 0, "lasted": 0}
        columns = Columns(**fills, **Peers.fills(), reported=False)
        self._numbers = Numbers(**DualBaseline.numbers())
        self._means, self._peers = BlockMeans(columns, names), Peers(columns)
        self._lanes, self._model = (
            DualBaseline(columns, self._numbers, {WARNING: LIMIT}, LIMIT),
            Regressions(columns),
        )
        super().__init__(BLOCK_S, columns)

    def _take_events(self, events: Iterable[Event]) -> None:
        self._peers.jobs.take(events)

    def _sample(self, frame: Frame) -> None:
        columns = self._columns
        columns.show(frame)
        self._peers.look(frame)
        if any_true(self._peers.changed):
            self._means.drop(self._peers.changed)
            self._lanes.next_job(self._peers.changed, columns["reported"])
        watts = columns.wide(per_second(frame, "energy_millijoules")) / 1000
        used = columns.wide(reading(frame, "gpu_utilization_percent"))
        tensor, dram = (
            columns.wide(reading(frame, f"{name}_activity_percent")) for name in ("tensor", "dram")
        )
        self._means.drop(used < ACTIVE_PERCENT)
        works = (used >= ACTIVE_PERCENT) & ~((tensor < IDLE_PERCENT) & (dram < IDLE_PERCENT))
        clock = columns.wide(reading(frame, "sm_clock_megahertz"))
        samples = {
            "clock": clock,
            "tensor": tensor / 100,
            "dram": dram / 100,
            "watts": watts,
            "used": used,
            "held": np.fmax.reduce([columns.wide(duty(frame, reason)) for reason in REASONS]),
        }
        self._means.add(**{name: np.where(works, x, np.nan) for name, x in samples.items()})

    def _block(self, at: Times) -> Iterator[Finding]:
        columns, means = self._columns, self._means.close()
        with np.errstate(divide="ignore", invalid="ignore"):
            p, clock = (
                self._peers.centred(np.log(means[name]), means["used"]).d
                for name in ("watts", "clock")
            )
        causes, other = [clock], self._held(means)
        for name in ("tensor", "dram"):
            d = or_else(self._peers.centred(means[name], means["used"]).d)
            other |= np.abs(d) > np.fmax(AT_LEAST, NEAR * (means[name] - d))
            causes.append(d)
        x = np.stack(causes)
        y = np.where(other, np.nan, p - self._model.predict(x))
        judged = self._lanes.judge(y)
        yield from self._report(judged, at)
        yield from self._end(y, judged.share_of_limit(WARNING), at)
        self._lanes.learn(y, columns["reported"])
        clean = (
            ~columns["reported"]
            & (columns[f"run_{WARNING}"] == 0)
            & (columns[f"run_{ACROSS}"] == 0)
        )
        self._model.learn(x, p - self._lanes.job.b, clean & np.isfinite(judged.r))

    def _held(self, means: Mapping[str, NDArray[np.float64]]) -> NDArray[np.bool_]:
        """Where the clocks of a GPU, or of most of its peers, were held back, (row,)."""
        own = or_else(means["held"])
        above = or_else(self._peers.centred(own, means["used"]).d)
        return np.asarray((own > HELD) | (own - above > HELD))

    def _report(self, judged: BlockResiduals, at: Times) -> Iterator[Finding]:
        columns, in_job = self._columns, self._lanes.reached(WARNING)
        loss = judged.loss(in_job)
        for row in rows_where((in_job | self._lanes.reached(ACROSS)) & np.isfinite(loss)):
            blocks = int(columns[f"run_{WARNING if in_job[row] else ACROSS}"][row])
            verdict = self._verdict(row, float(loss[row]), blocks)
            for finding in self._standing.holds(
                columns.devices[row], verdict, at, ago(at, columns.devices[row], blocks * BLOCK_S)
            ):
                columns["reported"][row] = True
                columns["good"][row] = columns["lasted"][row] = 0
                yield finding

    def _end(
        self, y: NDArray[np.float64], share: NDArray[np.float64], at: Times
    ) -> Iterator[Finding]:
        columns, reported = self._columns, self._columns["reported"]
        if not any_true(reported):
            return
        columns["good"] = np.where(
            np.isfinite(share),
            np.where(share < CLEAR_SHARE, columns["good"] + 1, 0),
            columns["good"],
        )
        columns["lasted"] = columns["lasted"] + (reported & np.isfinite(y))
        normal = reported & (columns["lasted"] >= ACCEPT_BLOCKS)
        for row in rows_where(reported & ((columns["good"] >= CLEAR_BLOCKS) | normal)):
            why = ("accepted as its new normal after a day of work",) if normal[row] else ()
            yield from self._standing.ends(columns.devices[row], FAULT, at, *why)
            columns["reported"][row] = False
        if any_true(normal):
            self._lanes.accept(normal)

    def _verdict(self, row: int, loss: float, blocks: int) -> Verdict:
        beta = self._model.beta(row)
        return Verdict(
            FAULT,
            "ticket",
            "RUN_FIELDDIAG",
            (
                f"The GPU draws {loss:.1%} less power than its clock and activity imply: test it "
                "for a failing regulator and wrong results."
            ),
            (
                (
                    f"{loss:.1%} below its own baseline among {self._peers.size(row) - 1} peers at "
                    f"equal clock and activity, for {blocks} minutes"
                ),
                (
                    f"power follows the clock with exponent {beta[0]:.2f}, tensor activity with "
                    f"{beta[1]:.2f}, memory with {beta[2]:.2f}"
                ),
            ),
            -100 * loss,
            0.0,
            "percent",
        )
