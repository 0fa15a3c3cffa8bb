"""Waste: which GPUs are held and do nothing, and which are free."""

from __future__ import annotations

from dashboards import places
from dashboards.meaning import LOOK, MEANT, NONE_IS_BEST, WELL, State
from dashboards.panels import Column, Dashboard, Heatmap, Lines, Query, Row, Stat, Table
from dashboards.queries import facts, measured
from dashboards.shared import BY_GPU, CLUSTERS, NODES, ROW_TO_GPU, TO_GPU, most, rate, zero_where

_GPU = "{{instance}} GPU {{gpu}}"
_PROCESSES, _USE = measured("gpu", "compute_processes"), measured("gpu", "gpu_utilization_percent")
_MEMORY, _ENERGY = measured("gpu", "memory_used_bytes"), measured("gpu", "energy_millijoules")
# A process that holds a GPU for this long without a kernel waits for something that does
# not come, or was forgotten.
_LONG = "30m"
# A context of the driver alone, and what persistence keeps, is well below this.
_LEFTOVER_BYTES = 1 << 30

_HELD = f"({_PROCESSES} > 0)"
_IDLE_LONG = (
    f"(max_over_time({_USE}[{_LONG}]) == 0 and on ({BY_GPU}) min_over_time({_PROCESSES}[{_LONG}]) > 0"  # noqa: E501 - no place to break
    # not one that was seen for the first time a minute ago
    f" and on ({BY_GPU}) {_PROCESSES} offset {_LONG} > 0)"
)
_IDLE_NOW = f"({_USE} == 0 and on ({BY_GPU}) {_HELD})"
# Job or pod of each GPU. Prometheus keeps `job` and `pod` for the target and renames ours
# (honor_labels: false, its default).
_HOLDERS = f'label_join({facts("device_job")}, "held_by", "", "exported_job", "exported_pod")'
_FREE = f"({_PROCESSES} == 0)"
_LEFT_BEHIND = f"({_MEMORY} > {_LEFTOVER_BYTES} and on ({BY_GPU}) {_FREE})"
_WITHOUT_WORK = (State("", "held, no kernel", LOOK), State("", "free", MEANT))

NUMBERS = (
    Stat(
        title="GPUs held",
        about="By processes, of all that answer.",
        queries=(
            Query(zero_where(f"count({_HELD})", _PROCESSES), "held"),
            Query(f"count({_PROCESSES})", "of"),
        ),
        width=6,
    ),
    Stat(
        title="Held, idle now",
        about=f"Held by a process for {_LONG} in which no kernel ran.",
        queries=(Query(zero_where(f"count({_IDLE_LONG})", _PROCESSES)),),
        steps=NONE_IS_BEST,
        width=6,
    ),
    Stat(
        title="Free",
        about="Held by no process.",
        queries=(Query(zero_where(f"count({_FREE})", _PROCESSES)),),
        width=6,
    ),
    Stat(
        title="Memory left behind",
        about=(
            "GPUs with more than 1 GiB in use that no process holds: left behind by a process that "
            "died. A reset frees it."
        ),
        queries=(Query(zero_where(f"count({_LEFT_BEHIND})", _PROCESSES)),),
        steps=NONE_IS_BEST,
        width=6,
    ),
)

OVER_TIME = (
    Lines(
        title="GPUs by use",
        about="Working, held without a kernel at that moment, and free.",
        queries=(
            Query(
                zero_where(f"count({_USE} > 0 and on ({BY_GPU}) {_HELD})", _PROCESSES), "working"
            ),
            Query(zero_where(f"count({_IDLE_NOW})", _PROCESSES), "held, no kernel"),
            Query(zero_where(f"count({_FREE})", _PROCESSES), "free"),
        ),
        named=(State("", "working", WELL), *_WITHOUT_WORK),
        stacked=True,
        minimum=0,
    ),
    Heatmap(
        title="Tensor activity of held GPUs",
        about=(
            "GPUs by tensor activity. Busy by the driver's count and near zero here: they wait."
        ),
        queries=(Query(f"{measured('gpu', 'tensor_activity_percent')} and on ({BY_GPU}) {_HELD}"),),
        unit="percentunit",
        bucket=0.05,
        minimum=0,
        maximum=1,
        empty="no GPU is held, or no agent answers",
    ),
    Lines(
        title="Power of GPUs without work",
        about="Power of GPUs in which no kernel runs: held, and free.",
        queries=(
            Query(f"sum({rate(_ENERGY)} and on ({BY_GPU}) {_IDLE_NOW})", "held, no kernel"),
            Query(f"sum({rate(_ENERGY)} and on ({BY_GPU}) {_FREE})", "free"),
        ),
        named=_WITHOUT_WORK,
        unit="watt",
        stacked=True,
        minimum=0,
        empty="every GPU works, or no agent answers",
    ),
    Lines(
        title="Mean use of held GPUs",
        about=(
            "Share of time in which a kernel ran, and the tensor activity beside it, over all GPUs "
            "that processes hold."
        ),
        queries=(
            Query(f"avg({_USE} and on ({BY_GPU}) {_HELD})", "in use"),
            Query(
                f"avg({measured('gpu', 'tensor_activity_percent')} and on ({BY_GPU}) {_HELD})",
                "tensor",
            ),
        ),
        unit="percentunit",
        minimum=0,
        maximum=1,
        empty="no GPU is held, or no agent answers",
    ),
)

WHICH = (
    Table(
        title="Held and idle",
        about=(
            f"GPUs that a process has held for {_LONG} without a kernel, and "
            "whose job or pod it is."
        ),
        queries=(
            Query(f"max by ({BY_GPU}) ({_MEMORY}) and on ({BY_GPU}) {_IDLE_LONG}"),
            Query(f"max by ({BY_GPU}, held_by, user) ({_HOLDERS}) and on ({BY_GPU}) {_IDLE_LONG}"),
        ),
        columns=(
            Column("instance", "Node"),
            Column("gpu", "GPU", width=60),
            Column("held_by", "Held by"),
            Column("user", "User"),
            Column("A", "Memory", unit="bytes"),
        ),
        by="Memory",
        links=(ROW_TO_GPU,),
        empty="no GPU is held and idle, or no agent answers",
    ),
    Table(
        title="Memory without a process",
        about="GPUs with more than 1 GiB in use and no process.",
        queries=(Query(_LEFT_BEHIND),),
        columns=(
            Column("instance", "Node"),
            Column("gpu", "GPU", width=60),
            Column("uuid", "UUID"),
            Column("A", "Memory", unit="bytes"),
        ),
        by="Memory",
        links=(ROW_TO_GPU,),
        empty="no GPU has memory left behind, or no agent answers",
    ),
    Lines(
        title="Least used of the held",
        about=(
            "The ten GPUs whose kernels ran least over the last half hour, of those "
            "that a process holds."
        ),
        queries=(
            Query(
                most(
                    f"avg_over_time({_USE}[{_LONG}]) and on ({BY_GPU}) {_HELD}", BY_GPU, least=True
                ),
                _GPU,
            ),
        ),
        unit="percentunit",
        minimum=0,
        maximum=1,
        links=(TO_GPU,),
        empty="no GPU is held, or no agent answers",
        width=24,
    ),
)

WASTE = Dashboard(
    places.WASTE,
    "Tocsin / Waste",
    "Which GPUs are allocated but idle, and which are free?",
    (*NUMBERS, *OVER_TIME, Row("Which"), *WHICH),
    (CLUSTERS, NODES),
    since="now-24h",
)
