"""One alert per cause: what the gateway explains is left to it, the rest to the agents.

All of it is evaluated in one group, at one instant: a word of the gateway silences agents and
alerts in their place in the same evaluation. While no gateway leads its last report stands on both
sides, for an hour: it was alerted already. What is new then, agents alert.
"""

from __future__ import annotations

from dashboards import places
from rules import owners, templates, words
from rules.model import Alert, Recording, Severity

# A gateway is at most 8 s behind (docs/bus.md), and silent by itself from 15 s on. The rest is for
# clocks that differ: beyond it the process hangs, and shows what it found before.
FRESH_S = 30
LAST_REPORT_S = 3600  # of gateways
GONE_S = 900  # of an agent: for so long the gateway remembers what it sent
# An incident comes from the gateway in 8 s and a scrape: until then it is not known whose it is.
AWAITED = "30s"

ON_AGENT = "on (cluster, node, instance)"
WITH_BUS = (
    f"* {ON_AGENT} group_left (bus_cluster, bus_host)\n"
    "max by (cluster, node, instance, bus_cluster, bus_host) (tocsin_bus_info)"
)

LEADER = "instance:tocsin_fleet_leader:fresh"
FOUND = "root:tocsin_fleet_incident_active:last"
EXPLAINS = "root:tocsin_fleet_explains:last"
REPORTED = "root:tocsin_incident_active:last"
EXPLAINED = "root:tocsin_incident_active:explained"
OWN = "root:tocsin_incident_active:own"
NEW = "root:tocsin_incident_active:new"
MAINTENANCE = "host:tocsin_maintenance:last"


def _last_report(record: str, said: str, silent: str, seconds: int) -> Recording:
    """Unix time at which each series of ``said`` was there last. The rule reads its own last
    result, so that what has ended is forgotten at once, unless who said it has fallen silent.
    """
    return Recording(
        record, f"(0 * {said} + time())\nor\n(({record} > time() - {seconds}) unless {silent})"
    )


def _of_leader(record: str, metric: str, labels: str) -> Recording:
    said = f"max by ({labels}) (\n  {metric} and {ON_AGENT} {LEADER}\n)"
    return _last_report(record, said, f"on (bus_cluster) {LEADER}", LAST_REPORT_S)


def _of_agents(record: str, series: str, labels: str, seconds: int) -> Recording:
    said = (
        f"max by (cluster, node, instance, bus_cluster, bus_host{labels}) (\n{series} {WITH_BUS}\n)"
    )
    return _last_report(record, said, f"{ON_AGENT} tocsin_bus_info", seconds)


RECORDINGS = (
    # Gateways that lead, by the cluster of the bus; there is one but for moments.
    Recording(
        LEADER,
        "tocsin_fleet_info\n"
        f"and {ON_AGENT} (tocsin_fleet_leader == 1)\n"
        f"and {ON_AGENT} (timestamp(tocsin_fleet_tick_timestamp_seconds) - "
        f"tocsin_fleet_tick_timestamp_seconds < {FRESH_S})",
    ),
    _of_leader(
        FOUND,
        "tocsin_fleet_incident_active",
        "bus_cluster, host, root_kind, root_device, class, severity, action",
    ),
    _of_leader(
        EXPLAINS,
        "tocsin_fleet_explains",
        "bus_cluster, bus_host, root_kind, root_device, class, severity",
    ),
    # Of agents that send to a bus; one that crashes with its node does not take back what it said.
    _of_agents(
        REPORTED,
        "tocsin_incident_active",
        ", root_kind, root_device, class, severity",
        GONE_S,
    ),
    _of_agents(MAINTENANCE, "tocsin_maintenance{kind='node'}", "", LAST_REPORT_S),
    Recording(
        EXPLAINED,
        f"{REPORTED}\n"
        f"and on (bus_cluster, bus_host, root_kind, root_device, class, severity) {EXPLAINS}",
    ),
    Recording(OWN, f"{REPORTED} unless {EXPLAINED}"),
    Recording(
        NEW, f"{REPORTED}\nunless ({REPORTED} offset {AWAITED})\nand on (bus_cluster) {LEADER}"
    ),
)

# What an agent does not alert: behind its own expression.
ON_INCIDENT = "on (cluster, node, instance, root_kind, root_device, class, severity)"
LEFT = f"unless {ON_INCIDENT} {EXPLAINED}\nunless {ON_INCIDENT} {NEW}"

DEVICE = f"{templates.DEVICE_ANYWHERE} in cluster {{{{ $labels.bus_cluster }}}}"
WORDS = words.of_class([name.partition("/")[0] for name in words.WORDS], "fault")


def _incident(severity: Severity) -> Alert:
    """Incidents of the gateway that no agent reports at least as severely, on hosts in service."""
    page = severity == "critical"
    level, reported = ("page", '"page"') if page else ("ticket", '~"page|ticket"')
    series = templates.labelled(f'{FOUND}{{severity="{level}"}}')
    name = "TocsinFleetIncident"
    return Alert(
        name=name if page else f"{name}Ticket",
        expr=(
            f"{series}\n"
            f"unless on (bus_cluster, root_kind, root_device) {OWN}{{severity={reported}}}\n"
            f"unless on (bus_cluster, host) "
            f'label_replace({MAINTENANCE}, "host", "$1", "bus_host", "(.*)")'
        ),
        severity=severity,
        component="node",
        scope="",
        action="page" if page else "remediate",
        family="",
        hold="30s" if page else "2m",
        page_of="leader",
        summary="Fault found by the gateway."
        if page
        else "Fault found by the gateway (not urgent).",
        description=(
            f"{DEVICE}: {WORDS} ({{{{ $labels.class }}}}). "
            f"{templates.action('Inspect the device', urgent=page)}"
        ),
        means=(
            "The gateway compared all nodes of the cluster. No agent reports this device as "
            "severely: either none can see the fault alone, or the gateway explains several of "
            "their incidents by it, and these do not alert (`tocsin_fleet_explains`). The label "
            "`class` names the fault; the alerts of the agents have a section for each class."
        ),
        confirm=(
            "The incident and its evidence on the page of the gateway and in its "
            "`/api/v1/incidents`; `tocsin_fleet_explains{incident=...}`."
        ),
        do="Follow the proposed action for the root cause, not for the nodes that suffer from it.",
        clears=(
            "When the incident closes, or an agent reports the device itself. While no gateway "
            f"leads it goes on for at most {LAST_REPORT_S // 3600} h; then agents alert what they "
            "see."
        ),
        panel=places.FLEET_INCIDENTS,
        like="" if page else name,
        labels=owners.FLEET_LABELS,
    )


EXPLANATION = Alert(
    name="TocsinFleetExplains",
    # By severity: a ticket that is explained must not mute a page about the same device.
    expr=f'label_replace({EXPLAINED}, "level", "$1", "severity", "(.*)")',
    severity="info",
    component="pipeline",
    scope="",
    action="observe",
    family="",
    page_of="leader",
    summary="Incident of an agent explained by the gateway.",
    description=(
        f"{templates.NODE}: the incident of {{{{ $labels.root_kind }}}} "
        "{{ $labels.root_device }} ({{ $labels.class }}) is explained by one of the gateway."
    ),
    means=(
        "Notifies nobody. Alertmanager mutes the agent's own alert by it where that began before "
        "the gateway knew the cause."
    ),
    confirm="`tocsin_fleet_explains`: its label `incident` is the gateway's incident.",
    do="Nothing.",
    clears="When one of the two incidents closes.",
    panel=places.FLEET_INCIDENTS,
)

ALERTS = (_incident("critical"), _incident("warning"), EXPLANATION)
