"""The wait-for graph over all stalled communicators: clues, and how they connect."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from detectors.nccl.clue import BEHIND, GONE, LEFT, OWN_ERROR, Clue, RankTarget
from detectors.nccl.communicators import Communicators, Joined, count
from detectors.nccl.graph import sinks
from detectors.nccl.identity import Identities
from detectors.nccl.transfers import unmatched
from detectors.nccl.verdict import Stage
from detectors.nccl.waiting import Flight, Node, Rank, Waiting, heads, waiting
from pipeline.nccl.member import Member

TEARDOWN = ("finalize", "abort")


@dataclass(slots=True)
class Stuck:
    """State of a stalled job.

    ``where`` is the communicator at which the waiting ends, ``waits`` its state. ``circle`` are
    ranks that wait for each other.
    """

    clues: list[Clue] = field(default_factory=list)
    where: Joined | None = None
    waits: Waiting | None = None
    stage: Stage = ""
    circle: list[int] = field(default_factory=list)
    victims: int = 0
    balanced: bool = False  # all have launched the same, and that for a while
    active: Collection[int] = ()  # ranks that still launch collectives somewhere


def stuck(communicators: Communicators, identities: Identities) -> Stuck:
    """Follow who waits for whom to where it ends."""
    joined = {"/".join(key): j for key, j in communicators.all.items()}
    frozen = {key: j for key, j in joined.items() if not (j.moving or _ending(j)) or _lost(j)}
    first = heads(frozen)
    alone = {
        key: waiting(key, j, first, [identities.of_world_rank(r) for r in j.unknown])
        for key, j in frozen.items()
    }
    for key, each in list(alone.items()):
        for number, waits in enumerate(unmatched(each.key, joined[key])):
            alone[f"{key}/{number}"] = waits
            joined[f"{key}/{number}"] = joined[key]
    found = Stuck(active=communicators.active)
    edges: dict[Node, list[Node]] = {}
    for each in alone.values():
        for node, targets in each.edges.items():
            edges.setdefault(node, []).extend(targets)
    ends = _sparing_flights(found, sinks(edges), alone, joined)
    waiters = {node.number for node in edges if isinstance(node, Rank)}
    for end in ends:
        _end(found, end, alone, joined, identities)
    last = {node.number for end in ends if len(end) == 1 for node in end if isinstance(node, Rank)}
    _behind(found, last, alone, joined, identities)
    _gone(found, alone, joined, identities)
    _mismatch(found, alone, joined, identities)
    _left(found, joined, identities)
    _errors(found, joined, identities)
    _init(found, joined)
    found.balanced = any(
        w.situation == "balanced" and joined[key].confirmed for key, w in alone.items()
    )
    accused = {
        c.target.number for c in found.clues if isinstance(c.target, RankTarget) and c.weight > 0
    }
    found.victims = len(waiters - accused)
    return found


def _sparing_flights(
    found: Stuck,
    ends: list[frozenset[Node]],
    alone: Mapping[str, Waiting],
    joined: Mapping[str, Joined],
) -> list[frozenset[Node]]:
    """Without the ranks that may all wait in one collective of their own: RAS counts launches, so
    it looks as if they had not come.

    Where all members of a communicator are waited for, wait for nobody, and have launched the same
    in it, it may be in flight.
    """
    alone_at_the_end = {
        node.number for end in ends if len(end) == 1 for node in end if isinstance(node, Rank)
    }
    spared: set[int] = set()
    for key, each in alone.items():
        members = joined[key].members.keys()
        if each.situation == "balanced" and len(members) > 1 and members <= alone_at_the_end:
            spared |= members
            _place(found, each, joined[key])
            found.stage = "in_flight"
            text = (
                f"all ranks of {joined[key].name} are waited for elsewhere and have launched the "
                "same in it: it does not end, or all are stuck alike"
            )
            found.clues.append(
                Clue(
                    _best_source(joined[key]),
                    text,
                    0.0,
                    None,
                    "in_flight",
                    joined[key].origin,
                    firm=joined[key].confirmed,
                )
            )
    return [
        end
        for end in ends
        if not (len(end) == 1 and all(isinstance(n, Rank) and n.number in spared for n in end))
    ]


def _ending(joined: Joined) -> bool:
    """Whether it is being taken down: ranks differ then as they should."""
    return any(m.state in TEARDOWN for m in joined.members.values())


def _lost(joined: Joined) -> bool:
    return any(m.gone for m in joined.members.values())


def _end(
    found: Stuck,
    end: frozenset[Node],
    alone: Mapping[str, Waiting],
    joined: Mapping[str, Joined],
    identities: Identities,
) -> None:
    ranks = sorted(node.number for node in end if isinstance(node, Rank))
    flights = [node for node in end if isinstance(node, Flight)]
    if flights:
        at = joined[flights[0].communicator]
        waits = alone[flights[0].communicator]
        _place(found, waits, at)
        found.stage = found.stage or "in_flight"
        text = (
            f"all ranks of {at.name} that reported it have begun "
            f"{_what(waits)}, and it does not end"
        )
        whole = at.confirmed and not at.unknown and 0 < at.communicator.size <= len(at.members)
        found.clues.append(
            Clue(_best_source(at), text, 0.0, None, "in_flight", at.origin, firm=whole)
        )
    elif len(ranks) > 1:
        found.circle = found.circle or ranks
        names = "; ".join(identities.who(n).words() for n in ranks[:8])
        found.clues.append(
            Clue(
                "graph",
                f"{len(ranks)} ranks wait for each other in a circle: {names}",
                0.0,
                None,
                "launch_order_deadlock",
            )
        )


def _behind(
    found: Stuck,
    last: set[int],
    alone: Mapping[str, Waiting],
    joined: Mapping[str, Joined],
    identities: Identities,
) -> None:
    """Ranks that others wait for and that wait for nobody; one that still launches collectives
    elsewhere is late, not stuck.
    """
    for key, each in alone.items():
        at, source = joined[key], _best_source(joined[key])
        late = [n for n in each.behind if n in last]
        if late or (each.pending and not last.isdisjoint(each.unreported)):
            _place(found, each, at)
        for number in late:
            found.stage = "host"
            who, waits = (
                identities.who(number).words(),
                f"in which {len(each.pending)} rank(s) wait",
            )
            verb = "never began"
            if 0 < each.sequence <= count(at.members[number].launched):
                verb = "scheduled but has not started"
            text = (
                f"{who} {verb} {_what(each)} of {at.name}, "
                f"{waits}{_last_call(at.members[number])}{at.doubt}"
            )
            found.clues.append(
                Clue(
                    source,
                    text,
                    BEHIND[source],
                    RankTarget(number),
                    "host_hang",
                    at.origin,
                    firm=at.confirmed and number not in found.active,
                )
            )


def _last_call(member: Member) -> str:
    """The last known call of a rank: what it did after that is what it is stuck in."""
    last = max(member.operations, key=lambda o: o.seq, default=None)
    if last is None:
        return ""
    return (
        f"; its last call there was {last.name} "
        f"#{last.seq}{f' at {last.frame}' if last.frame else ''}"
    )


def _place(found: Stuck, waits: Waiting, joined: Joined) -> None:
    rank = (len(waits.pending), joined.communicator.size)
    if (
        found.where is None
        or found.waits is None
        or rank > (len(found.waits.pending), found.where.communicator.size)
    ):
        found.where, found.waits = joined, waits


def _best_source(joined: Joined) -> str:
    """The most reliable of its sources."""
    return next(t for t in ("flight_recorder", "ras", "log", "inspector") if t in joined.sources)


def _what(waits: Waiting) -> str:
    name = waits.operation or "a collective"
    return f"{name} #{waits.sequence}" if waits.sequence > 0 else f"the latest {name}"


def _gone(
    found: Stuck, alone: Mapping[str, Waiting], joined: Mapping[str, Joined], identities: Identities
) -> None:
    seen: set[int] = set()
    for key, each in alone.items():
        for number in each.gone:
            if number not in seen:
                seen.add(number)
                dead = joined[key].members[number].state == "dead"
                how = (
                    "is considered dead by the others"
                    if dead
                    else (
                        "no longer answers: it ended or was stopped, which look the same from here"
                    )
                )
                text = f"{identities.who(number).words()} {how}"
                found.clues.append(
                    Clue("ras", text, GONE, RankTarget(number), "process_lost", joined[key].origin)
                )
        if each.gone:
            _place(found, each, joined[key])
        for number in joined[key].contested - seen:
            seen.add(number)
            text = f"{identities.who(number).words()} answers some nodes of the job, and others not"
            found.clues.append(
                Clue("ras", text, LEFT, RankTarget(number), "process_lost", firm=False)
            )


def _mismatch(
    found: Stuck, alone: Mapping[str, Waiting], joined: Mapping[str, Joined], identities: Identities
) -> None:
    for key, each in alone.items():
        if not each.odd:
            continue
        at, source = joined[key], _best_source(joined[key])
        usual, other = each.called
        spot = f"#{each.sequence} of {at.name}" if each.sequence > 0 else at.name
        # half against half has no minority
        odd = [n for n in each.odd if 2 * len(each.odd) < len(at.members)]
        names = "; ".join(identities.who(n).words() for n in each.odd[:8])
        text = (
            f"at {spot} ranks called different collectives: most {usual or 'another'}, but "
            f"{other or 'not'}: {names}"
        )
        found.clues.append(
            Clue(source, text, 0.0, None, "order_mismatch", at.origin, firm=at.confirmed)
        )
        found.clues += [
            Clue(
                source,
                text,
                BEHIND[source],
                RankTarget(n),
                "order_mismatch",
                at.origin,
                firm=at.confirmed,
            )
            for n in odd
        ]
        _place(found, each, at)
        found.stage = "launch"


def _left(found: Stuck, joined: Mapping[str, Joined], identities: Identities) -> None:
    for at in joined.values():
        states = {m.state for m in at.members.values()}
        if states & set(TEARDOWN):
            found.stage = found.stage or "finalize"
            found.clues.append(
                Clue("ras", f"{at.name} is being taken down: the job ends, or changes its groups")
            )
        elif "left" in states:
            for number, member in at.members.items():
                if member.state == "left":
                    text = f"{identities.who(number).words()} has given up {at.name} and still runs"
                    found.clues.append(
                        Clue("ras", text, LEFT, RankTarget(number), "host_hang", firm=False)
                    )


OWN, NEAR, VICTIM = 1, 2, 6  # unhandled CUDA error, system error, remote error of ncclResult_t


def _errors(found: Stuck, joined: Mapping[str, Joined], identities: Identities) -> None:
    for at in joined.values():
        for number, member in at.members.items():
            if member.failed:
                who, own = identities.who(number).words(), member.error in (OWN, NEAR)
                if member.error == VICTIM:
                    text = f"{who} reports that a remote process failed: it is a victim"
                else:
                    text = (
                        f"{who} reports error {member.error} of its own"
                        if own
                        else f"{who} reports error {member.error}"
                    )
                weight = OWN_ERROR if own else 0.0
                found.clues.append(
                    Clue(
                        "ras",
                        text,
                        weight,
                        RankTarget(number) if own else None,
                        "hardware_fault" if own else None,
                        at.origin,
                        firm=False,  # a program's error looks the same: an XID decides
                    )
                )


def _init(found: Stuck, joined: Mapping[str, Joined]) -> None:
    for at in joined.values():
        states = [m.state for m in at.members.values()]
        if (
            states
            and set(states) <= {"init", "unresponsive", "dead"}
            and "init" in states
            and at.confirmed
        ):
            found.stage = "init"
            found.clues.append(
                Clue(
                    "ras",
                    f"{at.name} is being created and does not complete",
                    0.0,
                    None,
                    "init_hang",
                )
            )


def unknown_ranks(communicators: Communicators) -> Iterator[tuple[Joined, int]]:
    """Ranks that belong to a communicator in which others wait, and that are in no report."""
    for at in communicators.all.values():
        for rank in at.unknown:
            yield at, rank
