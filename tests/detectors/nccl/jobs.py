"""Made-up jobs as RAS and the Flight Recorder would report them: counts are given,
everything else follows.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from pipeline.clock import SECOND_NS
from pipeline.nccl.member import WHOLE, Counts, Member, Operation, State
from pipeline.nccl.report import Communicator, Report

BEGIN_NS = 1_795_168_800 * SECOND_NS


def process(rank: int, per_node: int = 4, seed: int = 0) -> tuple[str, int, int]:
    """Host, pid and GPU of a rank of the job; another seed is another placement."""
    return f"10.0.{rank // per_node}.{seed % 250 + 1}", 1000 + _places(seed)[rank], rank % per_node


@cache
def _places(seed: int) -> list[int]:
    return random.Random(f"{seed}").sample(range(4096), 4096)


def ras_communicator(
    name: str,
    counts: Mapping[int, Counts],
    *,
    gone: Iterable[int] = (),
    states: Mapping[int, State] | None = None,
    second: str = "0x1:0x1",
    seed: int = 0,
) -> Communicator:
    """Members by their rank in the job, in its order; those in ``gone`` do not answer."""
    lost = set(gone)
    members = []
    for place, rank in enumerate(sorted({*counts, *lost})):
        host, pid, gpu = process(rank, seed=seed)
        state: State = "unresponsive" if rank in lost else (states or {}).get(rank, "ok")
        launched = () if rank in lost else counts[rank]
        members.append(
            Member(place, host=host, pid=pid, gpu=gpu, nvml=gpu, state=state, launched=launched)
        )
    return Communicator(name.rjust(16, "0"), len(members), tuple(members), second=second)


def all_reduces(counts: Mapping[int, int]) -> dict[int, Counts]:
    """Each rank's counter."""
    return {rank: (("AllReduce", n),) for rank, n in counts.items()}


def ras(*communicators: Communicator, at: float = 0.0, job: str = "") -> Report:
    """A report that may be trusted, so many seconds after the beginning."""
    return Report(
        "ras",
        f"ras-{at}",
        time_ns=BEGIN_NS + round(at * SECOND_NS),
        communicators=communicators,
        job=job,
    )


def twice(*communicators: Communicator) -> list[Report]:
    """Two reports 20 s apart in which nothing moved."""
    return [ras(*communicators), ras(*communicators, at=20.0)]


def dump(
    rank: int,
    groups: Mapping[str, tuple[int, int]],
    members: Mapping[str, Sequence[int]] | None = None,
    *,
    calls: Mapping[tuple[str, int], Operation] | None = None,
    origin: str = "",
    at: float = 0.0,
) -> Report:
    """A rank's dump: per group what it launched and completed; ``members`` are the ranks of each
    group where that is known.
    """
    communicators = []
    for name, (launched, completed) in groups.items():
        ranks = tuple((members or {}).get(name, ()))
        operations = tuple(
            (calls or {}).get((name, seq))
            or Operation(
                seq,
                "all_reduce",
                ("Float",),
                ((1024,),),
                completed=seq <= completed,
                created_ns=BEGIN_NS + seq * SECOND_NS,
            )
            for seq in range(max(launched - 3, 1), launched + 1)
        )
        member = Member(
            ranks.index(rank) if ranks else -1,
            rank,
            state="ok",
            launched=((WHOLE, launched),),
            completed=((WHOLE, completed),),
            operations=operations,
        )
        communicators.append(Communicator(name, len(ranks) or -1, (member,), ranks=ranks))
    name = origin or f"/dumps/trace_rank_{rank}"
    time_ns = BEGIN_NS + 3600 * SECOND_NS + round(at * SECOND_NS)
    return Report(
        "flight_recorder",
        name,
        time_ns=time_ns,
        world_rank=rank,
        communicators=tuple(communicators),
    )
