"""GPUs that draw less power than their work should take: a regulator that fails, or
results that are not computed.

The expected power follows from clock, tensor and memory activity by a continuous regression over
all GPUs of the model; the residual is compared with peers and with its own past, as the clocks of
stragglers are.
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
from detectors.kit.findings import Verdict
from detectors.kit.literature import SILICON
from detectors.kit.page import Page, gpu_columns
from detectors.kit.peers import ACTIVE_PERCENT, Peers
from detectors.kit.readings import per_second, reading
from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, Numbers
from pipeline.clock import Instant
from pipeline.finding import Finding
from pipeline.frame import Frame
from pipeline.observation import Event

BLOCK_S = 60.0
WARNING = "warning"
LIMIT = Limit(0.10, 5.0, 10)  # ln units; proposed, so a ticket at most
# of tensor and of memory activity: a kernel that waits for others is busy and computes nothing
IDLE_PERCENT = 2.0
# what power follows: the voltage with the clock, and the units that switch
CAUSES = ("clock", "tensor", "dram")
CLEAR_BLOCKS, CLEAR_SHARE = 5, 0.5
ACCEPT_BLOCKS = 1440  # a day of work at the new level is the new normal
FORGET = 2.0 ** (-1 / 1440)  # a day of blocks: half-life of the regression
# The prior of the regression: ln power grows with about the square of the clock, and the weight of
# so many blocks of one GPU.
PRIOR, PRIOR_WEIGHT = np.array([2.0, 0.5, 0.2]), 1e-2
# Dynamic power goes with f V^2: more than the cube of the clock is noise. What one block may
# teach is bounded as well.
MOST, CLIP = np.array([4.0, 4.0, 4.0]), 0.05
FAULT = "power"


PAGE = Page(
    formula=(
        "ln P = c + a ln f + b tensor + g dram (weighted least squares over the model); residual "
        "below peers and own past by 10 %"
    ),
    sources=(SILICON, "P. H. Hochschild et al., Cores that don't count, HotOS'21"),
    shows=gpu_columns("power_milliwatts", "energy_millijoules", "sm_clock_megahertz"),
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
    peers and its past imply.

    It ends after five blocks within half of that. What is accepted: another job, and a setting that
    was changed (power limit, clock lock, MIG), begin a new baseline; another load is what all peers
    have; a GPU that draws less is normal after a day of work.

    >>> Power().name
    'power'
    """

    name = "power"
    version = 3

    def __init__(self) -> None:
        names = ("watts", "used", *CAUSES)
        fills = BlockMeans.fills(*names) | DualBaseline.fills(WARNING) | {"good": 0, "lasted": 0}
        columns = Columns(**fills, **Peers.fills(), reported=False)
        self._numbers = Numbers(**DualBaseline.numbers())
        self._means, self._peers = BlockMeans(columns, names), Peers(columns)
        self._lanes, self._model = (
            DualBaseline(columns, self._numbers, {WARNING: LIMIT}, LIMIT),
            _Regression(),
        )
        super().__init__(BLOCK_S, columns)

    def _take_events(self, events: Iterable[Event]) -> None:
        self._peers.jobs.take(events)

    def _sample(self, frame: Frame) -> None:
        columns = self._columns
        columns.place(frame.devices)
        self._peers.look(frame)
        if self._peers.changed.any():
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
        }
        self._means.add(**{name: np.where(works, x, np.nan) for name, x in samples.items()})

    def _block(self, at: Instant) -> Iterator[Finding]:
        columns, means = self._columns, self._means.close()
        with np.errstate(divide="ignore", invalid="ignore"):
            p, clock = (
                self._peers.centred(np.log(means[name]), means["used"]).d
                for name in ("watts", "clock")
            )
        others = [
            np.nan_to_num(self._peers.centred(means[name], means["used"]).d)
            for name in ("tensor", "dram")
        ]
        x = np.stack([clock, *others])
        y = p - self._model.predict(x)
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

    def _report(self, judged: BlockResiduals, at: Instant) -> Iterator[Finding]:
        columns, in_job = self._columns, self._lanes.reached(WARNING)
        loss = judged.loss(in_job)
        for row in rows_where((in_job | self._lanes.reached(ACROSS)) & np.isfinite(loss)):
            blocks = int(columns[f"run_{WARNING if in_job[row] else ACROSS}"][row])
            verdict = self._verdict(row, float(loss[row]), blocks)
            for finding in self._standing.holds(
                columns.devices[row], verdict, at, at.time_ns - round(blocks * BLOCK_S * 1e9)
            ):
                columns["reported"][row] = True
                columns["good"][row] = columns["lasted"][row] = 0
                yield finding

    def _end(
        self, y: NDArray[np.float64], share: NDArray[np.float64], at: Instant
    ) -> Iterator[Finding]:
        columns, reported = self._columns, self._columns["reported"]
        if not reported.any():
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
        if normal.any():
            self._lanes.accept(normal)

    def _verdict(self, row: int, loss: float, blocks: int) -> Verdict:
        beta = self._model.beta
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


class _Regression:
    """Ridge regression of ln power on the causes, pooled over GPUs, by normal equations that
    forget: O(1), whatever was seen.
    """

    def __init__(self) -> None:
        self._xx = np.zeros((len(CAUSES), len(CAUSES)))
        self._xy = np.zeros(len(CAUSES))
        self.beta = PRIOR.copy()

    def predict(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the causes (cause, row) explain, (row,)."""
        explained: NDArray[np.float64] = self.beta @ x
        return explained

    def learn(self, x: NDArray[np.float64], y: NDArray[np.float64], use: NDArray[np.bool_]) -> None:
        """One block: causes (cause, row) and what they should explain, (row,)."""
        use = use & np.isfinite(x).all(axis=0) & np.isfinite(y)
        if use.any():
            x, known = x[:, use], self.predict(x[:, use])
            y = known + np.clip(y[use] - known, -CLIP, CLIP)
            self._xx = FORGET * self._xx + x @ x.T
            self._xy = FORGET * self._xy + x @ y
            ridge = PRIOR_WEIGHT * np.eye(len(CAUSES))
            self.beta = np.clip(
                np.linalg.solve(self._xx + ridge, self._xy + ridge @ PRIOR), 0.0, MOST
            )

    def state(self) -> State:
        """The normal equations."""
        return {"xx": self._xx, "xy": self._xy, "beta": self.beta}

    def prepare(self, state: State) -> Commit:
        """KeyError or ValueError where they are not there."""
        n = len(CAUSES)
        xx, xy, beta = (
            state["xx"].reshape(n, n).copy(),
            state["xy"].reshape(n).copy(),
            state["beta"].reshape(n).copy(),
        )

        def commit() -> None:
            self._xx, self._xy, self.beta = xx, xy, beta

        return commit
