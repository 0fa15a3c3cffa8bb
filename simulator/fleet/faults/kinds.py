"""Single faults of every kind that can strike beside another one: each is injected, and repaired,
by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

from pipeline.finding import Severity
from simulator.fabric_reports import COMPLETED, NVML_ERROR_UNKNOWN
from simulator.fleet import effects, kernel_logs
from simulator.fleet.topology import GPUS
from simulator.fleet.troubles import devices, hardware, kernel, storage
from simulator.fleet.troubles.trouble import LINE_S, Of, Spelling, Words
from simulator.fleet.world import HUNG, LOST, OK, FleetState, Process
from simulator.kernel_log import mlx5_health

MIN_WATTS = 0.6  # of the default limit


class Strike(NamedTuple):
    """A fault of a row (of GPUs or ports) that lasts; ``words`` are those of its kernel lines."""

    row: int
    lasts_s: float
    words: Words

    @property
    def node(self) -> int:
        """The node of the row."""
        return self.row // GPUS


class Act(Protocol):
    """What a fault does to the world until it is repaired."""

    def __call__(self, world: FleetState, *, at: Strike) -> Process:
        """From now on."""


@dataclass(frozen=True, slots=True)
class Kind:
    """``fault`` is its class in the suite; ``by_s`` seconds from the evidence, which is there after
    ``after_s``. ``silences``: what it is about cannot be read afterwards. ``stays`` until the node
    is booted. ``halts`` the job.
    """

    of: Of
    fault: str
    severity: Severity
    act: Act
    by_s: float = 20.0
    after_s: float = LINE_S
    silences: bool = False
    stays: bool = False
    halts: bool = True


def _lost(world: FleetState, *, at: Strike) -> Process:
    effects.xid(world, at.row, 79, after_s=LINE_S)
    effects.gpu_state(world, at.row, LOST)
    effects.recover(world, at.row, 2, after_s=2.5)
    yield at.lasts_s
    effects.reset(world, at.row)
    effects.gpu_state(world, at.row, OK)


def _hung(world: FleetState, *, at: Strike) -> Process:
    effects.xid(world, at.row, int(world.rng.choice((119, 120))), after_s=LINE_S)
    effects.gpu_state(world, at.row, HUNG)
    yield at.lasts_s
    effects.reset(world, at.row)
    effects.gpu_state(world, at.row, OK)


def _memory(world: FleetState, *, at: Strike, contained: bool) -> Process:
    codes = (48, 63, 94 if contained else 95)
    effects.uncorrectable(world, at.row, contained=contained, codes=codes)
    yield at.lasts_s
    effects.reset(world, at.row)


def _limit(world: FleetState, *, at: Strike) -> Process:
    before = float(world.gpus.limit_w[at.row])
    effects.limit(world, at.row, before * float(world.rng.uniform(MIN_WATTS, 0.9)))
    yield at.lasts_s
    effects.limit(world, at.row, before)


def _nvlink(world: FleetState, *, at: Strike) -> Process:
    links = world.topology.profile.nvlink.links
    effects.xid(world, at.row, 74, after_s=LINE_S, link=int(world.rng.integers(links)))
    world.gpu_columns.set_gauge("nvlinks_up", links - 1.0, at.row)
    world.gpu_columns.set_gauge("nvlinks_down", 1.0, at.row)
    yield at.lasts_s
    world.gpu_columns.set_gauge("nvlinks_up", float(links), at.row)
    world.gpu_columns.set_gauge("nvlinks_down", 0.0, at.row)


def _fabric(world: FleetState, *, at: Strike) -> Process:
    world.gpu_columns.set_gauge("fabric_state", float(COMPLETED), at.row)
    world.gpu_columns.set_gauge("fabric_error_code", float(NVML_ERROR_UNKNOWN), at.row)
    yield at.lasts_s
    world.gpu_columns.set_gauge("fabric_error_code", 0.0, at.row)


def _link(world: FleetState, *, at: Strike) -> Process:
    effects.link(world, at.row, up=False)
    yield at.lasts_s
    effects.link(world, at.row, up=True)


def _adapter(world: FleetState, *, at: Strike) -> Process:
    line = mlx5_health(world.topology.profile.ports.pci[at.row % GPUS])
    effects.kernel(world, at.node, world.port_columns.devices[at.row], line, after_s=LINE_S)
    effects.link(world, at.row, up=False)
    yield at.lasts_s
    effects.link(world, at.row, up=True)


def _half(world: FleetState, *, at: Strike) -> Process:
    effects.show_port(world, at.row, width=2.0, rate=0.5)
    yield at.lasts_s
    effects.show_port(world, at.row)


def _driver(world: FleetState, *, at: Strike) -> Process:
    gpus = range(at.node * GPUS, (at.node + 1) * GPUS)
    well = [gpu for gpu in gpus if world.gpu_state[gpu] == OK]
    for gpu in well:
        effects.gpu_state(world, gpu, HUNG)
    yield at.lasts_s
    for gpu in well:
        effects.gpu_state(world, gpu, OK)


def _line(
    world: FleetState, *, at: Strike, of: tuple[Spelling, ...], ends: Spelling = ()
) -> Process:
    """A line of the kernel, in one of its spellings."""
    texts = of[int(world.rng.integers(len(of)))]
    kernel_logs.write(world, at.node, at.words.of(texts, world.rng), after_s=LINE_S)
    if ends:
        yield at.lasts_s
        kernel_logs.write(world, at.node, at.words.of(ends, world.rng), after_s=LINE_S)


_SERVER = storage.SERVERS[0]
_ADAPTER = devices.ADAPTERS[0]
KINDS: Mapping[str, Kind] = {
    "lost": Kind("gpu", "xid", "page", _lost, silences=True),
    "hung": Kind("gpu", "xid", "page", _hung, silences=True),
    "contained": Kind("gpu", "ecc", "ticket", partial(_memory, contained=True), after_s=1.1),
    "uncontained": Kind("gpu", "ecc", "page", partial(_memory, contained=False), after_s=1.6),
    "limit": Kind("gpu", "power-limit", "ticket", _limit, by_s=300.0, halts=False),
    "nvlink": Kind("gpu", "nvlink", "page", _nvlink, by_s=180.0),
    "fabric": Kind("gpu", "nvlink-fabric", "page", _fabric, after_s=30.0, by_s=40.0),
    "cut_off": Kind(
        "gpu", "pcie", "page", partial(_line, of=devices.PCIE[0].spellings), stays=True
    ),
    "driver_line": Kind(
        "gpu", "gpu-driver", "page", partial(_line, of=devices.DRIVER), stays=True
    ),
    "link": Kind("port", "ib", "ticket", _link, by_s=300.0),
    "adapter": Kind("port", "ib", "page", _adapter),
    "half": Kind("port", "ib", "page", _half, by_s=180.0, halts=False),
    "commands": Kind(
        "port", "adapter", "page", partial(_line, of=_ADAPTER.spellings, ends=_ADAPTER.ends)
    ),
    "memory": Kind(
        "node", "host-hardware", "page", partial(_line, of=hardware.BROKEN), stays=True
    ),
    "server": Kind(
        "node", "storage", "ticket",
        partial(_line, of=_SERVER.spellings[:5], ends=_SERVER.ends), after_s=60.5,
    ),
    "read_only": Kind(
        "node", "storage", "ticket", partial(_line, of=storage.READ_ONLY), stays=True
    ),
    "switch": Kind("node", "nvswitch", "page", partial(_line, of=devices.SWITCH), stays=True),
    "lockup": Kind("node", "host", "page", partial(_line, of=kernel.HARD), stays=True),
    "driver": Kind("node", "xid", "page", _driver, by_s=30.0, silences=True),
}  # fmt: skip
# What one of these does to a node is what the other one looks like there.
ALIKE = (
    frozenset({"driver", "lost"}), frozenset({"driver", "hung"}), frozenset({"switch", "nvlink"}),
    frozenset({"switch", "fabric"}),
)  # fmt: skip
