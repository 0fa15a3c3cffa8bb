"""The causal edges: which fault brings about which other one, and on what related device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

# How the device of the cause is related to that of the effect. ``device``: it is the same;
# ``link``: the other end of the link; ``gpu``: a GPU and an NVLink that ends at it, two links of
# one GPU, or the two ends of a link between two GPUs; ``port``: two ports of a node (a GPU
# that waits for one does not slow down); ``part``: a GPU, about which the cause pages, and its
# node; ``job``: the same job holds both; ``switch``: the leaf switch, or the rail where that is not
# known; otherwise the cause is found on the container itself that holds the device of the effect.
Relation = Literal[
    "device", "link", "gpu", "port", "part", "node", "switch", "rack", "nvlink_domain", "job"
]


@dataclass(frozen=True, slots=True)
class Edge:
    """``cause`` brings about ``effect``: names of faults or of classes of faults.

    ``late_s``: how much later than its effect a cause may seem to have begun, in seconds. By
    default two minutes: a call into the driver takes 45 s to give up, and a source is read once a
    minute at the slowest. Lines of the kernel log have the time of their event.
    """

    cause: str
    where: Relation
    effect: str
    late_s: int = 120


def _each(
    causes: tuple[str, ...], where: Relation, *effects: str, late_s: int = 120
) -> tuple[Edge, ...]:
    return tuple(Edge(cause, where, effect, late_s) for cause in causes for effect in effects)


# What stops every rank of a job: the GPU or the link of one of them is gone.
HALTS = (
    "driver_hung",
    "gpu_lost",
    "gpu_absent",
    "gpu_hung",
    "xid/gpu",
    "xid/memory",
    "xid/nvlink",
    "xid/recovery_action",
    "xid/repeated",
    "ecc/uncorrectable",
    "ecc/sram",
    "nvlink/link_down",
    "nvlink_fabric/manager",
    "nvlink_fabric/registration",
    "nvlink_fabric/unhealthy",
    "pcie/fatal",
    "pcie/contained",
    "nvswitch/fatal",
    "gpu_driver/fatal",
    "adapter/fatal",
    "host/panic",
    "host/lockup",
    "host/oom",
    "host_hardware/uncorrected",
    "storage/server",
    "storage/read_only",
    "storage/disk",
    "ib/link_down",
    "ib/adapter_gone",
    "ib/adapter_health",
    "ib/adapter_fatal",
    "ib_flap",
    "ib/switch_down",
)
# What makes a GPU slow, or unlike its peers.
SLOWS = (
    "thermal",
    "throttle",
    "power",
    "power_limit",
    "pcie",
    "nvlink",
    "nvlink_fabric",
    "ecc",
    "xid",
)
# What makes the network of a node slow.
SLOW_PORTS = ("ib/link_down", "ib/slow_link", "ib/errors", "ib_ber", "ib_flap", "pcie")
# What a cable, or the switch behind it, does to a port; an adapter's own health is not theirs.
LINKS = (
    "ib/link_down",
    "ib/slow_link",
    "ib/errors",
    "ib/fec_tail",
    "ib_ber",
    "ib_flap",
)

EDGES: tuple[Edge, ...] = (
    # A job waits for its broken part; all of its ranks wait together.
    *_each(HALTS, "job", "hang"),
    Edge("hang", "job", "hang"),
    # The other ranks of a job that lost one are ended by their own programs.
    *_each(HALTS, "job", "xid/application", late_s=10),
    Edge("xid/application", "job", "xid/application"),
    # Who waits is idle, and is no outlier for it.
    *_each(("hang",), "job", "straggler", "outlier", "waste"),
    # A GPU that is held back is slow.
    *_each(SLOWS, "device", "straggler", "outlier"),
    *_each(SLOW_PORTS, "port", "straggler"),
    *_each(SLOW_PORTS, "job", "straggler/slow_network"),
    *_each(("throttle", "power_limit"), "node", "throttle", "power_limit", "straggler"),
    *_each(("thermal", "throttle"), "rack", "thermal", "throttle", "straggler"),
    # A GPU that is gone answers nothing.
    *_each(
        ("gpu_lost", "gpu_absent", "gpu_hung"),
        "device",
        *("observability", "waste", "outlier", "straggler"),
    ),
    # Where the driver hangs, calls about every GPU do.
    *_each(
        ("driver_hung",),
        "node",
        *("gpu_hung", "gpu_unreadable", "observability", "waste", "outlier", "straggler"),
    ),
    Edge("observability/unread", "node", "gpu_unreadable"),
    # Most lines of the driver name no GPU: one that is gone or is to be reset has them printed
    # again and again.
    *_each(
        (
            *("gpu_lost", "gpu_absent", "gpu_hung", "pcie/contained"),
            *("xid/gpu", "xid/memory", "xid/nvlink", "xid/recovery_action"),
        ),
        "part",
        "gpu_driver/fatal",
    ),
    Edge("driver_hung", "device", "gpu_driver/fatal"),
    # Processes wait in the kernel for a disk or server that is gone.
    *_each(("storage/server", "storage/disk"), "node", "host/hung_task"),
    # A GPU takes its NVLinks along, at both ends; the driver logs an XID as it sees a link fail,
    # and again when a program uses a link that is down.
    *_each(("gpu_lost", "gpu_absent", "xid/nvlink"), "gpu", "nvlink"),
    *_each(("nvlink_fabric/unhealthy", "nvlink_fabric/registration"), "gpu", "nvlink"),
    *_each(("nvlink",), "gpu", "nvlink", "xid/nvlink", "nvlink_fabric/limited"),
    # A GPU whose link errs is slow.
    *_each(("nvlink",), "gpu", "straggler", "outlier"),
    # What connects the GPUs of a node takes their links and their place in the fabric along.
    *_each(("nvswitch/fatal",), "node", "xid/nvlink", "nvlink", "nvlink_fabric"),
    *_each(("nvlink_fabric/manager",), "node", "xid/nvlink", "nvlink", "nvlink_fabric"),
    # A GPU that is reset while Fabric Manager does not run does not register again.
    Edge("nvlink_fabric/stopped", "node", "nvlink_fabric/registration"),
    # Both ends of a link see it fail.
    *_each(LINKS, "link", "ib/port_disabled", *LINKS),
    # A switch takes its ports along, and those behind it wait for credits.
    *_each(("ib/switch_down",), "switch", "ib/port_disabled", *LINKS, "congestion"),
    *_each(("ib/switch_down",), "job", "straggler"),
    Edge("nvlink/none_up", "node", "nvlink"),
    *_each(
        ("xid/nvlink_domain",),
        "nvlink_domain",
        *("xid/nvlink", "nvlink", "nvlink_fabric", "hang"),
    ),
)


def is_named(name: str, fault: str) -> bool:
    """Whether the name of a fault or class means this fault.

    >>> is_named("ib", "ib/link_down"), is_named("ib/link_down", "ib")
    (True, False)
    """
    return name in (fault, fault.partition("/")[0])


@lru_cache(maxsize=1024)
def edges_to(fault: str) -> tuple[Edge, ...]:
    """The edges whose effect a fault is.

    >>> edges_to("xid/application")[-1].cause, edges_to("gpu_lost")
    ('xid/application', ())
    """
    return tuple(edge for edge in EDGES if is_named(edge.effect, fault))


@lru_cache(maxsize=4096)
def edges_between(cause: str, effect: str) -> tuple[Edge, ...]:
    """The edges from one fault to another.

    >>> [edge.where for edge in edges_between("gpu_lost", "hang")]
    ['job']
    """
    return tuple(edge for edge in edges_to(effect) if is_named(edge.cause, cause))


def forget() -> None:
    """Look at ``EDGES`` again."""
    edges_to.cache_clear()
    edges_between.cache_clear()
