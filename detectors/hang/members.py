"""Who belongs to which job, how far a job reaches, and what is remembered
of each job that is here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.hang.crew import Crew
from detectors.hang.kin import NOBODY
from detectors.hang.pauses import KINDS, Known
from detectors.kit.by_node import ByNode, events_by_node
from detectors.kit.columns import Columns, Ring
from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.frame import Device
from pipeline.observation import Observation

# Without a job: who stopped so long before the last of the others did is no part of what they do;
# ranks of a job stop within a step.
APART_NS = 120 * 10**9

# What is remembered of a job, in seconds unless named otherwise; (kind,) where a pair.
# ``silent_s``: it has paused for so long, ``broken_s``: and now goes on, for so long; ``kind`` of
# that pause; ``stage`` of it that was reported; ``proved``: by hard evidence; ``paged``: how many
# that paged ended by themselves; ``moves``: data over PCIe at the last reading, ``moving_s`` since
# it last worked, ``copied_s`` at more than its usual rate, ``moved_s`` the longest of all;
# ``worked_s`` in all, ``duty`` the share of the last hour in which it worked, ``steady`` the same
# when it last did; ``back_s`` at work again; ``over_s`` without a process; ``out`` how many
# processes are gone, ``out_s`` for how long it has been so many: while one after the other leaves,
# the job ends; ``slow`` how much of its usual speed is missing, ``still_s`` since it last computed,
# ``crawl_s`` for which it crawls, ``crawl_stage`` of that which was reported.
# ``longest_s`` pause it came out of, ``number`` of them, ``alike_s``: those of other jobs of its
# user.
SINGLE = (
    "silent_s",
    "broken_s",
    "kind",
    "stage",
    "proved",
    "paged",
    "moves",
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


class JobKey(NamedTuple):
    """A job, and the node that it ends at where nodes are joined, else empty."""

    realm: str
    name: str


class Members:
    """Gives each job a row and keeps its memory: the columns ``of``, (job,) or (kind, job).

    Needs the columns of ``fills``.

    ``group`` is the job of each row, -1 for none. Where no scheduler reports jobs a node counts as
    one, which a training node mostly is; that one is ``guessed``, (job,), and its GPUs belong
    together only while they work together. A GPU has ``joined`` once it worked for the job: what
    was never used is waited for by nobody. Needs ``worked_ns`` too, the time at which each row last
    worked, and the columns of a job. The row of a job that is over is the next job's.
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        # single: on one node, or nobody says on how many
        own = dict.fromkeys(("live", "guessed", "single"), False)
        memory = dict.fromkeys(SINGLE, 0.0) | {name: Ring(KINDS, 0.0) for name in PAIRED}
        self.of = Columns(**own, **memory)
        self.group = np.zeros(0, np.intp)
        self._group = np.zeros(0, np.intp)  # of all rows, in sight or not
        self._crews = ByNode(Crew)
        self._job_of: list[str] = []
        self._rows: dict[str, dict[str, int]] = {}  # of each job, by realm and name
        self._free: dict[str, dict[str, int]] = {}  # rows of jobs that are over, as _rows
        self._gpus: dict[str, list[int]] = {}  # rows of each realm
        self._changed: dict[str, None] = {}  # realms whose jobs or GPUs are other ones
        self._seen: tuple[Device, ...] | None = None

    @staticmethod
    def fills() -> dict[str, bool]:
        """The columns it needs."""
        return {"joined": False}

    def take(self, observation: Observation) -> None:
        """Follow the events of an observation."""
        for host, events in events_by_node(observation).items():
            crew, realm = self._crews.of(host), self._realm(host)
            if crew.take(events):
                self._changed[realm] = None
            for name, doubt in filter(None, map(crew.learn, events)):
                self._other_user(crew, JobKey(realm, name), doubt=doubt)

    def _other_user(self, crew: Crew, job: JobKey, *, doubt: bool) -> None:
        row = self._rows.get(job.realm, {}).get(job.name)
        if row is None:
            return
        (number,) = self.of.sight(np.array([row])).tolist()
        if doubt:  # what it knows may be of another user's jobs
            self.of.reset(np.array([number]), *LEARNT)
        self._recall(crew, number, job.name)

    def look(self) -> list[JobKey]:
        """Number the jobs again where rows or jobs changed; the jobs that are here no more."""
        if self._columns.all_devices is not self._seen:
            self._settle(self._columns.all_devices)
        gone = []
        for realm in [realm for realm in self._changed if self._in_sight(realm)]:
            del self._changed[realm]
            gone += self._regroup(realm)
        self.group = self.of.sight(self._columns.here(self._group))
        return gone

    def _settle(self, devices: tuple[Device, ...]) -> None:
        """Find the realms whose GPUs are others than before."""
        before = self._seen or ()
        more = len(devices) - len(self._job_of)
        self._job_of += [""] * more
        self._group = np.concatenate((self._group, np.full(more, -1, np.intp)))
        for row in range(len(devices)):
            if row >= len(before) or devices[row] is not before[row]:
                realm = self._realm(devices[row].host)
                self._changed[realm] = None
                if row >= len(before):
                    self._gpus.setdefault(realm, []).append(row)
        self._seen = devices

    def _in_sight(self, realm: str) -> bool:
        rows, devices = self._gpus.get(realm, []), self._columns.all_devices
        return bool(rows) and self._columns.row(devices[rows[0]]) is not None

    def _regroup(self, realm: str) -> list[JobKey]:
        """Give the GPUs of a realm to its jobs; those that have none any more."""
        crew, rows, known = (
            self._crews.of(realm),
            self._gpus[realm],
            self._rows.setdefault(realm, {}),
        )
        devices = self._columns.all_devices
        job_of = {row: crew.job(devices[row]) for row in rows}
        other = [row for row, job in job_of.items() if job != self._job_of[row]]
        self._columns.reset(self._columns.sight(np.array(other, np.intp)), "joined", *OF_A_JOB)
        names = dict.fromkeys(job for job in job_of.values() if job)
        gone = [name for name in known if name not in names]
        for name in gone:
            row = known.pop(name)
            self.of.reset(self.of.sight(np.array([row])))
            self._free.setdefault(realm, {})[name] = row
        for name in names:
            if name not in known:
                known[name] = self._begins(crew, JobKey(realm, name))
        for row, job in job_of.items():
            self._job_of[row], self._group[row] = job, known.get(job, -1)
        for name, number in zip(
            known, self.of.sight(np.array([*known.values()], np.intp)).tolist(), strict=True
        ):
            self.of["guessed"][number] = not crew.jobs.members(name)
            self.of["single"][number] = crew.jobs.reach(name) in (None, 1)
        crew.only(known)
        return [JobKey(realm, name) for name in gone]

    def _begins(self, crew: Crew, job: JobKey) -> int:
        """The row of a new job; one that is queued again, under its name, has its own row again."""
        device, free = Device(job.realm, "job", job.name), self._free.get(job.realm, {})
        if job.name in free:
            row = free.pop(job.name)
        elif free:
            _, row = free.popitem()
            self.of.rename(row, device)
        else:
            row = len(self.of.all_devices)
            self.of.place((device,))
        (number,) = self.of.sight(np.array([row])).tolist()
        self.of["live"][number] = True
        self._recall(crew, number, job.name)
        return row

    def key(self, job: int) -> JobKey:
        """The job of a row."""
        device = self.of.devices[job]
        return JobKey(device.host, device.id)

    def forget(self, job: int) -> None:
        """A job is over: what comes on its GPUs is another."""
        self.of.reset(np.array([job]), *SINGLE, *PAIRED)
        key = self.key(job)
        self._recall(self._crews.of(key.realm), job, key.name)
        self._columns.reset(self.group == job, "joined", *OF_A_JOB)

    def known(self) -> Known:
        """What is known of the pauses of each job."""
        of = self.of
        pairs = of["longest_s"], of["alike_s"], of["number"]
        return Known(*pairs, of["moved_s"], of["worked_s"], of["copied_s"])

    def remember(self, job: int) -> None:
        """Jobs alike learn from this one."""
        realm, name = self.key(job)
        crew = self._crews.of(realm)
        key = crew.key(name) or NOBODY
        if key == NOBODY:
            return
        of = self.of
        longest_s, number = of["longest_s"][:, job], of["number"][:, job]
        crew.kin.remember(key, longest_s, number, float(of["moved_s"][job]))
        for name, row in self._rows[realm].items():
            alike = crew.key(name)
            if alike is not None and alike.user == key.user:
                of["alike_s"][:, of.sight(np.array([row]))[0]] = crew.kin.alike(alike)

    def _recall(self, crew: Crew, job: int, name: str) -> None:
        """What jobs alike did, with what it did itself before its user was known."""
        of, key = self.of, crew.key(name)
        longest_s, number, moved_s = crew.kin.recall(key)
        of["longest_s"][:, job] = np.fmax(of["longest_s"][:, job], longest_s)
        of["number"][:, job] = np.fmax(of["number"][:, job], number)
        of["moved_s"][job] = max(of["moved_s"][job], moved_s)
        if key is not None:
            of["alike_s"][:, job] = crew.kin.alike(key)

    def part(self, still: NDArray[np.bool_]) -> None:
        """Where jobs are guessed, drop these rows if they stopped long before others of their node
        did: they do something else.
        """
        worked_ns, here = self._columns["worked_ns"], np.flatnonzero(self._columns["joined"])
        here = here[self.of["guessed"][self.group[here]]]
        last_ns = np.zeros(len(self.of), np.int64)
        np.maximum.at(last_ns, self.group[here], worked_ns[here])
        left = here[still[here] & (worked_ns[here] < last_ns[self.group[here]] - APART_NS)]
        self._columns["joined"][left] = False

    def rows(self, job: int) -> NDArray[np.intp]:
        """Rows of its GPUs that worked."""
        return np.flatnonzero((self.group == job) & self._columns["joined"])

    def count(self, rows: NDArray[np.bool_]) -> NDArray[np.int64]:
        """How many of these rows each job holds, (job,)."""
        return np.bincount(self.group[rows & (self.group >= 0)], minlength=len(self.of))

    def hosts(self, job: JobKey) -> int | None:
        """How many hosts a job holds in all, None where nobody says."""
        return self._crews.of(job.realm).jobs.reach(job.name)

    def state(self) -> State:
        """Jobs, who belongs to them, and their memory."""
        return {
            **{f"crew_{name}": array for name, array in self._crews.state().items()},
            **{f"of_{name}": array for name, array in self.of.state().items()},
            "job_of": text_array(self._job_of),
        }

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it does not fit."""
        crews, of = (
            part.prepare(
                {
                    name.removeprefix(label): array
                    for name, array in state.items()
                    if name.startswith(label)
                }
            )
            for part, label in ((self._crews, "crew_"), (self.of, "of_"))
        )
        job_of = [str(job) for job in from_text_array(state["job_of"])]

        def commit() -> None:
            crews()
            of()
            self._job_of, self._group = job_of, np.full(len(job_of), -1, np.intp)
            self._rows, self._free, self._gpus = {}, {}, {}
            self._seen, self._changed = None, {}
            for row, job in enumerate(self.of.all_devices):
                if self.of["live"][row]:
                    self._rows.setdefault(job.host, {})[job.id] = row
                else:
                    self._free.setdefault(job.host, {})[job.id] = row

        return commit

    def _realm(self, host: str) -> str:
        return host if self._columns.joined else ""
