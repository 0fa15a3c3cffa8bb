"""Rules over the gateway itself: whether it leads, reads the bus, keeps up and stores."""

from __future__ import annotations

from dashboards import places
from rules.fleet import LEADER, ON_AGENT
from rules.model import Alert, Group
from rules.templates import INSTANCE

UP = 'up{job=~".*tocsin.*gateway.*"}'
CLUSTER = "Cluster {{ $labels.bus_cluster }}"
OF_CLUSTER = f"{INSTANCE} (cluster {{{{ $labels.bus_cluster }}}})"
# Of an agent, whichever pod it runs in: two of them match while one replaces the other.
WITH_BUS = (
    f"* {ON_AGENT} group_left (bus_cluster) "
    "max by (cluster, node, instance, bus_cluster) (tocsin_bus_info)"
)
WITH_CLUSTER = f"* {ON_AGENT} group_left (bus_cluster) tocsin_fleet_info"
AGENTS_ALERT = "Agents alert for themselves; what only the comparison of nodes shows is missed."
BEHIND_S = 60  # a gateway waits for late hosts for 8 s
RESTARTS = 3  # of ingest workers in 15 minutes; one that somebody killed is no reason to look

LEADING = (
    Alert(
        name="TocsinFleetNoLeader",
        expr=(
            "max by (bus_cluster) (last_over_time(tocsin_fleet_info[1d]))\n"
            f"unless on (bus_cluster) {LEADER}"
        ),
        severity="warning",
        component="pipeline",
        scope="",
        action="observe",
        family="",
        hold="5m",
        page_of="none",
        summary="A cluster has no leading gateway.",
        description=(
            f"{CLUSTER}: no gateway holds the lease and is up to date, so only agents alert. "
            "Check the gateways and the bus."
        ),
        means=(
            f"{AGENTS_ALERT} Incidents that the gateway reported last stay as they are for an hour."
        ),
        confirm=(
            "`tocsin_fleet_leader`, `tocsin_fleet_bus_connected` and "
            "`tocsin_fleet_tick_timestamp_seconds` of each gateway; its log. After a start a "
            "gateway reads the last hour before it leads."
        ),
        do=(
            "Start a gateway, or repair the bus: docs/bus.md. With three NATS servers two must run "
            "for the lease."
        ),
        clears="When a gateway leads, or a day after the last one was seen.",
        panel=places.GATEWAY_LEADER,
    ),
    Alert(
        name="TocsinGatewayDown",
        expr=f"{UP} == 0",
        severity="warning",
        component="pipeline",
        scope="",
        action="observe",
        family="",
        hold="10m",
        summary="Gateway not responding.",
        description=(
            f"{INSTANCE}: the gateway has not responded for 10 minutes. Restart the gateway."
        ),
        means="Another gateway leads if there is one; if none does, TocsinFleetNoLeader fires.",
        confirm=(
            "`curl http://INSTANCE/-/healthy`; `systemctl status tocsin-gateway` or the log of the "
            "pod."
        ),
        do="Restart the gateway. If its node is down, start it on another one.",
        clears="At the first successful scrape.",
        panel=places.GATEWAY_LEADER,
    ),
)

READING = (
    Alert(
        name="TocsinGatewayBusDisconnected",
        expr=f"(tocsin_fleet_bus_connected == 0) {WITH_CLUSTER}",
        severity="warning",
        component="pipeline",
        scope="",
        action="observe",
        family="",
        hold="2m",
        summary="Gateway cannot read the bus.",
        description=(
            f"{OF_CLUSTER}: the gateway cannot read the bus. Check the NATS servers and the "
            "credentials."
        ),
        means=(
            "The servers are down, refuse the credentials, or have no stream that takes the "
            f"subjects. {AGENTS_ALERT}"
        ),
        confirm=(
            "The gateway logs the reason; `nats stream info tocsin`; `/healthz` of the servers."
        ),
        do="Repair the bus: docs/bus.md. The gateway reconnects and reads what it missed.",
        clears="When batches are read again.",
        panel=places.GATEWAY_LEADER,
    ),
    Alert(
        name="TocsinGatewayBehind",
        expr=(
            "((timestamp(tocsin_fleet_tick_timestamp_seconds) - "
            f"tocsin_fleet_tick_timestamp_seconds > {BEHIND_S})\n"
            f"and {ON_AGENT} (rate(tocsin_fleet_batches_total[5m]) > 0)) {WITH_CLUSTER}"
        ),
        severity="warning",
        component="pipeline",
        scope="",
        action="observe",
        family="",
        hold="10m",
        summary="Gateway behind the bus.",
        description=(
            f"{OF_CLUSTER}: the gateway is {{{{ $value | humanizeDuration }}}} behind. Give it "
            "more processor time."
        ),
        means=(
            "It reads batches and has not judged them: after a start for some minutes, otherwise "
            "because it lacks processor time. A gateway that is behind does not lead."
        ),
        confirm="`tocsin_fleet_tick_timestamp_seconds`; `top` on its node; its log.",
        do="Give it a core of its own. If it stays behind after a start, split the cluster.",
        clears=f"When it is less than {BEHIND_S} s behind.",
        panel=places.GATEWAY_LAG,
    ),
    Alert(
        name="TocsinGatewayBatchesRefused",
        expr=f"(increase(tocsin_fleet_batches_refused_total[15m]) > 0) {WITH_CLUSTER}",
        severity="warning",
        component="pipeline",
        scope="",
        action="observe",
        family="",
        hold="5m",
        summary="Gateway refuses batches.",
        description=(
            f'{OF_CLUSTER}: {{{{ $value | printf "%.0f" }}}} batches were refused in 15 minutes. '
            "Look in its log for the host."
        ),
        means=(
            "A batch is damaged, of a version that the gateway does not know, or on the subject of "
            "another host: a wrong host name, or a host that tries to publish for another."
        ),
        confirm="The gateway logs the reason and the host.",
        do=(
            "Upgrade gateways before agents. Where a host sends in the name of another, correct "
            "its configuration, or treat it as compromised and revoke its credentials."
        ),
        clears="15 minutes after the last refused batch.",
        panel=places.GATEWAY_LOST,
    ),
    Alert(
        name="TocsinGatewayIncidentsOverflow",
        expr=f"(tocsin_fleet_incidents_overflow > 0) {WITH_CLUSTER}",
        severity="warning",
        component="pipeline",
        scope="",
        action="observe",
        family="",
        hold="10m",
        summary="Gateway with more open incidents than it exports.",
        description=(
            f"{OF_CLUSTER}: {{{{ $value }}}} incidents beyond the limit of 500 are not exported. "
            "Look for a common cause."
        ),
        means=(
            "Many devices have faults at once. The most severe incidents are exported; agents "
            "alert for those that are not, as far as they know of them."
        ),
        confirm="The gateway's page and `/api/v1/incidents` have all of them.",
        do="Find the common cause. Report the detector if it is wrong.",
        clears="When the number of incidents is below the limit.",
        panel=places.GATEWAY_LEADER,
    ),
    Alert(
        name="TocsinGatewayBatchesMissed",
        expr=(
            "(increase(tocsin_fleet_batches_missed_total[15m]) > "
            f"0.01 * increase(tocsin_fleet_batches_total[15m])) {WITH_CLUSTER}"
        ),
        severity="warning",
        component="pipeline",
        scope="",
        action="observe",
        family="",
        hold="15m",
        summary="Batches lost on the way to the gateway.",
        description=(
            f'{OF_CLUSTER}: {{{{ $value | printf "%.0f" }}}} batches never came in 15 minutes, '
            "more than 1 %. Check the bus."
        ),
        means=(
            "Agents dropped them because the bus did not take them for a minute, or the stream "
            "dropped them before the gateway read them. Agents have them in their stores."
        ),
        confirm="`tocsin_bus_dropped_total` of the agents; `nats stream info tocsin`.",
        do="Raise `max_bytes` of the stream, or give the servers faster disks.",
        clears="When less than 1 % is lost.",
        panel=places.GATEWAY_LOST,
    ),
    Alert(
        name="TocsinGatewayWorkersEnding",
        expr=(
            "(sum without (reason) (increase(tocsin_fleet_ingest_restarts_total[15m])) >= "
            f"{RESTARTS}) {WITH_CLUSTER}"
        ),
        severity="warning",
        component="pipeline",
        scope="",
        action="observe",
        family="",
        hold="5m",
        summary="Ingest workers of a gateway end again and again.",
        description=(
            f'{OF_CLUSTER}: ingest workers were started {{{{ $value | printf "%.0f" }}}} times in '
            "15 minutes. Look in its log for the reason."
        ),
        means=(
            "No batch is lost: another worker reads again what the one before held, and the "
            "gateway reads itself where none starts. It costs time, and the gateway may fall "
            "behind."
        ),
        confirm=(
            "The gateway logs how each ended; `tocsin_fleet_ingest_restarts_total` by reason; "
            "`sudo dmesg` for processes that the kernel ended for want of memory."
        ),
        do=(
            "Reason ended with exit status -9: give the gateway more memory, or fewer workers. A "
            "host whose messages end workers is named in the log: see TocsinGatewayBatchesRefused."
        ),
        clears="When fewer ended in 15 minutes.",
        panel=places.GATEWAY_WORKERS,
    ),
    Alert(
        name="TocsinFleetAgentsUnseen",
        expr=(
            "count by (bus_cluster) (\n"
            f"max by (cluster, node, instance) (tocsin_bus_connected == 1) {WITH_BUS}\n"
            ")\n- on (bus_cluster) max by (bus_cluster) (\n"
            '(tocsin_fleet_hosts{state="known"} - ignoring (state) '
            'tocsin_fleet_hosts{state="silent"})\n'
            f"* {ON_AGENT} group_left (bus_cluster) {LEADER}\n) > 0"
        ),
        severity="warning",
        component="pipeline",
        scope="",
        action="observe",
        family="",
        hold="10m",
        page_of="leader",
        summary="Agents that the gateway does not see.",
        description=(
            f"{CLUSTER}: agents that send to the bus and do not reach the gateway: "
            "{{ $value }}. Compare their settings of the bus."
        ),
        means=(
            "The bus acknowledges what these agents send, and the gateway has read nothing from "
            "them for a minute. It judges the cluster without their nodes."
        ),
        confirm=(
            "`tocsin_fleet_batches_refused_total`; the hosts that the gateway knows on its page "
            "against `tocsin_bus_info`."
        ),
        do=(
            "Agents whose batches are refused: see TocsinGatewayBatchesRefused. Two agents of one "
            "name count as one host: see TocsinFleetHostDoubled."
        ),
        clears="When the gateway reads batches of as many hosts as agents are connected.",
        panel=places.GATEWAY_HOSTS,
    ),
    Alert(
        name="TocsinFleetHostDoubled",
        expr=(
            '(tocsin_fleet_hosts{state="doubled"} > 0)\n'
            f"* {ON_AGENT} group_left (bus_cluster) {LEADER}"
        ),
        severity="warning",
        component="pipeline",
        scope="",
        action="observe",
        family="",
        hold="5m",
        summary="Two agents under one name.",
        description=(
            f"{OF_CLUSTER}: names that two agents use: {{{{ $value }}}}. Give each agent its own "
            "name."
        ),
        means="Two agents send in turn as one host; the gateway mixes their readings.",
        confirm="`count by (bus_cluster, bus_host) (tocsin_bus_info) > 1`.",
        do=(
            "Correct `bus.host`. If only one agent of the name is yours, its credentials are "
            "stolen: revoke them."
        ),
        clears="When one of the two stops.",
        panel=places.GATEWAY_HOSTS,
    ),
    Alert(
        name="TocsinBusDisconnected",
        expr=f"(tocsin_bus_connected == 0) {WITH_BUS}",
        severity="warning",
        component="pipeline",
        scope="node",
        action="observe",
        family="",
        hold="10m",
        summary="Agent cannot send to the bus.",
        description=(
            f"{INSTANCE}: the bus has not taken what the agent sends for 10 minutes. Check its "
            "credentials and the network."
        ),
        means="The gateway judges the cluster without this node; the agent alerts for itself.",
        confirm="The agent logs the reason; `tocsin_bus_last_sent_timestamp_seconds`.",
        do="Correct the section `bus` or the credentials of this agent: docs/bus.md.",
        clears="When the bus takes a batch.",
        panel=places.AGENTS_ON_BUS,
    ),
)

KEEPING = (
    Alert(
        name="TocsinGatewayStoreFailing",
        expr=(
            "((increase(tocsin_queue_dropped_total[15m]) > 0)\n"
            "or (increase(tocsin_store_lost_observations_total[15m]) > 0)) "
            f"{WITH_CLUSTER}"
        ),
        severity="warning",
        component="pipeline",
        scope="",
        action="observe",
        family="",
        keep="15m",
        summary="Gateway cannot store what it finds.",
        description=(
            f'{OF_CLUSTER}: {{{{ $value | printf "%.0f" }}}} seconds with findings were not '
            "stored in 15 minutes. Free disk space."
        ),
        means=(
            "The disk of the gateway is full, slow or broken. Alerts are not affected; the history "
            "of the cluster's incidents has a gap. Another gateway keeps its own."
        ),
        confirm="The log of the gateway; free space at its `storage.path`; `sudo dmesg`.",
        do="Free disk space, or replace the disk.",
        clears="15 minutes after the last loss.",
        panel=places.GATEWAY_STORE,
    ),
)

GROUPS = (
    Group("tocsin.gateway.leading", LEADING),
    Group("tocsin.gateway.reading", READING),
    Group("tocsin.gateway.keeping", KEEPING),
)
