"""Rules over node_exporter's InfiniBand series alone (`node_infiniband_*`)."""

from __future__ import annotations

from dashboards import places
from rules.model import Alert, Group, Recording

PORT = "{{ $labels.device }}/{{ $labels.port }} of {{ $labels.instance }}"

# Bits a second from bytes a second: the data rate that symbol errors are measured against.
BITS = "(node_infiniband_rate_bytes_per_second * 8)"

# A port counts as wanted once it was active within a week: management and unused ports never were.
WANTED = "max_over_time(node_infiniband_state_id[7d]) == 4"

RECORDINGS = (
    Recording("port:infiniband_symbol_errors:increase12m", "increase(node_infiniband_symbol_error_total[12m])"),
    Recording("port:infiniband_symbol_errors:increase125m", "increase(node_infiniband_symbol_error_total[125m])"),
)

AVAILABILITY = (
    Alert(
        name="RawIbPortDown",
        expr=f"(node_infiniband_state_id < 4) and ({WANTED})",
        severity="critical",
        component="fabric",
        scope="port",
        action="page",
        family="port_down",
        hold="4m",
        keep="5m",
        summary="An InfiniBand port that carried traffic is down.",
        description=f"Port {PORT} has not been active for 4 minutes (state {{{{ $value }}}}, active is 4).",
        means="Cable, transceiver, switch port or HCA. Jobs over this rail stall or take another path.",
        confirm="`ibstat DEVICE`; `iblinkinfo` at the switch; is the far end down as well, is the switch in maintenance?",
        do="Reseat or swap the cable. Several ports of one switch: look at the switch first.",
        clears="When the port is active. A port that is no longer wanted: a week after it was last active.",
        panel=places.RAW_PORTS,
    ),
    Alert(
        name="RawIbPortGone",
        expr=(
            "(last_over_time(node_infiniband_state_id[1d]) unless node_infiniband_state_id)\n"
            "and on (cluster, node, instance) (up == 1)"
        ),
        severity="critical",
        component="fabric",
        scope="port",
        action="page",
        family="port_down",
        hold="5m",
        keep="15m",
        summary="An InfiniBand adapter has vanished from a node that is up.",
        description=f"Port {PORT} was there within the last day; the node answers and the port does not exist.",
        means="The HCA fell off the bus or its driver gave it up.",
        confirm="`lspci | grep -i mellanox`; `dmesg | grep mlx5`.",
        do="Drain the node, cold-reboot it; then reseat or replace the adapter.",
        clears="When the port is back, or a day after it was last seen.",
        panel=places.RAW_PORTS,
    ),
)

SATURATION = (
    Alert(
        name="RawIbRateLow",
        expr="node_infiniband_rate_bytes_per_second < max_over_time(node_infiniband_rate_bytes_per_second[7d]) and node_infiniband_rate_bytes_per_second > 0",
        severity="critical",
        component="fabric",
        scope="port",
        action="page",
        family="port_rate",
        hold="5m",
        keep="5m",
        summary="An InfiniBand link came up slower than it was.",
        description=f"Port {PORT} runs at {{{{ $value | humanize }}}}B/s; it was faster within the last week.",
        means="Lanes or speed were lost when the link was trained: dirt, a bent pin, a dying transceiver.",
        confirm="`ibstat DEVICE` (Rate), `iblinkinfo` on both ends (width and speed).",
        do="Reseat, clean or swap the cable.",
        clears="When the link has its rate again.",
        panel=places.RAW_PORTS,
    ),
    Alert(
        name="RawIbCounterStuck",
        expr="node_infiniband_symbol_error_total == 65535 or node_infiniband_link_downed_total == 255",
        severity="warning",
        component="fabric",
        scope="port",
        action="remediate",
        family="observability",
        hold="10m",
        summary="An error counter of an InfiniBand port is full and counts no more.",
        description=f"A counter of port {PORT} stands at {{{{ $value }}}}, its maximum: new errors are invisible.",
        means="The classical counters stick at their maximum (IBTA: 16 and 8 bits). No increase means nothing from then on.",
        confirm="`perfquery` for the port.",
        do="`perfquery -R` for this port once its errors were looked into; read the extended counters where the HCA has them.",
        clears="After the counter was reset.",
        panel=places.RAW_BIT_ERRORS,
    ),
)

ERRORS = (
    Alert(
        name="RawIbBitErrors",
        # Both windows of NVIDIA's port isolation rule (UFM PDR plugin), and ten errors at least: each alone is noise at some link rate.
        expr=(
            f"port:infiniband_symbol_errors:increase12m > {BITS} * 720 * 1e-14\n"
            f"and port:infiniband_symbol_errors:increase125m > {BITS} * 7500 * 1e-15\n"
            "and port:infiniband_symbol_errors:increase125m >= 10"
        ),
        severity="critical",
        component="fabric",
        scope="port",
        action="page",
        family="bit_errors",
        keep="30m",
        summary="The bit-error rate of an InfiniBand link is out of specification.",
        description=f'Port {PORT}: {{{{ $value | printf "%.0f" }}}} symbol errors in 12 minutes, above 1e-14 of the bits it carries.',
        means="Errors are counted against the rate of the link: 20 an hour are nothing at 800 Gb/s over a day and a dying cable at 100.",
        confirm="`perfquery -x`, twice; both ends: errors at one end only point at that receiver; cable temperature and power (`mlxlink -m`).",
        do="Clean or swap the cable; then the transceiver; then the port.",
        clears="Half an hour after the rate is back in specification.",
        panel=places.RAW_BIT_ERRORS,
    ),
    Alert(
        name="RawIbLinkFlaps",
        # Downs that the node's own reboot explains do not count. A counter starts at 0 with the driver, so an increase is enough.
        expr=(
            "increase(node_infiniband_link_downed_total[6h]) >= 3\n"
            "unless on (cluster, node, instance) (time() - node_boot_time_seconds < 6 * 3600)"
        ),
        severity="warning",
        component="fabric",
        scope="port",
        action="remediate",
        family="flap",
        summary="An InfiniBand link goes down again and again.",
        description=f'The link of port {PORT} went down {{{{ $value | printf "%.0f" }}}} times in 6 hours.',
        means="From one end alone a flap cannot be told from a peer that reboots: hence no page. Tocsin looks at both ends.",
        confirm="The far end's counter rose as well? Did the far node or the switch reboot?",
        do="Both ends: swap the cable. One end: see what the far end did.",
        clears="6 hours after the third last down.",
        panel=places.RAW_FLAPS,
    ),
)

GROUPS = (
    Group("tocsin.raw.fabric.records", RECORDINGS),
    Group("tocsin.raw.fabric.availability", AVAILABILITY),
    Group("tocsin.raw.fabric.saturation", SATURATION),
    Group("tocsin.raw.fabric.errors", ERRORS),
)
