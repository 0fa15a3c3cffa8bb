"""Gateway: what it found, and whether it leads, keeps up and reads every host."""

from __future__ import annotations

from dashboards import places
from dashboards.meaning import (
    FAILED,
    LOOK,
    MEANT,
    NONE_IS_BEST,
    NONE_IS_WELL,
    SEVERITY,
    WELL,
    State,
    Step,
)
from dashboards.naming import NAMED, named_anywhere
from dashboards.panels import Column, Dashboard, Lines, Query, Row, Stat, Table, Timeline, Variable
from dashboards.queries import own
from dashboards.shared import BY_NODE, CLUSTERS, TO_NODE, rate, rose, zero_where
from pipeline.catalog import agent, fleet

GATEWAYS = Variable("instance", "Gateway", f'{fleet.INFO.name}{{cluster=~"$cluster"}}', "instance")
_GATEWAY = "{{instance}}"
_INCIDENTS = own(fleet.INCIDENT)
_LEADS = own(fleet.LEADER)
_LEADER = f"{_LEADS} == 1"
_LATE_S, _BEHIND_S = 30, 60  # rules/fleet.py, rules/gateway.py
_STANDBY = (State("0", "waits", MEANT), State("1", "leads", WELL))
_ON_BUS = (State("0", "cannot send", FAILED), State("1", "sends", WELL))
_SENDS = own(agent.BUS_CONNECTED)
_NO_GATEWAY = "no gateway answers"


def _open(severity: str) -> str:
    return zero_where(f"count({own(fleet.INCIDENT, severity=severity)})", _LEADER)


def _hosts(state: str) -> str:
    return f"max by (state) ({own(fleet.HOSTS, state=state)})"


def _of_gateway(series: str) -> str:
    return f"{rose(series)} and on ({BY_NODE}) {own(fleet.INFO)}"


NUMBERS = (
    Stat(
        title="Open pages",
        about=(
            "Incidents of the cluster that page, as the gateway found them. Those that an agent "
            "reports itself are alerted by the agent. 0 is shown only where a gateway leads."
        ),
        queries=(Query(_open("page")),),
        steps=NONE_IS_WELL,
        empty="no gateway leads",
    ),
    Stat(
        title="Open tickets",
        about="Incidents of the cluster for the work queue.",
        queries=(Query(_open("ticket")),),
        steps=NONE_IS_BEST,
        empty="no gateway leads",
    ),
    Stat(
        title="Explained",
        about=(
            "Open incidents of agents that one of the gateway explains: these agents do not alert."
        ),
        queries=(Query(zero_where(f"count({own(fleet.EXPLAINS)})", _LEADER)),),
        empty="no gateway leads",
    ),
    Stat(
        title="Gateways",
        about="That answer, and of these the one that leads.",
        queries=(Query(f"sum({_LEADS})", "leads"), Query(f"count({_LEADS})", "of")),
        empty=_NO_GATEWAY,
    ),
    Stat(
        title="Hosts",
        about="Those that sent within 15 minutes.",
        queries=(Query(f"max({own(fleet.HOSTS, state='known')})"),),
        empty=_NO_GATEWAY,
    ),
    Stat(
        title="Hosts silent",
        about="Of these, those that sent nothing for a minute.",
        queries=(Query(f"max({own(fleet.HOSTS, state='silent')})"),),
        steps=NONE_IS_BEST,
        empty=_NO_GATEWAY,
    ),
)

FOUND = (
    Table(
        title="Open incidents of the cluster",
        about=(
            "One row per cause, by the gateway that leads. Its page (`:9401/`) shows the "
            "evidence. Empty, with 0 above: nothing is open."
        ),
        queries=(Query(named_anywhere(_INCIDENTS, fleet.INCIDENT.labels, "root_device")),),
        columns=(
            Column("severity", "Severity", states=SEVERITY, width=90),
            Column("bus_cluster", "Cluster"),
            Column("host", "Host"),
            Column("root_kind", "Kind", width=110),
            Column(NAMED, "Device", width=330),
            Column("class", "Fault"),
            Column("action", "Proposed"),
        ),
        by="Severity",
        empty="no incident is open, or no gateway leads",
        width=24,
        height=7,
        place=places.FLEET_INCIDENTS,
    ),
    Lines(
        title="Open incidents of the cluster over time",
        about="By severity. A gap: no gateway led.",
        queries=(Query(f"count by (severity) ({_INCIDENTS})", "{{severity}}"),),
        empty="no incident was open, or no gateway led",
        decimals=0,
        minimum=0,
        stacked=True,
        named=SEVERITY,
    ),
    Lines(
        title="Explained incidents of agents",
        about="That are left to the gateway, by class: a wide fault explains many.",
        queries=(Query(f"count by (class) ({own(fleet.EXPLAINS)})", "{{class}}"),),
        empty="nothing was explained, or no gateway led",
        decimals=0,
        minimum=0,
        stacked=True,
    ),
)

LEADING = (
    Timeline(
        title="Which gateway leads",
        about=(
            "Green: holds the lease and is up to date. All of a cluster blue: agents alert for "
            "themselves. A gap without colour: it did not answer."
        ),
        queries=(Query(_LEADS, _GATEWAY),),
        empty=_NO_GATEWAY,
        states=_STANDBY,
        place=places.GATEWAY_LEADER,
    ),
    Lines(
        title="Behind",
        about=(
            "Time since the last second that was judged. Up to 8 s it waits for late hosts; from "
            "15 s on it is silent."
        ),
        queries=(Query(f"time() - {own(fleet.TICK)}", _GATEWAY),),
        empty=_NO_GATEWAY,
        unit="s",
        steps=(Step(0, WELL), Step(_LATE_S, LOOK), Step(_BEHIND_S, FAILED)),
        minimum=0,
        place=places.GATEWAY_LAG,
    ),
    Lines(
        title="Processor time by step",
        about=(
            "Cores: read (decoding), join, judge. A gateway keeps up while these three stay below "
            "one together; workers: of its ingest workers."
        ),
        queries=(Query(rate(own(fleet.SPENT)), f"{_GATEWAY} {{{{step}}}}"),),
        empty=_NO_GATEWAY,
        minimum=0,
    ),
    Lines(
        title="Ingest workers started again",
        about="By reason, within the time of a bar. What they held is read again: nothing is lost.",
        queries=(Query(rose(own(fleet.INGEST_RESTARTS)), f"{_GATEWAY} {{{{reason}}}}"),),
        empty="no worker was started again, or no gateway answers",
        bars=True,
        minimum=0,
        place=places.GATEWAY_WORKERS,
    ),
    Lines(
        title="Batches read",
        about="Per second. Each host sends one every five seconds, more when something happens.",
        queries=(Query(rate(own(fleet.BATCHES)), _GATEWAY),),
        empty=_NO_GATEWAY,
        minimum=0,
    ),
    Lines(
        title="Bytes read",
        about="Per second, compressed.",
        queries=(Query(rate(own(fleet.BATCH_BYTES)), _GATEWAY),),
        empty=_NO_GATEWAY,
        unit="Bps",
        minimum=0,
    ),
)

LOST = (
    Lines(
        title="Batches refused or lost",
        about=(
            "Within the time of a bar: refused, damaged or on the subject of another host; lost, "
            "dropped by an agent or by the bus; late, observations that came after their second "
            "was judged."
        ),
        queries=(
            Query(rose(own(fleet.REFUSED)), f"{_GATEWAY} refused"),
            Query(rose(own(fleet.MISSED)), f"{_GATEWAY} lost"),
            Query(rose(own(fleet.TOO_LATE)), f"{_GATEWAY} late"),
        ),
        empty="nothing was lost, or no gateway answers",
        bars=True,
        minimum=0,
        place=places.GATEWAY_LOST,
    ),
    Lines(
        title="Hosts by state",
        about=(
            "Known: sent within 15 minutes. Late in the second judged last, silent for a minute, "
            "or a name that two agents use."
        ),
        queries=(
            Query(_hosts("known"), "{{state}}"),
            Query(_hosts("=~late|silent|doubled"), "{{state}}"),
        ),
        empty=_NO_GATEWAY,
        decimals=0,
        minimum=0,
        place=places.GATEWAY_HOSTS,
    ),
    Timeline(
        title="Agents that could not send",
        about="Agents from which the bus took nothing. The gateway judges without their nodes.",
        queries=(
            Query(
                f"{_SENDS} and on ({BY_NODE}) min_over_time({_SENDS}[$__range] @ end()) == 0",
                _GATEWAY,
            ),
        ),
        empty="every agent could send, or none has a bus",
        states=_ON_BUS,
        links=(TO_NODE,),
        place=places.AGENTS_ON_BUS,
    ),
    Lines(
        title="Seconds with findings not stored",
        about=(
            "By a gateway, within the time of a bar: its disk is full, slow or broken. Alerts are "
            "not affected."
        ),
        queries=(
            Query(_of_gateway(own(agent.STORE_LOST)), f"{_GATEWAY} refused by the disk"),
            Query(_of_gateway(own(agent.QUEUE_DROPPED)), f"{_GATEWAY} {{{{sink}}}} too slow"),
        ),
        empty="everything was stored, or no gateway answers",
        bars=True,
        minimum=0,
        place=places.GATEWAY_STORE,
    ),
)

GATEWAY = Dashboard(
    places.GATEWAY,
    "Tocsin / Gateway",
    "What did the gateway find, and does it see the whole cluster?",
    (*NUMBERS, *FOUND, Row("Leading and keeping up"), *LEADING, Row("What is lost"), *LOST),
    (CLUSTERS, GATEWAYS),
    incidents=_INCIDENTS,
)
