"""InfiniBand and RoCE ports. ``read`` is a file below the port's sysfs folder, or ``perfquery NAME``, tried in turn."""

from __future__ import annotations

from pipeline.catalog.fields import Fact, Field, Kind, Metric

KINDS = (Kind("ib_port", (("device", "device"), ("port", "port")), "An InfiniBand or RoCE port, identified by its port GUID."),)

FIELDS = (
    Field(
        5001,
        "receive_words",
        "ib_port",
        "counter",
        Metric("tocsin_ib_port_receive_bytes_total", "counter", "Data received, in bytes."),
        "sysfs counters/port_rcv_data | perfquery PortRcvData",
        times=4,
        overflow="sticks",
        profile="minimal",
    ),
    Field(
        5010,
        "symbol_errors",
        "ib_port",
        "counter",
        Metric(
            "tocsin_ib_port_symbol_errors_total", "counter", "Minor link errors on a lane. Sticks at 65535 where 16 bits wide."
        ),
        "perfquery SymbolErrorCounterExtended | sysfs counters/symbol_error",
        width=16,
        overflow="sticks",
        profile="minimal",
    ),
)

FACTS = (
    Fact("device", "ib_port", "RDMA device name, such as mlx5_0."),
    Fact("port", "ib_port", "Port number on the device."),
)
