"""Which names a list of NCCL takes: NCCL_IB_HCA and NCCL_SOCKET_IFNAME.

``^`` then ``=`` in front, once for the complete list: all but these; exact names. Otherwise entries
are prefixes. An entry of NCCL_IB_HCA is ``device[:port[:rail[:plane]]]``. (NVIDIA/nccl,
src/misc/utils.cc, parseStringList and matchIfList.)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


class Entry(NamedTuple):
    """``port`` is -1 for any."""

    name: str
    port: int = -1


@dataclass(frozen=True, slots=True)
class NameList:
    """A parsed list; one without entries takes everything."""

    entries: tuple[Entry, ...]
    excludes: bool = False
    exact: bool = False

    def takes(self, name: str, port: int = -1) -> bool:
        """Whether a device's port, or an interface, is in the list."""
        if not self.entries:
            return True
        return self.excludes != any(self.matches(entry, name, port) for entry in self.entries)

    def matches(self, entry: Entry, name: str, port: int = -1) -> bool:
        """Whether one entry means it, without ``^``."""
        alike = name == entry.name if self.exact else name.startswith(entry.name)
        return alike and (entry.port == -1 or port in (-1, entry.port))

    def idle(self, names: Iterable[tuple[str, int]]) -> list[str]:
        """Entries that mean none of these names."""
        there = list(names)
        return [
            entry.name if entry.port < 0 else f"{entry.name}:{entry.port}"
            for entry in self.entries
            if not any(self.matches(entry, *one) for one in there)
        ]


def name_list(text: str, *, ports: bool) -> NameList:
    """The list in a value; ``ports``: entries may have a port.

    >>> name_list("^=mlx5_0:1,mlx5_9", ports=True)
    NameList(entries=(Entry(name='mlx5_0', port=1), Entry(name='mlx5_9', port=-1)), \
excludes=True, exact=True)
    """
    excludes = text.startswith("^")
    rest = text[1:] if excludes else text
    exact = rest.startswith("=")
    words = (rest[1:] if exact else rest).split(",")
    return NameList(
        tuple(_entry(word.strip(), ports=ports) for word in words if word.strip()), excludes, exact
    )


def _entry(word: str, *, ports: bool) -> Entry:
    name, _, rest = word.partition(":") if ports else (word, "", "")
    port = rest.partition(":")[0]
    return Entry(name, int(port) if port.isdecimal() and len(port) < 4 else -1)
