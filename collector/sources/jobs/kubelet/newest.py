"""Of several pods with one exclusive device the last it was given to: kubelets before 1.34 list
finished pods too (kubernetes#132020).
"""

from __future__ import annotations

from collections.abc import Iterable

from collector.sources.jobs.allocation import Allocation


class Newest:
    """Remembers since which answer each pod is listed with each device; of those that
    were in the first one it is unknown which came last.
    """

    def __init__(self) -> None:
        self._since: dict[tuple[str, ...], int] = {}
        self._answers = 0

    def of(self, given: Iterable[tuple[Allocation, bool]]) -> list[Allocation]:
        """The allocations of an answer, each given with whether a device like this has one pod at a
        time, without pods that must have finished.
        """
        listed = [
            (holding, exclusive, _place(holding), _key(holding)) for holding, exclusive in given
        ]
        self._answers += 1
        self._since = {key: self._since.get(key, self._answers) for _, _, _, key in listed}
        last: dict[tuple[str, str], int] = {}
        for _, exclusive, place, key in listed:
            if exclusive:
                last[place] = max(last.get(place, 0), self._since[key])
        return [
            holding
            for holding, exclusive, place, key in listed
            if not exclusive or self._since[key] == last[place]
        ]


def _place(holding: Allocation) -> tuple[str, str]:
    return holding.uuid, holding.instance


def _key(holding: Allocation) -> tuple[str, ...]:
    """A pod with a device; containers of one pod may have it one after the other."""
    return (*_place(holding), holding.facts.get("namespace", ""), holding.facts.get("pod", ""))
