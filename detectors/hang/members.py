"""Who belongs to which job, how far a job reaches, and what is remembered
of each job that is here.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from detectors.hang.kin import NOBODY, Key, Kin, key_of
from detectors.hang.pauses import KINDS, Known
from detectors.kit.columns import Columns
from detectors.kit.jobs import JobTracker
from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.frame import Device
from pipeline.observation import Event

Floats = NDArray[np.float64]
# Without a job: who stopped so long before the last of the others did is no part of what they do;
# ranks of a job stop within a step.
APART_NS = 120 * 10**9

# What is remembered of a job, in seconds unless named otherwise; (kind,) where a pair.
# ``silent_s``: it has paused for so long, ``broken_s``: and now goes on, for so long; ``kind`` of
# that pause; ``stage`` of it that was reported; ``proved``: by hard evidence;
# ``paged``: how many that paged ended by themselves; ``moving_s`` data
# over PCIe since it last worked, ``copied_s`` at more than its usual rate, ``moved_s`` the longest
# of all; ``worked_s`` in all, ``duty`` the share
# of the last hour in which it worked and ``steady`` the same when it last did; ``back_s`` at work
# again; ``over_s`` without a process; ``out`` how many processes are gone, ``out_s`` for how long
# it has been so many: while one after the other leaves, the job ends; ``slow`` how much of its
# usual speed is missing, ``still_s`` since it last computed, ``crawl_s`` for which it crawls,
# ``crawl_stage`` of that which was reported.
# ``longest_s`` pause it came out of, ``number`` of them, ``alike_s``: those of other jobs of its
# user.
SINGLE = (
    "silent_s",
    "broken_s",
    "kind",
    "stage",
    "proved",
    "paged",
    "moving_s",
    "copied_s",
    "moved_s",
    "worked_s",
    "duty",
    "steady",
    "back_s",
    "over_s",
    "out",
    "out_s",
    "slow",
    "still_s",
    "crawl_s",
    "crawl_stage",
)
PAIRED = ("longest_s", "number", "alike_s")
LEARNT = (*PAIRED, "moved_s")  # what jobs alike share
OF_A_JOB = ("pace", "pace_s")  # columns that are another job's when the row is (progress.py)


class Members:
    """Numbers the jobs and keeps their memory, arrays (job,) or (kind, job) by name.

    Needs the columns of ``fills``.

    ``group`` is the job of each row, -1 for none. Where no scheduler tells of jobs a node counts as
    one, which a training node mostly is; that one is ``guessed``, (job,), and its GPUs belong
    together only while they work together. A GPU has ``joined`` once it worked for the job: what
    was never used is waited for by nobody. Needs ``worked_ns`` too, the time at which each row last
    worked, and the columns of a job.
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self.jobs = JobTracker()
        self.kin = Kin()
        self._keys: dict[str, Key] = {}
        self.names: tuple[str, ...] = ()
        self.of: dict[str, Floats] = self._blank(0)
        self.group = np.zeros(0, np.int64)
        self.guessed = np.zeros(0, np.bool_)
        self.single = np.zeros(0, np.bool_)  # on one node, or nobody says on how many, (job,)
        self._job_of: list[str] = []
        self._seen: tuple[object, int] = (None, -1)

    @staticmethod
    def fills() -> dict[str, bool]:
        """The columns it needs."""
        return {"joined": False}

    def take(self, events: Iterable[Event]) -> None:
        """Follow the events of an observation."""
        listed = list(events)
        self.jobs.take(listed)
        for event in listed:
            if event.kind == "job_started" and (key := key_of(event)) is not None:
                self._learn(str(event.attributes.get("job", "")), key, event)

    def _learn(self, job: str, key: Key, event: Event) -> None:
        """Whose job it is, where jobs of two users go by one name: the scheduler's word counts;
        without one it is nobody's, as neither may teach the other.
        """
        known = self._keys.get(job)
        doubt = known is not None and known.user != key.user
        if doubt and "scheduler" not in event.attributes:
            if self.jobs.scheduled(job):
                return
            key = NOBODY
        if key == known:
            return
        self._keys[job] = key
        if job in self.names:
            number = self.names.index(job)
            if doubt:  # what it knows may be of another user's jobs
                for name in LEARNT:
                    self.of[name][..., number] = 0.0
            self._recall(self.of, number, job)

    def look(self) -> tuple[str, ...]:
        """Number the jobs again where rows or jobs changed; the jobs that are here no more."""
        moved = (self._columns.devices, self.jobs.version)
        if moved[0] is self._seen[0] and moved[1] == self._seen[1]:
            return ()
        self._seen = moved
        devices, before = self._columns.devices, self._job_of
        job_of = [self._job(device) for device in devices]
        other = [new != old for new, old in zip(job_of, before, strict=False)] + [True] * (
            len(job_of) - len(before)
        )
        self._columns.reset(np.array(other, np.bool_), "joined", *OF_A_JOB)
        names = tuple(dict.fromkeys(job for job in job_of if job))
        gone = tuple(name for name in self.names if name not in set(names))
        number = {name: n for n, name in enumerate(names)}
        self.group = np.array([number.get(job, -1) for job in job_of], np.int64)
        self.of, self.names, self._job_of = self._carried(names), names, job_of
        self.guessed = np.array([not self.jobs.members(name) for name in names], np.bool_)
        reach = [self.jobs.reach(name) for name in names]
        self.single = np.array([hosts in (None, 1) for hosts in reach], np.bool_)
        self._keys = {
            job: key for job, key in self._keys.items() if job in number or self.jobs.members(job)
        }
        return gone

    def forget(self, job: int) -> None:
        """A job is over: what comes on its GPUs is another."""
        for array in self.of.values():
            array[..., job] = 0.0
        self._recall(self.of, job, self.names[job])
        self._columns.reset(self.group == job, "joined", *OF_A_JOB)

    def known(self) -> Known:
        """What is known of the pauses of each job."""
        of = self.of
        pairs = of["longest_s"], of["alike_s"], of["number"]
        return Known(*pairs, of["moved_s"], of["worked_s"], of["copied_s"])

    def remember(self, job: int) -> None:
        """Jobs alike learn from this one."""
        if (key := self._keys.get(self.names[job], NOBODY)) != NOBODY:
            of = self.of
            self.kin.remember(
                key, of["longest_s"][:, job], of["number"][:, job], float(of["moved_s"][job])
            )
            for other, name in enumerate(self.names):
                alike = self._keys.get(name)
                if alike is not None and alike.user == key.user:
                    of["alike_s"][:, other] = self.kin.alike(alike)

    def _recall(self, of: dict[str, Floats], job: int, name: str) -> None:
        """What jobs alike did, with what it did itself before its user was known."""
        key = self._keys.get(name)
        longest_s, number, moved_s = self.kin.recall(key)
        of["longest_s"][:, job] = np.fmax(of["longest_s"][:, job], longest_s)
        of["number"][:, job] = np.fmax(of["number"][:, job], number)
        of["moved_s"][job] = max(of["moved_s"][job], moved_s)
        if key is not None:
            of["alike_s"][:, job] = self.kin.alike(key)

    def part(self, still: NDArray[np.bool_]) -> None:
        """Where jobs are guessed, drop these rows if they stopped long before others of their node
        did: they do something else.
        """
        worked_ns, here = self._columns["worked_ns"], np.flatnonzero(self._columns["joined"])
        here = here[self.guessed[self.group[here]]]
        last_ns = np.zeros(len(self.names), np.int64)
        np.maximum.at(last_ns, self.group[here], worked_ns[here])
        left = here[still[here] & (worked_ns[here] < last_ns[self.group[here]] - APART_NS)]
        self._columns["joined"][left] = False

    def rows(self, job: int) -> NDArray[np.intp]:
        """Rows of its GPUs that worked."""
        return np.flatnonzero((self.group == job) & self._columns["joined"])

    def count(self, rows: NDArray[np.bool_]) -> NDArray[np.int64]:
        """How many of these rows each job holds, (job,)."""
        return np.bincount(self.group[rows & (self.group >= 0)], minlength=len(self.names))

    def hosts(self, job: int) -> int | None:
        """How many hosts a job holds in all, None where nobody says."""
        return self.jobs.reach(self.names[job])

    def state(self) -> State:
        """Jobs, who belongs to them, and their memory."""
        own = {f"of_{name}": array for name, array in self.of.items()}
        kin = {f"kin_{name}": array for name, array in self.kin.state().items()}
        return {
            **self.jobs.state(),
            **own,
            **kin,
            "keys": text_array(self._keys),
            "names": text_array(self.names),
            "job_of": text_array(self._job_of),
            "group": self.group,
        }

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it does not fit."""
        jobs = self.jobs.prepare(state)
        kin = self.kin.prepare({"of": state["kin_of"]})
        keys = {
            str(job): Key(str(user), str(name), int(hosts))
            for job, (user, name, hosts) in dict(from_text_array(state["keys"])).items()
        }
        names = tuple(str(name) for name in from_text_array(state["names"]))
        job_of = [str(job) for job in from_text_array(state["job_of"])]
        group = state["group"].astype(np.int64)
        of = {name: state[f"of_{name}"].astype(np.float64) for name in (*SINGLE, *PAIRED)}
        fits = all(
            array.shape == blank.shape
            for array, blank in zip(of.values(), self._blank(len(names)).values(), strict=True)
        )
        if not fits or group.shape != (len(job_of),) or group.max(initial=-1) >= len(names):
            raise ValueError("jobs and their memory do not fit")

        def commit() -> None:
            jobs()
            kin()
            self._keys = keys
            self.names, self._job_of, self.group, self.of = names, job_of, group, of
            self._seen = (None, -1)

        return commit

    def _job(self, gpu: Device) -> str:
        return self.jobs.of(gpu.host, gpu.id) if self.jobs.knows(gpu.host) else f"host {gpu.host}"

    def _carried(self, names: tuple[str, ...]) -> dict[str, Floats]:
        """Memory in a new order; that of jobs which are gone is dropped."""
        old = {name: n for n, name in enumerate(self.names)}
        stay = [(n, old[name]) for n, name in enumerate(names) if name in old]
        new = self._blank(len(names))
        if stay:
            to, come = (np.array(side, np.intp) for side in zip(*stay, strict=True))
            for name, array in new.items():
                array[..., to] = self.of[name][..., come]
        for n, name in enumerate(names):
            if name not in old:
                self._recall(new, n, name)
        return new

    @staticmethod
    def _blank(jobs: int) -> dict[str, Floats]:
        return {name: np.zeros(jobs) for name in SINGLE} | {
            name: np.zeros((KINDS, jobs)) for name in PAIRED
        }
