"""Where a repair works, and what it may do there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from collector.integrations.agent_client import Answer
from collector.integrations.policy import Policy
from collector.integrations.record import Record
from collector.integrations.resume import BurnInCheck
from collector.integrations.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class Switches:
    """What the configuration allows (``gates.repair``)."""

    reset: bool = False
    reboot: bool = False
    return_to_service: bool = False
    max_attempts: int = 3
    again_within_s: float = 7 * 86400.0
    settle_s: float = 1800.0
    services: tuple[str, ...] = ()


class Mark(Protocol):
    """A boot of the node, and a time in it."""

    @property
    def boot_id(self) -> str:
        """Which boot."""

    @property
    def uptime(self) -> float:
        """Seconds since that boot."""


@dataclass(frozen=True, slots=True)
class Site:
    """One node before its scheduler.

    ``ask`` gives the agent's present answer, ``now`` unix seconds, ``uptime`` seconds since the
    boot of the node, which no step of the wall clock changes. With ``dry_run`` nothing is changed
    anywhere.
    """

    node: str
    scheduler: Scheduler
    record: Record
    policy: Policy
    ask: Callable[[], Answer]
    now: Callable[[], float]
    uptime: Callable[[], float]
    switches: Switches = field(default_factory=Switches)
    proof: BurnInCheck = field(default_factory=BurnInCheck)
    dry_run: bool = False

    def elapsed(self, mark: Mark, boot_id: str) -> float:
        """Seconds since a mark. Of another boot at least those of this one: clocks are often set
        just after a boot.
        """
        return self.uptime() - (mark.uptime if mark.boot_id == boot_id else 0.0)
