"""A controller in memory, before which a process can die at any of its calls."""

from __future__ import annotations

from collector.integrations.controller import Controller
from collector.integrations.scheduler import INVALID, OURS, NodeState


class Killed(BaseException):
    """SIGKILL, as far as a process can be told of it."""


class Slurmctld(Controller):
    """A controller in memory.

    After ``calls`` more questions or orders the asking process dies: before
    the call is done, or after.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reasons: dict[str, str] = {}
        self.held: dict[str, str] = {}
        self.suspended: set[str] = set()  # nodes whose only job is suspended
        self.invalid: set[str] = set()  # nodes that registered with a GPU less
        self.clock = 0
        self.calls, self.before = 10**6, True

    def _call(self, change: object = None) -> None:
        self.calls -= 1
        if self.calls == 0 and self.before:
            raise Killed
        if callable(change):
            change()
        if self.calls == 0:
            raise Killed

    def node(self, name: str) -> NodeState:
        self._call()
        text, _, by = self.reasons.get(name, "").partition("@")
        words = {"IDLE", *(("DRAIN",) if text else ()), *(INVALID if name in self.invalid else ())}
        replaced = name in self.invalid and by.startswith("slurm ")
        return NodeState(frozenset(words), text, by, replaced=replaced)

    def has_jobs(self, name: str) -> bool:
        self._call()
        return name in self.suspended

    def drained(self) -> dict[str, str]:
        self._call()
        return {node: reason for node, reason in self.reasons.items() if reason.startswith(OURS)}

    def tokens(self, prefix: str) -> dict[str, str]:
        self._call()
        return {name: node for name, node in self.held.items() if name.startswith(prefix)}

    def take(self, token: str, node: str) -> bool:
        taken = token not in self.held
        self._call(lambda: self.held.setdefault(token, node))
        return taken

    def drop(self, token: str) -> None:
        self._call(lambda: self.held.pop(token, None))

    def drain(self, node: str, reason: str) -> None:
        self.clock += 1
        self._call(lambda: self.reasons.__setitem__(node, f"{reason}@root {self.clock}"))

    def resume(self, node: str) -> None:
        assert self.reasons[node].startswith(OURS), "somebody else's drain was undone"
        self._call(lambda: self.reasons.pop(node))
