"""How far a job is, in a few numbers, from the reports about it."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from collector.sources.bounds import clipped
from pipeline.nccl.member import Counts, Member
from pipeline.nccl.report import Report

Values = dict[str, float | int | None]

MEGABYTES = 1000  # in what the Inspector counts in, 10^9 bytes
MAX_BANDWIDTH = 1e6  # 10^9 bytes/s; a GPU of 2026 has 1.8e3 of NVLink


def of_ras(report: Report | None) -> Values:
    """Values of the last trusted RAS report, of all nodes of the job; empty where there is none."""
    if report is None:
        return {}
    members = [c.members for c in report.communicators]
    launched = [[_total(m.launched) for m in each if m.launched] for each in members]
    return {
        "communicators": len(members),
        "ranks_gone": len({(m.host, m.pid) for each in members for m in each if m.gone}),
        "operations_launched": clipped(sum(max(totals, default=0) for totals in launched)),
        "operations_behind": max(
            (max(totals) - min(totals) for totals in launched if totals), default=0
        ),
    }


def of_inspector(reports: Iterable[Report], bandwidths: Iterable[float]) -> dict[str, int]:
    """Values of the Inspector's files of this node; empty where there are none.

    ``bandwidths`` are those of the Prometheus files.
    """
    foremost: dict[str, int] = {}
    speeds = list(bandwidths)
    for report in reports:
        for communicator in report.communicators:
            for member in communicator.members:
                foremost[communicator.id] = max(
                    foremost.get(communicator.id, 0), _total(member.completed)
                )
                speeds += _speeds(member)
    values: dict[str, int] = {}
    if foremost:
        values["operations_completed"] = clipped(sum(foremost.values()))
    if speeds:
        speed = min(max(median(speeds), 0.0), MAX_BANDWIDTH)
        values["bus_bandwidth_megabytes_per_second"] = round(speed * MEGABYTES)
    return values


def _total(counts: Counts) -> int:
    return clipped(sum(count for _, count in counts))


def _speeds(member: Member) -> list[float]:
    return [t.busbw_gbs for t in member.timings[-16:] if t.busbw_gbs]
