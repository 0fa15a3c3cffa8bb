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

    def of(self, given: Iterable[tuple[Allocation, str]]) -> list[Allocation]:
        """The allocations of an answer, each given with the id of its device where that has one pod
        at a time ("": several), without pods that must have finished. The compute instances of one
        MIG GPU instance are several devices.
        """
        listed = [(holding, device, _key(holding, device)) for holding, device in given]
        self._answers += 1
        self._since = {key: self._since.get(key, self._answers) for _, _, key in listed}
        last: dict[str, int] = {}
        for _, device, key in listed:
            if device:
                last[device] = max(last.get(device, 0), self._since[key])
        return [
            holding
            for holding, device, key in listed
            if not device or self._since[key] == last[device]
        ]


def _key(holding: Allocation, device: str) -> tuple[str, ...]:
    """A pod with a device; containers of one pod may have it one after the other."""
    facts = holding.facts
    place = (holding.uuid, holding.instance, device)
    return (*place, facts.get("namespace", ""), facts.get("pod", ""))
