"""What each GPU does now: it works, waits in a kernel that does nothing, is held and
idle, or its process is gone.

Power does not distinguish a waiting kernel from an idle GPU that is held (H100: 100 to 152 W
against 129 to 145 W in public reports); utilisation does, as a kernel that spins is resident all
the time. Power, as a share of the GPU's own way from idle to work, distinguishes both from work.
Where the GPU shows tensor, memory and link activity, they must agree, and bear witness: without any
of them light work looks like a wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detectors.kit.block_clock import Seconds
from detectors.kit.columns import Columns
from detectors.kit.readings import reading
from detectors.kit.steps import Steps
from pipeline.frame import Frame
from pipeline.gpu_state import NO_FAULT, GpuState

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# What a GPU does. LOST: the driver does not reach it; FREE: no process holds it; IDLE: held, and
# nothing runs; BUSY is all else.
UNKNOWN, BUSY, MOVING, SPINS, IDLE, FREE, LOST = range(7)
POWER, NVLINK, TENSOR = 1, 2, 3  # what shows the speed of a row, the best last; 0: nothing yet
FAILED = [state for state in GpuState if state not in NO_FAULT]

# utilisation: a spinning kernel is always there; writing a checkpoint shows a few per cent
SPIN_PERCENT, IDLE_PERCENT = 95.0, 10.0
LITTLE_POWER = 0.35  # of the way from idle to work
# Where tensor, memory, link and SM activity show that nothing is done, power does not count:
# kernels that spin draw 20 to 45 % of the power limit, by model, which is what light training
# draws. NCCL's occupy at most 32 of an H100's 132 SMs.
LITTLE_SM = 30.0  # percent
LITTLE_TENSOR, LITTLE_DRAM = 0.5, 2.0  # percent
# of what its memory does while it works: kernels that spin read flags, some more than others
LITTLE_OF_DRAM = 0.1
# A GPU whose tensor cores are used as a rule, and are not now, waits with more power too.
USES_TENSOR, SPIN_POWER = 5.0, 0.5  # percent; of the way from idle to work
LITTLE_BYTES = 0.01  # of the GPU's own usual rate
# Than it usually moves while it works: a copy of its memory to the host. Less may be the last of
# its work, in the reading in which it stopped.
COPY_MORE = 2.0
MIN_BYTES_PER_S = 1e6  # less than this is housekeeping: the driver's own polling
IDLE_SHARE, WORK_SHARE = 0.2, 0.7  # of the power limit, until its own levels are known
# between idle and work: the power of a GPU with less is no evidence, and it counts as working
MIN_WAY_W = 10.0
LEARN = 0.02  # weight of one sample of work in its own levels
HOLD_S = 60.0  # a GPU that is not read keeps doing what it did for so long
HOLD_READS = 2.5  # and where nodes are read at a pace of their own, for so many of its steps
KIBIBYTE, MEBIBYTE = 1 << 10, 1 << 20


class Activity:
    """The state of every row of a detector's columns, which must have those of ``fills``."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self.shows = np.zeros(0)  # of the last frame: speed of each row, in a unit of its own
        self._every_s = np.zeros(0)  # seconds between two readings of each row, where they differ
        # Of the last frame, of rows that were read: whether data moves, and whether it is a copy of
        # its memory to or from the host.
        self.moves, self.copies = np.zeros(0, np.bool_), np.zeros(0, np.bool_)

    @staticmethod
    def fills() -> dict[str, float | int]:
        """The columns it needs, in addition to ``pace`` of progress.py.

        Watts, bytes per second and percent; ``unread_s`` since the row was last read;
        ``witnessed``: by more than its power.
        """
        levels = ("idle_w", "work_w", "pcie_rate", "nvlink_rate", "dram_rate", "tensor_rate")
        own = dict.fromkeys(levels, np.nan)
        return own | {"does": UNKNOWN, "unread_s": 0.0, "witnessed": False, "output": 0}

    def look(self, frame: Frame, passed_s: Seconds) -> NDArray[np.int64]:
        """What each row does, (row,), after a placed frame that came ``passed_s`` after the one
        before.
        """
        columns = self._columns
        power, share = self._power(frame)
        pcie, nvlink = columns.wide(_pcie(frame)), columns.wide(_nvlink(frame))
        busy = columns.wide(reading(frame, "gpu_utilization_percent"))
        tensor, dram = (
            columns.wide(reading(frame, f"{unit}_activity_percent")) for unit in ("tensor", "dram")
        )
        links = nvlink > np.fmax(LITTLE_BYTES * columns["nvlink_rate"], MIN_BYTES_PER_S)
        reads = dram > np.fmax(LITTLE_OF_DRAM * columns["dram_rate"], LITTLE_DRAM)
        computes = (tensor > LITTLE_TENSOR) | reads | links
        sm = columns.wide(reading(frame, "sm_activity_percent"))
        witnessed = np.isfinite(tensor) & np.isfinite(dram) & np.isfinite(nvlink)
        rests = np.isfinite(tensor) & np.isfinite(dram) & (columns["tensor_rate"] >= USES_TENSOR)
        limit = np.where(rests, SPIN_POWER, LITTLE_POWER)
        quiet = ((share <= limit) | (witnessed & (sm <= LITTLE_SM))) & ~computes
        moves = pcie > np.fmax(LITTLE_BYTES * columns["pcie_rate"], MIN_BYTES_PER_S)

        does = np.where(np.isfinite(busy) & np.isfinite(share), BUSY, UNKNOWN)
        does[quiet & (busy >= SPIN_PERCENT)] = SPINS
        does[quiet & (busy <= IDLE_PERCENT)] = IDLE
        does[moves & ((does == SPINS) | (does == IDLE))] = MOVING
        self.moves = does == MOVING
        self.copies = self.moves & (pcie > COPY_MORE * columns["pcie_rate"])
        does[(columns.wide(frame.gauge("compute_processes")) == 0) & (does != BUSY)] = FREE
        does[columns.wide(frame.gauge("mig_mode_current")) > 0] = (
            UNKNOWN  # its instances belong to different people
        )
        does[np.isin(columns.wide(frame.gauge("state")), FAILED)] = LOST
        witnesses = np.isfinite(tensor) | np.isfinite(dram) | np.isfinite(nvlink)
        columns["witnessed"] = np.where(does == UNKNOWN, columns["witnessed"], witnesses)
        rates = {"pcie_rate": pcie, "nvlink_rate": nvlink, "dram_rate": dram, "tensor_rate": tensor}
        self._learn(does, {"work_w": power} | rates)
        self.shows = self._output(does, tensor, nvlink, power - columns["idle_w"])
        return self._hold(does, passed_s)

    def _output(
        self, does: NDArray[np.int64], tensor: Floats, nvlink: Floats, watts: Floats
    ) -> Floats:
        """What each row shows of its speed, (row,): the best that it ever showed while it worked,
        so that a reading that is missing does not change its unit.
        """
        columns, works = self._columns, does == BUSY
        best = np.where(tensor > LITTLE_TENSOR, TENSOR, np.where(nvlink > 0, NVLINK, POWER))
        better = works & (best > columns["output"])
        columns["output"] = np.where(better, best, columns["output"])
        columns["pace"] = np.where(better, np.nan, columns["pace"])
        shown = np.choose(columns["output"], (watts, watts, nvlink, tensor))
        return np.where(does == UNKNOWN, np.nan, shown)

    def _power(self, frame: Frame) -> tuple[Floats, Floats]:
        """Watts, and the share of the way from idle to work; both NaN where energy stands still, as
        no GPU's can: it is not read.
        """
        columns = self._columns
        if frame.increments is None:
            raise ValueError("increments are made by the engine; this frame has not passed it")
        energy = frame.increments.rate(frame.schema.counter_row["energy_millijoules"])
        shown = reading(frame, "power_milliwatts")
        milliwatts = np.where(np.isfinite(energy), energy, shown)
        watts = columns.wide(
            np.where((milliwatts > 0) & np.isfinite(shown), milliwatts / 1000, np.nan)
        )
        limit = columns.wide(reading(frame, "power_limit_enforced_milliwatts")) / 1000
        idle = np.fmin(columns["idle_w"], IDLE_SHARE * limit)
        work = np.where(np.isfinite(columns["work_w"]), columns["work_w"], WORK_SHARE * limit)
        return watts, (watts - idle) / np.maximum(work - idle, MIN_WAY_W)

    def _learn(self, does: NDArray[np.int64], shown: Mapping[str, Floats]) -> None:
        """Its own levels: the least power while it is held and idle, and what
        is usual while it works.
        """
        columns, works = self._columns, does == BUSY
        columns["idle_w"] = np.where(
            does == IDLE, np.fmin(columns["idle_w"], shown["work_w"]), columns["idle_w"]
        )
        for name, x in shown.items():
            level = columns[name]
            moved = np.where(np.isfinite(level), level + LEARN * (x - level), x)
            columns[name] = np.where(works & np.isfinite(x), moved, level)

    def _hold(self, does: NDArray[np.int64], passed_s: Seconds) -> NDArray[np.int64]:
        columns, unread, hold_s = self._columns, does == UNKNOWN, np.float64(HOLD_S)
        if isinstance(passed_s, Steps):
            hold_s = self._holds_s(passed_s)
            step_s = passed_s.frame
        else:
            step_s = columns.each(passed_s)
        columns["unread_s"] = np.where(unread, columns["unread_s"] + step_s, 0.0)
        held: NDArray[np.int64] = np.where(
            unread & (columns["unread_s"] < hold_s), columns["does"], does
        )
        columns["does"] = held
        return held

    def _holds_s(self, passed_s: Steps) -> Any:
        """For how long each row keeps doing what it did, (row,): longer where it is read seldom."""
        more = len(self._columns) - len(self._every_s)
        self._every_s = np.concatenate((self._every_s, np.zeros(more)))
        own = self._columns.each(passed_s)
        self._every_s = np.where(own > 0, own, self._every_s)
        return np.maximum(HOLD_S, HOLD_READS * self._every_s)


def _pcie(frame: Frame) -> Floats:
    """Bytes per second over PCIe, both ways."""
    return _both_ways(frame, "pcie_{}_bytes", 1, "pcie_{}_mebibytes_per_second")


def _nvlink(frame: Frame) -> Floats:
    """Bytes per second over all NVLinks, both ways; NaN where the GPU does not say."""
    return _both_ways(frame, "nvlink_{}_kibibytes", KIBIBYTE, "nvlink_{}_mebibytes_per_second")


def _both_ways(frame: Frame, counter: str, unit: int, gauge: str) -> Floats:
    """Bytes per second: from the counters, which miss nothing, else from the driver's own rate."""
    assert frame.increments is not None  # noqa: S101 - _power has looked
    ways = ("transmit", "receive")
    counted = (
        sum(frame.increments.rate(frame.schema.counter_row[counter.format(way)]) for way in ways)
        * unit
    )
    shown = sum(frame.gauge(gauge.format(way)) for way in ways) * MEBIBYTE
    return np.where(np.isfinite(counted), counted, shown)
