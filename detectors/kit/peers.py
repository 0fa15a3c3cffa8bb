"""GPUs that should run alike: those of one job, of the same model and settings. What one is above
their median is its own doing.

Peers in a node come first: pipeline stages and unequal sequences make nodes of a job differ for
good reason, while the GPUs of a node share a stage as a rule (Megatron-LM keeps tensor parallelism
within the node).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.kit.columns import Columns, Ring
from detectors.kit.jobs import JobTracker
from detectors.kit.readings import reading
from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from detectors.kit.stats import grouped_median
from pipeline.align import fresh
from pipeline.distinct import numbered
from pipeline.frame import Device, Frame
from pipeline.job_names import base
from pipeline.small_arrays import any_true, or_else

ACTIVE_PERCENT = 50.0  # utilisation from which a GPU counts as working
MIN_PEERS = 4  # active peers that a median within a node needs
# ... and one over the nodes of a job, of each of which there are fewer: below it none is compared
MIN_IN_JOB = 8
MIN_SHARE = 0.5  # of the job must be active: else it is starting, ending or writing a checkpoint
# a GPU that was not seen for so long (an agent that was off, a reboot) may work
# for another job than before
AWAY_NS = 1800 * 10**9

# What a GPU of a node that is read at a pace of its own showed last stands for what it does now,
# for as long as between two readings of the slowest site (detectors say: 60 s at most).
HOLD_NS = 60 * 10**9

MOST = 0.75  # of the GPUs of an assumed job that work
NODE = "host "  # before the name of a node that counts as one job

# Settings that must be equal: a GPU with a lower limit or another MIG mode is no peer.
SETTINGS = ("power_limit_enforced_milliwatts", "mig_mode_current", "sm_application_clock_megahertz")


Numbers = NDArray[np.int64]


class _Places(NamedTuple):
    """What never changes of a tuple of devices: the rows of each host, each row's host, and what
    of the same border and model has the same number.
    """

    devices: tuple[Device, ...]
    rows_of: dict[str, list[int]]
    host: Numbers
    model: Numbers


class Centred(NamedTuple):
    """What each row is above its peers' median.

    ``d`` is NaN where there is nothing to compare; ``dropped`` are rows whose peers do not work
    now: a running mean over such an instant would mix two phases of the job.
    """

    d: NDArray[np.float64]
    dropped: NDArray[np.bool_]


class Peers:
    """Groups the rows of a detector's columns, which must have those of ``Peers.fills``.

    ``group`` is the number of each row's group, -1 for none; ``changed`` says which rows came into
    another job, got another setting (a clock lock, a power limit, MIG), or were away, with the last
    frame: what was learnt of them before is no longer valid.
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self.jobs = JobTracker()
        self._group = np.zeros(0, np.int64)
        self.changed = np.zeros(0, np.bool_)
        self._held = np.zeros((2, 0))  # what was compared last of each row, and its utilisation
        self._fresh = np.zeros(0, np.bool_)  # rows that were read within HOLD_NS
        self._least = np.zeros(0, np.int64)
        self._job_of: list[str] = []
        self._seen: tuple[object, int] = (None, -1)
        # of the rows as they were looked at last: their places, jobs by number (-1 for none), and
        # what is alike in all but its job
        self._places: _Places | None = None
        self._assumed = np.zeros(0, np.bool_)
        self._number_of, self._numbered = dict[str, int](), 0  # jobs, and how many there were
        self._job_numbers = self._alike = np.zeros(0, np.int64)

    @staticmethod
    def fills() -> dict[str, Ring | int]:
        """The columns it needs."""
        return {"settings": Ring(len(SETTINGS), np.nan), "seen_ns": 0}

    @property
    def group(self) -> NDArray[np.int64]:
        """The number of each row's group, (row,), -1 for none."""
        return self._columns.here(self._group)

    @property
    def assumed(self) -> NDArray[np.bool_]:
        """Rows of nodes whose jobs are not known, which count as one job each, (row,)."""
        return self._columns.here(self._assumed)

    def look(self, frame: Frame) -> None:
        """Take over what a placed frame and the jobs say; groups are made again
        only when something differs.
        """
        settings = self._columns["settings"]
        now = np.array([self._columns.wide(reading(frame, name)) for name in SETTINGS])
        differs = np.isfinite(now) & (
            now != settings
        )  # a setting that is not read this time still holds
        moved = (self._columns.all_devices, self.jobs.version)
        self.changed = np.zeros(len(self._columns), np.bool_)
        if any_true(differs) or moved[0] is not self._seen[0] or moved[1] != self._seen[1]:
            self._columns["settings"] = np.where(differs, now, settings)
            before, self._seen = self._seen[1], moved
            self._regroup(before, settings_differ=any_true(differs))
            self.changed |= (differs & np.isfinite(settings)).any(axis=0)
        seen, here, unread = (
            self._columns["seen_ns"],
            self._columns.present(),
            self._columns.unread(),
        )
        if unread is not None:
            here &= ~unread
        now_ns = self._columns.times_ns(frame)
        self.changed |= here & (seen > 0) & (now_ns - seen > AWAY_NS)
        np.copyto(seen, now_ns, where=here)
        if unread is not None:
            self._fresh = now_ns - seen <= HOLD_NS

    def now(self, x: NDArray[np.float64], utilisation: NDArray[np.float64]) -> Centred:
        """As ``centred``, of values of the frame that was looked at.

        Where it keeps rows of nodes that it does not read, these are compared with by what they
        showed last: nodes of a job that are read in turn would have no peers.
        """
        unread = self._columns.unread()
        if unread is None:
            return self.centred(x, utilisation)
        more = len(x) - self._held.shape[1]
        held = np.concatenate((self._held, np.full((2, more), np.nan)), axis=1)
        self._held = np.where(unread, held, np.stack((x, utilisation)))
        made = self.centred(*np.where(self._fresh, self._held, np.nan))
        return Centred(np.where(unread, np.nan, made.d), made.dropped & ~unread)

    def centred(self, x: NDArray[np.float64], utilisation: NDArray[np.float64]) -> Centred:
        """Compare x, (row,), among the rows whose utilisation in percent shows that they work."""
        group, groups = self.group, len(self._least)
        observed = (group >= 0) & np.isfinite(utilisation)
        active = observed & (utilisation >= ACTIVE_PERCENT) & np.isfinite(x)
        median, working = grouped_median(np.where(active, x, np.nan), group, groups)
        seen = np.bincount(group[observed], minlength=groups)
        enough = (working >= self._least) & (working >= MIN_SHARE * seen)
        at = np.maximum(group, 0)
        if not groups:
            return Centred(np.full(len(x), np.nan), np.zeros(len(x), np.bool_))
        d = np.where(active & enough[at], x - median[at], np.nan)
        return Centred(d, observed & ~enough[at])

    def in_step(
        self, utilisation: NDArray[np.float64], *of_minute: tuple[NDArray[np.float64], float]
    ) -> NDArray[np.bool_]:
        """Whether the peers of a row do one work, (row,): those of a known job do; of an assumed
        one most must be alike in means over a minute, each with how far from the median counts as
        that. What is not read says nothing.
        """
        assumed, group, groups = self.assumed, self.group, len(self._least)
        alike = ~assumed | (group >= 0)
        for x, width in of_minute if any_true(assumed) else ():
            d = self.centred(x, utilisation).d
            working = np.isfinite(d)
            near = np.bincount(group[working & (np.abs(d) < width)], minlength=groups)
            most = near >= MOST * np.bincount(group[working], minlength=groups)
            if groups:
                alike &= ~assumed | most[np.maximum(group, 0)]
        return alike

    def size(self, row: int) -> int:
        """How many peers a row has, itself included."""
        return int((self.group == self.group[row]).sum()) if self.group[row] >= 0 else 0

    def state(self) -> State:
        """Jobs, and what each row belongs to."""
        return {
            **self.jobs.state(),
            "job_of": text_array(self._job_of),
            "group": self._group,
            "least": self._least,
        }

    def prepare(self, state: State) -> Commit:
        """As ``JobTracker.prepare``."""
        jobs, job_of = (
            self.jobs.prepare(state),
            [str(job) for job in from_text_array(state["job_of"])],
        )
        group, least = state["group"].astype(np.int64), state["least"].astype(np.int64)
        if len(group) != len(job_of) or group.max(initial=-1) >= len(least):
            raise ValueError("groups and jobs do not fit")

        def commit() -> None:
            jobs()
            self._job_of, self._group, self._least, self._seen = job_of, group, least, (None, -1)
            self._assumed = np.array([job.startswith(NODE) for job in job_of], np.bool_)
            self._places = None

        return commit

    def _job(self, gpu: Device) -> str:
        """Its job, empty where it is free.

        Where jobs are not known a node counts as one job, which a training node mostly is.
        """
        return self.jobs.of(gpu.host, gpu.id) if self.jobs.knows(gpu.host) else NODE + gpu.host

    def _border(self, gpu: Device) -> str:
        """What no group goes beyond: the node, where nodes are joined."""
        return gpu.host if self._columns.joined else ""

    def _regroup(self, version: int, *, settings_differ: bool) -> None:
        """Group the rows; of jobs only those of hosts with events since that ``version`` are looked
        up, as a cluster of thousands of GPUs has such an event every few seconds.
        """
        devices = self._columns.all_devices
        places = None if self._places is None else _of_others(self._places, devices)
        if places is None:
            places = self._placed(devices)
            self._job_numbers = np.full(len(devices), -1)
            self._assumed = np.zeros(len(devices), np.bool_)
            rows, settings_differ = list(range(len(devices))), True
        else:
            hosts = self.jobs.changed_since(version)
            rows = [row for host in hosts for row in places.rows_of.get(host, ())]
        self._places, changed = places, np.zeros(len(devices), np.bool_)
        for row in rows:
            job = self._job(devices[row])
            self._job_numbers[row] = self._number(job) if job else -1
            if row >= len(self._job_of):
                self._job_of.append(base(job))
            elif self._job_of[row] != base(job):
                changed[row], self._job_of[row] = True, base(job)
            self._assumed[row] = job.startswith(NODE)
        if settings_differ:
            self._alike = places.model
            # NaN is unlike itself, and no setting is infinite
            for values in or_else(self._columns.whole("settings"), -np.inf):
                self._alike = _together(self._alike, numbered(values)[1])
        self._group, self._least = grouped(self._job_numbers, self._alike, places.host)
        self.changed = self._columns.here(changed)

    def _number(self, job: str) -> int:
        """Of a job; those of jobs that are over are forgotten in time."""
        if job not in self._number_of:
            if len(self._number_of) > 2 * len(self._job_numbers):
                here = set(self._job_numbers.tolist())
                self._number_of = {name: n for name, n in self._number_of.items() if n in here}
            self._number_of[job], self._numbered = self._numbered, self._numbered + 1
        return self._number_of[job]

    def _placed(self, devices: tuple[Device, ...]) -> _Places:
        rows_of: dict[str, list[int]] = {}
        borders: dict[tuple[str, str], int] = {}
        for row, device in enumerate(devices):
            rows_of.setdefault(device.host, []).append(row)
        host = np.zeros(len(devices), np.int64)
        for number, rows in enumerate(rows_of.values()):
            host[rows] = number
        models = [(self._border(one), _model(one)) for one in devices]
        model = np.array([borders.setdefault(one, len(borders)) for one in models], np.int64)
        return _Places(devices, rows_of, host, model)


def _of_others(places: _Places, devices: tuple[Device, ...]) -> _Places | None:
    """The same places of devices that are others in what does not matter here; None where they are
    not.
    """
    if len(devices) != len(places.devices):
        return None
    for row in fresh(places.devices, devices):
        one, other = devices[row], places.devices[row]
        if (one.host, one.id) != (other.host, other.id) or _model(one) != _model(other):
            return None
    return places._replace(devices=devices)


def _model(gpu: Device) -> str:
    return gpu.attributes.get("name", "")


def grouped(job: Numbers, alike: Numbers, host: Numbers) -> tuple[Numbers, Numbers]:
    """The group of each row, (row,), -1 for none, and how many of each group must work, (group,).

    Rows of one ``job`` (-1 for none) that are ``alike`` are peers within their ``host`` where it
    has at least MIN_PEERS of them; those of all other hosts together where they are MIN_IN_JOB.
    Groups are numbered in the order of rows, which makes medians cheap.
    """
    group, rows = np.full(len(job), -1), np.flatnonzero(job >= 0)
    wide = _together(job[rows], alike[rows])
    within = _together(wide, host[rows])
    few = np.bincount(within)[within] < MIN_PEERS
    enough = ~few | (np.bincount(wide[few], minlength=len(rows))[wide] >= MIN_IN_JOB)
    label = np.where(few, wide + len(rows), within)[enough]  # numbers of both are below len(rows)
    first, number = numbered(label)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    group[rows[enough]] = rank[number]
    return group, np.where(label[first[order]] < len(rows), MIN_PEERS, MIN_IN_JOB)


def _together(a: Numbers, b: Numbers) -> Numbers:
    """A number for each pair of numbers that occurs, from 0, (row,)."""
    return numbered(a * (b.max(initial=0) + 1) + b)[1]
