"""The agents themselves: which lack data, are outdated or misconfigured, and what they cost."""

from __future__ import annotations

from dashboards import places
from dashboards.meaning import ALL_IS_WELL, FAILED, LOOK, NONE_IS_WELL, UNKNOWN, WELL, State, Step
from dashboards.panels import Column, Dashboard, Lines, Query, Row, Stat, Table, Timeline
from dashboards.queries import own
from dashboards.shared import (
    AGENTS,
    BY_NODE,
    CLUSTERS,
    NODES,
    ROW_TO_NODE,
    TO_NODE,
    UP,
    ever,
    most,
    process,
    rate,
    rose,
    zero_where,
)
from pipeline.catalog import agent

_NODE = "{{instance}}"
_TAKEN = own(agent.CONFIG_RELOAD_SUCCESS)
_LAST = own(agent.SOURCE_LAST_SUCCESS)
_AGE = f"time() - {_LAST}"
_FAILED_READS = own(agent.SOURCE_READS, outcome="!=ok")
# The slowest of our sources reads its slow facts once a minute: three minutes
# without anything is blindness.
_BLIND_S = 180
_STALE_S = 90
_ANSWERS = (State("0", "silent", FAILED), State("1", "answers", WELL))
_NVML = (State("0", "may be asked", WELL), State("1", "driver children stuck", FAILED))

NUMBERS = (
    Stat(
        title="Agents",
        about="Agents that answer, of those that Prometheus scrapes.",
        queries=(Query(f"sum({UP})", "answer"), Query(f"count({UP})", "of")),
    ),
    Stat(
        title="Blind",
        about=(
            "Sources without data for three minutes: detectors cannot judge what they would show."
        ),
        queries=(Query(zero_where(f"count(({_AGE}) > {_BLIND_S})", _LAST)),),
        steps=NONE_IS_WELL,
    ),
    Stat(
        title="Configuration refused",
        about="Agents that kept their old configuration because the new one is invalid.",
        queries=(Query(zero_where(f"count({_TAKEN} == 0)", _TAKEN)),),
        steps=NONE_IS_WELL,
    ),
    Stat(
        title="Versions",
        about="Number of versions in use. More than one outside a rollout: some nodes were missed.",
        queries=(Query(f"count(count by (version) ({AGENTS}))"),),
        steps=(Step(0, WELL), Step(2, LOOK)),
    ),
    Stat(
        title="Sources read",
        about="Share of all sources whose last read returned data.",
        queries=(Query(f"avg({own(agent.SOURCE_SUCCESS)})"),),
        unit="percentunit",
        steps=ALL_IS_WELL,
    ),
    Stat(
        title="Findings hidden",
        about=(
            "Beyond the 500 that an agent exports: many devices have a common fault, or "
            "a detector is wrong."
        ),
        queries=(Query(f"sum({own(agent.FINDINGS_OVERFLOW)})"),),
        place=places.FINDINGS_HIDDEN,
        steps=NONE_IS_WELL,
    ),
)

BLIND = (
    Timeline(
        title="Silent agents",
        about=(
            "Agents that failed some scrapes. A gap without colour: not a scrape "
            "target at that time."
        ),
        queries=(
            Query(f"{UP} and on ({BY_NODE}) min_over_time({UP}[$__range] @ end()) == 0", _NODE),
        ),
        empty="every agent answered, or there is no target",
        states=_ANSWERS,
        links=(TO_NODE,),
        place=places.BLIND,
    ),
    Lines(
        title="Age of readings",
        about=(
            "Time since the last data of each source, where that is long ago: most are asked "
            "every second, slow facts once a minute."
        ),
        queries=(Query(f"({_AGE}) > {_STALE_S}", f"{_NODE} {{{{source}}}}"),),
        empty="every source was read within 90 s, or no agent answers",
        unit="s",
        steps=(Step(0, WELL), Step(_BLIND_S, FAILED)),
        minimum=0,
        links=(TO_NODE,),
        place=places.SOURCES,
    ),
    Lines(
        title="Failed or skipped reads",
        about=(
            "By source and outcome, within the time of a bar: failed, overdue; skipped because the "
            "previous one was still running."
        ),
        queries=(
            Query(f"sum by (source, outcome) ({rose(_FAILED_READS)})", "{{source}} {{outcome}}"),
            Query(f"sum by (source) ({rose(own(agent.SOURCE_SKIPPED))})", "{{source}} skipped"),
        ),
        empty="no read failed, or no agent answers",
        bars=True,
        minimum=0,
    ),
    Lines(
        title="Fields that could not be read",
        about=(
            "In the last read, by source and reason. A step up: a driver changed, or a device "
            "stopped answering some question."
        ),
        queries=(
            Query(
                f"sum by (source, reason) ({own(agent.SOURCE_UNREAD)})", "{{source}}: {{reason}}"
            ),
        ),
        minimum=0,
        empty="every field was read, or no agent answers",
    ),
    Timeline(
        title="Driver not readable",
        about=(
            "Red: too many driver children are stuck in the kernel, so that no more are started "
            "and the GPUs of the node are not read."
        ),
        queries=(Query(ever(own(agent.NVML_BLIND), BY_NODE), _NODE),),
        empty="no driver child is stuck, or no agent answers",
        states=_NVML,
        links=(TO_NODE,),
    ),
    Lines(
        title="Driver calls that hung",
        about=(
            "By node and call, within the time of a bar; each cost one child and one "
            "tick, not the agent."
        ),
        queries=(Query(rose(own(agent.NVML_HUNG_CALLS)), f"{_NODE} {{{{call}}}}"),),
        bars=True,
        minimum=0,
        empty="no call hung, or no agent answers",
        links=(TO_NODE,),
    ),
)

WRONG = (
    Table(
        title="Versions and configurations",
        about=(
            "Version of each agent, whether its last configurations were accepted (including the "
            "web configuration, if any), and whether its node is simulated."
        ),
        queries=(
            Query(AGENTS),
            Query(f"max by ({BY_NODE}) ({_TAKEN})"),
            Query(f"max by ({BY_NODE}) ({own(agent.SIMULATED)})"),
            Query(f"1000 * max by ({BY_NODE}) ({own(agent.CONFIG_RELOAD_TIME)})"),
            Query(f"max by ({BY_NODE}) ({own(agent.WEB_CONFIG_SUCCESS)})"),
        ),
        columns=(
            Column("instance", "Node"),
            Column("version", "Version"),
            Column("python", "Python"),
            Column(
                "B",
                "Configuration",
                states=(State("0", "refused", FAILED), State("1", "loaded", WELL)),
            ),
            Column("D", "Loaded at", unit="dateTimeAsIso"),
            Column(
                "E",
                "Web configuration",
                states=(State("0", "refused", FAILED), State("1", "loaded", WELL)),
            ),
            Column(
                "C",
                "Reads",
                states=(State("0", "hardware", WELL), State("1", "a simulation", UNKNOWN)),
            ),
        ),
        by="Version",
        width=24,
        links=(ROW_TO_NODE,),
        place=places.CONFIGURATIONS,
    ),
    Lines(
        title="Failing stages",
        about="Exceptions within the time of a bar, by stage and name; the other stages continue.",
        queries=(
            Query(
                f"sum by (stage, name) ({rose(own(agent.STAGE_FAILURES))})",
                "{{stage}} {{name}}",
            ),
        ),
        bars=True,
        minimum=0,
        empty="no stage failed, or no agent answers",
        width=8,
        place=places.FAILURES,
    ),
    Lines(
        title="Data lost",
        about=(
            "Observations dropped from full queues, records of the kernel log lost before they "
            "were read, samples omitted from pages; within the time of a bar."
        ),
        queries=(
            Query(f"sum by (sink) ({rose(own(agent.QUEUE_DROPPED))})", "queue of {{sink}}"),
            Query(
                f"sum by (reason) ({rose(own(agent.KERNEL_LOG_LOST))})",
                "kernel log: {{reason}}",
            ),
            Query(f"sum by (reason) ({rose(own(agent.EXPOSITION_DROPPED))})", "page: {{reason}}"),
        ),
        empty="nothing was lost, or no agent answers",
        width=8,
        bars=True,
        minimum=0,
        place=places.LOST_DATA,
    ),
    Lines(
        title="Queues",
        about="Observations queued for a sink; the longest queue of all nodes.",
        queries=(Query(f"max by (sink) ({own(agent.QUEUE_LENGTH)})", "{{sink}}"),),
        minimum=0,
        width=8,
    ),
    Lines(
        title="Jobs cut at a limit",
        about=(
            "Jobs of which something is not read, by user or pod and limit: its share of jobs, "
            "processes, bytes, dumps or ranks, CPU time, or looks that ended the child that reads."
        ),
        queries=(
            Query(
                f"count by ({BY_NODE}, tenant, limit) ({own(agent.TENANT_CUT)} > 0)",
                f"{_NODE} {{{{tenant}}}}: {{{{limit}}}}",
            ),
        ),
        minimum=0,
        empty="no job exceeds a limit, or no agent answers",
        links=(TO_NODE,),
        place=places.TENANTS,
    ),
    Lines(
        title="Lost looks at jobs",
        about=(
            "Looks at what a job wrote that gave nothing, within the time of a bar, by source and "
            "reason; the job is read again after a pause."
        ),
        queries=(
            Query(
                f"sum by (source, reason) ({rose(own(agent.TENANT_LOOKS_LOST))})",
                "{{source}}: {{reason}}",
            ),
        ),
        bars=True,
        minimum=0,
        empty="no look was lost, or no agent answers",
    ),
)

COST = (
    Lines(
        title="Memory of the agents",
        about=(
            "Resident, the ten largest; a third of it is shared with other programs. Its child "
            "processes (driver, store) are not included."
        ),
        queries=(Query(most(process("process_resident_memory_bytes"), BY_NODE), _NODE),),
        unit="bytes",
        minimum=0,
        links=(TO_NODE,),
    ),
    Lines(
        title="CPU of the agents",
        about="Seconds per second of one core, the ten busiest; without their children.",
        queries=(Query(most(process("process_cpu_seconds_total", rate), BY_NODE), _NODE),),
        unit="percentunit",
        minimum=0,
        links=(TO_NODE,),
    ),
    Lines(
        title="Read duration",
        about=(
            "The slowest node of each source. Near a second for sources of every second: "
            "ticks will be skipped."
        ),
        queries=(Query(f"max by (source) ({own(agent.SOURCE_DURATION)})", "{{source}}"),),
        unit="s",
        minimum=0,
    ),
    Lines(
        title="Series per page",
        about="The largest page. Limits by profile: docs/operating.md.",
        queries=(Query(f"max({own(agent.EXPOSITION_SERIES)})", "series"),),
        minimum=0,
    ),
)

AGENTS_THEMSELVES = Dashboard(
    places.AGENTS,
    "Tocsin / Agents",
    "Which agents lack data, are outdated or misconfigured, and what do they cost?",
    (
        *NUMBERS,
        Row("Blind"),
        *BLIND,
        Row("Outdated, misconfigured, failing"),
        *WRONG,
        Row("Cost of the agents"),
        *COST,
    ),
    (CLUSTERS, NODES),
    since="now-3h",
)
