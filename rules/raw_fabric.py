"""Rules over node_exporter's InfiniBand series alone (`node_infiniband_*`)."""

from __future__ import annotations

from dashboards import places
from rules.model import Alert, Group, Recording, any_pod, gone
from rules.templates import NODE

PORT = f"Port {{{{ $labels.device }}}}/{{{{ $labels.port }}}} on {NODE}"

# Bits a second from bytes a second: the data rate that symbol errors are compared with.
BITS = "(node_infiniband_rate_bytes_per_second * 8)"

# A port counts as in use if it was active within a week: management and unused ports never were.
STATE, RATE = "node_infiniband_state_id", "node_infiniband_rate_bytes_per_second"
IN_USE = f"{any_pod(f'max_over_time({STATE}[7d])')} == 4"

RECORDINGS = (
    Recording(
        "port:infiniband_symbol_errors:increase12m",
        "increase(node_infiniband_symbol_error_total[12m])",
    ),
    Recording(
        "port:infiniband_symbol_errors:increase125m",
        "increase(node_infiniband_symbol_error_total[125m])",
    ),
)

AVAILABILITY = (
    Alert(
        name="RawIbPortDown",
        expr=f"({any_pod(STATE)} < 4) and ({IN_USE})",
        severity="critical",
        component="fabric",
        scope="port",
        action="page",
        family="port_down",
        hold="4m",
        keep="5m",
        summary="InfiniBand port down.",
        description=(
            f"{PORT} has been down for 4 minutes (state {{{{ $value }}}}; active is 4). Reseat or "
            f"swap the cable."
        ),
        means=(
            "A port that was active within the last week is not active: cable, transceiver, switch "
            "port or HCA. Jobs on this rail stall or use another path."
        ),
        confirm=(
            "`ibstat DEVICE`; `sudo iblinkinfo` at the switch; whether the far end is down too or "
            "the switch is in maintenance."
        ),
        do=(
            "Reseat or swap the cable. If several ports of one switch are down, inspect the switch "
            "first."
        ),
        clears=(
            "When the port is active. A port that is no longer used: a week after it was last "
            "active."
        ),
        panel=places.RAW_PORTS,
    ),
    Alert(
        name="RawIbPortGone",
        # The exporter's own `up`: others may be under the same instance, such as a node's name.
        expr=f"({gone(STATE)})\nand on (cluster, node, instance, job) (up == 1)",
        severity="critical",
        component="fabric",
        scope="port",
        action="page",
        family="port_down",
        hold="5m",
        keep="15m",
        summary="InfiniBand port missing from a node that responds.",
        description=(
            f"{PORT} has disappeared; it was exported within the last day, and the node still "
            f"responds. Drain the node and power-cycle it."
        ),
        means="The HCA fell off the bus, or its driver removed it.",
        confirm="`lspci | grep -i mellanox`; `sudo dmesg | grep mlx5`.",
        do=(
            "Drain the node and power-cycle it. If the port is still missing, reseat or replace "
            "the adapter."
        ),
        clears="When the port is back, or a day after it was last seen.",
        panel=places.RAW_PORTS,
    ),
)

SATURATION = (
    Alert(
        name="RawIbRateLow",
        # A port that is down has the rate that it begins with: that is the other alert's.
        expr=(
            f"{any_pod(RATE)} < {any_pod(f'max_over_time({RATE}[7d])')} and {any_pod(RATE)} > 0\n"
            f"unless {any_pod(STATE)} < 4"
        ),
        severity="critical",
        component="fabric",
        scope="port",
        action="page",
        family="port_rate",
        hold="5m",
        keep="5m",
        summary="InfiniBand link rate reduced.",
        description=(
            f"{PORT} runs at {{{{ $value | humanize }}}}B/s; it was faster within the last week. "
            f"Reseat, clean or swap the cable."
        ),
        means="Lanes or speed were lost in link training: dirt, a bent pin, a failing transceiver.",
        confirm="`ibstat DEVICE` (Rate); `sudo iblinkinfo` at both ends (width and speed).",
        do="Reseat, clean or swap the cable.",
        clears="When the link is back at its earlier rate.",
        panel=places.RAW_PORTS,
    ),
    Alert(
        name="RawIbCounterStuck",
        expr=(
            "node_infiniband_symbol_error_total == 65535 or node_infiniband_link_downed_total == "
            "255"
        ),
        severity="warning",
        component="fabric",
        scope="port",
        action="remediate",
        family="observability",
        hold="10m",
        summary="InfiniBand error counter saturated.",
        description=(
            f"{PORT}: an error counter is at its maximum ({{{{ $value }}}}), so new errors are not "
            f"counted. Reset it with perfquery -R."
        ),
        means=(
            "The classic counters stop at their maximum (IBTA: 16 and 8 bits). From then on no "
            "increase does not mean no errors."
        ),
        confirm="`sudo perfquery` for the port.",
        do=(
            "Look into the errors of the port, then reset its counters with `sudo perfquery -R`. "
            "Read the extended counters where the HCA has them."
        ),
        clears="After the counter was reset.",
        panel=places.RAW_BIT_ERRORS,
    ),
)

ERRORS = (
    Alert(
        name="RawIbBitErrors",
        # Both windows of NVIDIA's port isolation rule (UFM PDR plugin), and at least ten errors:
        # each condition alone is noise at some link rate.
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
        summary="InfiniBand bit error rate out of specification.",
        description=(
            f'{PORT} had {{{{ $value | printf "%.0f" }}}} symbol errors in 12 minutes, a bit error '
            f"rate above 1e-14. Clean or swap the cable."
        ),
        means=(
            "Errors are compared with the bit rate of the link. Twenty errors an hour are harmless "
            "at 800 Gb/s and mean a failing cable at 100 Gb/s."
        ),
        confirm=(
            "`sudo perfquery -x`, twice, at both ends: errors at one end only point to that "
            "receiver; cable temperature and optical power (`sudo mlxlink -m`)."
        ),
        do="Clean or swap the cable, then the transceiver, then the port.",
        clears="30 minutes after the rate is back in specification.",
        panel=places.RAW_BIT_ERRORS,
    ),
    Alert(
        name="RawIbLinkFlaps",
        # Losses explained by a reboot of the node do not count. A counter starts at 0 with the
        # driver, so an increase is enough.
        expr=(
            "increase(node_infiniband_link_downed_total[6h]) >= 3\n"
            "unless on (cluster, node, instance) (time() - node_boot_time_seconds < 6 * 3600)"
        ),
        severity="warning",
        component="fabric",
        scope="port",
        action="remediate",
        family="flap",
        summary="InfiniBand link flapping.",
        description=(
            f'{PORT} lost its link {{{{ $value | printf "%.0f" }}}} times in 6 hours. Check '
            f"whether the far end rebooted; otherwise swap the cable."
        ),
        means=(
            "One end alone cannot distinguish a flap from a reboot of its peer, so this alert does "
            "not page. Tocsin compares both ends."
        ),
        confirm=(
            "Whether the counter at the far end rose too; whether the far node or the switch "
            "rebooted."
        ),
        do=(
            "Both counters rose: swap the cable. One counter rose: check what happened at the far "
            "end."
        ),
        clears="When fewer than three link losses lie within the last 6 hours.",
        panel=places.RAW_FLAPS,
    ),
)

GROUPS = (
    Group("tocsin.raw.fabric.records", RECORDINGS),
    Group("tocsin.raw.fabric.availability", AVAILABILITY),
    Group("tocsin.raw.fabric.saturation", SATURATION),
    Group("tocsin.raw.fabric.errors", ERRORS),
)
