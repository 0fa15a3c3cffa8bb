"""The Inspector of one job, in the child: what its processes wrote last, and what that adds up to.

The agent gets a few numbers at each look, and the reports one at a time: those of a node have 1,024
ranks with 32 timings each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from collector.sources.nccl.discovery.found import Found
from collector.sources.nccl.inspector.watch import InspectorWatch
from collector.sources.nccl.progress import of_inspector
from pipeline.nccl.report import Report

Key = tuple[int, float]


@dataclass(frozen=True, slots=True)
class InspectorLook:
    """One look at the logs of a job: its numbers, as in ``progress.of_inspector``, and how many
    bytes of its logs are not read yet because they exceed its share.
    """

    values: tuple[tuple[str, int], ...] = ()
    behind: int = 0


class Inspection:
    """``watch`` follows the logs."""

    def __init__(self, proc: Path) -> None:
        self.watch = InspectorWatch(proc)
        self._latest: dict[Key, Report] = {}

    def look(self, processes: Sequence[Found], logs: int, now_s: float) -> InspectorLook:
        """What these processes wrote since the last look, each in one of ``logs`` logs that share
        the node's limit.
        """
        self.watch.share(logs)
        for process, report in self.watch.look(processes, now_s):
            self._latest[_key(process)] = report
        for gone in self._latest.keys() - set(map(_key, processes)):
            del self._latest[gone]
        values = of_inspector(self._latest.values(), self.watch.bandwidths(processes))
        return InspectorLook(tuple(values.items()), self.watch.behind)

    def report(self, process: Found) -> Report | None:
        """The last one of a process."""
        return self._latest.get(_key(process))


def _key(process: Found) -> Key:
    return process.pid, process.started_s
