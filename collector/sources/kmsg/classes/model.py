"""What a row of the table of line classes is, and the expressions that rows share.

Every expression is anchored at the start of the text and has no nested repetition: time is linear
in the line's length. What begins a line may be the name of a process, of 15 bytes, and what follows
the name of a file: a row therefore needs more than both could be, or stops at the bracket of a
process id. Group names are attributes of the event (pipeline/catalog/events.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from pipeline.observation import Value

PCI = r"(?P<pci>(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
# a command name is 15 bytes; it may hold brackets and colons, so it is bounded, not excluded
COMM = r"(?P<process>.{0,64})"
# the same, as the whole beginning of a line; dmesg writes what is not printable as \x0a
NAME = r"(?:\\x[0-9a-fA-F]{2}|(?!\\x[0-9a-fA-F]{2}).){0,15}?"
# removable and virtual block devices, whose errors say that a medium or an image is not there
REAL_DEVICE = r"(?!fd\d|sr\d|scd\d|loop\d|ram\d|zram\d)"
BLOCK_DEVICE = rf"(?P<block_device>{REAL_DEVICE}[^,:)\[\]\s]{{1,64}})"

Facts = dict[str, Value]


class LineClass(NamedTuple):
    """One class of lines and the event they give.

    ``first`` are the words that such a line may begin with (up to the first blank); empty where it
    may begin with anything: then ``needle`` is in every such line and spares most lines the
    expression. ``complete`` adds to the attributes (``pci`` is among them) what follows from them.
    ``source`` is the file that prints the line.
    """

    kind: str
    source: str
    first: tuple[str, ...]
    needle: str
    expression: re.Pattern[str]
    constants: tuple[tuple[str, Value], ...] = ()
    complete: Callable[[Facts], Facts] | None = None


def line(
    kind: str,
    source: str,
    begins: str,
    expression: str,
    *,
    needle: str = "",
    complete: Callable[[Facts], Facts] | None = None,
    **constants: Value,
) -> LineClass:
    """A row; ``begins`` has the first words separated by blanks."""
    compiled = re.compile(expression, re.DOTALL)
    first = tuple(begins.split())
    return LineClass(kind, source, first, needle, compiled, tuple(constants.items()), complete)
