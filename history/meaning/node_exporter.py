"""node_exporter's series: InfiniBand ports (collector infiniband) and the boot of the host.

Names and units: node_exporter 1.12, collector/infiniband_linux.go.
"""

from __future__ import annotations

from history.meaning.column import Column

BOOT = "node_boot_time_seconds"
NAMES = "node_uname_info"  # its label nodename is the host's own name

_PORT = "node_infiniband_"
_COUNTERS = {
    "link_downed_total": "link_downed",
    "link_error_recovery_total": "link_error_recoveries",
    "symbol_error_total": "symbol_errors",
    "port_errors_received_total": "receive_errors",
    "port_packets_received_total": "receive_packets",
    "port_packets_transmitted_total": "transmit_packets",
    "port_discards_transmitted_total": "transmit_discards",
    "port_constraint_errors_received_total": "receive_constraint_errors",
    "port_constraint_errors_transmitted_total": "transmit_constraint_errors",
    "port_transmit_wait_total": "transmit_wait_ticks",
    "port_receive_remote_physical_errors_total": "receive_remote_physical_errors",
    "port_receive_switch_relay_errors_total": "receive_switch_relay_errors",
    "excessive_buffer_overrun_errors_total": "buffer_overrun_errors",
    "local_link_integrity_errors_total": "local_link_integrity_errors",
    "vl15_dropped_total": "vl15_dropped",
    "local_ack_timeout_errors_total": "local_ack_timeout_err",
    "packet_sequence_errors_total": "packet_seq_err",
    "out_of_sequence_packets_received_total": "out_of_sequence",
    "rnr_nak_retry_packets_received_total": "rnr_nak_retry_err",
    "implied_packet_sequence_errors_total": "implied_nak_seq_err",
    "duplicate_requests_packets_total": "duplicate_request",
}

COLUMNS = {_PORT + name: Column("ib_port", column) for name, column in _COUNTERS.items()} | {
    # the kernel counts words of four bytes, the exporter multiplies
    _PORT + "port_data_received_bytes_total": Column("ib_port", "receive_words", times=4),
    _PORT + "port_data_transmitted_bytes_total": Column("ib_port", "transmit_words", times=4),
    _PORT + "state_id": Column("ib_port", "state"),
    _PORT + "physical_state_id": Column("ib_port", "physical_state"),
    _PORT + "rate_bytes_per_second": Column("ib_port", "rate_bits_per_second", per=8),
    BOOT: Column("node", "boot_time_seconds"),
}
