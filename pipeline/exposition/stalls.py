"""What stands about the jobs of this node, by job: its state, since when it stands still, and
the class of the verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from pipeline.catalog import agent
from pipeline.exposition.loose import Sample
from pipeline.exposition.text import Family
from pipeline.finding import Finding
from pipeline.job_names import base

MAX_JOBS = 128  # as many as the NCCL source shows; a node has one to four
JOB = "job"  # the attribute of a finding's device that says whose stall it is
STALLED, SLOW = "hang/", "straggler/"  # how faults of jobs begin; the rest is the class
# something stands still, and neither what nor who is known
NOBODY = ("hang/unknown", "hang/undecided")
CRAWLS = "hang/crawl"  # it goes on, at a fraction of its usual speed
State = Literal["running", "slow", "crawl", "suspect", "stalled"]

_STATE, _SECONDS, _VERDICT = (
    Family(m.name, m.type, m.help) for m in (agent.NCCL_STATE, agent.NCCL_STALL, agent.NCCL_VERDICT)
)


@dataclass(frozen=True, slots=True)
class Stall:
    """One job: what its findings say of it, for how many seconds it stands still (0 = it does not),
    and the classes of the verdict.
    """

    job: str
    state: State
    seconds: float
    verdicts: tuple[str, ...]


def stalls(
    jobs: Iterable[str], findings: Iterable[Finding], now_ns: int, *, most: int = MAX_JOBS
) -> Iterator[Stall]:
    """Of each of the ``jobs`` that are there, and of those that ``findings`` name; at most ``most``
    jobs, those with findings first.

    ``now_ns`` is unix time.
    """
    there = list(jobs)
    said: dict[str, list[Finding]] = {}
    for finding in findings:
        name = finding.device.attributes.get(JOB, "")
        if name and finding.fault.startswith((STALLED, SLOW)):
            said.setdefault(_shown(name, there), []).append(finding)
    for job in list(dict.fromkeys((*said, *there)))[:most]:
        about = said.get(job, [])
        since = [f.onset_ns for f in about if f.fault.startswith(STALLED) and f.fault != CRAWLS]
        seconds = max(now_ns - min(since, default=now_ns), 0) / 1e9
        verdicts = tuple(dict.fromkeys(f.fault.partition("/")[2] for f in about))
        yield Stall(job, _state(f.fault for f in about), seconds, verdicts)


def stall_samples(
    jobs: Iterable[str], findings: Iterable[Finding], now_ns: int
) -> Iterator[Sample]:
    """The same as series."""
    for stall in stalls(jobs, findings, now_ns):
        yield Sample(_STATE, ((JOB, stall.job), ("state", stall.state)), 1)
        yield Sample(_SECONDS, ((JOB, stall.job),), stall.seconds)
        for kind in stall.verdicts:
            yield Sample(_VERDICT, ((JOB, stall.job), ("class", kind)), 1)


def _state(faults: Iterable[str]) -> State:
    """The gravest that any of them says."""
    said = set(faults)
    if any(fault.startswith(STALLED) and fault not in (*NOBODY, CRAWLS) for fault in said):
        return "stalled"
    if said.intersection(NOBODY):
        return "suspect"
    if CRAWLS in said:
        return "crawl"
    return "slow" if said else "running"


def _shown(name: str, there: Iterable[str]) -> str:
    """A job by the name that its other series have: detectors leave out Slurm's step.

    >>> _shown("71", ["8.0", "71.0"]), _shown("9", [])
    ('71.0', '9')
    """
    return next((job for job in there if name in (job, base(job))), name)
