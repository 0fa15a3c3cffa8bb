"""Rows of ``sacctmgr -P show event``, whose reasons are free text: they may hold the bar, ends of
lines, and characters that other programs take for such ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

REASON = "Reason"
BEGIN = ("TimeStart", "Start")  # where it is not the second: Cluster may come first
MIN_CELLS = 4  # cells before the reason: node, begin, end, state
_USER = re.compile(r"[\w.@-]+\(\d+\)")


class Row(NamedTuple):
    """The cells of one event, and the number of its first line."""

    line: int
    cells: list[str]


def event_rows(text: str, names: Sequence[str]) -> Iterator[Row]:
    r"""One row for each event of a text without its head. A row that has too few cells is given
    as it is.

    >>> text = "gpu1|2026-11-01T00:00:00|Unknown|DRAIN|a | b\nc|root(0)"
    >>> [
    ...     row.cells[4:]
    ...     for row in event_rows(text, ["NodeName", "Start", "End", "State", REASON, "User"])
    ... ]
    [['a | b\nc', 'root(0)']]
    """
    begin = next((names.index(name) for name in BEGIN if name in names), 1)
    for line, whole in _events(text, begin):
        yield Row(line, _cells(whole, names))


def _events(text: str, begin: int) -> Iterator[tuple[int, str]]:
    """A line that does not begin an event goes on with the reason of the one before; ``begin`` is
    the cell with the time at which it began.
    """
    first, held = 0, ""
    lines = (line.removesuffix("\r") for line in text.split("\n"))
    for number, line in enumerate(lines, 1):
        if _begins(line, begin) or (not held and line.strip()):
            if held:
                yield first, held.rstrip("\n")
            first, held = number, line
        elif held:
            held += f"\n{line}"
    if held:
        yield first, held.rstrip("\n")


def _begins(line: str, begin: int) -> bool:
    cells = line.split("|")
    if len(cells) < MIN_CELLS:
        return False
    try:
        datetime.fromisoformat(cells[begin])
    except (ValueError, IndexError):
        return False
    return True


def _cells(event: str, names: Sequence[str]) -> list[str]:
    """The first from the left, those after the reason from the right, and all between is it."""
    cells = event.split("|")
    if len(cells) > len(names) and not cells[-1] and _USER.fullmatch(cells[-2]):
        cells.pop()  # of `sacctmgr -p`, which ends each row with a bar
    if REASON not in names or len(cells) <= len(names):
        return cells
    left = names.index(REASON)
    right = len(names) - left - 1
    between = cells[left : len(cells) - right]
    return [*cells[:left], "|".join(between), *cells[len(cells) - right :]]
