"""Desk: where a look at what a tenant wrote is asked for, in this process or in a child."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

Mark = Callable[[str, str], None]
"""Called by a reader before it opens or reads something: the subject (a process, a path) and the
tenant, for blame where the child dies of it.
"""


class Who(NamedTuple):
    """Whose data is read: a job, and the user or pod whose share it uses; empty where unknown."""

    job: str
    tenant: str


NODE = Who("", "")


class LookLostError(OSError):
    """A look gave nothing.

    ``reason``: memory, time, died, garbage or failed; start where the reader did not; withheld or
    budget where it was not tried.
    ``subject`` and ``tenant`` are what the child was about to read, empty where unknown.
    """

    def __init__(self, reason: str, message: str, subject: str = "", tenant: str = "") -> None:
        super().__init__(message)
        self.reason, self.subject, self.tenant = reason, subject, tenant


class Desk(Protocol):
    """Calls a method of a reader."""

    @property
    def starts(self) -> int:
        """How often the reader was started: its memory of earlier looks is that of the last."""
        ...

    def ask(
        self,
        method: Callable[Concatenate[Any, P], R],
        who: Who,
        deadline_s: float,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """What the method returns. LookLostError."""
        ...

    def tend(self) -> None:
        """Called after each read: a child that was not needed for a while ends."""
        ...

    def close(self) -> None:
        """End the child. Safe to call twice."""
        ...


class LocalDesk:
    """A reader in this process: for commands, saved trees, and tests of what is read."""

    starts = 1

    def __init__(self, reader: object) -> None:
        self._reader = reader

    def ask(
        self,
        method: Callable[Concatenate[Any, P], R],
        who: Who,  # noqa: ARG002 - see Desk
        deadline_s: float,  # noqa: ARG002
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """See Desk."""
        return method(self._reader, *args, **kwargs)

    def tend(self) -> None:
        """See Desk."""

    def close(self) -> None:
        """See Desk: its reader lets go of its files."""
        if callable(close := getattr(self._reader, "close", None)):
            close()
