"""Which GPUs and MIG instances have rows: dcgm-exporter's ``-d``."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NUMBER = re.compile(r"\d{1,6}")


class SelectionError(ValueError):
    """A device option that cannot be understood, or that names a device the node does not have."""


@dataclass(frozen=True, slots=True)
class Selection:
    """GPUs (``g``), instances (``i``), both, or ``flex``: instances where a
    GPU has them, else the GPU.

    Empty ids mean all.
    """

    flex: bool = False
    gpus: bool = False
    instances: bool = False
    gpu_ids: frozenset[str] = frozenset()
    instance_ids: frozenset[str] = frozenset()

    def shows_gpu(self, index: str, *, has_instances: bool) -> bool:
        """Whether the GPU itself has rows."""
        if self.flex:
            return not has_instances
        return self.gpus and (not self.gpu_ids or index in self.gpu_ids)

    def shows_instance(self, place: int, gpu: str, instance: str) -> bool:
        """Whether an instance has rows: by its place among all instances of the
        node, or as ``GPU.instance``.
        """
        if self.flex:
            return True
        return self.instances and (
            not self.instance_ids or bool({str(place), f"{gpu}.{instance}"} & self.instance_ids)
        )

    def missing_gpus(self, gpus: set[str]) -> list[str]:
        """The GPUs that are asked for and not there, in dcgm-exporter's words."""
        return [
            f"couldn't find requested GPU ID '{i}'" for i in sorted(self.gpu_ids - gpus, key=int)
        ]


FLEX = Selection(flex=True)


def parse(option: str) -> Selection:
    """A device option such as ``f``, ``g``, ``g:0,2-4``, ``i``, ``i:0.1``, ``g+i``;
    SelectionError says what is wrong.

    >>> sorted(parse("g:0,2-4").gpu_ids)
    ['0', '2', '3', '4']
    """
    if option == "f":
        return FLEX
    letters, colon, ranges = option.partition(":")
    if letters == "f":
        raise SelectionError("no range can be specified with the flex option 'f'")
    if letters == "g+i" and not colon:
        return Selection(gpus=True, instances=True)
    if letters not in ("g", "i"):
        if colon:
            raise SelectionError(
                f"the only valid options preceding ':<range>' are 'g' or 'i', but found '{letters}'"
            )
        raise SelectionError(
            f"Invalid ranged device option '{option}': wanted f, g, i, g+i, g:<range> or i:<range>"
        )
    ids = frozenset(_ids(ranges, instances=letters == "i")) if colon else frozenset()
    if letters == "g":
        return Selection(gpus=True, gpu_ids=ids)
    return Selection(instances=True, instance_ids=ids)


def _ids(ranges: str, *, instances: bool) -> list[str]:
    ids: list[str] = []
    for part in ranges.split(","):
        ends = part.strip().split("-")
        if instances and len(ends) == 1 and re.fullmatch(r"\d{1,6}\.\d{1,6}", ends[0]):
            ids.append(ends[0])
            continue
        if len(ends) > 2:
            raise SelectionError(f"range can only be '<number>-<number>', but found '{part}'")
        if not all(_NUMBER.fullmatch(end) for end in ends):
            raise SelectionError(f"Invalid ranged device option '{part}': wanted numbers")
        first, last = int(ends[0]), int(ends[-1])
        if last - first > 4096:
            raise SelectionError(f"Invalid ranged device option '{part}': more than 4096 devices")
        ids += [str(number) for number in range(first, last + 1)]
    return ids
