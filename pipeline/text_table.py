"""Tables as plain text: for pipes, files and scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Row = Sequence[str]
GAP = "  "


def text_table(head: Row, rows: Sequence[Row], right: Sequence[bool]) -> Iterator[str]:
    r"""Lines, each column as wide as its widest cell; ``right`` marks those aligned to the right.

    >>> print(
    ...     "".join(text_table(("gpu", "W"), [("0", "71.5"), ("12", "9")], (False, True))), end=""
    ... )
    gpu     W
    0    71.5
    12      9
    """
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for cells in (head, *rows):
        padded = (
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(cells, widths, right, strict=True)
        )
        yield GAP.join(padded).rstrip() + "\n"
