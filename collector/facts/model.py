"""Facts as values. What is not known is None or empty, never guessed."""

from __future__ import annotations

from dataclasses import dataclass, field

ROCE_V2 = "RoCE v2"


@dataclass(frozen=True, slots=True)
class Gid:
    """An entry of a port's GID table: ``type`` as the kernel spells it (``RoCE v2``)."""

    index: int
    type: str
    value: str
    interface: str = ""

    @property
    def routable(self) -> bool:
        """RoCE v2 and not link-local: what queue pairs between hosts can use."""
        return self.type == ROCE_V2 and not self.value.startswith("fe80:")


@dataclass(frozen=True, slots=True)
class RdmaPort:
    """A port of an RDMA device. ``gigabits`` is its rate, 0 where unknown; ``path`` the PCI path
    of its device below /sys/devices; ``traffic_class`` what the driver forces on all of its traffic
    (MLNX_OFED), None without.
    """

    device: str
    number: int
    active: bool = True
    ethernet: bool = False
    gigabits: float = 0.0
    interface: str = ""
    mtu: int = 0
    gids: tuple[Gid, ...] = ()
    path: str = ""
    numa: int = -1
    traffic_class: int | None = None

    @property
    def name(self) -> str:
        """As NCCL_IB_HCA takes it: ``mlx5_0:1``."""
        return f"{self.device}:{self.number}"


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface. ``up`` is None where nobody says."""

    name: str
    up: bool | None = None
    mtu: int = 0


@dataclass(frozen=True, slots=True)
class PciGpu:
    """A GPU as the kernel has it. ``cpus`` are those of its NUMA node."""

    uuid: str
    index: int
    address: str
    path: str = ""
    numa: int = -1
    cpus: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node.

    ``gpudirect``: whether adapters can reach GPU memory, by the peer memory module or by dma-buf
    of the open kernel module; ``peermem``: by the first of these. ``nvswitch``: whether it has
    NVSwitches; ``imex``: whether the IMEX service runs, None on a node without. ``acs``: bridges on
    which the control bits of access control services are set.
    """

    host: str
    ports: tuple[RdmaPort, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    gpus: tuple[PciGpu, ...] = ()
    gpudirect: bool | None = None
    peermem: bool | None = None
    nvswitch: bool | None = None
    imex: bool | None = None
    acs: tuple[str, ...] = ()
    driver: str = ""
    virtual: bool | None = None

    @property
    def active(self) -> tuple[RdmaPort, ...]:
        """Ports that NCCL can use: it skips the others silently (src/transport/net_ib)."""
        return tuple(port for port in self.ports if port.active)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a process: bytes or counts, None for unlimited; ``known`` is False where
    /proc/PID/limits cannot be read.
    """

    known: bool = False
    memlock: int | None = None
    nofile: int | None = None
    stack: int | None = None


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """What the kernel says of a process: ``shm`` is the size of its /dev/shm, ``cpus`` where it
    may run, ``interfaces`` the names in its network namespace; ``foreign``: that this is not the
    node's own; ``pins``: that it may lock memory beyond its limit. Empty or None is unknown.
    """

    limits: Limits = field(default_factory=Limits)
    shm: int | None = None
    cpus: frozenset[int] = frozenset()
    interfaces: tuple[str, ...] = ()
    foreign: bool = False
    pins: bool = False
