"""Nodes of a history by the names that others have for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from history.meaning.labels import without_port

NONE: Mapping[str, str] = MappingProxyType({})


class NodeNames:
    """The ``nodes`` of a history; ``renamed`` are names of a site with those to use."""

    def __init__(self, nodes: Collection[str], renamed: Mapping[str, str] = NONE) -> None:
        self._nodes, self._renamed = nodes, renamed
        self._short: dict[str, list[str]] = {}
        for node in nodes:
            self._short.setdefault(_short(node), []).append(node)

    def named(self, name: str) -> str:
        """The node that a name means, by the short name where one node alone has it; empty where
        none is meant.

        >>> NodeNames(("gpu-1.example", "gpu-2.example")).named("gpu-1")
        'gpu-1.example'
        """
        plain = without_port(name)
        found = self._renamed.get(name, self._renamed.get(plain, plain))
        if found in self._nodes:
            return found
        same = self._short.get(_short(found), [])
        return same[0] if len(same) == 1 else ""


def _short(name: str) -> str:
    return name.partition(".")[0]
