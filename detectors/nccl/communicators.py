"""What all reports together show about each communicator of a job: the newest of every rank, and
since when nothing has moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from detectors.nccl.identity import Identities
from pipeline.clock import SECOND_NS
from pipeline.nccl.member import WHOLE, Counts, Member
from pipeline.nccl.report import Communicator, Report, Unlisted

# of one communicator: more than any job has, so that a report that lies costs no more
MAX_RANKS = 65_536
DEFAULT_GROUP = "0"  # PyTorch's name of the group of all ranks
# between two looks that may confirm each other: longer than any collective, shorter than patience
SPACING_NS = 15 * SECOND_NS
# a dump that was written so long before others were still calling is of an
# earlier stall; clocks differ
STALE_NS = 60 * SECOND_NS


@dataclass(slots=True)
class Joined:
    """One communicator.

    ``members`` by the number of the rank (identity.py); ``since_ns`` and ``until_ns`` bound the
    time in which no count moved.

    ``looks`` counts the reports that showed it as it is now. ``completing``: it is known what was
    completed, not only what was launched.
    """

    communicator: Communicator
    members: dict[int, Member] = field(default_factory=dict)
    unlisted: tuple[Unlisted, ...] = ()
    completing: bool = False
    looks: int = 1
    since_ns: int = 0
    until_ns: int = 0
    sources: set[str] = field(default_factory=set)
    origin: str = ""  # of the newest report
    # how long the longest unfinished call had lasted when its rank reported it, -1 where unknown
    waited_ns: int = -1
    moving: bool = False  # the newest look differs from the one before
    # while it was stalled, another communicator of the job moved from one look to a later one
    passed: bool = False
    unknown: tuple[int, ...] = ()  # world ranks that belong to it and are in no report
    # ranks that do not answer one node, and were there when another asked after that
    contested: frozenset[int] = frozenset()

    @property
    def name(self) -> str:
        """Its usual name."""
        # PyTorch's word for a group without one
        words = "" if self.communicator.name == "undefined" else self.communicator.name
        return (
            f"{self.communicator.id} ({words})"
            if words and words != self.communicator.id
            else self.communicator.id or words
        )

    @property
    def confirmed(self) -> bool:
        """Whether it was seen twice with enough time between, or a rank had waited that long in a
        call.

        Ranks of a job that moves write their dumps one after the other, and so differ; lines of a
        watchdog that has lost its patience count by themselves. Two looks without a time (a text
        reply of RAS) may be one reply that was saved twice: then others must have moved between.
        """
        if self.completing:
            return self.waited_ns < 0 or self.waited_ns >= SPACING_NS
        span_ns = self.until_ns - self.since_ns
        timed = self.since_ns and self.until_ns
        return self.looks > 1 and (span_ns >= SPACING_NS if timed else self.passed)

    @property
    def doubt(self) -> str:
        """Why it is not confirmed, for the evidence; empty where it is."""
        if self.confirmed:
            return ""
        if self.looks > 1 and not self.completing and not (self.since_ns and self.until_ns):
            return (
                "; the replies bear no time and may be one: save two in JSON (SET FORMAT json), "
                f"{SPACING_NS // SECOND_NS} s apart"
            )
        return "; seen only once: a rank that is merely late looks the same"


class Communicators:
    """Takes reports in any order; gives the communicators as they are known last.

    ``live``: the job may not be stalled, so dumps confirm a stall only where a rank had waited for
    long.
    """

    def __init__(
        self, reports: Iterable[Report], identities: Identities, *, live: bool = False
    ) -> None:
        self._identities, self._live = identities, live
        self.all: dict[tuple[str, str, str], Joined] = {}
        self._seconds: dict[str, set[str]] = {}  # second hashes by the first
        # ranks that launched something between the last two looks of RAS: none of them is stuck
        self.active: frozenset[int] = frozenset()
        kept = sorted((r for r in reports if r.trusted), key=lambda r: r.time_ns)
        for report in kept:
            if report.teller == "ras":
                self._ras(report)
        self._contest([r for r in kept if r.teller == "ras"])
        self._number_the_job(kept)
        self._dumps([r for r in kept if r.teller in ("flight_recorder", "log")])
        for report in kept:
            if report.teller == "inspector":
                self._inspector(report)
        self._number_the_job(kept)

    def _ras(self, report: Report) -> None:
        frozen: list[Joined] = []
        active: set[int] = set()
        later = False
        for communicator in report.communicators:
            key = self._key(communicator)
            now = self._joined(replace(communicator, second=key[2]), report)
            before = self.all.get(key)
            if before and _same(before, now):
                # the same report, read twice
                again = before.until_ns and before.until_ns == now.until_ns
                now.looks, now.since_ns = before.looks + (not again), before.since_ns
                now.passed = before.passed
                frozen.append(now)
            went = _moved(before, now) if before is not None else frozenset()
            now.moving = bool(went)
            active |= went
            self.all[key] = now
            later |= before is None or before.until_ns != now.until_ns
        for each in frozen:
            each.passed |= bool(active)
        if active or later:
            self.active = frozenset(active)

    def _contest(self, reports: Sequence[Report]) -> None:
        """Where RAS's own network is split each half calls the other lost: a rank that one node
        cannot reach counts as present where another node reached it after that.
        """
        if len({report.host for report in reports}) < 2:
            return
        missed: dict[tuple[tuple[str, str, str], int], set[str]] = {}
        there: dict[tuple[tuple[str, str, str], int], Member] = {}
        for report in reports:
            for communicator in report.communicators:
                key = self._key(communicator)
                seat = replace(communicator, second=key[2])
                for member in communicator.members:
                    which = key, self._identities.number(seat, member)
                    if member.gone:
                        missed.setdefault(which, set()).add(report.host)
                    elif missed.get(which, set()) - {report.host}:
                        there[which] = member
                    else:
                        missed.pop(which, None)
        for (key, number), member in there.items():
            joined = self.all.get(key)
            if joined is not None and number in joined.members:
                joined.contested |= {number}
                if joined.members[number].gone:
                    joined.members[number] = member

    def _key(self, communicator: Communicator) -> tuple[str, str, str]:
        """Text reports lack the second hash: they are about the one communicator
        that is known by the first.
        """
        known = self._seconds.setdefault(communicator.id, set())
        if len(known) == 1 and not (communicator.second and "" not in known):
            return "hash", communicator.id, next(iter(known))
        known.add(communicator.second)
        return "hash", communicator.id, communicator.second

    def _joined(self, communicator: Communicator, report: Report) -> Joined:
        members = _with_unlisted(communicator)
        named = {self._identities.number(communicator, m): m for m in members}
        rest = () if len(members) == communicator.size else communicator.unlisted
        bare = replace(communicator, members=(), unlisted=())
        return Joined(
            bare,
            named,
            rest,
            since_ns=report.time_ns,
            until_ns=report.time_ns,
            sources={report.teller},
            origin=report.origin,
        )

    def _dumps(self, reports: Sequence[Report]) -> None:
        """One report is one rank's: all together make the communicators."""
        newest = max((_last_call(r) for r in reports), default=0)
        for report in reports:
            if report.teller == "flight_recorder" and 0 < report.time_ns < newest - STALE_NS:
                continue
            for communicator in report.communicators:
                bare = replace(communicator, members=(), unlisted=())
                joined = self.all.setdefault(
                    ("group", communicator.id, communicator.second),
                    Joined(bare, completing=True, looks=0),
                )
                joined.sources.add(report.teller)
                joined.looks += 1
                joined.origin = report.origin
                joined.until_ns = max(joined.until_ns, report.time_ns)
                if communicator.size > joined.communicator.size or (
                    communicator.ranks and not joined.communicator.ranks
                ):
                    joined.communicator = bare
                for member in communicator.members:
                    joined.waited_ns = max(
                        joined.waited_ns, _waited(member, report.time_ns) if self._live else -1
                    )
                    number = self._identities.number(communicator, member)
                    joined.members[number] = _newer(joined.members.get(number), member)
        for (family, group, _), joined in self.all.items():
            if family == "group":
                self._never_called(joined, group, reports)
                known = {self._identities.who(n).rank for n in joined.members}
                joined.unknown = tuple(
                    r for r in joined.communicator.ranks[:MAX_RANKS] if r not in known
                )
                begun = [
                    o.created_ns
                    for m in joined.members.values()
                    for o in m.operations
                    if not o.completed and o.created_ns
                ]
                joined.since_ns = min(begun, default=0)

    def _number_the_job(self, reports: Sequence[Report]) -> None:
        """A rank of the communicator that holds the whole job is that of the job, as PyTorch and
        NCCL's own tests make it.
        """
        seats = [j for (family, _, _), j in self.all.items() if family == "hash"]
        shapes = [g.size for r in reports for g in r.groups]
        largest = max([*shapes, *(j.communicator.size for j in seats)], default=0)
        whole = [j for j in seats if j.communicator.size == largest]
        if (
            not whole
            or any(len(j.members) > largest for j in seats)
            or len({n for j in seats for n in j.members}) > largest
        ):
            return
        ranks: dict[int, set[int]] = {}
        for joined in whole:
            for number, member in joined.members.items():
                ranks.setdefault(number, set()).add(member.rank)
        if all(len(own) == 1 for own in ranks.values()) and len(
            {min(own) for own in ranks.values()}
        ) == len(ranks):
            for number, own in ranks.items():
                self._identities.name_rank(number, min(own))

    def _never_called(self, joined: Joined, group: str, reports: Sequence[Report]) -> None:
        """A rank that wrote a dump in which the group does not occur has called nothing there."""
        known = {self._identities.who(n).rank for n in joined.members}
        dumped = {
            r.world_rank for r in reports if r.teller == "flight_recorder" and r.world_rank >= 0
        }
        belong = set(joined.communicator.ranks) or (dumped if group == DEFAULT_GROUP else set())
        for rank in sorted((dumped & belong) - known):
            idle = Member(-1, rank, state="ok", launched=((WHOLE, 0),), completed=((WHOLE, 0),))
            joined.members[self._identities.number(joined.communicator, idle)] = idle

    def _inspector(self, report: Report) -> None:
        """What was completed, put beside what RAS says was launched."""
        for communicator in report.communicators:
            key = self._key(replace(communicator, second=""))
            joined = self.all.setdefault(
                key, Joined(replace(communicator, members=(), unlisted=()), looks=0)
            )
            joined.sources.add("inspector")
            seat = replace(communicator, second=joined.communicator.second)
            for member in communicator.members:
                number = self._identities.number(seat, member)
                known = joined.members.get(number)
                joined.members[number] = (
                    replace(
                        known,
                        completed=member.completed,
                        timings=member.timings,
                        uuid=known.uuid or member.uuid,
                    )
                    if known
                    else member
                )


def count(counts: Counts, operation: str = WHOLE) -> int:
    """How many of an operation; -1 where it is unknown."""
    return next((n for name, n in counts if name == operation), -1)


def _moved(before: Joined, now: Joined) -> frozenset[int]:
    """The ranks that have launched more than at the look before."""
    return frozenset(
        n
        for n, m in now.members.items()
        if n in before.members and before.members[n].launched != m.launched and m.launched
    )


def _same(a: Joined, b: Joined) -> bool:
    """Whether nothing moved from one look to the next."""
    return a.unlisted == b.unlisted and {n: _signs(m) for n, m in a.members.items()} == {
        n: _signs(m) for n, m in b.members.items()
    }


def _signs(member: Member) -> tuple[object, ...]:
    return (member.launched, "gone" if member.gone else member.state, member.error)


def _newer(known: Member | None, new: Member) -> Member:
    """The more advanced of two reports about one rank; a rank never goes back within one run."""
    if known is None:
        return new
    return max(
        known,
        new,
        key=lambda m: (
            max((o.created_ns for o in m.operations), default=0),
            count(m.launched),
            count(m.completed),
        ),
    )


def _waited(member: Member, time_ns: int) -> int:
    """How long its oldest unfinished call had lasted at a time of its own clock; -1
    where the times are unknown.
    """
    calls = [o.created_ns for o in member.operations if not o.completed]
    calls += [transfer.created_ns for transfer in member.transfers]
    begun = min(filter(None, calls), default=0)
    return time_ns - begun if 0 < begun <= time_ns else -1


def _last_call(report: Report) -> int:
    return max(
        (o.created_ns for c in report.communicators for m in c.members for o in m.operations),
        default=0,
    )


def _with_unlisted(communicator: Communicator) -> tuple[Member, ...]:
    """The members, with those that the report only counts where it is clear which ranks they are:
    all that it did not name there.
    """
    members = {m.rank: m for m in communicator.members}
    if communicator.size > MAX_RANKS:
        return communicator.members
    for group in communicator.unlisted:
        rest = [
            r
            for r in range(communicator.size)
            if r not in members
            or (not members[r].gone and count(members[r].launched, group.operation) < 0)
        ]
        alone = sum(u.operation == group.operation for u in communicator.unlisted) == 1
        if group.operation and alone and group.ranks == len(rest):
            for rank in rest:
                known = members.get(rank, Member(rank))
                members[rank] = replace(
                    known, launched=(*known.launched, (group.operation, group.launched))
                )
    return tuple(members.values())
