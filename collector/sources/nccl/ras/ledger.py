"""What a text report says of each communicator, gathered line by line, and the
members that follow from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from collector.sources.nccl.ras.words import TIMED_OUT
from pipeline.nccl.member import Member, State
from pipeline.nccl.report import Communicator, Unlisted

BY_ITSELF = ("unknown", "unresponsive")  # what one set of ranks may be alone: failing, or missing


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a rank runs: CUDA device, NVML index, pid and address of the node; -1 and empty where
    the report does not know.
    """

    gpu: int = -1
    nvml: int = -1
    pid: int = -1
    host: str = ""


@dataclass(slots=True)
class AskOutcome:
    """What the lines said of one rank."""

    place: Endpoint = field(default_factory=Endpoint)
    state: State = "unknown"
    error: int = 0
    launched: dict[str, int] = field(default_factory=dict)

    def member(self, rank: int, dead: Container[tuple[str, int]]) -> Member:
        """The same as a member; one that does not answer is dead where its process is."""
        place = self.place
        gone = self.state == "unresponsive" and (place.host, place.pid) in dead
        return Member(
            rank,
            host=place.host,
            pid=place.pid,
            gpu=place.gpu,
            nvml=place.nvml,
            state="dead" if gone else self.state,
            error=self.error,
            launched=tuple(self.launched.items()),
        )


@dataclass(slots=True)
class RankSet:
    """Ranks of which one line says the same thing: how many there are, and those that
    the lines below it name.
    """

    told: Unlisted
    named: int = 0


@dataclass(slots=True)
class Entry:
    """One communicator of the report: its row in the table, its hash, and what was said of it."""

    group: int
    index: int
    hash: str
    ranks: dict[int, AskOutcome] = field(default_factory=dict)
    sets: list[RankSet] = field(default_factory=list)
    # INCOMPLETE, ERROR, MISMATCH: how many lines stand below each
    heads: dict[str, int] = field(default_factory=dict)
    head: str = ""  # the latest
    failures: int = 0  # ranks in the headlines of an ERROR

    def begin(self, told: Unlisted) -> None:
        """A line about a set of ranks; the lines below may name them."""
        self.sets.append(RankSet(told))
        self.heads[self.head] += 1

    def name(self, rank: int, place: Endpoint) -> None:
        """One rank of the latest set."""
        latest = self.sets[-1]
        latest.named += 1
        said = self.ranks.setdefault(rank, AskOutcome())
        if place.pid >= 0:
            said.place = place
        told = latest.told
        if told.state != "unknown":
            said.state = told.state
        if told.error:
            said.error = told.error
        if told.operation:
            said.launched[told.operation] = told.launched

    def doubts(self) -> Iterable[str]:
        """Reasons why these lines cannot be all that NCCL wrote."""
        where = f"#{self.group}-{self.index}"
        for head, lines in self.heads.items():
            if not lines and not (head == "ERROR" and self.failures):
                yield f"{where} is {head} and nothing says why"
        topics = Counter(
            each.told.operation
            for each in self.sets
            if each.told.operation or each.told.state not in BY_ITSELF
        )
        for topic, sets in topics.items():
            if sets == 1:
                yield f"{where} says that ranks differ in {topic or 'status'} and tells of one kind"
        for each in self.sets:
            if each.named not in (0, each.told.ranks):
                yield f"{where} speaks of {each.told.ranks} ranks and names {each.named}"

    def communicator(self, size: int, dead: Container[tuple[str, int]]) -> Communicator:
        """The communicator with the members that were named; the others are counted.

        ``dead`` are (address, pid) of processes.
        """
        unlisted = [each.told for each in self.sets if not each.named and each.told.ranks]
        told = sum(each.told.ranks for each in self.sets if each.told.error)
        if self.failures > told:
            unlisted.append(Unlisted(self.failures - told, error=TIMED_OUT))
        members = tuple(said.member(rank, dead) for rank, said in sorted(self.ranks.items()))
        return Communicator(self.hash, size, members, unlisted=tuple(unlisted))
