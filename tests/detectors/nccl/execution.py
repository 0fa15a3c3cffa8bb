"""A job that really runs: ranks launch collectives in order, each group's operation ends when all
its members have come to it.

What RAS and the Flight Recorder would report follows from the run alone, so that a verdict is
tested against a cause and not against a picture of it.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pipeline.clock import SECOND_NS
from pipeline.nccl.member import WHOLE, Member, Operation
from pipeline.nccl.report import Communicator, Report
from tests.detectors.nccl.jobs import BEGIN_NS, process

Fault = Literal["hang", "lost", "other", "flight", "order"]


class Call(NamedTuple):
    """One collective in a rank's program."""

    group: str
    name: str


@dataclass(slots=True)
class Run:
    """Ranks in tensor groups, data groups and a world.

    ``ahead`` is how many collectives a host launches before it waits for the GPU.
    """

    seed: int
    fault: Fault
    tensor: int = 4
    data: int = 4
    ahead: int = 4
    groups: dict[str, list[int]] = field(default_factory=dict)
    launched: dict[int, list[Call]] = field(default_factory=lambda: defaultdict(list))
    done: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    culprit: int = -1
    where: str = ""

    def __post_init__(self) -> None:
        dice = random.Random(self.seed)
        size = self.tensor * self.data
        self.groups = {"0": list(range(size))}
        self.groups |= {
            f"t{d}": list(range(d * self.tensor, (d + 1) * self.tensor)) for d in range(self.data)
        }
        self.groups |= {f"d{t}": list(range(t, size, self.tensor)) for t in range(self.tensor)}
        self.culprit = dice.randrange(size)
        steps = dice.randrange(3, 8)
        programs = {rank: self._program(rank, steps) for rank in range(size)}
        at = dice.randrange(len(programs[0]) // 2, len(programs[0]) - 2)
        self._execute(programs, at, dice)

    def _program(self, rank: int, steps: int) -> list[Call]:
        tensor, data = f"t{rank // self.tensor}", f"d{rank % self.tensor}"
        step = [
            Call(tensor, "AllReduce"),
            Call(tensor, "AllGather"),
            Call(data, "ReduceScatter"),
            Call(data, "AllReduce"),
            Call("0", "AllReduce"),
        ]
        return step * steps

    def _execute(self, programs: Mapping[int, list[Call]], at: int, dice: random.Random) -> None:
        stop = dict.fromkeys(programs, 10**9)
        blocked: tuple[str, int] | None = None
        if self.fault in ("hang", "lost"):
            stop[self.culprit] = at
        elif self.fault == "other":
            call = programs[self.culprit][at]
            programs[self.culprit][at] = Call(call.group, "Broadcast")
        elif self.fault == "flight":
            call = programs[self.culprit][at]
            blocked = (
                call.group,
                sum(c.group == call.group for c in programs[self.culprit][: at + 1]),
            )
            self.where = call.group
        else:
            # the world's, and after it that of the tensor group
            at = min(at - at % 5, len(programs[0]) - 10) + 4
            mine = programs[self.culprit]
            mine[at], mine[at + 1] = mine[at + 1], mine[at]
            self.ahead = 1
        ranks = list(programs)
        moved = True
        while moved:
            moved = False
            dice.shuffle(ranks)
            for rank in ranks:
                mine = self.launched[rank]
                if (
                    len(mine) < min(len(programs[rank]), stop[rank])
                    and len(mine) - self.done[rank] < self.ahead
                ):
                    mine.append(programs[rank][len(mine)])
                    moved = True
            moved = self._complete(blocked) or moved

    def _complete(self, blocked: tuple[str, int] | None) -> bool:
        """End every operation that all members of its group have at the head of their streams."""
        ended = False
        for group, members in self.groups.items():
            heads = [self._head(rank) for rank in members]
            if (
                all(h is not None and h.group == group for h in heads)
                and len({h.name for h in heads if h}) == 1
            ):
                seq = 1 + sum(
                    c.group == group for c in self.launched[members[0]][: self.done[members[0]]]
                )
                if (group, seq) != blocked:
                    for rank in members:
                        self.done[rank] += 1
                    ended = True
        return ended

    def _head(self, rank: int) -> Call | None:
        return (
            self.launched[rank][self.done[rank]]
            if self.done[rank] < len(self.launched[rank])
            else None
        )

    def ras(self, at: float) -> Report:
        """What RAS counts: launches, by operation; a lost process is missing."""
        communicators = []
        for name, ranks in self.groups.items():
            members = []
            for place, rank in enumerate(ranks):
                host, pid, gpu = process(rank, self.tensor, self.seed)
                counts = Counter(c.name for c in self.launched[rank] if c.group == name)
                gone = self.fault == "lost" and rank == self.culprit
                launched = tuple(
                    (op, counts[op])
                    for op in ("Broadcast", "AllGather", "ReduceScatter", "AllReduce")
                )
                members.append(
                    Member(
                        place,
                        host=host,
                        pid=pid,
                        gpu=gpu,
                        state="unresponsive" if gone else "ok",
                        launched=() if gone else launched,
                    )
                )
            communicators.append(
                Communicator(name.rjust(16, "c"), len(ranks), tuple(members), second="0x1:0x1")
            )
        return Report(
            "ras",
            f"ras-{at}",
            time_ns=BEGIN_NS + round(at * SECOND_NS),
            communicators=tuple(communicators),
        )

    def dumps(self) -> list[Report]:
        """What each rank's recorder holds; a lost process has written nothing."""
        return [
            self._dump(rank)
            for rank in self.groups["0"]
            if not (self.fault == "lost" and rank == self.culprit)
        ]

    def _dump(self, rank: int) -> Report:
        communicators = []
        for name, ranks in self.groups.items():
            if rank in ranks:
                calls = [
                    (c, at, at < self.done[rank])
                    for at, c in enumerate(self.launched[rank])
                    if c.group == name
                ]
                operations = tuple(
                    Operation(n, c.name, completed=done, created_ns=BEGIN_NS + at)
                    for n, (c, at, done) in enumerate(calls, 1)
                )
                completed = sum(done for *_, done in calls)
                member = Member(
                    ranks.index(rank),
                    rank,
                    state="ok",
                    launched=((WHOLE, len(calls)),),
                    completed=((WHOLE, completed),),
                    operations=operations,
                )
                communicators.append(Communicator(name, len(ranks), (member,), ranks=tuple(ranks)))
        return Report(
            "flight_recorder",
            f"trace_{rank}",
            time_ns=BEGIN_NS + 60 * SECOND_NS,
            world_rank=rank,
            communicators=tuple(communicators),
        )


def looks(run: Run) -> Sequence[Report]:
    """Two RAS reports of a stalled job."""
    return [run.ras(0.0), run.ras(20.0)]
