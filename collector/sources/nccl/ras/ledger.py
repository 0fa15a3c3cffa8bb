"""The contents of a text report by communicator, gathered line by line, and the members that
follow from it.
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
class RankStatus:
    """What the lines report of one rank."""

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
    """Ranks with the same status in one line: how many there are, and those that the lines below it
    name.
    """

    status: Unlisted
    named: int = 0


@dataclass(slots=True)
class Entry:
    """One communicator of the report: its row in the table, its hash, and its lines."""

    group: int
    index: int
    hash: str
    ranks: dict[int, RankStatus] = field(default_factory=dict)
    sets: list[RankSet] = field(default_factory=list)
    # INCOMPLETE, ERROR, MISMATCH: how many lines are below each
    heads: dict[str, int] = field(default_factory=dict)
    head: str = ""  # the latest
    failures: int = 0  # ranks in the headlines of an ERROR

    def begin(self, status: Unlisted) -> None:
        """A line about a set of ranks; the lines below may name them."""
        self.sets.append(RankSet(status))
        self.heads[self.head] += 1

    def name(self, rank: int, place: Endpoint) -> None:
        """One rank of the latest set."""
        latest = self.sets[-1]
        latest.named += 1
        known = self.ranks.setdefault(rank, RankStatus())
        if place.pid >= 0:
            known.place = place
        new = latest.status
        if new.state != "unknown":
            known.state = new.state
        if new.error:
            known.error = new.error
        if new.operation:
            known.launched[new.operation] = new.launched

    def doubts(self) -> Iterable[str]:
        """Reasons why these lines cannot be all that NCCL wrote."""
        where = f"#{self.group}-{self.index}"
        for head, lines in self.heads.items():
            if not lines and not (head == "ERROR" and self.failures):
                yield f"{where} is {head} without a reason"
        topics = Counter(
            each.status.operation
            for each in self.sets
            if each.status.operation or each.status.state not in BY_ITSELF
        )
        for topic, sets in topics.items():
            if sets == 1:
                yield f"{where} reports that ranks differ in {topic or 'status'} and lists one kind"
        for each in self.sets:
            if each.named not in (0, each.status.ranks):
                yield f"{where} counts {each.status.ranks} ranks and names {each.named}"

    def communicator(self, size: int, dead: Container[tuple[str, int]]) -> Communicator:
        """The communicator with the members that were named; the others are counted.

        ``dead`` are (address, pid) of processes.
        """
        unlisted = [each.status for each in self.sets if not each.named and each.status.ranks]
        listed = sum(each.status.ranks for each in self.sets if each.status.error)
        if self.failures > listed:
            unlisted.append(Unlisted(self.failures - listed, error=TIMED_OUT))
        members = tuple(known.member(rank, dead) for rank, known in sorted(self.ranks.items()))
        return Communicator(self.hash, size, members, unlisted=tuple(unlisted))
