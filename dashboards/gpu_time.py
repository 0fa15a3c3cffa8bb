"""GPU time: what became of it, by cause and team, and how often nodes fail."""

from __future__ import annotations

from dashboards import places
from dashboards.meaning import FAILED, LOOK, MEANT, SOON, UNKNOWN, WELL, State
from dashboards.panels import Column, Dashboard, Lines, Query, Row, Stat, Table
from dashboards.queries import FAILURES, GPUS_BY_CAUSE, GPUS_BY_TEAM, GPUS_COUNTED, recorded
from dashboards.shared import CLUSTERS

# In the order of precedence; the colours are those of states, not of the report's bar.
CAUSES = (
    State("down", "down", UNKNOWN),
    State("repair", "repair", MEANT),
    State("lost", "lost", FAILED),
    State("stalled", "stalled", SOON),
    State("paused", "paused", LOOK),
    State("idle", "idle", "text"),
    State("used", "used", WELL),
)
OUT = "=~down|repair|lost"  # a GPU that could not have worked: history/economics/report.py
_EVERY, _RANGE_H = recorded(GPUS_COUNTED), "$__range_s / 3600"


def _hours(series: str, by: str) -> str:
    """GPU-hours within the picture: the mean number of GPUs, times its length. Evaluations that
    Prometheus missed count for nothing on either side.
    """
    return (
        f"sum by (cluster, {by}) (sum_over_time({series}[$__range])) / on (cluster) group_left () "
        f"max by (cluster) (count_over_time({_EVERY}[$__range])) * {_RANGE_H}"
    )


def _share(**matchers: str) -> str:
    """Of all GPU time of the picture."""
    part = f"sum(sum_over_time({recorded(GPUS_BY_CAUSE, **matchers)}[$__range]))"
    whole = f"sum(sum_over_time({_EVERY}[$__range]))"
    return f"({part} or 0 * {whole}) / {whole}"


_IN_SERVICE = _hours(recorded(GPUS_BY_CAUSE, cause="!~down|repair"), "cause")
# Each hour's increase is recorded at every evaluation: their mean, times the hours.
_FAILED = f"sum(avg_over_time({recorded(FAILURES)}[$__range])) * {_RANGE_H}"

NUMBERS = (
    Stat(
        title="Used",
        about="Share of all GPU time of the selected span in which kernels ran.",
        queries=(Query(_share(cause="used")),),
        unit="percentunit",
        width=6,
    ),
    Stat(
        title="Available",
        about="Share in which no GPU was down, under repair or lost to a fault.",
        queries=(Query(f"1 - {_share(cause=OUT)}"),),
        unit="percentunit",
        decimals=2,
        width=6,
    ),
    Stat(
        title="Lost and stalled",
        about="Share that faults took: GPUs without work under an open page, and stalled jobs.",
        queries=(Query(_share(cause="=~lost|stalled")),),
        unit="percentunit",
        decimals=2,
        width=6,
    ),
    Stat(
        title="GPU-hours per failure",
        about="Hours of GPUs in service per incident that pages, in the selected span.",
        queries=(Query(f"sum({_IN_SERVICE}) / ({_FAILED} > 0)"),),
        unit="h",
        empty="no failure in this span",
        width=6,
    ),
)

OVER_TIME = (
    Lines(
        title="GPUs by cause",
        about=(
            "Each GPU under the first cause that holds. Paused: the job's start-up, checkpoint or "
            "idleness, which look alike at one instant."
        ),
        queries=(Query(f"sum by (cause) ({recorded(GPUS_BY_CAUSE)})", "{{cause}}"),),
        named=CAUSES,
        stacked=True,
        minimum=0,
        width=24,
    ),
)

WHO = (
    Table(
        title="GPU-hours by cause",
        about="Of the selected span, by cluster.",
        queries=(Query(_hours(recorded(GPUS_BY_CAUSE), "cause")),),
        columns=(
            Column("cluster", "Cluster"),
            Column("cause", "Cause"),
            Column("A", "GPU-hours", unit="h"),
        ),
        by="GPU-hours",
    ),
    Table(
        title="GPU-hours by team",
        about="Account of Slurm or namespace of Kubernetes; GPUs without a job are in none.",
        queries=(Query(_hours(recorded(GPUS_BY_TEAM), "team, cause")),),
        columns=(
            Column("team", "Team"),
            Column("cause", "Cause"),
            Column("A", "GPU-hours", unit="h"),
        ),
        by="GPU-hours",
        empty="no job is known, or no agent answers",
    ),
)

GPU_TIME = Dashboard(
    places.GPU_TIME,
    "Tocsin / GPU time",
    "What became of all GPU time, and how much did faults take?",
    (*NUMBERS, *OVER_TIME, Row("In total"), *WHO),
    (CLUSTERS,),
    since="now-7d",
)
