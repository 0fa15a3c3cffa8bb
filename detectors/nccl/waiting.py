"""Who waits for whom in one communicator, from how far each of its ranks is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from detectors.nccl.communicators import Joined, count
from detectors.nccl.order import compared, nearest
from pipeline.nccl.member import WHOLE, Counts, Member, Operation
from pipeline.small_arrays import any_true


class Rank(NamedTuple):
    """A rank, by its number (identity.py)."""

    number: int


class Flight(NamedTuple):
    """A collective that all ranks have begun and that does not end: what its ranks wait for."""

    communicator: str


class Before(NamedTuple):
    """Represents all ranks of a communicator that are at one place: one edge to it
    in place of one to each.
    """

    communicator: str
    place: Counts


Node = Rank | Flight | Before
Situation = Literal["idle", "behind", "held", "in_flight", "partial", "balanced", "gone", "nothing"]


@dataclass(slots=True)
class Waiting:
    """What one communicator adds to the graph, and its state.

    ``sequence`` and ``operation`` are the first collective that is not done. ``odd`` are ranks that
    called something else there than the most, ``called`` what the most and what they called.
    """

    key: str
    situation: Situation = "nothing"
    edges: dict[Node, list[Node]] = field(default_factory=dict)
    behind: list[int] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    unreported: list[int] = field(default_factory=list)  # that belong to it and are in no report
    sequence: int = -1
    operation: str = ""
    odd: list[int] = field(default_factory=list)
    called: tuple[str, str] = ("", "")

    def wait(self, waiter: Node, *awaited: Node) -> None:
        """Add edges of the graph."""
        if awaited:
            self.edges.setdefault(waiter, []).extend(awaited)


Heads = Mapping[int, str]
"""The communicator of each rank's oldest call that has not ended.

Later calls are behind it in the rank's queue.
"""


# different positions of the ranks of one communicator; more are a forged report or a moving job
MAX_PLACES = 1024


def heads(communicators: Mapping[str, Joined]) -> Heads:
    """From when each unfinished call was made; a rank's own clock orders its calls.

    Ranks of which that is unknown are left out.
    """
    oldest: dict[int, tuple[int, str]] = {}
    for key, joined in communicators.items():
        for number, member in joined.members.items():
            calls = [
                o.created_ns
                for o in member.operations
                if o.seq > count(member.completed) >= 0 and not o.completed
            ]
            if calls and min(calls) > 0:
                oldest[number] = min(oldest.get(number, (min(calls), key)), (min(calls), key))
    return {number: key for number, (_, key) in oldest.items()}


def waiting(
    key: str, joined: Joined, first: Heads | None = None, unreported: Sequence[int] = ()
) -> Waiting:
    """Which ranks wait for which.

    ``key`` names the communicator in the graph, ``unreported`` are its ranks without a report.
    """
    found = Waiting(
        key, gone=[n for n, m in joined.members.items() if m.gone], unreported=list(unreported)
    )
    members = {
        n: m
        for n, m in joined.members.items()
        if not m.gone and m.state not in ("left", "finalize", "abort")
    }
    if any(count(m.completed) >= 0 for m in members.values()):
        _by_sequence(found, members, first or {})
    else:
        _by_launches(found, members)
    return found


def _by_sequence(found: Waiting, members: dict[int, Member], first: Heads) -> None:
    """One sequence per rank, and what it completed: the first operation that a rank has
    not completed decides.

    A rank that has called it but is still held by an older call elsewhere is waited for like one
    that has not come.
    """
    done = {n: count(m.completed) for n, m in members.items()}
    begun = {n: count(m.launched) for n, m in members.items()}
    sequence = 1 + min(d for d in done.values() if d >= 0)
    found.behind = [n for n, launched in begun.items() if 0 <= launched < sequence]
    found.pending = [
        n
        for n, launched in begun.items()
        if launched >= sequence and (done[n] < sequence or done[n] < 0)
    ]
    held = [n for n in found.pending if first.get(n, found.key) != found.key]
    _not_started(found, members, sequence, held)
    here = [n for n in found.pending if n not in set(held)]
    found.sequence = sequence
    _compare_calls(found, members, sequence)
    awaited = [*found.behind, *held, *found.gone, *found.unreported]
    if not found.pending and not found.gone:
        found.situation, found.behind = "idle", []  # nobody waits: nobody is late
        found.sequence = -1
        return
    if not awaited:
        found.situation = "in_flight" if len(found.pending) == len(members) else "partial"
        for n in here:
            found.wait(Rank(n), Flight(found.key))
        return
    found.situation = "behind" if found.behind else "gone" if found.gone else "held"
    hub = Before(found.key, ((WHOLE, sequence),))
    for n in here or ([] if found.behind or held else list(members)):
        found.wait(Rank(n), hub)
    found.wait(hub, *map(Rank, awaited))


def _not_started(
    found: Waiting, members: dict[int, Member], sequence: int, held: Sequence[int]
) -> None:
    """A rank that has only scheduled what others have started on their GPUs is behind."""
    started = {n: count(members[n].started) for n in found.pending}
    if not any(at >= sequence for at in started.values()):
        return
    late = [n for n, at in started.items() if 0 <= at < sequence and n not in held]
    found.behind += late
    found.pending = [n for n in found.pending if n not in late]


def _by_launches(found: Waiting, members: dict[int, Member]) -> None:
    """Only launches are known, per operation: a rank that has launched all that another
    has, and more, waits for it.
    """
    ranks: dict[Counts, list[int]] = {}
    for n, member in members.items():
        if member.launched:
            ranks.setdefault(tuple(sorted(member.launched)), []).append(n)
    places = list(ranks) if len(ranks) <= MAX_PLACES else []
    ahead, crossed = compared(places)
    near = nearest(ahead)
    for i, place in enumerate(places):
        below = [Before(found.key, places[j]) for j in np.flatnonzero(near[i])]
        for n in ranks[place]:
            found.wait(Rank(n), *below)
        if any_true(ahead[:, i]):
            found.wait(Before(found.key, place), *map(Rank, ranks[place]))
        if any_true(ahead[i]):
            found.pending += ranks[place]
        elif any_true(ahead[:, i]):
            found.behind += ranks[place]
    tops = [i for i in range(len(places)) if not any_true(ahead[:, i])]
    _crossed(found, ranks, [i for i in tops if any_true(crossed[i, tops])])
    if found.gone:
        hub = Before(found.key, (("gone", 0),))
        for n in [n for i in tops for n in ranks[places[i]]] or list(members):
            found.wait(Rank(n), hub)
        found.wait(hub, *map(Rank, found.gone))
    found.operation = _differing(ranks)
    moved = any(n > 0 for place in places for _, n in place)
    found.situation = (
        "behind"
        if found.behind
        else "gone"
        if found.gone
        else "balanced"
        if moved and len(places) == 1
        else "nothing"
    )


def _crossed(found: Waiting, ranks: dict[Counts, list[int]], tops: list[int]) -> None:
    """Foremost ranks that have launched different operations: nobody is late, the
    calls are in another order.
    """
    if not tops:
        return
    crossing = [list(ranks)[i] for i in tops]
    usual = max(crossing, key=lambda place: len(ranks[place]))
    others = [place for place in crossing if place != usual]
    found.odd = [n for place in others for n in ranks[place]]
    found.called = (_more(usual, others[0]), _more(others[0], usual))


def _more(a: Counts, b: Counts) -> str:
    return ", ".join(name for name, n in a if n > dict(b).get(name, n))


def _differing(places: dict[Counts, list[int]]) -> str:
    """The operations in whose counts the ranks differ."""
    counts: dict[str, set[int]] = {}
    for place in places:
        for name, n in place:
            counts.setdefault(name, set()).add(n)
    return ", ".join(name for name, numbers in counts.items() if len(numbers) > 1)


# Operations whose ranks may rightly differ in sizes: they are called so, or with
# lists of different length.
UNEVEN = ("all_to_all", "alltoall", "gather", "scatter", "coalesced", "barrier")


def _compare_calls(found: Waiting, members: dict[int, Member], sequence: int) -> None:
    """Whether all ranks that called the operation called the same: type
    first, then dtype, then sizes.
    """
    calls = {n: o for n, m in members.items() for o in m.operations if o.seq == sequence}
    if not calls:
        return
    found.operation = Counter(o.name for o in calls.values()).most_common(1)[0][0]
    for sign, words in _SIGNS:
        signs = {n: sign(o) for n, o in calls.items() if sign(o) is not None}
        if len(set(signs.values())) < 2:
            continue
        most = max(_votes(signs), key=lambda pair: pair[1])[0]
        found.odd = [n for n, value in signs.items() if value != most]
        usual = next(o for n, o in calls.items() if signs.get(n) == most)
        found.called = (words(usual), words(calls[found.odd[0]]))
        return


def _votes(signs: dict[int, object]) -> Iterator[tuple[object, int]]:
    yield from Counter(signs.values()).most_common()


def _sizes(call: Operation) -> object:
    uneven = any(word in call.name for word in UNEVEN)
    return None if uneven or not call.sizes else call.sizes


_SIGNS: tuple[tuple[Callable[[Operation], object], Callable[[Operation], str]], ...] = (
    (lambda o: o.name or None, lambda o: o.name),
    (lambda o: o.dtypes or None, lambda o: f"{o.name} of {'/'.join(o.dtypes)}"),
    (_sizes, lambda o: f"{o.name} of sizes {'; '.join('x'.join(map(str, s)) for s in o.sizes)}"),
)
