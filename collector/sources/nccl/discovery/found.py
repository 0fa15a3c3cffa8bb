"""A process that holds a GPU, and what the agent passes to and gets from the look at it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from collector.sources.nccl.discovery.identity import Owner
from collector.sources.nccl.discovery.procfs import Library


@dataclass(frozen=True, slots=True)
class Found:
    """A process that holds a GPU.

    ``pid`` and ``parent`` are the host's, ``inner_pid`` what the process calls itself and RAS
    reports. ``started_s`` is seconds since boot. ``uuids`` are the GPUs it has mapped. ``library``
    is where it has NCCL from, None where it has none (yet). ``network`` distinguishes network
    namespaces, 0 where that is not known. ``group`` and ``sure`` as in ``identity.Owner``.
    """

    pid: int
    inner_pid: int
    user: int
    comm: str
    started_s: float
    job: str
    rank: int
    uuids: tuple[str, ...] = ()
    library: Library | None = None
    network: int = 0
    parent: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)
    group: str = ""
    sure: bool = False

    @property
    def owner(self) -> Owner:
        """The job that it belongs to."""
        return Owner(self.group, self.user, self.job or f"user{self.user}", self.sure)


@dataclass(frozen=True, slots=True)
class Glance:
    """A process that is due, as the kernel has it: name and start of its /proc/PID/stat, in clock
    ticks since boot, and the minor numbers of the GPUs whose device files it has open; None where
    its descriptors may not be listed. ``tenant`` is its user.
    """

    pid: int
    comm: str
    parent: int
    started: int
    opened: tuple[int, ...] | None
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the look at a process gave. ``none``: it holds no GPU, or has ended; ``unread``: the
    helper had no time to say.
    """

    pid: int
    state: Literal["found", "none", "hidden", "unread"]
    found: Found | None = None
