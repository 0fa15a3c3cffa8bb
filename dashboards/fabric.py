"""Fabric: which link is hurt, and is the fabric congested."""

from __future__ import annotations

from dashboards import places
from dashboards.meaning import HEALTH, NONE_IS_BEST, NONE_IS_WELL, PORT_STATE, Step
from dashboards.panels import Column, Dashboard, Heatmap, Lines, Query, Row, Stat, Table, Timeline
from dashboards.queries import facts, measured
from dashboards.shared import (
    BY_PORT,
    CLUSTERS,
    INCIDENTS,
    NODES,
    PORTS,
    ROW_TO_NODE,
    TO_NODE,
    coded,
    ever,
    increase,
    most,
    one,
    port_health,
    rate,
    zero_where,
)

_PORT = "{{instance}} {{device}}"
# The highest bit error ratio after correction that InfiniBand allows a link in service (IBTA volume
# 2, physical layer): 1e-12.
_ALLOWED = 1e-12


def _of(name: str, **matchers: str) -> str:
    return measured("ib_port", name, device="=~$device", **matchers)


_EXPECTED, _ACTIVE, _RATE = (
    _of("expected"),
    _of("state", state="active"),
    _of("rate_bits_per_second"),
)
_ERRORS_OF_HOUR = f"rate({_of('symbol_errors')}[1h])"
_BYTES = (
    f"({rate(_of('receive_words'))} > {rate(_of('transmit_words'))} or "
    f"{rate(_of('transmit_words'))})"
)

NUMBERS = (
    Stat(
        title="Ports active",
        about="Of those that should be: declared, or active once.",
        queries=(
            Query(
                f"sum({one(BY_PORT, _ACTIVE)} * on ({BY_PORT}) {one(BY_PORT, _EXPECTED)})", "active"
            ),
            Query(f"sum({_EXPECTED})", "of"),
        ),
        width=6,
    ),
    Stat(
        title="Below full rate",
        about="Ports whose link came up slower than the fastest port of the same node.",
        queries=(
            Query(
                zero_where(
                    (
                        f"count({_RATE} < on (cluster, instance) group_left () max by (cluster, "
                        f"instance) ({_RATE}))"
                    ),
                    _RATE,
                )
            ),
        ),
        steps=NONE_IS_WELL,
        width=6,
    ),
    Stat(
        title="With bit errors",
        about=(
            "Ports whose symbol errors of the last hour are more than the specification allows: a "
            "bit error ratio above 1e-12."
        ),
        queries=(
            Query(
                zero_where(
                    (
                        f"count({one(BY_PORT, _ERRORS_OF_HOUR)} / on ({BY_PORT}) (8 * "
                        f"{one(BY_PORT, _RATE)}) > {_ALLOWED:g})"
                    ),
                    _RATE,
                )
            ),
        ),
        steps=NONE_IS_BEST,
        width=6,
    ),
    Stat(
        title="Flapped",
        about="Ports that went down and came back within the last hour, at least once.",
        queries=(
            Query(
                zero_where(f"count(increase({_of('link_downed')}[1h]) > 0.5)", _of("link_downed"))
            ),
        ),
        steps=NONE_IS_BEST,
        width=6,
    ),
)

LINKS = (
    Timeline(
        title="Ports that were down",
        about=(
            "Logical state of those that should be active and were not all the time. Several ports "
            "of one leaf at once: look at the switch; one port of a node: at its cable."
        ),
        queries=(
            Query(
                ever(
                    coded(BY_PORT, PORT_STATE, lambda state: _of("state", state=state))
                    + f" and on ({BY_PORT}) ({_EXPECTED} == 1)",
                    BY_PORT,
                ),
                _PORT,
            ),
        ),
        states=PORT_STATE,
        empty="every port was active, or no agent answers",
        links=(TO_NODE,),
        height=9,
        place=places.PORTS,
    ),
    Timeline(
        title="Unhealthy ports",
        about=(
            "By open findings; only ports that had any: bit errors and flaps show here while the "
            "port is still active."
        ),
        queries=(Query(ever(port_health(device="=~$device"), BY_PORT), _PORT),),
        empty="every port was healthy, or no agent answers",
        states=HEALTH,
        links=(TO_NODE,),
        height=9,
    ),
    Lines(
        title="Bit error ratio",
        about=(
            "Symbol errors against the bits that the link carries in the time, of ports that have "
            "any. The line is what InfiniBand allows. The counter sticks at 65,535: a port that "
            "reached it no longer shows errors; `ib_saturation` reports it."
        ),
        queries=(
            Query(
                f"{one(BY_PORT, rate(_of('symbol_errors')))} / on ({BY_PORT}) "
                f"(8 * {one(BY_PORT, _RATE)}) > 0",
                _PORT,
            ),
        ),
        unit="sci",
        steps=(Step(0, "green"), Step(_ALLOWED, "red")),
        logarithmic=True,
        empty="no port has symbol errors, or no agent answers",
        links=(TO_NODE,),
    ),
    Lines(
        title="Flaps and recoveries",
        about="Times that a link went down, or retrained, within the time of a bar.",
        queries=(
            Query(f"{increase(_of('link_downed'))} > 0", f"{_PORT} down"),
            Query(f"{increase(_of('link_error_recoveries'))} > 0", f"{_PORT} retrained"),
        ),
        empty="no link went down, or no agent answers",
        bars=True,
        minimum=0,
        links=(TO_NODE,),
    ),
    Lines(
        title="Packets lost or repeated",
        empty="no port loses packets, or no agent answers",
        about=(
            "Per second, where there are any: out of sequence, NAKed or timed out at this end. "
            "Loss somewhere on the path, not always at this port."
        ),
        queries=(
            Query(f"{rate(_of('out_of_sequence'))} > 0", f"{_PORT} out of sequence"),
            Query(f"{rate(_of('packet_seq_err'))} > 0", f"{_PORT} NAK"),
            Query(f"{rate(_of('local_ack_timeout_err'))} > 0", f"{_PORT} timeout"),
        ),
        unit="cps",
        minimum=0,
        links=(TO_NODE,),
    ),
    Lines(
        title="Received with errors",
        empty="no port receives errors, or no agent answers",
        about=(
            "Packets per second, where there are any: with an error in them, or marked bad "
            "elsewhere in the fabric: then the faulty link is another one."
        ),
        queries=(
            Query(f"{rate(_of('receive_errors'))} > 0", f"{_PORT} here"),
            Query(f"{rate(_of('receive_remote_physical_errors'))} > 0", f"{_PORT} elsewhere"),
        ),
        unit="cps",
        minimum=0,
        links=(TO_NODE,),
    ),
)

LOAD = (
    Lines(
        title="Received and sent",
        about="All ports together; sent is below zero.",
        queries=(
            Query(f"sum({rate(_of('receive_words'))})", "in"),
            Query(f"-sum({rate(_of('transmit_words'))})", "out"),
        ),
        unit="Bps",
    ),
    Heatmap(
        title="Load of the ports",
        about="How many ports use which share of their rate, in the busier direction.",
        queries=(Query(f"{one(BY_PORT, _BYTES)} / on ({BY_PORT}) {one(BY_PORT, _RATE)}"),),
        unit="percentunit",
        bucket=0.1,
        minimum=0,
        maximum=1,
    ),
    Lines(
        title="Waiting for credit",
        about=(
            "Ticks per second in which there was data and no credit: the ten ports that wait most. "
            "Congestion, no error; the unit of a tick is the adapter's own."
        ),
        queries=(Query(most(rate(_of("transmit_wait_ticks")), BY_PORT), _PORT),),
        minimum=0,
        links=(TO_NODE,),
    ),
    Lines(
        title="Congestion notifications (RoCE)",
        about=(
            "Packets that arrived marked, notifications sent for them, and notifications that "
            "slowed a sender here; per second."
        ),
        queries=(
            Query(f"sum({rate(_of('np_ecn_marked_roce_packets'))})", "arrived marked"),
            Query(f"sum({rate(_of('np_cnp_sent'))})", "notified others"),
            Query(f"sum({rate(_of('rp_cnp_handled'))})", "slowed down here"),
        ),
        unit="cps",
        minimum=0,
    ),
    Table(
        title="Adapters",
        about="What they are, and which firmware they run.",
        queries=(Query(facts("ib_port", device="=~$device")),),
        columns=(
            Column("instance", "Node"),
            Column("device", "Adapter"),
            Column("port", "Port", width=60),
            Column("hca_type", "Model"),
            Column("firmware", "Firmware"),
            Column("link_layer", "Link layer"),
            Column("rate", "Rate"),
            Column("port_guid", "GUID"),
        ),
        links=(ROW_TO_NODE,),
        width=24,
    ),
)

FABRIC = Dashboard(
    places.FABRIC,
    "Tocsin / Fabric",
    "Which link is faulty, and is the fabric congested?",
    (*NUMBERS, *LINKS, Row("Load and congestion"), *LOAD),
    (CLUSTERS, NODES, PORTS),
    incidents=INCIDENTS,
)
