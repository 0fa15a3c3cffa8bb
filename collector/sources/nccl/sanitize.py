"""The one error of every parser here: input was written by the owner of a job, and may be
anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from collector.foreign_text import printable
from pipeline.nccl.report import Discard

MAX_UNKNOWN_COUNT = 20  # lines kept of what was not understood; all are counted


class FormatError(ValueError):
    """The input is not what it should be; the message says what is wrong, in one printable line."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message, 500))


@dataclass(slots=True)
class Unread:
    """Counts what a parser did not understand, and keeps the first pieces for logs and events."""

    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        """One piece that was not understood."""
        self.count += 1
        if len(self.first) < MAX_UNKNOWN_COUNT:
            self.first.append(printable(text))

    def discards(self, why: str) -> tuple[Discard, ...]:
        """The first pieces, and one entry for all the others."""
        rest = self.count - len(self.first)
        others = (Discard("others", why, rest),) if rest else ()
        return (*(Discard(text, why) for text in self.first), *others)
