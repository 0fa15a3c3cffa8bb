"""What every way of reading the kernel log looks like to the source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from collector.sources.kmsg.records import Record


class Loss(NamedTuple):
    """Records that were lost before they could be read: why, how many, and an example."""

    reason: str
    records: int
    example: str = ""


class UnavailableError(RuntimeError):
    """The kernel log cannot be read this way here and now; the message says why."""


class Reader(Protocol):
    """One open log.

    ``mode`` is the origin of its events; ``stream`` names the log its numbers belong to.
    """

    mode: str
    stream: str

    def read(self, most: int) -> list[Record]:
        """The next records in order, at most so many; empty: the end is reached for now.

        Never waits. UnavailableError when it broke.
        """
        ...

    def position(self) -> dict[str, Any]:
        """Where the records given so far end: a new reader that gets it goes on after them."""
        ...

    def losses(self) -> list[Loss]:
        """Losses noticed since the last call."""
        ...

    def close(self) -> None:
        """Let go; safe to call twice."""
        ...


def number(place: Mapping[str, Any], name: str, default: int) -> int:
    """A number of a place that was kept, or the default where it is missing or something else."""
    value = place.get(name)
    return value if isinstance(value, int) else default
