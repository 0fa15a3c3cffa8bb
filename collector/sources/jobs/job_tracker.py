"""Jobs as events: a job begins, has other GPUs than before, or is gone.

From them the detectors know whose GPU it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from collector.node.likeness import of_pod, of_user
from collector.node.pods_by_gpu import Pod
from collector.sources.jobs.allocation import Allocation
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
    """

    scheduler: str
    seen_ns: int = 0
    hosts: int = 0
    likeness: dict[str, str] = field(default_factory=dict)
    gpus: tuple[str, ...] = ()
    reported: tuple[int, bool] = (0, False)  # hosts, and whether user and name were

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
    """

    def __init__(self, host: str) -> None:
        self._node = Device(host, "node", host)
        self._jobs: dict[str, _Job] = {}

    def update(
        self, holdings: Iterable[Allocation], at: Instant, *, blind: bool = False
    ) -> list[Event]:
        """Events of what changed; ``at`` is unix and monotonic time in ns.

        ``blind``: a job that is not listed now may still run.
        """
        listed, now_ns = list(holdings), at.mono_ns
        for one in listed:
            if name := _name(one):
                job = self._jobs.setdefault(name, _Job(one.scheduler))
                job.seen_ns, job.hosts = now_ns, job.hosts or one.hosts
                job.likeness = job.likeness or _likeness(one)
        before = {uuid: name for name, job in self._jobs.items() for uuid in job.gpus}
        owners = _owners(listed, before)
        return [
            event
            for name, job in list(self._jobs.items())
            for event in self._changed(name, job, owners, at, blind=blind)
        ]

    def _changed(
        self, name: str, job: _Job, owners: dict[str, str], at: Instant, *, blind: bool
    ) -> Iterator[Event]:
        """A job keeps what it had until another has it: its process on a GPU may have died, and
        that is what to look for.
        """
        if blind:
            job.seen_ns = at.mono_ns
        over = at.mono_ns - job.seen_ns >= GONE_NS
        if over:
            del self._jobs[name]
        kept = (uuid for uuid in job.gpus if owners.get(uuid, name) == name)
        gpus = (
            ()
            if over
            else tuple(sorted({*kept, *(uuid for uuid, owner in owners.items() if owner == name)}))
        )
        if gpus == job.gpus and job.known == job.reported:
            return
        facts: dict[str, Value] = {"job": name, "scheduler": job.scheduler}
        if gpus:
            # A job on several nodes may be one program, or another one on each.
            only = {"hosts": 1} if job.hosts == 1 else {}
            facts |= {"gpus": " ".join(gpus), **only, **job.likeness}
            yield Event(*at, self._node, "job_started", facts)
        elif job.gpus:
            yield Event(*at, self._node, "job_ended", facts)
        job.gpus, job.reported = gpus, job.known


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
