"""A job of many nodes in which one rank keeps all others waiting: how far each rank is follows from
the run, and so does what RAS and the Flight Recorder of each rank say.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from simulator.nccl.job import OPERATIONS, Comm, Job, Peer, Seat

How = Literal["late", "gone", "stopped", "mismatch"]
WORLD = "0"  # PyTorch's name of the group of all ranks
KEPT = 6  # entries of a group in a dump: of a ring of 2,000 these are the last
STEP_NS = 2 * 10**9  # between two calls of a group, far from the stall


class Call(NamedTuple):
    """One collective of a step, and the kind of group that calls it."""

    group: Literal["tensor", "data", "world"]
    operation: str
    torch: str  # as the Flight Recorder names it


STEP = (
    Call("tensor", "AllReduce", "all_reduce"),
    Call("tensor", "AllGather", "_all_gather_base"),
    Call("data", "ReduceScatter", "_reduce_scatter_base"),
    Call("data", "AllReduce", "all_reduce"),
    Call("world", "AllReduce", "all_reduce"),
)


@dataclass(frozen=True, slots=True)
class StalledJob:
    """``peers`` in the order of their ranks; ``tensor`` neighbours are a group, and so are those of
    equal place in it.

    Rank ``culprit`` does not make call ``at`` of step ``steps``, or makes another one
    (``mismatch``). ``stuck_ns`` is the unix time of the stall. ``hashes`` begins those of the
    communicators.
    """

    peers: tuple[Peer, ...]
    tensor: int
    culprit: int
    at: int
    how: How
    steps: int
    stuck_ns: int
    hashes: int
    nccl: str = "2.30.7"
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    launched: list[int] = field(default_factory=list)  # calls of the last step, by rank
    done: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        size, width = len(self.peers), self.tensor
        self.groups[WORLD] = tuple(range(size))
        for first in range(0, size, width):
            self.groups[f"t{first // width}"] = tuple(range(first, first + width))
        for place in range(width):
            self.groups[f"d{place}"] = tuple(range(place, size, width))
        self._run()

    def _run(self) -> None:
        """Each rank makes its next call when the one before has ended."""
        self.launched[:] = self.done[:] = [0] * len(self.peers)
        for number, call in enumerate(STEP):
            for rank in self.groups[WORLD]:
                waits = rank == self.culprit and number >= self.at
                if self.done[rank] == number and (not waits or self._calls_another(rank, number)):
                    self.launched[rank] = number + 1
            for name, ranks in self.groups.items():
                if _kind(name) != call.group or (self.culprit in ranks and number >= self.at):
                    continue
                if all(self.launched[rank] > number for rank in ranks):
                    for rank in ranks:
                        self.done[rank] = number + 1

    def _calls_another(self, rank: int, number: int) -> bool:
        return self.how == "mismatch" and rank == self.culprit and number == self.at

    def ras(self, lives: dict[int, Any] | None = None) -> Job:
        """The job as RAS has it; ``lives`` are those of ranks that do not answer."""
        peers = [
            Peer(p.host, p.pid, p.gpus, p.nvml, (lives or {}).get(rank, "alive"))
            for rank, p in enumerate(self.peers)
        ]
        comms = []
        for number, (name, ranks) in enumerate(self.groups.items()):
            seats = [Seat(peers[r], peers[r].gpus[0], counts=self._counts(r, name)) for r in ranks]
            comms.append(Comm(self.hashes + number, (self.hashes, 1 + number), seats))
        return Job(peers, comms, self.nccl)

    def _calls(self, rank: int, group: str) -> list[tuple[Call, bool]]:
        """What a rank called in a group in the last step, and whether it ended."""
        found = []
        for number in range(self.launched[rank]):
            if STEP[number].group == _kind(group):
                call = STEP[number]
                if self._calls_another(rank, number):
                    call = call._replace(operation="Broadcast", torch="broadcast")
                found.append((call, number < self.done[rank]))
        return found

    def _counts(self, rank: int, group: str) -> list[int]:
        counts = [0] * len(OPERATIONS)
        for call in STEP:
            if call.group == _kind(group):
                counts[OPERATIONS.index(call.operation)] += self.steps
        for call, _ in self._calls(rank, group):
            counts[OPERATIONS.index(call.operation)] += 1
        return counts

    def dump(self, rank: int) -> bytes:
        """What the Flight Recorder of a rank holds, in JSON of version 2.10."""
        entries: list[dict[str, Any]] = []
        mine = [(name, ranks) for name, ranks in self.groups.items() if rank in ranks]
        for local, (name, _) in enumerate(mine):
            usual = [(call, True) for call in STEP if call.group == _kind(name)]
            calls = [*(usual * KEPT)[-KEPT:], *self._calls(rank, name)]
            before = self.steps * len(usual) - KEPT
            entries += [
                _entry(name, local, before + n, call, self.stuck_ns, ended=ended)
                for n, (call, ended) in enumerate(calls, 1)
            ]
        status = {
            str(local): {
                "last_enqueued_collective": str(max(e["collective_seq_id"] for e in own)),
                "last_started_collective": "-1",
                "last_completed_collective": str(
                    max(e["collective_seq_id"] for e in own if e["state"] == "completed")
                ),
            }
            for local in range(len(mine))
            if (own := [e for e in entries if e["pg_id"] == local])
        }
        config = {
            name: {"name": name, "desc": _described(name), "ranks": str(list(ranks))}
            for name, ranks in mine
        }
        top = {"version": "2.10", "comm_lib_version": self.nccl, "pg_config": config}
        return json.dumps({**top, "pg_status": status, "entries": entries}).encode()


def _kind(group: str) -> str:
    return {"t": "tensor", "d": "data"}.get(group[0], "world")


def _described(group: str) -> str:
    return "default_pg" if group == WORLD else "undefined"


def _entry(
    name: str, local: int, seq: int, call: Call, stuck_ns: int, *, ended: bool
) -> dict[str, Any]:
    created = stuck_ns - (STEP_NS if ended else 0)
    return {
        "record_id": seq,
        "pg_id": local,
        "process_group": [name, _described(name)],
        "collective_seq_id": seq,
        "p2p_seq_id": 0,
        "op_id": seq,
        "profiling_name": f"nccl:{call.torch}",
        "time_created_ns": created,
        "input_sizes": [[1 << 20]],
        "input_dtypes": ["BFloat16"],
        "output_sizes": [[1 << 20]],
        "output_dtypes": ["BFloat16"],
        "state": "completed" if ended else "scheduled",
        "time_discovered_started_ns": 0,
        "time_discovered_completed_ns": created if ended else 0,
        "retired": ended,
        "timeout_ms": 600000,
        "is_p2p": False,
    }
