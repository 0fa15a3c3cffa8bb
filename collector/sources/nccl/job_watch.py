"""What is watched of one job between reads: its dumps, its Inspector logs, and what they reported.

One of each job, so that no job's files replace what is remembered of another's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from collector.sources.nccl.discovery.found import Found
from collector.sources.nccl.discovery.identity import Owner
from collector.sources.nccl.dump_watch import DumpWatch
from collector.sources.nccl.jobs import Job
from collector.sources.nccl.reader import NcclReader
from collector.sources.tenants.desk import Desk, Who
from pipeline.nccl.report import Report

SWITCH = "NCCL_INSPECTOR_ENABLE"
INSPECTOR_S = 10.0  # for one look at the logs of a job: 16 MiB take half a second
REPORT_S = 60.0  # between two reports of what the Inspector saw


@dataclass(slots=True)
class JobWatch:
    """The watches of one job; ``inspected`` are the numbers of its Inspector (progress.py),
    ``behind`` the bytes of its logs beyond its share.
    """

    owner: Owner
    who: Who
    dumps: DumpWatch
    inspected: Mapping[str, int] = field(default_factory=dict)
    behind: int = 0
    reported_s: float = float("-inf")

    def inspect(self, desk: Desk, job: Job, logs: int, now_s: float) -> None:
        """Look at its Inspector logs; ``now_s`` is monotonic, ``logs`` of how many equal shares
        each of its logs has one.
        """
        if present := _inspected(job):
            look = desk.ask(
                NcclReader.inspector, self.who, INSPECTOR_S, job.name, present, logs, now_s
            )
            self.inspected, self.behind = dict(look.values), look.behind
        else:
            self.inspected, self.behind = {}, 0

    def reports(self, desk: Desk, job: Job, now_s: float) -> Iterator[Report]:
        """The Inspector's reports that are due, each when it is wanted: together they are large."""
        if not self.inspected or now_s - self.reported_s < REPORT_S:
            return
        self.reported_s = now_s
        for process in _inspected(job):
            report = desk.ask(NcclReader.inspected, self.who, INSPECTOR_S, job.name, process)
            if report is not None:
                yield replace(report, job=job.name, world_rank=process.rank)


def _inspected(job: Job) -> tuple[Found, ...]:
    return tuple(p for p in job.present if p.environment.get(SWITCH) == "1")


def shares_of(
    jobs: Iterable[Job], of: Callable[[Job], int] = lambda job: len(job.present)
) -> dict[str, int]:
    """By tenant, of how many equal shares each of its Inspector logs (or of another part of a job,
    of which ``of`` gives the number) has one: tenants share alike, and so do the parts of each.
    """
    parts: Counter[str] = Counter()
    for job in jobs:
        parts[job.owner.tenant] += of(job)
    return {tenant: count * len(parts) for tenant, count in parts.items()}
