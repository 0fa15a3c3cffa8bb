"""Job and NCCL: does training progress, and if not, what is the root cause."""

from __future__ import annotations

from dashboards import places
from dashboards.meaning import JOB_STATE, NONE_IS_BEST, NONE_IS_WELL, UNKNOWN, WELL, State, Step
from dashboards.panels import (
    Column,
    Dashboard,
    Heatmap,
    Lines,
    Query,
    Row,
    Stat,
    Table,
    Timeline,
    Variable,
)
from dashboards.queries import family, measured, own
from dashboards.shared import (
    BY_GPU,
    CLUSTERS,
    INCIDENTS,
    NODES,
    ROW_TO_NODE,
    TO_GPU,
    coded,
    most,
    rate,
    zero_where,
)
from pipeline.catalog import agent

# The scrape renames our label `job`: Prometheus keeps that name for its own
# (honor_labels: false, its default).
_JOB = "exported_job"
_CHOSEN = {_JOB: "=~$training_job"}
_JOBS = Variable("training_job", "Training job", measured("job", "processes"), _JOB)


def _of(name: str) -> str:
    return measured("job", name, **_CHOSEN)


_HELD = f"({measured('gpu', 'compute_processes')} > 0)"
_RANKS = _of("processes")


def _of_its_gpus(name: str, value: str = "") -> str:
    """A field, or what was made of it, of the GPUs that are held by processes, on nodes
    where a chosen job runs.
    """
    return (
        f"{value or measured('gpu', name)} and on ({BY_GPU}) {_HELD} and on (cluster, "
        f"instance) ({_RANKS} > 0)"
    )


def _spread(name: str) -> str:
    """How far the least of them is below the median, as a share of it."""
    each = _of_its_gpus(name, f"avg_over_time({measured('gpu', name)}[5m])")
    return f"1 - min by (cluster) ({each}) / (quantile by (cluster) (0.5, {each}) > 0)"


STANDING = (
    Stat(
        title="Jobs seen",
        about="Jobs whose processes hold GPUs and have NCCL loaded, over all chosen nodes.",
        queries=(Query(f"count(count by ({_JOB}) ({_RANKS}))"),),
        empty="no job uses NCCL, or no agent answers",
    ),
    Stat(
        title="Stalled jobs",
        about="Jobs that at least one node reports as stalled.",
        queries=(
            Query(
                zero_where(
                    (
                        f"count(count by ({_JOB}) "
                        f"({own(agent.NCCL_STATE, state='stalled', **_CHOSEN)}))"
                    ),
                    own(agent.NCCL_STATE, **_CHOSEN),
                )
            ),
        ),
        steps=NONE_IS_WELL,
        empty="no job uses NCCL, or no agent answers",
    ),
    Stat(
        title="Longest stall",
        about="The longest stall, by its oldest finding; 0 where there is none.",
        queries=(Query(f"max({own(agent.NCCL_STALL, **_CHOSEN)})"),),
        unit="s",
        steps=(Step(0, "green"), Step(1, "yellow"), Step(60, "red")),
        empty="no job uses NCCL, or no agent answers",
    ),
    Stat(
        title="Ranks here",
        about="Processes that hold GPUs of the chosen nodes and have NCCL loaded.",
        queries=(Query(f"sum({_RANKS})"),),
        empty="no job uses NCCL, or no agent answers",
    ),
    Stat(
        title="Ranks gone",
        about=(
            "Processes of the job that did not answer NCCL's RAS at the last query; it is "
            "queried on suspicion."
        ),
        queries=(Query(f"max({_of('ranks_gone')})"),),
        steps=NONE_IS_WELL,
        empty="RAS was not queried",
    ),
    Stat(
        title="Collectives behind",
        about=(
            "How many collectives the last rank of any communicator is behind its first, in "
            "the last report of RAS."
        ),
        queries=(Query(f"max({_of('operations_behind')})"),),
        steps=NONE_IS_BEST,
        empty="RAS was not queried",
    ),
    Timeline(
        title="Jobs",
        about=(
            "The worst state that a node reports for each job. Red: stalled, root cause known; "
            "orange: possibly stalled."
        ),
        queries=(
            Query(
                coded(
                    f"cluster, {_JOB}",
                    JOB_STATE,
                    lambda state: own(agent.NCCL_STATE, state=state, **_CHOSEN),
                ),
                f"job {{{{{_JOB}}}}}",
            ),
        ),
        states=JOB_STATE,
        empty="no job uses NCCL, or no agent answers",
        width=14,
        place=places.JOBS,
    ),
    Table(
        title="Verdicts",
        about=(
            "Findings on each job, by node: the classes of docs/nccl.md and of the hang detector. "
            "`tocsin nccl status` names the rank."
        ),
        queries=(Query(own(agent.NCCL_VERDICT, **_CHOSEN)),),
        columns=(Column(_JOB, "Job"), Column("instance", "Node"), Column("class", "Verdict")),
        links=(ROW_TO_NODE,),
        empty="no verdict is open, or no agent answers",
        width=10,
    ),
)

PROGRESS = (
    Lines(
        title="Stalled, by node",
        about="By job and node; grows by a second per second while the job is stalled.",
        queries=(Query(own(agent.NCCL_STALL, **_CHOSEN), f"job {{{{{_JOB}}}}} {{{{instance}}}}"),),
        unit="s",
        minimum=0,
        empty="no job uses NCCL, or no agent answers",
        width=8,
    ),
    Lines(
        title="Collectives launched",
        about=(
            "In the last report of NCCL's RAS, which is queried on suspicion (or always: "
            "`sources.nccl.ras: on`)."
        ),
        queries=(Query(_of("operations_launched"), f"job {{{{{_JOB}}}}} {{{{instance}}}}"),),
        empty="RAS was not queried",
        width=8,
    ),
    Timeline(
        title="NCCL reporters available",
        about=(
            "Where RAS can be queried, or the job has the Flight Recorder or the Inspector "
            "enabled; see docs/nccl.md."
        ),
        queries=(
            Query(
                f"min by ({_JOB}, teller) ({family('job', 'ras_usable', **_CHOSEN)})",
                f"job {{{{{_JOB}}}}} {{{{teller}}}}",
            ),
        ),
        states=(State("0", "no", UNKNOWN), State("1", "may be asked", WELL)),
        empty="no job uses NCCL, or no agent answers",
        width=8,
    ),
)

SPREAD = (
    Lines(
        title="Behind the median",
        about=(
            "How far the least of a job's GPUs is below the median of all of them, as means of "
            "five minutes: a straggler shows in power and clock, one rank that does other work "
            "than its peers in tensor activity. Choose one job, or nodes of one job."
        ),
        queries=(
            Query(_spread("tensor_activity_percent"), "tensor activity"),
            Query(_spread("power_milliwatts"), "power"),
            Query(_spread("sm_clock_megahertz"), "SM clock"),
        ),
        unit="percentunit",
        minimum=0,
        empty="no job uses NCCL, or no agent answers",
        place=places.STRAGGLERS,
    ),
    Heatmap(
        title="Tensor activity of its GPUs",
        about=(
            "GPUs by tensor activity. Two bands in one job: some ranks wait for "
            "others. All near zero: it is stalled, or loads data."
        ),
        queries=(Query(_of_its_gpus("tensor_activity_percent")),),
        unit="percentunit",
        bucket=0.05,
        minimum=0,
        maximum=1,
        empty="no job uses NCCL, or no agent answers",
    ),
    Lines(
        title="Lowest power, ten GPUs",
        about=(
            "Power of the GPUs of the chosen jobs. At equal work a GPU far below its peers is the "
            "one they wait for, or the one that waits."
        ),
        queries=(
            Query(
                most(_of_its_gpus("power_milliwatts"), BY_GPU, least=True),
                "{{instance}} GPU {{gpu}}",
            ),
        ),
        unit="watt",
        minimum=0,
        links=(TO_GPU,),
        empty="no job uses NCCL, or no agent answers",
    ),
    Lines(
        title="Traffic of its nodes",
        about="Received over InfiniBand, by node: a stalled job sends nothing.",
        queries=(
            Query(
                (
                    f"sum by (cluster, instance) ({rate(measured('ib_port', 'receive_words'))}) "
                    f"and on (cluster, instance) ({_RANKS} > 0)"
                ),
                "{{instance}}",
            ),
        ),
        unit="Bps",
        minimum=0,
        empty="no job uses NCCL, or no agent answers",
    ),
)

JOB = Dashboard(
    places.JOB,
    "Tocsin / Job and NCCL",
    "Does training progress, and if not, what is the root cause?",
    (*STANDING, Row("Progress"), *PROGRESS, Row("GPUs of the job compared"), *SPREAD),
    (CLUSTERS, NODES, _JOBS),
    since="now-1h",
    incidents=INCIDENTS,
)
