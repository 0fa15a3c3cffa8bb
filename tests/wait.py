"""Waiting for something real (a process, a socket, a file) with a deadline: the only
place where tests sleep.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")

# The one deadline for everything real: servers, tools, threads. Only a failure waits that long, so
# it is generous: at a load of 30 on two cores everything takes fifteen times as long as on an idle
# machine. A test that needs a short time-out tests it.
PATIENCE_S = 300.0

# Between two questions. One that is costly (a page of a thousand series, a process) is asked less
# often, or waiting takes the CPU time of what is waited for.
NAP_S, MAX_NAP_S = 0.02, 0.5
NAP_FOR_COST = 4.0


class Mortal(Protocol):
    """Something that may end while a test waits for it, such as a server."""

    def death(self) -> str:
        """How it ended, with the tail of its log; empty while it runs."""


def until(
    condition: Callable[[], T],
    what: str,
    seconds: float = PATIENCE_S,
    *,
    servers: Sequence[Mortal] = (),
) -> T:
    """Return the first true answer of ``condition``, asked every 20 ms, or for a fifth of the time.

    AssertionError naming ``what`` past the deadline, and at once when one of ``servers`` has ended.
    """
    asked = time.monotonic()
    deadline = asked + seconds
    while not (answer := condition()):
        for server in servers:
            assert not (death := server.death()), f"waited in vain for {what}: {death}"
        now = time.monotonic()
        assert now < deadline, f"waited {seconds:g} s in vain for {what}"
        time.sleep(min(max(NAP_S, NAP_FOR_COST * (now - asked)), MAX_NAP_S))
        asked = time.monotonic()
    return answer
