"""Tables and colours where standard output is a terminal, plain text everywhere else.

rich is imported only for a terminal: scripts, pipes and the agent never pay for it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

from pipeline.text_table import GAP, Row, text_table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

MAX_ROWS = 200  # of a table that rich draws, at 0.2 ms a cell
MAX_WIDTH = 1 << 16
STYLES = {"page": "bold red", "ticket": "yellow"}  # a cell that is nothing but this word


def is_terminal(stream: TextIO) -> bool:
    """True where an operator watches and the cursor can be moved."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown")


def console(stream: TextIO) -> Console:
    """Rich's console for a terminal: text as it is, no colours where NO_COLOR is set."""
    from rich.console import Console  # noqa: PLC0415 - terminals only

    return Console(file=stream, markup=False, emoji=False, highlight=False)


def plain(text: str) -> str:
    r"""One line without control characters: what a job or a store says must not write on the
    terminal of an operator.

    >>> plain("a\x1b[2Jb\n")
    'a\\x1b[2Jb\\x0a'
    """
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def table(
    head: Row, rows: Sequence[Row], right: Sequence[bool], out: TextIO | None = None
) -> Iterator[str]:
    """The text of a table for a stream (standard output); ``right`` marks columns of numbers.

    On a terminal it has a bold head, coloured severities, and prose folded inside its column.
    """
    out = out or sys.stdout
    if is_terminal(out) and len(rows) <= MAX_ROWS:
        screen, drawn = console(out), _drawn(head, rows, right)
        unbounded = screen.options.update(max_width=MAX_WIDTH)
        if screen.measure(drawn, options=unbounded).minimum <= screen.width:
            with screen.capture() as text:
                screen.print(drawn)
            yield text.get()
            return
    yield from text_table(head, rows, right)


def _drawn(head: Row, rows: Sequence[Row], right: Sequence[bool]) -> Table:
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, padding=(0, len(GAP), 0, 0), header_style="bold")
    for i, (name, number) in enumerate(zip(head, right, strict=True)):
        cells = [name, *(row[i] for row in rows)]
        prose = any(cell.count(" ") > 1 for cell in cells)  # no name, number or time
        table.add_column(
            Text(name),
            justify="right" if number else "left",
            no_wrap=not prose,
            min_width=None if prose else max(map(len, cells)),
        )
    for row in rows:
        table.add_row(*(Text(cell, STYLES.get(cell, "")) for cell in row))
    return table
