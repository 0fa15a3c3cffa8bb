"""The counters of InfiniBand and RoCE ports.

The words of ``read`` are explained in pipeline/catalog/ib_port.py.

Names and widths: drivers/infiniband/core/sysfs.c and hw/mlx5/counters.c of Linux; IBTA volume 1,
chapter 16.1 (PortCounters, PortCountersExtended, PortExtendedSpeedsCounters). PMA counters stick at
their maximum until someone resets them.
"""

from __future__ import annotations

from pipeline.catalog.fields import Field, Metric, Profile

# A 12X GDR link would carry 2.4 Tb/s: no port moves more 4-byte words or (of 256 bytes MTU)
# packets a second than this.
_MAX_WORDS, _MAX_PACKETS = 2.4e12 / 32, 2.4e12 / 8 / 256


def _counter(
    number: int,
    name: str,
    read: str,
    help_: str,
    profile: Profile = "default",
    *,
    metric: str = "",
    times: int = 1,
    width: int = 64,
    sticks: bool = False,
    most: float = 0.0,
) -> Field:
    family = Metric(f"tocsin_ib_port_{metric or name}_total", "counter", help_)
    return Field(
        number,
        name,
        "ib_port",
        "counter",
        family,
        read,
        times=times,
        width=width,
        overflow="sticks" if sticks else "resets",
        maximum_per_second=most,
        profile=profile,
    )


_TRAFFIC = (
    _counter(
        5001,
        "receive_words",
        "sysfs counters/port_rcv_data | perfquery -x PortRcvData",
        "Data received, in bytes.",
        "minimal",
        metric="receive_bytes",
        times=4,
        sticks=True,
        most=_MAX_WORDS,
    ),
    _counter(
        5002,
        "transmit_words",
        "sysfs counters/port_xmit_data | perfquery -x PortXmitData",
        "Data sent, in bytes.",
        "minimal",
        metric="transmit_bytes",
        times=4,
        sticks=True,
        most=_MAX_WORDS,
    ),
    _counter(
        5003,
        "receive_packets",
        "sysfs counters/port_rcv_packets | perfquery -x PortRcvPkts",
        "Packets received.",
        sticks=True,
        most=_MAX_PACKETS,
    ),
    _counter(
        5004,
        "transmit_packets",
        "sysfs counters/port_xmit_packets | perfquery -x PortXmitPkts",
        "Packets sent.",
        sticks=True,
        most=_MAX_PACKETS,
    ),
    *(
        _counter(
            number,
            f"{cast}cast_{direction}_packets",
            (
                f"sysfs counters/{cast}cast_{short}_packets | perfquery -x "
                f"Port{cast.title()}cast{short.title()}Pkts"
            ),
            f"{cast.title()}cast packets {verb}.",
            "full",
            sticks=True,
        )
        for number, cast, direction, short, verb in (
            (5005, "uni", "receive", "rcv", "received"),
            (5006, "uni", "transmit", "xmit", "sent"),
            (5007, "multi", "receive", "rcv", "received"),
            (5008, "multi", "transmit", "xmit", "sent"),
        )
    ),
)

# id, name, file of counters/, name in perfquery, width in bits, help, profile; id of the
# 64-bit twin where it is read.
_PMA: tuple[tuple[int, str, str, str, int, str, Profile, int], ...] = (
    (
        5010,
        "symbol_errors",
        "symbol_error",
        "SymbolErrorCounter",
        16,
        "Minor link errors on a lane",
        "minimal",
        5030,
    ),
    (
        5011,
        "link_error_recoveries",
        "link_error_recovery",
        "LinkErrorRecoveryCounter",
        8,
        "Times the link recovered from errors by retraining",
        "default",
        5031,
    ),
    (
        5012,
        "link_downed",
        "link_downed",
        "LinkDownedCounter",
        8,
        "Times the link went down",
        "minimal",
        5032,
    ),
    (
        5013,
        "receive_errors",
        "port_rcv_errors",
        "PortRcvErrors",
        16,
        "Packets received with an error in them",
        "default",
        5033,
    ),
    (
        5014,
        "receive_remote_physical_errors",
        "port_rcv_remote_physical_errors",
        "PortRcvRemotePhysicalErrors",
        16,
        "Packets received that were marked bad elsewhere in the fabric",
        "default",
        5034,
    ),
    (
        5015,
        "receive_switch_relay_errors",
        "port_rcv_switch_relay_errors",
        "PortRcvSwitchRelayErrors",
        16,
        "Packets received that could not be forwarded",
        "full",
        0,
    ),
    (
        5016,
        "transmit_discards",
        "port_xmit_discards",
        "PortXmitDiscards",
        16,
        "Outbound packets discarded because the port was down or congested",
        "default",
        5035,
    ),
    (
        5017,
        "transmit_constraint_errors",
        "port_xmit_constraint_errors",
        "PortXmitConstraintErrors",
        8,
        "Packets not sent because of partition or raw filtering",
        "full",
        0,
    ),
    (
        5018,
        "receive_constraint_errors",
        "port_rcv_constraint_errors",
        "PortRcvConstraintErrors",
        8,
        "Packets received and dropped because of partition or raw filtering",
        "full",
        0,
    ),
    (
        5019,
        "local_link_integrity_errors",
        "local_link_integrity_errors",
        "LocalLinkIntegrityErrors",
        4,
        "Times local physical errors exceeded their threshold",
        "default",
        5036,
    ),
    (
        5020,
        "buffer_overrun_errors",
        "excessive_buffer_overrun_errors",
        "ExcessiveBufferOverrunErrors",
        4,
        "Times flow-control update errors overran the buffers",
        "default",
        5037,
    ),
    (
        5021,
        "vl15_dropped",
        "VL15_dropped",
        "VL15Dropped",
        16,
        "Management packets dropped for want of buffers",
        "full",
        0,
    ),
    (
        5022,
        "transmit_wait_ticks",
        "port_xmit_wait",
        "PortXmitWait",
        32,
        "Ticks in which there was data to send and no credit: congestion, not an error",
        "default",
        5038,
    ),
)

_ERRORS = tuple(
    _counter(
        number,
        name,
        f"sysfs counters/{file} | perfquery {pma}",
        f"{help_}. Sticks at {2**width - 1}.",
        profile,
        width=width,
        sticks=True,
    )
    for number, name, file, pma, width, help_, profile, _ in _PMA
)

# The same counters where the device keeps them in 64 bits (additional PortCountersExtended):
# counters of their own, with their own value, so that neither ever seems to jump.
_EXTENDED = tuple(
    _counter(
        twin,
        f"{name}_extended",
        f"perfquery -x {pma}",
        f"{help_}: the 64-bit counter, asked about once a minute.",
        "default" if name in ("symbol_errors", "link_downed") else "full",
        sticks=True,
    )
    for _, name, _, pma, _, help_, _, twin in _PMA
    if twin
)

# id, name, name in perfquery, width in bits, help, profile: Reed-Solomon
# FEC of the link as a whole.
_SPEEDS: tuple[tuple[int, str, str, int, str, Profile], ...] = (
    (
        5045,
        "sync_header_errors",
        "SyncHeaderErrorCounter",
        16,
        "Sync headers with an error on any lane",
        "full",
    ),
    (
        5046,
        "unknown_blocks",
        "UnknownBlockCounter",
        16,
        "Control blocks of an unknown type on any lane",
        "full",
    ),
    (
        5047,
        "fec_corrected_symbols",
        "PortFECCorrectedSymbolCtr",
        32,
        "Symbols corrected by FEC",
        "full",
    ),
    (
        5048,
        "fec_corrected_blocks",
        "PortFECCorrectableBlockCtr",
        32,
        "Blocks corrected by FEC",
        "full",
    ),
    (
        5049,
        "fec_uncorrectable_blocks",
        "PortFECUncorrectableBlockCtr",
        32,
        "Blocks FEC could not correct",
        "default",
    ),
)

_FEC = tuple(
    _counter(
        number,
        name,
        f"perfquery -T {pma}",
        f"{help_}. Sticks at {2**width - 1}.",
        profile,
        width=width,
        sticks=True,
    )
    for number, name, pma, width, help_, profile in _SPEEDS
)

# id, file of hw_counters/ (mlx5), help, profile.
_HARDWARE: tuple[tuple[int, str, str, Profile], ...] = (
    (5201, "out_of_sequence", "Packets received out of sequence.", "default"),
    (
        5202,
        "packet_seq_err",
        "NAKs for sequence errors received: packets were lost on the way.",
        "default",
    ),
    (
        5203,
        "local_ack_timeout_err",
        "Times the acknowledge timer of a queue pair ran out on this side.",
        "default",
    ),
    (5204, "rnr_nak_retry_err", "Receiver-not-ready NAKs received.", "default"),
    (
        5205,
        "implied_nak_seq_err",
        "Times an acknowledge implied that a response was lost.",
        "default",
    ),
    (5206, "duplicate_request", "Requests received twice.", "full"),
    (
        5207,
        "out_of_buffer",
        "Packets dropped because the queue pair had no receive buffer posted.",
        "default",
    ),
    (5208, "roce_slow_restart", "Times RoCE slow restart was used.", "default"),
    (5209, "roce_slow_restart_cnps", "Congestion notifications sent by RoCE slow restart.", "full"),
    (5210, "roce_slow_restart_trans", "Times RoCE slow restart changed state to slow.", "full"),
    (5211, "roce_adp_retrans", "Adaptive retransmissions of RoCE traffic.", "full"),
    (
        5212,
        "roce_adp_retrans_to",
        "Times RoCE traffic reached its timeout under adaptive retransmission.",
        "full",
    ),
    (
        5213,
        "np_cnp_sent",
        "Congestion notifications sent because packets arrived marked.",
        "default",
    ),
    (
        5214,
        "np_ecn_marked_roce_packets",
        "RoCE packets received that the network marked as congested.",
        "default",
    ),
    (
        5215,
        "rp_cnp_handled",
        "Congestion notifications received that slowed a sender down.",
        "default",
    ),
    (5216, "rp_cnp_ignored", "Congestion notifications received and ignored.", "full"),
    (5217, "rx_icrc_encapsulated", "RoCE packets received with a bad invariant CRC.", "default"),
    (5218, "rx_write_requests", "RDMA write requests received.", "full"),
    (5219, "rx_read_requests", "RDMA read requests received.", "full"),
    (5220, "rx_atomic_requests", "Atomic requests received.", "full"),
    (
        5221,
        "rx_dct_connect",
        "Connection requests received for dynamically connected transport.",
        "full",
    ),
    (5222, "req_cqe_error", "Requests completed with an error.", "full"),
    (5223, "req_cqe_flush_error", "Requests flushed with an error.", "full"),
    (5224, "req_remote_access_errors", "Requests refused by the peer for access.", "full"),
    (5225, "req_remote_invalid_request", "Requests the peer called invalid.", "full"),
    (5226, "req_transport_retries_exceeded", "Requests given up after all retries.", "full"),
    (
        5227,
        "req_rnr_retries_exceeded",
        "Requests given up because the receiver stayed not ready.",
        "full",
    ),
    (5228, "resp_cqe_error", "Responses completed with an error.", "full"),
    (5229, "resp_cqe_flush_error", "Responses flushed with an error.", "full"),
    (5230, "resp_local_length_error", "Responses with a local length error.", "full"),
    (5231, "resp_remote_access_errors", "Responses refused for access.", "full"),
)

_HW_COUNTERS = tuple(
    _counter(number, name, f"sysfs hw_counters/{name}", help_, profile)
    for number, name, help_, profile in _HARDWARE
)

# The net device of an Ethernet port (Documentation/ABI/testing/sysfs-class-net
# and -statistics of Linux).
_NET_FILES: tuple[tuple[int, str, str, str, Profile], ...] = (
    (
        5301,
        "carrier_changes",
        "carrier_changes",
        "Times the net device's carrier came or went.",
        "default",
    ),
    (
        5302,
        "receive_errors",
        "statistics/rx_errors",
        "Bad packets received by the net device.",
        "default",
    ),
    (
        5303,
        "receive_dropped",
        "statistics/rx_dropped",
        "Packets the net device received and dropped.",
        "full",
    ),
    (
        5304,
        "receive_crc_errors",
        "statistics/rx_crc_errors",
        "Frames received with a bad checksum.",
        "default",
    ),
    (
        5305,
        "receive_missed_errors",
        "statistics/rx_missed_errors",
        "Packets missed for want of buffers.",
        "full",
    ),
    (
        5306,
        "transmit_errors",
        "statistics/tx_errors",
        "Packets the net device failed to send.",
        "default",
    ),
    (
        5307,
        "transmit_dropped",
        "statistics/tx_dropped",
        "Packets the net device dropped on their way out.",
        "full",
    ),
)

_NET = tuple(
    _counter(number, f"net_{name}", f"net {file}", help_, profile)
    for number, name, file, help_, profile in _NET_FILES
)

COUNTERS: tuple[Field, ...] = (*_TRAFFIC, *_ERRORS, *_EXTENDED, *_FEC, *_HW_COUNTERS, *_NET)
