"""Fair shares of a limited number of places: one tenant's surplus takes no place of another's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")
MAX_SERIES = 32


def fair(
    items: Sequence[T], tenant: Callable[[T], Hashable], places: int
) -> tuple[list[T], list[T]]:
    """Those that get a place, and those that are cut: in rounds of one item of each tenant, the
    first of each first; both in their order.

    >>> fair(["a1", "a2", "a3", "b1"], lambda item: item[0], 3)
    (['a1', 'a2', 'b1'], ['a3'])
    """
    if len(items) <= places:
        return list(items), []
    queues: dict[Hashable, list[int]] = {}
    for at, item in enumerate(items):
        queues.setdefault(tenant(item), []).append(at)
    turns = [(turn, at) for queue in queues.values() for turn, at in enumerate(queue)]
    kept = {at for _, at in sorted(turns)[:places]}
    return (
        [item for at, item in enumerate(items) if at in kept],
        [item for at, item in enumerate(items) if at not in kept],
    )


def in_turns(items: Iterable[T], tenant: Callable[[T], Hashable]) -> list[T]:
    """One item of each tenant, then the second of each, and so on.

    >>> in_turns(["a1", "a2", "b1"], lambda item: item[0])
    ['a1', 'b1', 'a2']
    """
    turns: Counter[Hashable] = Counter()
    keyed = []
    for item in items:
        whose = tenant(item)
        keyed.append((turns[whose], item))
        turns[whose] += 1
    return [item for _, item in sorted(keyed, key=lambda row: row[0])]


def cut_series(
    cut: Mapping[str, Mapping[tuple[str, str], int]],
) -> dict[tuple[str, ...], float]:
    """Series of what was cut: by limit, how many of each (job, tenant). Of more than ``MAX_SERIES``
    the rest is summed.

    >>> cut_series({"jobs": {("71", "user7"): 2}})
    {('71', 'user7', 'jobs'): 2.0}
    """
    series: dict[tuple[str, ...], float] = {}
    for limit, counts in cut.items():
        for (job, tenant), count in counts.items():
            key = (job, tenant, limit) if len(series) < MAX_SERIES else ("_other", "_other", limit)
            series[key] = series.get(key, 0.0) + count
    return series
