"""What a scheduler must offer before a node of it may be drained, repaired and given back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

OURS = "tocsin:"  # every reason of ours begins so; nobody else's does
BUSY = frozenset({"ALLOCATED", "MIXED", "COMPLETING"})
# The node's registration is not as configured, such as a GPU less (slurm.h, node_states).
INVALID = frozenset({"INVALID_REG", "INVAL"})
MAINTAINED = frozenset({"MAINT", "MAINTENANCE"})
AWAY = frozenset(
    {
        "DOWN",
        "FAIL",
        "POWERED_DOWN",
        "POWERING_DOWN",
        "REBOOT",
        "REBOOT_ISSUED",
        "REBOOT_REQUESTED",
        "FUTURE",
    }
)


class CannotAskError(Exception):
    """The controller did not answer, or refused: nothing is done then."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node as the controller sees it.

    ``reason`` is the text alone, ``by`` who set it when (``root@2026-11-20T13:26:47``).
    ``refused`` says why the controller would refuse a drain now. ``replaced`` is set where the
    controller itself has put a reason of its own in place of the one before.
    """

    words: frozenset[str]
    reason: str = ""
    by: str = ""
    refused: str = ""
    replaced: bool = False

    @property
    def drained(self) -> bool:
        """Whether it takes no new jobs, for whatever reason."""
        return "DRAIN" in self.words

    @property
    def busy(self) -> bool:
        """Whether jobs run on it."""
        return bool(self.words & BUSY)


class Scheduler(Protocol):
    """Slurm's controller, Kubernetes' API server. CannotAskError where it does not answer."""

    def node(self, name: str) -> NodeState:
        """One node."""
        ...

    def has_jobs(self, name: str) -> bool:
        """Whether jobs are on it, suspended ones too: asked before anything is done to it."""
        ...

    def drained(self) -> dict[str, str]:
        """Nodes that take no new jobs for a reason of ours, and the reason."""
        ...

    def tokens(self, prefix: str) -> dict[str, str]:
        """Tokens whose names begin so, and the node that holds each."""
        ...

    def take(self, token: str, node: str) -> bool:
        """Get a token; False where another node has it, however many ask at once."""
        ...

    def drop(self, token: str) -> None:
        """Give a token back; one that is gone already is fine."""
        ...

    def drain(self, node: str, reason: str) -> None:
        """Let it finish its jobs and take no new ones."""
        ...

    def resume(self, node: str) -> None:
        """Let it take jobs again."""
        ...
