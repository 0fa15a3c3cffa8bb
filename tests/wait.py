"""Waiting for something real (a process, a socket, a file) with a deadline: the only place where tests sleep."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], T], what: str, seconds: float = 30.0) -> T:
    """The first true answer of ``condition``, asked every 20 ms; AssertionError naming ``what`` past the deadline."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"waited {seconds:g} s in vain for {what}"
        time.sleep(0.02)
    return answer
