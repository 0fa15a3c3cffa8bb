"""The job behind a RAS reply: its processes, its communicators, and what each rank has done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

# order of NCCL's counters
OPERATIONS = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")
STATUSES = ("NOCOMM", "INIT", "RUNNING", "FINALIZE", "ABORT")  # a group shows the highest
IN_PROGRESS = 7  # ncclInProgress of nccl.h

Life = Literal["alive", "unresponsive", "dead"]


@dataclass(slots=True)
class Peer:
    """A process with the GPUs it drives.

    ``nvml`` are their NVML indices, where they differ from CUDA's.
    """

    host: str
    pid: int
    gpus: tuple[int, ...]
    nvml: tuple[int, ...] = ()
    life: Life = "alive"

    def nvml_of(self, gpu: int) -> int:
        """NVML index of one of its GPUs."""
        return self.nvml[self.gpus.index(gpu)] if self.nvml else gpu


@dataclass(slots=True)
class Seat:
    """A rank of a communicator. ``left``: its process has given the communicator up."""

    peer: Peer
    gpu: int
    init_state: int = 0
    async_error: int = 0
    finalize: bool = False
    destroy: bool = False
    abort: bool = False
    left: bool = False
    counts: list[int] = field(default_factory=lambda: [0] * len(OPERATIONS))

    @property
    def present(self) -> bool:
        """Whether RAS has data of it."""
        return self.peer.life == "alive" and not self.left

    @property
    def status(self) -> str:
        """NCCL's word for it (client_support.cc); only of those whose process answers."""
        if self.left:
            return "NOCOMM"
        if self.abort:
            return "ABORT"
        if self.finalize or self.destroy:
            return "FINALIZE"
        return "INIT" if self.init_state else "RUNNING"


@dataclass(slots=True)
class Comm:
    """A communicator: its hash, the two hashes of its rank 0, and its ranks in order."""

    hash: int
    secondary: tuple[int, int]
    seats: list[Seat]

    @property
    def present(self) -> list[tuple[int, Seat]]:
        """Rank and seat of those that answer."""
        return [(rank, seat) for rank, seat in enumerate(self.seats) if seat.present]


@dataclass(slots=True)
class Job:
    """Everything that a reply is made from. Times in seconds."""

    peers: list[Peer]
    comms: list[Comm]
    nccl: str = "2.30.7"
    cuda: int = 13000
    collection_s: float = 0.0
    timeouts: int = 0

    @property
    def version(self) -> tuple[int, ...]:
        """NCCL's version as numbers."""
        return tuple(int(n) for n in self.nccl.split("."))

    def launch(
        self, operation: str, comms: Sequence[int] = (), *, without: Sequence[Peer] = ()
    ) -> None:
        """One more collective on all communicators (or these), entered by all ranks but
        those of some processes.
        """
        row = OPERATIONS.index(operation)
        for number, comm in enumerate(self.comms):
            if not comms or number in comms:
                for seat in comm.seats:
                    if seat.peer.life == "alive" and not any(seat.peer is p for p in without):
                        seat.counts[row] += 1


def build(
    ranks: int, *, per_node: int = 8, tensor: int = 0, seed: int = 0, nccl: str = "2.30.7"
) -> Job:
    """A job of one process per GPU: a world communicator, and one per ``tensor`` neighbours
    (0: the ranks of a node).

    Hosts, pids and hashes follow from the seed. ValueError where the ranks cannot be divided so.
    """
    width = tensor or min(per_node, ranks)
    if ranks < 1 or ranks % min(per_node, ranks) or ranks % width:
        raise ValueError(f"{ranks} ranks cannot stand {per_node} to a node and {width} to a group")
    rng = np.random.default_rng(seed)
    pids = rng.choice(np.arange(1000, 400_000), ranks, replace=False).tolist()
    hosts = [
        f"10.{n >> 8 & 255}.{n & 255}.{rng.integers(1, 255)}"
        for n in range((ranks + per_node - 1) // per_node)
    ]
    peers = [Peer(hosts[r // per_node], int(pids[r]), (r % per_node,)) for r in range(ranks)]
    groups = [
        list(range(ranks)),
        *(list(range(first, first + width)) for first in range(0, ranks, width) if width < ranks),
    ]
    return Job(peers, [_comm(peers, group, rng) for group in groups], nccl)


def _comm(peers: list[Peer], ranks: list[int], rng: np.random.Generator) -> Comm:
    low, high, first = (int(n) for n in rng.integers(1, 1 << 63, 3))
    return Comm(low, (high, first), [Seat(peers[r], peers[r].gpus[0]) for r in ranks])
