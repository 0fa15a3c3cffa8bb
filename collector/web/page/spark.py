"""Sparklines: the last minutes of one number as a small line, from zero to
the most that it can be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from collector.web.page.markup import Html, el

HEIGHT = 20
MISSING = -1


def spark(values: NDArray[np.float32], top: float | None, label: str) -> Html:
    """The line through values, (x,), NaN = nothing was read, which is a gap.

    ``top`` is the value at its full height, None: the greatest of them.
    """
    full = top or float(np.nanmax(values, initial=0.0)) or 1.0
    runs = list(_runs(_heights(values / full)))
    return el(
        "svg",
        el(
            "path",
            class_="area",
            d="".join(
                f"M{run[0][0]} {HEIGHT}{_line(run, 'L')}L{run[-1][0]} {HEIGHT}z" for run in runs
            ),
        ),
        el(
            "path",
            class_="line",
            d="".join(f"{_line(run, 'M')}{'' if len(run) > 1 else 'h0'}" for run in runs),
        ),
        el("path", class_="cursor", d=""),
        class_="spark",
        viewBox=f"0 0 {max(len(values) - 1, 1)} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )


def packed(values: NDArray[np.float32], write: Callable[[float], str]) -> str:
    """The values in words, for page.js: without their unit, equal ones in a row counted.

    >>> packed(np.array([np.nan, np.nan, 3, 3.1], np.float32), "{:.0f} W".format)
    '*2,3*2'
    """
    words = ("" if np.isnan(v) else write(float(v)).rpartition(" ")[0] for v in values)
    runs = ((word, sum(1 for _ in run)) for word, run in groupby(words))
    return ",".join(word if count == 1 else f"{word}*{count}" for word, count in runs)


def _heights(shares: NDArray[np.float32]) -> list[int]:
    """Down from the top, as SVG counts; a pixel is left above and below for the line itself.

    MISSING where there is none.
    """
    down = HEIGHT - 1 - np.rint(np.clip(shares, 0, 1) * (HEIGHT - 2))
    heights: list[int] = np.where(np.isnan(shares), MISSING, down).astype(int).tolist()
    return heights


def _runs(heights: Sequence[int]) -> Iterator[list[tuple[int, int]]]:
    """Points without a gap between them; of equal heights in a row only the first and the last."""
    run: list[tuple[int, int]] = []
    for x, y in enumerate(heights):
        if y == MISSING:
            if run:
                yield run
            run = []
        elif len(run) > 1 and run[-1][1] == run[-2][1] == y:
            run[-1] = (x, y)
        else:
            run.append((x, y))
    if run:
        yield run


def _line(run: Sequence[tuple[int, int]], first: str) -> str:
    """Through the points.

    >>> _line([(0, 19), (7, 19), (8, 1)], "M")
    'M0 19L7 19L8 1'
    """
    return first + "L".join(f"{x} {y}" for x, y in run)
