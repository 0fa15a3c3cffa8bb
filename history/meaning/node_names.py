"""Nodes of a history by the names that others have for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from ipaddress import ip_address
from types import MappingProxyType

from history.meaning.labels import without_port

NONE: Mapping[str, str] = MappingProxyType({})


class NodeNames:
    """The ``nodes`` of a history; ``renamed`` are names of a site with those to use."""

    def __init__(self, nodes: Collection[str], renamed: Mapping[str, str] = NONE) -> None:
        self._nodes, self._renamed = nodes, renamed
        self._short: dict[str, list[str]] = {}
        for node in nodes:
            self._short.setdefault(short_name(node), []).append(node)

    def named(self, name: str) -> str:
        """The node that a name means, by the short name where one node alone has it and the domain
        is not another; empty where none is meant.

        >>> NodeNames(("gpu-1.example", "gpu-2.example")).named("gpu-1")
        'gpu-1.example'
        """
        plain = without_port(name)
        found = self._renamed.get(name, self._renamed.get(plain, plain))
        if found in self._nodes:
            return found
        same = self._short.get(short_name(found), [])
        return same[0] if len(same) == 1 and same_host(found, same[0]) else ""


def same_host(one: str, other: str) -> bool:
    """Whether two names mean one node: one may have the domain that the other lacks.

    >>> same_host("gpu01", "gpu01.example.org"), same_host("gpu01.example.net", "gpu01.example.org")
    (True, False)
    """
    if one == other or ("." in one) == ("." in other):
        return one == other
    return short_name(one) == short_name(other)


def short_name(name: str) -> str:
    """A name without its domain. An address has none.

    >>> short_name("gpu01.example.org"), short_name("10.9.8.7")
    ('gpu01', '10.9.8.7')
    """
    try:
        ip_address(name)
    except ValueError:
        return name.partition(".")[0]
    return name
