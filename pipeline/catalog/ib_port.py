"""InfiniBand and RoCE ports.

``read`` of a field is one or more places, tried in turn until one has it, joined by `` | ``:

* ``sysfs counters/symbol_error``: that file below ``/sys/class/infiniband/<device>/ports/<port>/``;
* ``net statistics/rx_errors``: that file below ``/sys/class/net/<net device of the port>/``,
  read on Ethernet ports only;
* ``perfquery -x PortXmitData``: that counter of that set of perfquery (no option: the classic set);
  such values are a minute old;
* ``pci current_link_width``: that file below the adapter's PCI device, read once a minute; what the
  adapter is capable of is bounded by the bridge above it;
* ``source``: worked out by the InfiniBand source itself.

The counters stand in pipeline/catalog/ib_counters.py.
"""

from __future__ import annotations

from pipeline.catalog.fields import Fact, Field, Kind, Metric, Profile
from pipeline.catalog.ib_counters import COUNTERS

KINDS = (
    Kind(
        "ib_port",
        (("device", "device"), ("port", "port")),
        (
            "An InfiniBand or RoCE port, identified by its port GUID, on Ethernet by node "
            "GUID and port number."
        ),
    ),
)

# PortState and PortPhysicalState of the IBTA specification (14.2.5.6); absent is ours: the port
# is known, and not there.
ABSENT = 16
PORT_STATES = (
    (1, "down"),
    (2, "init"),
    (3, "armed"),
    (4, "active"),
    (5, "active_defer"),
    (ABSENT, "absent"),
)
PHYSICAL_STATES = (
    (1, "sleep"),
    (2, "polling"),
    (3, "disabled"),
    (4, "training"),
    (5, "link_up"),
    (6, "link_error_recovery"),
    (7, "phy_test"),
)
ACTIVE = 4


def _gauge(
    number: int,
    name: str,
    read: str,
    help_: str,
    metric: str = "",
    *,
    labels: tuple[str, ...] = (),
    states: tuple[tuple[int, str], ...] = (),
    per: int = 1,
    profile: Profile = "default",
) -> Field:
    family = Metric(f"tocsin_ib_port_{metric or name}", "gauge", help_, labels)
    return Field(
        number, name, "ib_port", "gauge", family, read, states=states, per=per, profile=profile
    )


_PCIE_WIDTH = Metric(
    "tocsin_ib_port_pcie_link_width",
    "gauge",
    "PCIe lanes of the adapter: now and at most in its slot.",
)
_PCIE_GENERATION = Metric(
    "tocsin_ib_port_pcie_link_generation",
    "gauge",
    "PCIe generation of the adapter's link: now and at most in its slot.",
)

_STATE = (
    _gauge(
        5101,
        "state",
        "sysfs state",
        "1 for the logical state the port is in, 0 for the others; absent: known, and not there.",
        labels=("state",),
        states=PORT_STATES,
        profile="minimal",
    ),
    _gauge(
        5102,
        "physical_state",
        "sysfs phys_state",
        "1 for the physical state the port is in, 0 for the others.",
        labels=("state",),
        states=PHYSICAL_STATES,
        profile="full",  # seven series a port, of which the logical state says most
    ),
    _gauge(
        5103,
        "rate_bits_per_second",
        "sysfs rate",
        "Data rate of the link as the kernel states it; absent while the port is not active.",
        "rate_bytes_per_second",
        per=8,
        profile="minimal",
    ),
    _gauge(
        5104,
        "width_lanes",
        "sysfs rate",
        "Active width of the link; absent while the port is not active.",
    ),
    _gauge(
        5105,
        "expected",
        "source",
        "1 if the port should be active: declared, or it was active once.",
        profile="minimal",
    ),
    _gauge(
        5106,
        "hw_counters_lifespan_milliseconds",
        "sysfs hw_counters/lifespan",
        "How long the kernel repeats values of hw_counters before it asks the device again.",
        "hw_counters_lifespan_seconds",
        per=1000,
        profile="full",
    ),
    *(
        Field(
            5107 + i,
            f"pcie_{what}_{end}",
            "ib_port",
            "gauge",
            metric,
            f"pci {file}",
            labels=(("link", end),),
            profile="full",
        )
        for i, (metric, what, end, file) in enumerate(
            (
                (_PCIE_WIDTH, "width", "current", "current_link_width"),
                (_PCIE_WIDTH, "width", "maximum", "max_link_width"),
                (_PCIE_GENERATION, "generation", "current", "current_link_speed"),
                (_PCIE_GENERATION, "generation", "maximum", "max_link_speed"),
            )
        )
    ),
)

FIELDS: tuple[Field, ...] = (*_STATE, *COUNTERS)

# ``read`` is a file below the device's folder, ``port``: below the port's,
# ``net``: below the net device's.
FACTS = (
    Fact("device", "ib_port", "RDMA device name, such as mlx5_0.", info=False),
    Fact("port", "ib_port", "Port number on the device.", info=False),
    Fact("port_guid", "ib_port", "Port GUID; empty on Ethernet."),
    Fact("node_guid", "ib_port", "Node GUID of the adapter.", "node_guid"),
    Fact("firmware", "ib_port", "Firmware version of the adapter.", "fw_ver"),
    Fact("board_id", "ib_port", "Board or parameter-set id (PSID).", "board_id"),
    Fact("hca_type", "ib_port", "Model of the adapter, such as MT4129.", "hca_type"),
    Fact("pci_bus_id", "ib_port", "PCI address of the adapter."),
    Fact("numa_node", "ib_port", "NUMA node of the adapter.", "device/numa_node"),
    Fact("link_layer", "ib_port", "InfiniBand or Ethernet.", "port link_layer"),
    Fact("net_device", "ib_port", "Net device of the port."),
    Fact("mtu", "ib_port", "MTU of the net device, in bytes.", "net mtu"),
    Fact("rate", "ib_port", "Rate, width and speed as the kernel prints them.", "port rate"),
    Fact("lid", "ib_port", "Local identifier of the port.", "port lid", info=False),
    Fact("sm_lid", "ib_port", "Local identifier of the subnet manager.", "port sm_lid", info=False),
    Fact("gid", "ib_port", "GID at index 0.", "port gids/0", info=False),
    Fact(
        "expected_by",
        "ib_port",
        "Why the port should be active: declared, or learned because it was active once.",
    ),
    Fact(
        "epoch",
        "ib_port",
        "Changes when the driver makes the device again; its counters may then start again.",
        info=False,
    ),
)
