"""Fleet: is it healthy, and where is it not."""

from __future__ import annotations

from dashboards import places
from dashboards.meaning import (
    ALL_IS_WELL,
    EXISTS,
    HEALTH,
    NONE_IS_BEST,
    NONE_IS_WELL,
    SEVERITY,
    SILENT,
    Step,
)
from dashboards.naming import NAMED, named
from dashboards.panels import Column, Dashboard, Lines, Query, Row, Stat, Table, Timeline
from dashboards.queries import measured, own
from dashboards.shared import (
    AGENTS,
    BY_NODE,
    BY_PORT,
    CLUSTERS,
    INCIDENTS,
    NODES,
    OF_INCIDENT,
    ROW_TO_NODE,
    TO_GPU,
    TO_NODE,
    UP,
    cells,
    ever,
    gpu_health,
    health,
    in_state,
    one,
    port_health,
    process,
    zero_where,
)
from pipeline.catalog import agent

_LOOKED = own(agent.INCIDENTS_OVERFLOW)  # every agent that answers shows it
_EXPECTED_GPUS = measured("node", "gpus_expected")
_EXPECTED_PORT = measured("ib_port", "expected")
_ACTIVE_PORT = measured("ib_port", "state", state="active")
_MAINTENANCE = own(agent.MAINTENANCE, kind="node")
_MONTH_S = 2_629_800  # a twelfth of a Julian year
_AGE = f"time() - ({process('process_start_time_seconds')})"
_GPU_MONTHS = (
    f"sum({one(BY_NODE, _AGE)} * on (cluster, instance) {one(BY_NODE, _EXPECTED_GPUS)}) / "
    f"{_MONTH_S}"
)
# Unexpected interruptions per GPU and month: 419 on 16,384 GPUs in 54 days (The Llama 3 Herd
# of Models, section 3.3.4).
_FAULTS_PER_MONTH = 0.0142
# Of its devices, or one more than any where no agent answers.
_WORST = f"{health(BY_NODE, '=~.+')} or {len(HEALTH)} * max by ({BY_NODE}) ({UP} == bool 0) > 0"


_INCIDENTS = named(INCIDENTS, OF_INCIDENT, "root_device")
_OF_INCIDENT = f"cluster, instance, {', '.join(OF_INCIDENT)}"


def _open(severity: str) -> str:
    return zero_where(f"count({own(agent.INCIDENT_ACTIVE, severity=severity)})", _LOOKED)


NUMBERS = (
    Stat(
        title="Nodes",
        about=(
            "Agents that answer, of those that Prometheus scrapes. A node whose agent is "
            "silent is not watched."
        ),
        queries=(Query(f"sum({UP})", "answer"), Query(f"count({UP})", "of")),
        width=3,
    ),
    Stat(
        title="GPUs",
        about=(
            "Those that answer, of those that should: each agent keeps an inventory, so that a GPU "
            "that fell off the bus is missed."
        ),
        queries=(
            Query(f"sum({measured('node', 'gpus_visible')})", "answer"),
            Query(f"sum({_EXPECTED_GPUS})", "of"),
        ),
        width=3,
    ),
    Stat(
        title="Open pages",
        about=(
            "Incidents that page, one per cause: one may explain several failed devices. 0 is "
            "shown only where an agent reports that it has none."
        ),
        queries=(Query(_open("page")),),
        steps=NONE_IS_WELL,
        width=3,
    ),
    Stat(
        title="Open tickets",
        about="Incidents for the work queue.",
        queries=(Query(_open("ticket")),),
        steps=NONE_IS_BEST,
        width=3,
    ),
    Stat(
        title="Failed devices",
        about="GPUs and ports that have failed: as many cells below are red.",
        queries=(Query(in_state("failed")),),
        steps=NONE_IS_WELL,
        width=3,
    ),
    Stat(
        title="Degraded devices",
        about=(
            "GPUs and ports that are degraded or will fail: as many cells below are yellow or "
            "orange."
        ),
        queries=(Query(in_state("degraded", "predicted_failure")),),
        steps=NONE_IS_BEST,
        width=3,
    ),
    Stat(
        title="Ports down",
        about=(
            "InfiniBand and RoCE ports that should be active (declared, or "
            "active once) and are not."
        ),
        queries=(
            Query(
                zero_where(
                    f"count(({_EXPECTED_PORT} == 1) and on ({BY_PORT}) ({_ACTIVE_PORT} == 0))",
                    _EXPECTED_PORT,
                )
            ),
        ),
        steps=NONE_IS_WELL,
        width=2,
    ),
    Stat(
        title="In maintenance",
        about=(
            "Nodes that an operator or the scheduler took out of service: their "
            "alerts notify nobody."
        ),
        queries=(Query(zero_where(f"count({_MAINTENANCE})", AGENTS)),),
        steps=EXISTS,
        width=2,
        place=places.MAINTENANCE,
    ),
    Stat(
        title="Sources read",
        about=(
            "Share of the agents' sources (driver, ports, kernel log ...) whose last read returned "
            "data: what is not read is not judged."
        ),
        queries=(Query(f"avg({own(agent.SOURCE_SUCCESS)})"),),
        unit="percentunit",
        steps=ALL_IS_WELL,
        width=2,
    ),
)

OPEN = (
    Table(
        title="Open incidents",
        about=(
            "One row per cause, not per symptom: the device of the root cause, the fault, and the "
            "proposed action. The page of the node (`:9400/`) shows the evidence. Empty, with 0 "
            "above: nothing is open."
        ),
        queries=(
            Query(_INCIDENTS),
            # How long it was open within the last day, in steps of the subquery; whichever pods the
            # agent ran in.
            Query(
                f"({_INCIDENTS}) * on ({_OF_INCIDENT}) group_left () "
                f"(15 * sum by ({_OF_INCIDENT}) (count_over_time({INCIDENTS}[1d:15s])))"
            ),
        ),
        columns=(
            Column("severity", "Severity", states=SEVERITY, width=90),
            Column("instance", "Node"),
            Column(NAMED, "Device", width=220),
            Column("class", "Fault"),
            Column("action", "Proposed"),
            Column("root_device", "Id", width=330),
            Column("B", "Open, last day", unit="s", width=130),
        ),
        by="Open, last day",
        empty="no incident is open, or no agent answers",
        links=(ROW_TO_NODE,),
        width=24,
        height=7,
        place=places.INCIDENTS,
    ),
)

WHERE = (
    Stat(
        title="Every GPU",
        about=(
            "One cell per GPU: green ok, yellow degraded, orange will fail, red failed. A GPU that "
            "is not shown was never seen."
        ),
        queries=(cells(gpu_health(), "gpu"),),
        states=HEALTH,
        cells=True,
        links=(TO_GPU,),
        height=8,
        width=12,
    ),
    Stat(
        title="Every port",
        about=(
            "One cell per InfiniBand or RoCE port, with the colours of the GPUs; one that should "
            "be active and is not has failed."
        ),
        queries=(cells(port_health(), "device"),),
        states=HEALTH,
        cells=True,
        links=(TO_NODE,),
        height=8,
        width=12,
    ),
    Timeline(
        title="Unhealthy nodes",
        about=(
            "The worst of their GPUs, ports and themselves; those that were healthy all the time "
            "are left out. Grey: unknown, as the agent does not answer."
        ),
        queries=(Query(ever(_WORST, BY_NODE), "{{instance}}"),),
        empty="every node was healthy, or no agent is scraped",
        states=(*HEALTH, SILENT),
        links=(TO_NODE,),
        width=24,
        height=6,
    ),
)

TRUST = (
    Lines(
        title="Open incidents over time",
        about="By severity.",
        queries=(Query(f"count by (severity) ({INCIDENTS})", "{{severity}}"),),
        empty="no incident was open, or no agent answered",
        decimals=0,
        minimum=0,
        stacked=True,
        named=SEVERITY,
        width=12,
        height=7,
    ),
    Stat(
        title="Pages a GPU-month",
        about=(
            "Since the agents started. Real faults that need hands come about 0.014 times per GPU "
            "and month, as published for large training clusters: a fleet that pages much more "
            "often has false pages, or a systematic fault."
        ),
        queries=(
            Query(
                f"(sum({own(agent.INCIDENTS, severity='page')}) or 0 * count({_LOOKED})) / "
                f"({_GPU_MONTHS} > 1)"
            ),
        ),
        steps=(
            Step(0, "green"),
            Step(3 * _FAULTS_PER_MONTH, "yellow"),
            Step(10 * _FAULTS_PER_MONTH, "orange"),
        ),
        decimals=3,
        empty="less than one GPU-month",
        width=4,
        height=7,
    ),
    Stat(
        title="GPU-months watched",
        about=(
            "What the figure beside it is based on: GPUs times the time since their agents started."
        ),
        queries=(Query(_GPU_MONTHS),),
        decimals=2,
        width=4,
        height=7,
    ),
    Stat(
        title="Simulated nodes",
        about="Agents that read a simulated node: nothing here is hardware where this is not 0.",
        queries=(Query(f"sum({own(agent.SIMULATED)})"),),
        steps=EXISTS,
        width=4,
        height=7,
    ),
)

FLEET = Dashboard(
    places.FLEET,
    "Tocsin / Fleet",
    "Is the fleet healthy, and where is it not?",
    (*NUMBERS, *OPEN, Row("GPUs and ports"), *WHERE, Row("Basis of these numbers"), *TRUST),
    (CLUSTERS, NODES),
    incidents=INCIDENTS,
)
