"""Jobs as events: a job begins, has other GPUs than before, or is gone.

From them the detectors know whose GPU it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from collector.node.kept_jobs import KeptJob, KeptJobs
from collector.node.likeness import of_pod, of_user
from collector.node.pods_by_gpu import Pod
from collector.sources.jobs.allocation import Allocation, Scheduler
from pipeline.clock import SECOND_NS, Instant
from pipeline.frame import Device
from pipeline.observation import Event, Value

# a job that is not listed for this long is over: the processes of a program that restarts are away
# for moments
GONE_NS = 30 * SECOND_NS


@dataclass(slots=True)
class _Job:
    """``gpus`` and ``reported`` are those of its last event; ``hosts`` is how many nodes it has, 0
    where that is unknown, ``likeness`` its user and name once they are known.

    ``listed``: a provider named it since the agent began.
    """

    scheduler: str
    seen_ns: int = 0
    hosts: int = 0
    likeness: dict[str, str] = field(default_factory=dict)
    gpus: tuple[str, ...] = ()
    reported: tuple[int, bool] | None = None  # hosts, and whether user and name were
    listed: bool = False

    @property
    def known(self) -> tuple[int, bool]:
        """What ``reported`` becomes with the next event."""
        return self.hosts, bool(self.likeness)


class JobTracker:
    """Follows the jobs of schedulers and reports changes, as the processes that use NCCL are
    followed (collector/sources/nccl/jobs.py).

    Only what is surely one job: pods of which no training is known are left out, for such a pod may
    be a part of a job, or one of many servers that have nothing in common. A GPU that several jobs
    share, or that is divided, has no job.

    ``kept`` are the jobs that ran when the agent ended: those of another boot are over, and the
    others when no provider lists them.
    """

    def __init__(self, host: str, kept: KeptJobs | None = None) -> None:
        self._node = Device(host, "node", host)
        self._kept, self._resumed = kept or KeptJobs(), False
        self._jobs: dict[str, _Job] = {}

    def update(
        self,
        holdings: Iterable[Allocation],
        at: Instant,
        *,
        blind: Collection[Scheduler] = (),
        unnamed: Collection[str] = (),
    ) -> list[Event]:
        """Events of what changed; ``at`` is unix and monotonic time in ns.

        ``blind``: a job of these schedulers that is not listed now may still run. ``unnamed`` are
        GPUs of pods of which it is not known yet whether they are of a training: so may the job of
        Kubernetes that had one.
        """
        ended = [] if self._resumed else self._resume(at)
        listed, now_ns = list(holdings), at.mono_ns
        before = {uuid: name for name, job in self._jobs.items() for uuid in job.gpus}
        owners = _owners(listed, before)
        followed = self._jobs.keys() | owners.values()  # no more than there are GPUs
        for one in listed:
            if (name := _name(one)) and name in followed:
                job = self._jobs.setdefault(name, _Job(one.scheduler))
                job.seen_ns, job.hosts, job.listed = now_ns, job.hosts or one.hosts, True
                job.likeness = job.likeness or _likeness(one)
        for job in self._jobs.values():
            of_pods = job.scheduler == "kubernetes" and not set(job.gpus).isdisjoint(unnamed)
            if job.scheduler in blind or of_pods:
                job.seen_ns = now_ns
        changed = [
            event
            for name, job in list(self._jobs.items())
            for event in self._changed(name, job, owners, at)
        ]
        self._kept.keep(
            {name: KeptJob(job.scheduler, job.gpus) for name, job in self._jobs.items() if job.gpus}
        )
        return ended + changed

    def _resume(self, at: Instant) -> list[Event]:
        """Go on with the jobs that were kept; the ends of those that ended with their boot."""
        self._resumed = True
        kept = self._kept.jobs
        if self._kept.rebooted:
            return [self._ended(name, job.scheduler, at) for name, job in kept.items()]
        self._jobs = {
            name: _Job(job.scheduler, at.mono_ns, gpus=job.gpus) for name, job in kept.items()
        }
        return []

    def _changed(
        self, name: str, job: _Job, owners: dict[str, str], at: Instant
    ) -> Iterator[Event]:
        """A job keeps what it had until another has it: its process on a GPU may have died, and
        that is what to look for.
        """
        over = at.mono_ns - job.seen_ns >= GONE_NS
        if over:
            del self._jobs[name]
        kept = (uuid for uuid in job.gpus if owners.get(uuid, name) == name)
        gpus = (
            ()
            if over
            else tuple(sorted({*kept, *(uuid for uuid, owner in owners.items() if owner == name)}))
        )
        if gpus == job.gpus and (job.known == job.reported or not job.listed):
            return
        if gpus:
            # A job on several nodes may be one program, or another one on each.
            only = {"hosts": 1} if job.hosts == 1 else {}
            facts: dict[str, Value] = {"gpus": " ".join(gpus), **only, **job.likeness}
            yield self._event("job_started", name, job.scheduler, at, facts)
        elif job.gpus:
            yield self._ended(name, job.scheduler, at)
        job.gpus, job.reported = gpus, job.known

    def _ended(self, name: str, scheduler: str, at: Instant) -> Event:
        return self._event("job_ended", name, scheduler, at, {})

    def _event(
        self, kind: str, name: str, scheduler: str, at: Instant, facts: Mapping[str, Value]
    ) -> Event:
        return Event(*at, self._node, kind, {"job": name, "scheduler": scheduler, **facts})


def _name(holding: Allocation) -> str:
    """Pods have one only where a training of theirs is known."""
    return holding.facts.get("job", "")


def _likeness(holding: Allocation) -> dict[str, str]:
    """User and name. Facts that are hidden were left out before."""
    facts = holding.facts
    if holding.scheduler == "kubernetes":
        return of_pod(Pod(facts.get("namespace", ""), facts.get("job_name", "")))
    return of_user(holding.owner, facts.get("job_name", "")) if facts.get("user") else {}


def _owners(holdings: Sequence[Allocation], before: Mapping[str, str]) -> dict[str, str]:
    """By UUID the job that has a complete GPU to itself, "" where several have it or parts of it;
    ``before``: the job that had it until now.

    A job writes its environment itself: what it claims there counts only where no stronger evidence
    names an owner, and nobody had the GPU before. Nor does a process that opened a GPU take it from
    a job of another user.
    """
    sure = {h.uuid for h in holdings if _name(h) and h.evidence != "environment"}
    claims: dict[str, dict[str, Allocation]] = {}
    for one in holdings:
        if (name := _name(one)) and (one.evidence != "environment" or one.uuid not in sure):
            claims.setdefault(one.uuid, {})[name] = one
    owners = {
        uuid: _owner(by_job, before.get(uuid, ""), sure=uuid in sure)
        for uuid, by_job in claims.items()
    }
    return owners | {h.uuid: "" for h in holdings if h.instance}


def _owner(claims: Mapping[str, Allocation], before: str, *, sure: bool) -> str:
    """The owner of one GPU of the jobs that claim it with evidence of equal strength."""
    if before and not sure:
        return before
    first = claims.get(before)
    others = {one.owner for name, one in claims.items() if name != before}
    if first is not None and first.owner >= 0 and first.owner not in others:
        return before
    return next(iter(claims)) if len(claims) == 1 else ""
