"""Series of exporters that ask the whole InfiniBand fabric from one place: ports by GUID, and the
node by the adapter's description.

treydock/infiniband_exporter (collectors/hca.go: bytes; guid and port, names in
``infiniband_hca_info``) and guilbaults/infiniband-exporter (counters as perfquery names them: words
of four bytes; ``local_name``, ``local_guid``, ``local_port``; it clears a counter at half of its
width). Ports of switches belong to no node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from history.meaning.column import Column

INFO = "infiniband_hca_info"  # treydock's: guid, and hca, the adapter's description
RATE = "infiniband_hca_rate_bytes_per_second"
ONLY_PORT = "1"  # of an adapter whose series name none

_FIELDS = {
    # ours: treydock's, guilbaults'
    "link_downed": ("link_downed", "linkdownedcounter"),
    "link_error_recoveries": ("link_error_recovery", "linkerrorrecoverycounter"),
    "symbol_errors": ("symbol_error", "symbolerrorcounter"),
    "receive_errors": ("receive_errors", "portrcverrors"),
    "receive_packets": ("receive_packets", "portrcvpkts"),
    "transmit_packets": ("transmit_packets", "portxmitpkts"),
    "transmit_discards": ("transmit_discards", "portxmitdiscards"),
    "transmit_wait_ticks": ("transmit_wait", "portxmitwait"),
    "receive_remote_physical_errors": (
        "receive_remote_physical_errors",
        "portrcvremotephysicalerrors",
    ),
    "receive_switch_relay_errors": ("receive_switch_relay_errors", ""),
    "receive_constraint_errors": ("receive_constraint_errors", ""),
    "transmit_constraint_errors": ("transmit_constraint_errors", ""),
    "buffer_overrun_errors": ("excessive_buffer_overrun_errors", ""),
    "local_link_integrity_errors": ("local_link_integrity_errors", "locallinkintegrityerrors"),
    "vl15_dropped": ("vl15_dropped", "vl15dropped"),
}
COLUMNS = (
    {f"infiniband_hca_port_{t}_total": Column("ib_port", n) for n, (t, _) in _FIELDS.items()}
    | {f"infiniband_{g}_total": Column("ib_port", n) for n, (_, g) in _FIELDS.items() if g}
    | {
        "infiniband_hca_port_transmit_data_bytes_total": Column("ib_port", "transmit_words", 4),
        "infiniband_hca_port_receive_data_bytes_total": Column("ib_port", "receive_words", 4),
        "infiniband_portxmitdata_total": Column("ib_port", "transmit_words"),
        "infiniband_portrcvdata_total": Column("ib_port", "receive_words"),
        RATE: Column("ib_port", "rate_bits_per_second", per=8),
    }
)


def port_of(labels: Mapping[str, str], nodes: Mapping[str, str]) -> tuple[str, str, str]:
    """Node, adapter and port of a series; the node is empty for a port of a switch, or of an
    adapter whose description is not known. ``nodes`` has nodes by GUID.

    >>> labels = {"component": "ca", "local_name": "gpu7 mlx5_3", "local_port": "1"}
    >>> port_of(labels, {})
    ('gpu7', 'mlx5_3', '1')
    >>> port_of({"guid": "0x7cfe", "port": "1"}, {"0x7cfe": "gpu7"})
    ('gpu7', '0x7cfe', '1')
    """
    if "local_name" in labels:
        host, adapter = described(labels["local_name"])
        is_adapter = labels.get("component", "ca") == "ca"
        guid = labels.get("local_guid", "")
        return nodes.get(guid, host) if is_adapter else "", adapter or guid, labels["local_port"]
    guid = labels.get("guid", "")
    return nodes.get(guid, ""), guid, labels.get("port", ONLY_PORT)


# How drivers and tools name an adapter: mlx5_core, hfi1, OpenSM's default.
ADAPTER = re.compile(r"(?P<host>\S+?)[ .](?P<adapter>mlx\d+_\w+|hfi\d+_\w+|HCA-\d+)")


def described(description: str) -> tuple[str, str]:
    """Node and adapter of a node description, as the driver sets it: the host's name, with the
    adapter's or without.

    >>> described("gpu7 HCA-1"), described("gpu7.mlx5_0"), described("gpu7")
    (('gpu7', 'HCA-1'), ('gpu7', 'mlx5_0'), ('gpu7', ''))
    >>> described("MT4129 ConnectX7   Mellanox Technologies")
    ('', '')
    """
    if found := ADAPTER.fullmatch(description):
        return found["host"], found["adapter"]
    words = description.split()
    return (words[0], "") if len(words) == 1 else ("", "")


def nodes_of(infos: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Nodes by GUID, of the labels of ``infiniband_hca_info``."""
    found = {one.get("guid", ""): described(one.get("hca", ""))[0] for one in infos}
    return {guid: host for guid, host in found.items() if guid and host}
