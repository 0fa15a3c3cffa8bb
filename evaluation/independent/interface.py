"""Worlds that are written from published facts and the store's tables alone: what one consists of.

A world is a cluster over some hours or days, in the words of the reference: rows as the tables
``gpu``, ``nvlink``, ``ib_port`` and ``node`` store them, events as the table ``events`` does, and
the truth. It knows neither simulator nor detectors, so that a score on it says something about
both. To write a family of worlds:

1. a file in this folder, with a function from a random generator to a ``World`` for each;
2. a line in ``WORLDS`` (``evaluation/independent/__init__.py``) for each: an id, and a ``Family``.

``tocsin score --suite test --scenario ID --seed N --scope fleet`` then judges and scores it.

**Columns.** Names, units and meanings are those of docs/reference.md, "Tables"; a column is an
array with one value per device. Null (*not observed*) is NaN, and a column that is left out is null
for all. Gauges are float64. Counters are uint64, or float64 where some are null: the running total
of the register, which starts anywhere, may begin again at 0 where the reference says so, and ends
where its register ends. Fill in what a node of the kind would show, as real readings are: rounded,
noisy, sometimes missing.

**Devices.** ``Device(host, kind, id, facts)``: kind ``gpu`` (id: its UUID), ``ib_port`` (its GUID),
``nvlink``, ``node`` (id: the host's name). Facts are the labels of the series in docs/reference.md
and ``index``, ``uuid``, ``name`` (model), ``pci_bus_id``, ``serial``, ``driver_version`` of GPUs;
``device``, ``port``, ``link_layer`` of ports; ``rack`` and ``cluster`` of all; ``peer`` (GUID of
the other end), ``rail`` and ``leaf`` where they are known. A part that is swapped is another
device. Keep the same tuple of devices from tick to tick while nothing about them changes.

**Sources.** ``nvml`` reads the tables gpu, nvlink and node (its columns about GPUs), ``infiniband``
ib_port and node (its columns about ports), ``host`` the rest of node. Kernel and driver events
(``xid`` and the like) come from ``kmsg``, or from ``nvml`` where the driver reports them to
programs. Events of jobs are made from ``World.jobs``.

**Time.** Seconds since the start of the world, which is a Monday at midnight UTC. Devices that are
read more seldom than every tick, or not this time, are null in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.finding import Severity
from pipeline.frame import Device
from pipeline.observation import Value
from simulator.fleet.truth import EntityKind, Where

__all__ = ["Device", "Event", "Family", "Fault", "Job", "Rows", "Source", "Tick", "World"]

Source = Literal["nvml", "infiniband", "host", "kmsg"]
Column = NDArray[np.float64] | NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Rows:
    """What one source read of devices of one kind in one tick.

    ``columns``: name to values, (device,). ``sampled_s``: when the source says each value was
    taken, (device,), by the possibly wrong clock of its host; None where it gives no time.
    """

    source: Source
    kind: str
    devices: tuple[Device, ...]
    columns: Mapping[str, Column]
    sampled_s: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened: ``kind`` and ``attributes`` as in docs/reference.md, "Events".

    ``at_s`` is when it happened; it is read at the first tick from then on. ``clock_s``: how far
    the host's clock is ahead.
    """

    at_s: float
    source: Source
    device: Device
    kind: str
    attributes: Mapping[str, Value] = field(default_factory=dict)
    clock_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Tick:
    """All that was read at one time, and what happened since the tick before."""

    at_s: float
    rows: tuple[Rows, ...] = ()
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """A job and the UUIDs of its GPUs, which may be some of a node. It ends when it really ends;
    ``outcome``: completed, failed or cancelled.
    """

    id: str
    gpus: tuple[str, ...]
    start_s: float
    end_s: float
    name: str = "train"
    user: str = ""
    outcome: str = "completed"


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is really wrong, and what should be said of it.

    ``of`` is its level and ``entity`` its name there: the id of a GPU, port or node, or the name of
    a rack, switch or job; a link is the id of one of its ports, a rank that of its GPU, a collector
    that of its node. ``members``: ids of the devices that belong to it (the other end of a link,
    the GPUs of a node).

    ``fault`` is its class, one word of CLASSES; ``severity`` what it deserves: ``page`` wakes
    somebody, ``ticket`` can wait until the morning, ``record`` is only written down. It is found in
    time within ``within_s`` of ``since_s``: as soon as somebody who must act on it needs to know.
    ``symptoms`` that others may show without a false alarm: pairs of class and where (``same``,
    ``node``, ``job``, ``peers``: other ends of its links, ``rack``).
    """

    id: str
    fault: str
    severity: Severity
    of: EntityKind
    entity: str
    since_s: float
    until_s: float
    within_s: float
    members: tuple[str, ...] = ()
    symptoms: tuple[tuple[str, Where], ...] = ()


CLASSES: Mapping[str, str] = {
    "adapter": "a network adapter reports a fault of itself",
    "congestion": "a fabric that is loaded beyond what it can move, without errors",
    "drift": "a version or setting that differs from that of nearly all others",
    "ecc": "memory of a GPU: errors, rows that are remapped or cannot be",
    "gpu-driver": "the driver reports a failure that has no XID",
    "hang": "a job that stands still",
    "host": "kernel, processor or memory management of a node: crashes, lockups, out of memory",
    "host-hardware": "processor, memory or machine-check hardware of a node",
    "ib": "a link or port that is down, lost, or narrower or slower than it should be",
    "ib-ber": "a link with too many bit errors",
    "ib-flap": "a link that goes down and up again and again",
    "lemon": "a node with one small fault after another",
    "nvlink": "an NVLink",
    "nvlink-fabric": "the NVLink fabric or its service",
    "nvswitch": "an NVSwitch",
    "observability": "readings that are missing, frozen or cannot be true",
    "pcie": "a PCIe link: width, speed, errors",
    "power": "a GPU that draws too little power for its work",
    "power-limit": "a power limit below what was asked for",
    "starvation-communication": "a job whose GPUs wait for other ranks",
    "starvation-cpu": "a job whose GPUs wait for processors of their node",
    "starvation-data": "a job whose GPUs wait for input and output",
    "starvation-memory": "a job whose GPUs wait for memory of their node",
    "starvation-nothing": "a job that leaves its GPUs idle while its node waits for nothing",
    "starvation-power": "a job whose GPUs are held back by power or heat",
    "storage": "disks and file servers",
    "straggler": "a GPU, node or port that is slow without saying why",
    "thermal": "cooling: of a GPU, a node or a rack",
    "throttle": "slowed down by the hardware for another reason than heat of the core",
    "xid": "an error that the driver reports, a GPU that is lost or hangs",
}


@dataclass(frozen=True, slots=True)
class World:
    """One world.

    ``devices`` are all that ever appear. ``ticks`` may be called again and gives the same ones,
    ``period_s`` apart, until ``lasts_s``.
    """

    devices: tuple[Device, ...]
    period_s: float
    lasts_s: float
    ticks: Callable[[], Iterator[Tick]]
    jobs: tuple[Job, ...] = ()
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True)
class Family:
    """Worlds of one kind, and about how large they are; ``cases`` is how many faults one has, 0 in
    a healthy one. ``knows``: whether one node's readings are enough to know what is wrong.

    ``make`` draws everything from the generator: the same generator, the same world.
    """

    text: str
    nodes: int
    days: float
    cases: int
    make: Callable[[np.random.Generator], World]
    knows: Literal["node", "fleet"] = "fleet"
