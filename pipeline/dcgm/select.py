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
    """A device option such as ``f``, ``g``, ``g:0,2-4``, ``i:0.1``, ``g+i``, ``g:0+i:1``;
    SelectionError says what is wrong.

    >>> sorted(parse("g:0,2-4").gpu_ids), parse("i+g:0").instances
    (['0', '2', '3', '4'], True)
    """
    if option == "f":
        return FLEX
    parts = [part.partition(":") for part in option.split("+")]
    letters = [letter for letter, _, _ in parts]
    found: dict[str, frozenset[str]] = {}
    for letter, colon, ranges in parts:
        _check(option, letter, letters, ranged=bool(colon))
        ids = _ids(ranges, instances=letter == "i") if colon else ()
        found[letter] = frozenset(ids)
    none: frozenset[str] = frozenset()
    return Selection(
        gpus="g" in found,
        instances="i" in found,
        gpu_ids=found.get("g", none),
        instance_ids=found.get("i", none),
    )


def _check(option: str, letter: str, letters: list[str], *, ranged: bool) -> None:
    """SelectionError unless a part of an option may begin with this letter."""
    if letter == "f" and len(letters) > 1:
        raise SelectionError(f"the flex option 'f' cannot be combined, but found '{option}'")
    if letter == "f":
        raise SelectionError("no range can be specified with the flex option 'f'")
    if letter not in ("g", "i") and ranged:
        raise SelectionError(
            f"the only valid options preceding ':<range>' are 'g' or 'i', but found '{letter}'"
        )
    if letter not in ("g", "i"):
        raise SelectionError(
            f"Invalid ranged device option '{option}': wanted f, g[:<range>], i[:<range>] or "
            "g[:<range>]+i[:<range>]"
        )
    if letters.count(letter) > 1:
        raise SelectionError(f"'{letter}' can be given once, but found '{option}'")


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
        if last < first:
            raise SelectionError(f"Invalid ranged device option '{part}': it ends before it begins")
        if last - first > 4096:
            raise SelectionError(f"Invalid ranged device option '{part}': more than 4096 devices")
        ids += [str(number) for number in range(first, last + 1)]
    return ids
