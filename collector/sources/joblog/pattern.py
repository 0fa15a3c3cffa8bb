"""Pattern: how one kind of line is recognised in linear time, and what it means."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from pipeline.nccl.hit import Blame, Layer

# What the placeholders of the table stand for. Every repetition has an end, so that no line
# takes more than linear time.
_SHORT = {
    "d": r"\d{1,20}",  # a uint64: PyTorch counts the elements of a coalesced call as 2**64 - 1
    "i": r"-?\d{1,19}",
    "w": r"\w{1,128}",
    "s": r"\S{1,256}?",
    "S": r"\S{1,256}",
    "h": r"0x[0-9a-f]{1,16}",
    "g": r"[0-9a-fA-F:.]{2,45}",
    "a": r".{1,256}",
}
_PLACEHOLDER = re.compile(r"<(\w+):(\w)>")


def compiled(text: str, flags: int = 0) -> re.Pattern[str]:
    r"""A regular expression in which ``<name:kind>`` stands for a captured value.

    >>> compiled("rank <rank:d>").search("at rank 12").groupdict()
    {'rank': '12'}
    """
    return re.compile(_PLACEHOLDER.sub(lambda m: f"(?P<{m[1]}>{_SHORT[m[2]]})", text), flags)


@dataclass(frozen=True, slots=True)
class Pattern:
    """One kind of line.

    ``needle`` is a literal that every such line contains: it is looked for first, and where it
    stands the expression is tried. ``details`` are looked for by themselves in what follows it,
    each at its first place. Fields that were not found are left out.
    """

    name: str
    needle: str
    expression: str
    layer: Layer
    blame: Blame
    details: tuple[str, ...] = ()
    flags: int = 0

    def fields(self, text: str) -> dict[str, str] | None:
        """What it captures in a text, or None where it is not such a line."""
        if self.needle not in text:
            return None
        head, *details = _expressions(self)
        match = head.search(text)
        if match is None:
            return None
        found: dict[str, Any] = match.groupdict()
        for detail in details:
            if more := detail.search(text, match.end()):
                found |= more.groupdict()
        return {name: value for name, value in found.items() if value is not None}


@cache
def _expressions(pattern: Pattern) -> tuple[re.Pattern[str], ...]:
    return tuple(compiled(text, pattern.flags) for text in (pattern.expression, *pattern.details))
