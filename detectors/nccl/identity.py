"""Who a rank is: RAS knows its process, the Flight Recorder its number in the job, the Inspector
its seat in a communicator.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from detectors.nccl.verdict import gpu_words
from pipeline.nccl.member import Member
from pipeline.nccl.report import Communicator

Name = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Who:
    """One rank of the job, with all that is known of it; -1 and empty where unknown."""

    rank: int = -1  # in the job
    host: str = ""
    pid: int = -1
    gpu: int = -1
    nvml: int = -1
    uuid: str = ""

    def words(self) -> str:
        """As text, as short as possible."""
        parts = [f"rank {self.rank}"] if self.rank >= 0 else []
        parts += [f"pid {self.pid}"] if self.pid >= 0 else []
        parts += [gpu_words(self.nvml, self.gpu, self.uuid)]
        parts += [f"node {self.host}"] if self.host else []
        return ", ".join(part for part in parts if part) or "an unknown rank"


class Identities:
    """Finds which ranks of different communicators, and of different sources, are the same one:
    each name leads to a number.

    >>> known, world = Identities(), Communicator("c0", 8)
    >>> a = known.number(world, Member(5, host="10.0.0.2", pid=77, gpu=1))
    >>> b = known.number(Communicator("tp", 2), Member(1, host="10.0.0.2", pid=77, gpu=1))
    >>> a == b, known.who(a).words()
    (True, 'pid 77, CUDA device 1, node 10.0.0.2')
    """

    def __init__(self) -> None:
        self._names: dict[Name, int] = {}
        self._parent: list[int] = []
        self._who: list[Who] = []
        self._pids: dict[int, list[int]] = {}  # numbers by process id

    def number(self, communicator: Communicator, member: Member) -> int:
        """The number of a member, which is the same for every name it is known by."""
        return self.same(_names(communicator, member), _who_of(member))

    def same(self, names: list[Name], who: Who) -> int:
        """All these names are one rank's: its number."""
        numbers = sorted({self._root(self._names[name]) for name in names if name in self._names})
        if not numbers:
            numbers = [len(self._parent)]
            self._parent.append(numbers[0])
            self._who.append(Who())
        first = numbers[0]
        for other in numbers[1:]:
            self._parent[other] = first
            self._who[first] = _merged(self._who[first], self._who[other])
        if who.pid >= 0 and self._who[first].pid < 0:
            self._pids.setdefault(who.pid, []).append(first)
        self._who[first] = _merged(self._who[first], who)
        for name in names:
            self._names[name] = first
        return first

    def root(self, number: int) -> int:
        """The number that a number has become, after names turned out to be one rank's."""
        return self._root(number)

    def who(self, number: int) -> Who:
        """All that is known of it."""
        return self._who[self._root(number)]

    def of_world_rank(self, rank: int) -> int:
        """The number of a rank of the job."""
        known = self._names.get(("world", rank))
        if known is not None and self.who(known).rank >= 0:
            return self._root(known)
        return self.same([("world", rank)], Who(rank))

    def name_rank(self, number: int, rank: int) -> None:
        """The rank in the job of one that was known by other names."""
        self._names.setdefault(("world", rank), self._root(number))
        self._who[self._root(number)] = replace(self.who(number), rank=rank)

    def find(self, who: Who) -> int:
        """The number of a rank that is described in part: by its rank, its process, or a
        process id that only one has.
        """
        if who.rank >= 0:
            return self.same([("world", who.rank)], who)
        if who.pid >= 0:
            roots = {self._root(n) for n in self._pids.get(who.pid, ())}
            like = [
                (n, self._who[n])
                for n in sorted(roots)
                if who.gpu < 0 or self._who[n].gpu in (-1, who.gpu)
            ]
            here = [n for n, w in like if w.host == who.host]
            if len(here or like) == 1:
                return here[0] if here else like[0][0]
            return self.same([("process", who.host, who.pid, who.gpu)], who)
        return self.same([("node", who.host, who.gpu)], who)

    def all(self) -> list[tuple[int, Who]]:
        """Every rank there is, with its number."""
        return [(n, self._who[n]) for n in range(len(self._parent)) if self._root(n) == n]

    def _root(self, number: int) -> int:
        while self._parent[number] != number:
            self._parent[number] = self._parent[self._parent[number]]
            number = self._parent[number]
        return number


def _names(communicator: Communicator, member: Member) -> list[Name]:
    """A seat counts with its process: a job that was started again may have the same
    communicators, and is another one.
    """
    seat = ("seat", communicator.id, communicator.second, member.rank, member.pid)
    names: list[Name] = [seat] if member.rank >= 0 else []
    if member.world_rank >= 0:
        names.append(("world", member.world_rank))
    if member.pid >= 0 and member.host:
        names.append(("process", member.host, member.pid, member.gpu))
    return names or [("nobody", id(member))]


def _who_of(member: Member) -> Who:
    return Who(member.world_rank, member.host, member.pid, member.gpu, member.nvml, member.uuid)


def _merged(a: Who, b: Who) -> Who:
    return Who(
        rank=a.rank if a.rank >= 0 else b.rank,
        host=a.host or b.host,
        pid=a.pid if a.pid >= 0 else b.pid,
        gpu=a.gpu if a.gpu >= 0 else b.gpu,
        nvml=a.nvml if a.nvml >= 0 else b.nvml,
        uuid=a.uuid or b.uuid,
    )
