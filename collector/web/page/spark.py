"""Sparklines: the last minutes of one number as a small line, from zero to the most that it can be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from collector.web.page.markup import Html, el

HEIGHT = 20


def spark(values: Sequence[float | None], top: float | None, label: str) -> Html:
    """The line. ``top`` is the value at its full height, None: the greatest there was. Where nothing was read there is a gap."""
    seen = [value for value in values if value is not None]
    full = top or max(seen, default=0.0) or 1.0
    runs = list(_runs([None if value is None else _height(value / full) for value in values]))
    return el(
        "svg",
        el("path", class_="area", d="".join(f"M{run[0][0]} {HEIGHT}{_line(run, 'L')}L{run[-1][0]} {HEIGHT}z" for run in runs)),
        el("path", class_="line", d="".join(f"{_line(run, 'M')}{'' if len(run) > 1 else 'h0'}" for run in runs)),
        class_="spark",
        viewBox=f"0 0 {max(len(values) - 1, 1)} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )


def _height(share: float) -> int:
    """Half a pixel is left above and below for the line itself."""
    return HEIGHT - 1 - round(min(max(share, 0.0), 1.0) * (HEIGHT - 2))


def _runs(heights: Sequence[int | None]) -> Iterator[list[tuple[int, int]]]:
    """Points without a gap between them; of equal heights in a row only the first and the last."""
    run: list[tuple[int, int]] = []
    for x, y in enumerate(heights):
        if y is None:
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
