"""What is watched of one job between reads: its dumps, its Inspector logs, and what they reported.

One of each job, so that no job's files replace what is remembered of another's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from collector.sources.nccl.discovery.identity import Owner
from collector.sources.nccl.discovery.scan import Found
from collector.sources.nccl.flight_recorder.watch import DumpWatch
from collector.sources.nccl.inspector.watch import InspectorWatch
from collector.sources.nccl.jobs import Job
from pipeline.nccl.report import Report

REPORT_S = 60.0  # between two reports of what the Inspector saw


@dataclass(slots=True)
class JobWatch:
    """The watches of one job; ``completed`` is what the Inspector of each process saw last."""

    owner: Owner
    dumps: DumpWatch
    inspector: InspectorWatch
    completed: dict[tuple[int, float], Report] = field(default_factory=dict)
    reported_s: float = float("-inf")

    def inspect(self, job: Job, now_s: float) -> Iterable[Report]:
        """The Inspector's reports that are due; ``now_s`` is monotonic."""
        for process, report in self.inspector.look(job.present, now_s):
            self.completed[_key(process)] = replace(report, job=job.name, world_rank=process.rank)
        for key in self.completed.keys() - set(map(_key, job.present)):
            del self.completed[key]
        if not self.completed or now_s - self.reported_s < REPORT_S:
            return ()
        self.reported_s = now_s
        return tuple(self.completed.values())

    def share(self, logs: int) -> None:
        """Its logs are some of so many of equal shares."""
        self.inspector.share(logs)

    def close(self) -> None:
        """Let go of all files. Safe to call twice."""
        self.inspector.close()


def _key(process: Found) -> tuple[int, float]:
    return process.pid, process.started_s


def shares_of(jobs: Iterable[Job]) -> dict[str, int]:
    """By tenant, of how many equal shares each of its Inspector logs has one: tenants share alike,
    and so do the processes of each.
    """
    logs = Counter(job.owner.tenant for job in jobs for _ in job.present)
    return {tenant: count * len(logs) for tenant, count in logs.items()}
