"""Hit: one line of a job's or a kernel's log that says something about a
stall, and whom it speaks of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

Layer = Literal[
    "link",  # a port or its cable
    "adapter",  # a network card or its driver
    "fabric",  # switch, subnet manager, NVLink fabric
    "ethernet",  # the out-of-band network
    "gpu",
    "process",  # a process of the job ended
    "host",  # a process of the job is stuck outside NCCL
    "software",  # the job's own code or its libraries
    "scheduler",
    "progress",  # how far a rank is: no culprit by itself
    "victim",  # the reporter waited for somebody else
    "mapping",  # which rank sits where
]

Blame = Literal["reporter", "peer", "named", "nobody"]
"""Whom the line speaks against: the rank that wrote it, the peer it names, the rank, node or
device it names, or nobody.
"""


MAX_DIGITS = 15  # of a number that a line captured: it is exact as a float too


@dataclass(frozen=True, slots=True)
class Hit:
    """One line that a pattern took.

    ``name`` is the pattern's. ``time_ns`` is the line's own unix time, 0 where it bears none.
    ``host``, ``pid``, ``gpu`` and ``world_rank`` are the reporter's, where the line has them.
    ``group`` and ``rank``: the process group of PyTorch it speaks of, and the reporter's rank in
    it. ``fields`` are what the pattern captured; ``text`` the line, at most 512 characters.
    """

    name: str
    layer: Layer
    blame: Blame
    time_ns: int = 0
    host: str = ""
    pid: int = -1
    gpu: int = -1
    world_rank: int = -1
    group: str = ""
    rank: int = -1
    fields: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    text: str = ""
    origin: str = ""

    def number(self, name: str, otherwise: int = -1) -> int:
        """A captured number; ``otherwise`` also where it has more than 15 digits."""
        text = self.fields.get(name, "")
        try:
            return int(text) if len(text) <= MAX_DIGITS else otherwise
        except ValueError:
            return otherwise
