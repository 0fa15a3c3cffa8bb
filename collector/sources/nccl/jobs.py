"""The jobs of the node as they come, lose processes and end: from one scan to the next."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from collector.node.likeness import of_pod, of_training, of_user
from collector.node.pods_by_gpu import PodsByGpu
from collector.node.trainings import POD, Trainings
from collector.sources.nccl.discovery.environment import number_of
from collector.sources.nccl.discovery.found import Found
from collector.sources.nccl.discovery.identity import Owner
from pipeline.clock import Instant
from pipeline.frame import Device
from pipeline.observation import Event, Value

LOSS_S = 600.0  # how long a process that others of its job outlived is a reason to suspect
_TRAINING = f"{POD}s of "  # how the group of processes of a training begins, before its id
# The address of rank 0 where a launcher was given none: every host of the cluster has this one.
_LOOPBACK = re.compile(r"(?:localhost|127(?:\.\d{1,3}){3}|0\.0\.0\.0|\[?::1\]?)(:\d{1,5})?")
_QUALIFIED = re.compile(r"user\d+:")  # how a name begins that has its user in front
ORDERLY_S = 5.0  # processes of a job that ends go within moments of one another


@dataclass(slots=True)
class Job:
    """One job on this node.

    ``lost_s`` is when it lost a process that others outlived, None where it lost none.
    """

    name: str
    owner: Owner
    processes: dict[tuple[int, float], Found] = field(default_factory=dict)
    gpus: tuple[str, ...] = ()
    likeness: dict[str, str] = field(default_factory=dict)
    lost_s: float | None = None

    @property
    def known_as(self) -> str:
        """Its name without the step, as logs are called; of a qualified one all of it."""
        return self.owner.base if self.name == self.owner.name else self.name

    @property
    def present(self) -> tuple[Found, ...]:
        """Its processes that have NCCL loaded, in order of pid."""
        return tuple(sorted(self.processes.values(), key=lambda p: p.pid))

    def bereft_s(self, now_s: float) -> float | None:
        """Since when it is suspect because a process is gone, None where it is not."""
        if self.lost_s is None or not ORDERLY_S <= now_s - self.lost_s < LOSS_S:
            return None
        return self.lost_s


class Jobs:
    """Follows them, and says as events what changed."""

    def __init__(
        self,
        host: str,
        *,
        hidden: Collection[str] = (),
        pods: PodsByGpu | None = None,
        trainings: Trainings | None = None,
    ) -> None:
        self._node, self._trainings = Device(host, "node", host), trainings or Trainings()
        self._hidden, self._pods = tuple(hidden), pods or PodsByGpu()
        self.now: dict[str, Job] = {}
        self._names: dict[Owner, str] = {}  # of the jobs, by whose they are

    def update(self, processes: Iterable[Found], now_s: float, at: Instant) -> list[Event]:
        """What changed since the last scan; ``at`` is unix and monotonic time in ns."""
        speaking = known_ranks([self._named(p) for p in processes if p.library is not None])
        owners = {(p.pid, p.started_s): p.owner for p in speaking}
        events: list[Event] = []
        for job in list(self.now.values()):
            gone = [job.processes.pop(key) for key in job.processes.keys() - owners.keys()]
            # Of a pod whose training has become known: they run on as another job.
            for key in [key for key in job.processes if owners[key] != job.owner]:
                del job.processes[key]
            events += [
                self._event("nccl_process_lost", job.name, p, at)
                for p in sorted(gone, key=lambda p: p.pid)
            ]
            if not job.processes:
                del self.now[job.name]
                events.append(Event(*at, self._node, "job_ended", {"job": job.name}))
            elif gone:
                job.lost_s = now_s
        for process in sorted(speaking, key=lambda process: not process.sure):
            job, ended = self._job_of(process.owner, at)
            events += ended
            key = (process.pid, process.started_s)
            if key not in job.processes:
                events.append(self._event("nccl_process_found", job.name, process, at))
            job.processes[key] = process
        jobs_of: defaultdict[str, set[str]] = defaultdict(set)
        for job in self.now.values():
            for process in job.present:
                for uuid in process.uuids:
                    jobs_of[uuid].add(job.name)
        taken = {name: {u for u, jobs in jobs_of.items() if name not in jobs} for name in self.now}
        return events + [
            event for job in self.now.values() for event in self._grown(job, taken[job.name], at)
        ]

    def _named(self, process: Found) -> Found:
        """Of a pod whose training is known: all pods of a training are one job. One whose rank 0 is
        at this host's own address, or that has no name but its user's, is not the job of that name
        on another host.
        """
        owner = process.owner
        training = self._trainings.of_group(owner.group) if owner.sure else None
        if training is None:
            local = None if owner.sure else _LOOPBACK.fullmatch(process.job)
            if local:
                return replace(process, job=f"{self._node.id}{local[1] or ''}")
            return (
                process if process.job else replace(process, job=f"{owner.name} on {self._node.id}")
            )
        return replace(process, job=training.id, group=f"{_TRAINING}{training.id}")

    def _job_of(self, owner: Owner, at: Instant) -> tuple[Job, list[Event]]:
        """The job of an owner. A name that another owner has is qualified by the user: a claim
        takes no name, and leaves it to the job whose control group has it. So is one that is made
        to look like that.
        """
        known = self.now.get(self._names.get(owner, ""))
        if known is not None and known.owner == owner:
            return known, []
        rivals = [
            job
            for job in self.now.values()
            if job.owner.base == owner.base
            and job.name == job.owner.name
            and job.owner[:2] != owner[:2]
        ]
        events: list[Event] = []
        if owner.sure and not any(job.owner.sure for job in rivals):
            for job in rivals:
                del self.now[job.name]
                events.append(Event(*at, self._node, "job_ended", {"job": job.name}))
            rivals = []
        own = not rivals and not _QUALIFIED.match(owner.name)
        name = owner.name if own else f"user{owner.user}:{owner.group}:{owner.name}"
        self._names = {job.owner: job.name for job in self.now.values()} | {owner: name}
        return self.now.setdefault(name, Job(name, owner)), events

    def _grown(self, job: Job, taken: Collection[str], at: Instant) -> Iterator[Event]:
        """A job that has other GPUs than before.

        What a lost process held is still the job's, until it is ``taken``: only processes of other
        jobs hold it.
        """
        kept = (uuid for uuid in job.gpus if uuid not in taken)
        gpus = tuple(sorted({*kept, *(uuid for p in job.present for uuid in p.uuids)}))
        likeness = job.likeness or self._likeness(job, gpus)
        if gpus != job.gpus or likeness != job.likeness:
            job.gpus, job.likeness = gpus, likeness
            facts: dict[str, Value] = {
                "job": job.name,
                "gpus": " ".join(gpus),
                **hosts_of(job.present),
                **likeness,
            }
            yield Event(*at, self._node, "job_started", facts)

    def _likeness(self, job: Job, gpus: Sequence[str]) -> dict[str, str]:
        """User and name. A job that only claims a scheduler's id has none: it would be taken for
        that job's.
        """
        owner = job.owner
        if owner.group.startswith(_TRAINING):
            training = self._trainings.named(owner.group.removeprefix(_TRAINING))
            return {} if training is None else of_training(training, self._hidden)
        if owner.group.startswith(POD):
            return of_pod(self._pods.of(gpus)) if owner.sure else {}
        if owner.base.isdecimal() and not owner.sure:
            return {}
        names = (process.environment.get("SLURM_JOB_NAME", "") for process in job.present)
        return of_user(owner.user, next(filter(None, names), ""), self._hidden)

    def _event(self, kind: str, job: str, process: Found, at: Instant) -> Event:
        facts: dict[str, Value] = {"job": job, "pid": process.pid, "own_pid": process.inner_pid}
        if kind == "nccl_process_found":
            facts["process"] = process.comm
        if process.rank >= 0:
            facts["rank"] = process.rank
        if process.uuids:
            facts["gpus"] = " ".join(process.uuids)
        return Event(*at, self._node, kind, facts)


def known_ranks(processes: Sequence[Found]) -> list[Found]:
    """Without the ranks that several processes of a job claim: RANK is the pod's in a launcher, and
    in children that set their own later.
    """
    claimed = Counter((process.owner, process.rank) for process in processes)
    return [
        replace(process, rank=-1) if claimed[process.owner, process.rank] > 1 else process
        for process in processes
    ]


def hosts_of(processes: Sequence[Found]) -> dict[str, int]:
    """How many hosts the job has: its launcher gave the number of ranks, each process is one of
    them and the hosts are alike, or Slurm gave the number of nodes.

    A step of one node in an allocation of several gives no number: some programs begin one on each
    node, and join them later.
    """
    environment, ranks = processes[0].environment, {p.rank for p in processes}
    size = number_of(environment, "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
    if size > 0 and size % len(ranks) == 0 and (size == 1 or -1 not in ranks):
        return {"hosts": size // len(ranks)}
    step, allocated = (
        number_of(environment, f"SLURM_{which}_NUM_NODES") for which in ("STEP", "JOB")
    )
    if step > 1:
        return {"hosts": step}
    return {"hosts": 1} if allocated == 1 else {}
