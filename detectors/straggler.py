"""GPUs that silently became slower than their peers: the clock falls, no reason is given, and the whole job waits.

Two baselines per GPU: one of this job, which sees what begins while it runs, and one that survives jobs, which sees what was
there when it began.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from detectors.block_clock import BlockClock, BlockMeans
from detectors.columns import Columns, rows_where
from detectors.episodes import Episodes
from detectors.lanes import LEAST_POOLED, Lane, Limit, runs
from detectors.memory import Numbers, Remembering
from detectors.peers import LEAST_MATES, Peers
from detectors.stats.peers import SIGMA
from pipeline.finding import SEVERITIES, Finding, Severity
from pipeline.frame import Device, Frame
from pipeline.observation import Observation

BLOCK_S = 60.0  # block means: neighbouring samples of a clock are too alike to be tested one by one
# Effect-size floors and persistence: calibrated on a simulated fleet with the published spread of silicon (SC'22, "Not all GPUs are
# created equal"): no false alarm in a thousand GPU-months for the page, and the median 10 % slow-down found within six minutes.
CRITICAL = Limit(0.07, 5.0, 3)
WARNING = Limit(0.05, 4.0, 5)
ACROSS = Limit(0.10, 5.0, 10)
JOB_WARM, JOB_HALF_LIFE = 20, 120.0  # blocks
ACROSS_WARM, ACROSS_HALF_LIFE, ACROSS_CLIP = 60, 720.0, 0.05
SHIFT_START, SHIFT_WEIGHT, SHIFT_LEARNT = 0.008, 0.3, 30  # what the same GPU differs by from job to job
# A slow-down that comes and goes: at least so many separate excursions below the critical limit in the last 60 blocks, and so many
# blocks of them. A twelfth: what a two-minute dip every twelve minutes always leaves.
EXCURSIONS, SHARE_OF_HOUR = 4, 5
HOUR = 60
CLEAR_BLOCKS, CLEAR_SHARE = 5, 0.5
ACCEPT_BLOCKS = 1440  # a day of work at the new level is the new normal
IDLE_BLOCKS = 30  # without a scheduler's word, a GPU that idled this long begins another job
# A reason that was active for at least as long as the loss is great explains it.
REASONS = {
    "hw_thermal": "hardware thermal slowdown",
    "hw_power_brake": "hardware power brake",
    "sw_thermal": "software thermal slowdown",
}
NONE, RECORD, TICKET, PAGE = range(4)


class Straggler(Remembering):
    """Compares the SM clock of each working GPU with its peers, ``d = ln clock - median``, in blocks of a minute."""

    name = "straggler"

    def __init__(self) -> None:
        self._columns = Columns(
            **BlockMeans.fills("d", *REASONS),
            **Peers.fills(),
            **Lane.fills("job"),
            **Lane.fills("across"),
            critical=0,
            warning=0,
            across=0,
            history=0,  # bit per block of the last 60: below the critical limit
            good=0,
            stood=0,
            idle=0,
            said=NONE,
        )
        self._numbers = Numbers(**Lane.numbers("job"), **Lane.numbers("across"), shift2=SHIFT_START**2)
        self._clock, self._means = BlockClock(BLOCK_S), BlockMeans(self._columns, ("d", *REASONS))
        self._peers, self._episodes = Peers(self._columns), Episodes()
        self._job = Lane(self._columns, self._numbers, "job", warm=JOB_WARM, half_life=JOB_HALF_LIFE, clip=lambda s: 3 * s)
        self._across = Lane(
            self._columns, self._numbers, "across", warm=ACROSS_WARM, half_life=ACROSS_HALF_LIFE, clip=lambda _: ACROSS_CLIP
        )
        super().__init__(
            columns=self._columns,
            numbers=self._numbers,
            clock=self._clock,
            means=self._means,
            peers=self._peers,
            episodes=self._episodes,
        )

    def update(self, observation: Observation) -> Iterable[Finding]:
        """Judge the block that ended, then take in the frame."""
        said: list[Finding] = []
        self._peers.jobs.take(observation.events)
        for frame in observation.frames:
            if frame.kind == "gpu":
                ended = self._clock.turn(frame.mono_ns, observation.boot_id)
                if ended:
                    said += self._block(frame.time_ns)
                if ended is not None:
                    self._sample(frame)
        return said

    def _sample(self, frame: Frame) -> None:
        columns = self._columns
        columns.place(frame.devices)
        self._peers.look(frame)
        if self._peers.changed.any():
            self._next_job(self._peers.changed)
        clock = columns.wide(frame.gauge("sm_clock_megahertz"))
        with np.errstate(divide="ignore", invalid="ignore"):
            centred = self._peers.centred(np.log(clock), columns.wide(frame.gauge("gpu_utilization_percent")))
        if centred.dropped.any():
            self._means.drop(centred.dropped)
        self._means.add(d=centred.d, **{name: columns.wide(_duty(frame, name)) for name in REASONS})

    def _block(self, time_ns: int) -> Iterator[Finding]:
        """Judge, then learn: rows under suspicion teach nothing."""
        columns, job, across = self._columns, self._job, self._across
        means = self._means.close()
        y = means["d"]
        r, r_across = job.residual(y), across.residual(y)
        limit, wide = CRITICAL.at(job.s), ACROSS.sigmas * np.sqrt(across.s**2 + 2 * self._numbers["shift2"])
        limits = (limit, WARNING.at(job.s), max(ACROSS.floor, float(wide)))
        for name, residual, at in zip(("critical", "warning", "across"), (r, r, r_across), limits, strict=True):
            columns[name] = runs(columns[name], residual, at)
        seen = np.isfinite(r)
        columns["history"] = np.where(seen, (columns["history"] << 1 | (r < -limit)) & ((1 << HOUR) - 1), columns["history"])
        level, in_job = self._levels()
        yield from self._tell(level, in_job, np.where(in_job, r, r_across), means, time_ns)
        yield from self._clear(y, np.fmax(-r / limits[1], -r_across / limits[2]), time_ns)

        suspect = (columns["warning"] > 0) | (columns["across"] > 0) | (columns["said"] > NONE)
        job.learn(y, suspect)
        across.learn(y, suspect)
        self._rest(y)

    def _levels(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Level of each row, and whether the lane of the job says so."""
        columns = self._columns
        history = columns["history"]
        begins = np.bitwise_count(history & ~(history << 1))
        flickers = (history & 1 == 1) & (begins >= EXCURSIONS) & (np.bitwise_count(history) >= SHARE_OF_HOUR)
        in_job = (columns["warning"] >= WARNING.blocks) | (columns["critical"] >= CRITICAL.blocks) | flickers
        ticket = in_job | (columns["across"] >= ACROSS.blocks)
        return np.where(columns["critical"] >= CRITICAL.blocks, PAGE, np.where(ticket, TICKET, NONE)), in_job

    def _tell(
        self,
        level: NDArray[np.int64],
        in_job: NDArray[np.bool_],
        r: NDArray[np.float64],
        means: dict[str, NDArray[np.float64]],
        time_ns: int,
    ) -> Iterator[Finding]:
        columns = self._columns
        new = (level > columns["said"]) & np.isfinite(r)
        if not new.any():
            return
        together = self._nodes_as_a_whole(columns["warning"] > 0, np.isfinite(means["d"]))
        for row in rows_where(new):
            device = columns.devices[row]
            if device.host in together:
                yield from self._episodes.tell(_node(device.host, together[device.host], time_ns))
                continue
            reason = _explained(row, float(r[row]), means)
            severity: Severity = "record" if reason else SEVERITIES[level[row] - 1]
            lane = self._job if in_job[row] else self._across
            lost = float(-np.expm1(r[row])) * 100
            for finding in self._episodes.tell(self._finding(row, lane, lost, (severity, reason), time_ns)):
                columns["said"][row] = SEVERITIES.index(finding.severity) + 1
                columns["good"][row] = columns["stood"][row] = 0
                yield finding

    def _clear(self, y: NDArray[np.float64], share: NDArray[np.float64], time_ns: int) -> Iterator[Finding]:
        """``share`` of its limit that each row is slow by."""
        columns = self._columns
        if not len(self._episodes):
            return
        seen, stands = np.isfinite(share), columns["said"] > NONE
        columns["good"] = np.where(seen, np.where(share < CLEAR_SHARE, columns["good"] + 1, 0), columns["good"])
        columns["stood"] = columns["stood"] + (stands & np.isfinite(y))
        flickered = np.bitwise_count(columns["history"] & ~(columns["history"] << 1)) >= EXCURSIONS
        good = stands & (columns["good"] >= np.where(flickered, HOUR, CLEAR_BLOCKS))
        normal = stands & ~good & (columns["stood"] >= ACCEPT_BLOCKS)
        for row in rows_where(good | normal):
            columns["said"][row] = NONE
            why = ("taken as its new normal after a day of work",) if normal[row] else ()
            yield from self._episodes.clear(columns.devices[row], time_ns, *why)
        if normal.any():
            self._job.forget(normal)
            self._across.forget(normal)
            columns.reset(normal, "critical", "warning", "across", "history")
        suspects = {columns.devices[row].host for row in rows_where(columns["warning"] > 0)}
        for finding in self._episodes.standing():
            if finding.device.kind == "node" and finding.device.host not in suspects:
                yield from self._episodes.clear(finding.device, time_ns)

    def _nodes_as_a_whole(self, slow: NDArray[np.bool_], seen: NDArray[np.bool_]) -> dict[str, int]:
        """Hosts of which at least half of the working GPUs are slow together, with their number."""
        hosts: dict[str, list[int]] = {}
        for row in rows_where(seen):
            hosts.setdefault(self._columns.devices[row].host, []).append(row)
        many = {host: int(slow[rows].sum()) for host, rows in hosts.items()}
        return {host: n for host, n in many.items() if n >= max(LEAST_MATES, len(hosts[host]) / 2)}

    def _next_job(self, rows: NDArray[np.bool_]) -> None:
        """Another job: its own baseline, except for those that were slow: a new job is no repair."""
        columns = self._columns
        learnt = rows & (self._job.n > SHIFT_LEARNT) & (self._across.n > SHIFT_LEARNT)
        if np.count_nonzero(learnt) > LEAST_POOLED:
            shift = (self._job.b - self._across.b)[learnt]
            spread = SIGMA * float(np.median(np.abs(shift - np.median(shift))))
            self._numbers["shift2"] += SHIFT_WEIGHT * (spread**2 - self._numbers["shift2"])
        self._means.drop(rows)
        anew = rows & (columns["said"] == NONE)
        self._job.forget(anew)
        columns.reset(anew, "critical", "warning", "across", "history")

    def _rest(self, y: NDArray[np.float64]) -> None:
        idle = self._columns["idle"]
        worked = np.isfinite(y)
        woke = worked & (idle >= IDLE_BLOCKS)
        if woke.any():
            self._next_job(woke)
        self._columns["idle"] = np.where(worked, 0, idle + 1)

    def _finding(self, row: int, lane: Lane, lost: float, level: tuple[Severity, str], time_ns: int) -> Finding:
        """``lost`` in percent; ``level`` is severity and the reason that explains it."""
        columns, (severity, reason) = self._columns, level
        blocks = int(columns["across" if lane is self._across else "warning"][row])
        normal = np.expm1(float(lane.b[row])) * 100
        hits = int(columns["history"][row]).bit_count()
        since = "in earlier jobs" if lane is self._across else "earlier in this job"
        peers = f"{since} its SM clock stood {normal:+.1f} % from the median of its {self._peers.size(row) - 1} peers"
        return Finding(
            detector=self.name,
            device=columns.devices[row],
            fault="throttle" if reason else "straggler",
            phase="onset",
            severity=severity,
            onset_ns=time_ns - round(max(blocks, 1) * BLOCK_S * 1e9),
            time_ns=time_ns,
            summary=f"The GPU runs {lost:.1f} % slower than its own normal among its peers; {reason or 'no throttle reason'} explains it.",
            action="NONE" if reason else "RUN_DCGMEUD",
            value=-lost,
            expected=0.0,
            unit="percent",
            evidence=(
                f"{peers}; residuals of all GPUs spread by {100 * lane.s:.1f} %",
                f"{lost:.1f} % below that in the last minute, {blocks} minutes in a row below the limit",
                f"{hits} minutes of its last hour of work below the critical limit of {100 * CRITICAL.at(self._job.s):.1f} %",
            ),
        )


def _duty(frame: Frame, name: str) -> NDArray[np.float64]:
    """Share of the time since the frame before in which a reason held the clocks back, (device,), NaN = not known."""
    counter = f"throttled_{name}_nanoseconds"
    ns = frame.increase(counter)
    assert frame.increments is not None  # noqa: S101 - increase would have raised
    with np.errstate(divide="ignore", invalid="ignore"):
        duty: NDArray[np.float64] = np.clip(ns / frame.increments.seconds[frame.schema.counter_row[counter]] / 1e9, 0.0, 1.0)
    return duty


def _explained(row: int, r: float, means: dict[str, NDArray[np.float64]]) -> str:
    """The reason that was active for at least the share of time that was lost, empty if none."""
    return next(
        (
            f"{words} ({100 * means[name][row]:.0f} % of the time)"
            for name, words in REASONS.items()
            if means[name][row] >= -np.expm1(r)
        ),
        "",
    )


def _node(host: str, gpus: int, time_ns: int) -> Finding:
    return Finding(
        detector=Straggler.name,
        device=Device(host, "node", host),
        fault="straggler",
        phase="onset",
        severity="record",
        onset_ns=time_ns,
        time_ns=time_ns,
        summary=f"{gpus} GPUs of this node became slower than the rest of their job together: a setting, rather than a fault of one.",
        evidence=("compare clock locks, power limits and power supply with the other nodes of the job",),
    )
