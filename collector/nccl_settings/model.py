"""A rank's settings, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from collector.facts.model import NodeFacts, PciGpu, ProcessFacts, RdmaPort
from collector.nccl_settings.matching import NameList, name_list
from collector.sources.nccl.discovery.setting_names import SHOWN

# wrong: the job fails or hangs; slow: it loses bandwidth; check: right on some sites only.
Level = Literal["wrong", "slow", "check"]
LEVELS: tuple[Level, ...] = ("wrong", "slow", "check")
Version = tuple[int, ...]


@dataclass(frozen=True)
class Rank:
    """One process of a job: what it set, its NCCL (empty: unknown), its GPUs, and what the kernel
    says of it. ``node`` is None where only a log is known; then ``roce`` is what the log says of
    the ports in use. ``hosts`` is how many nodes the job has, 0 where unknown.
    ``complete``: a setting that is not in ``settings`` was not made; a log may lack some.
    """

    pid: int
    rank: int
    host: str
    settings: Mapping[str, str]
    version: Version = ()
    gpus: tuple[str, ...] = ()
    process: ProcessFacts = field(default_factory=ProcessFacts)
    node: NodeFacts | None = None
    roce: bool | None = None
    hosts: int = 0
    complete: bool = True

    @property
    def name(self) -> str:
        """``rank 3``, or the process where it has no rank."""
        return f"rank {self.rank}" if self.rank >= 0 else f"process {self.pid} on {self.host}"

    def number(self, name: str) -> int | None:
        """A setting as a number; None where it is not set, or is none."""
        text = self.settings.get(name, "").strip()
        try:
            return int(text, 0) if len(text) < 16 else None
        except ValueError:
            return None

    def shown(self, name: str) -> str:
        """``NAME=value``, or only the name where the value is nobody's to see."""
        value = self.settings.get(name)
        return f"{name}={value}" if name in SHOWN and value is not None else name

    @cached_property
    def hcas(self) -> NameList:
        """NCCL_IB_HCA."""
        return name_list(self.settings.get("NCCL_IB_HCA", ""), ports=True)

    @cached_property
    def taken(self) -> tuple[RdmaPort, ...]:
        """The active ports that it may use."""
        active = self.node.active if self.node else ()
        return tuple(port for port in active if self.hcas.takes(port.device, port.number))

    @cached_property
    def on_roce(self) -> bool:
        """Whether its ports are Ethernet ones."""
        return any(port.ethernet for port in self.taken) if self.node else bool(self.roce)

    @property
    def own_gpus(self) -> tuple[PciGpu, ...]:
        """Its GPUs as the kernel has them."""
        return tuple(gpu for gpu in self.node.gpus if gpu.uuid in self.gpus) if self.node else ()

    @property
    def uses_verbs(self) -> bool:
        """Whether NCCL's own InfiniBand transport is in question: the job has other nodes, and no
        other plug-in is chosen.
        """
        return (
            self.hosts != 1
            and self.settings.get("NCCL_NET", "IB").lower() == "ib"
            and "NCCL_NET_PLUGIN" not in self.settings
        )


@dataclass(frozen=True, slots=True)
class Problem:
    """What a rule found of one or more ranks. ``change`` is the line to change; ``reference`` where
    to read more.
    """

    rule: str
    level: Level
    why: str
    change: str
    reference: str
    ranks: tuple[str, ...] = ()


def merged(problems: Iterable[Problem]) -> list[Problem]:
    """One for all ranks that share it, the gravest first."""
    ranks: dict[Problem, dict[str, None]] = {}
    for one in problems:
        ranks.setdefault(_without_ranks(one), {}).update(dict.fromkeys(one.ranks))
    found = [_with_ranks(one, tuple(names)) for one, names in ranks.items()]
    return sorted(found, key=lambda one: LEVELS.index(one.level))


def _without_ranks(one: Problem) -> Problem:
    return _with_ranks(one, ())


def _with_ranks(one: Problem, ranks: tuple[str, ...]) -> Problem:
    return Problem(one.rule, one.level, one.why, one.change, one.reference, ranks)


def some(names: Iterable[str], limit: int = 6) -> str:
    """The first names of many.

    >>> some(["a", "b", "c"], limit=2)
    'a, b and 1 more'
    """
    listed = list(names)
    more = f" and {len(listed) - limit} more" if len(listed) > limit else ""
    return ", ".join(listed[:limit]) + more


Checks = Iterator[tuple[Level, str, str]]
