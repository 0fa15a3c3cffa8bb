"""Plots as SVG, written by hand: panels of lines over time, one below the other.

A line is broken where readings are missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from html import escape
from itertools import pairwise

import polars as pl

WIDTH, HEIGHT = 960, 260  # of a panel, in pixels
LEFT, RIGHT, TOP, BOTTOM = 78, 190, 34, 30  # room for numbers, legend, title and times
MAX_LINES = 16  # in a legend; further lines are drawn without a name
# Okabe and Ito's palette (jfly.uni-koeln.de/color), distinguishable with any colour
# vision; then dashed.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999")
TICKS = tuple(
    timedelta(seconds=s)
    for s in (1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200, 86400, 604800)
)


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: ``rows`` has columns time (with zone), name of the line, value (float64); ``dots``
    draws points without lines; ``mark`` draws a line at a time (unix time, us), which is shown
    where it lies beyond the rows too.
    """

    title: str
    unit: str
    rows: pl.DataFrame
    dots: bool = False
    mark: int | None = None

    def named(self, name: str) -> Panel:
        """With one name for its line."""
        return replace(self, rows=self.rows.with_columns(name=pl.lit(name)))


def svg(panels: Sequence[Panel]) -> str:
    """The panels as one SVG document."""
    height = HEIGHT * max(len(panels), 1)
    body = "".join(_panel(panel, number * HEIGHT) for number, panel in enumerate(panels))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 '
        f'{WIDTH} {height}" font-family="sans-serif" font-size="12"><rect width="100%" '
        'height="100%" fill="#fff"/>'
        f"{body}</svg>\n"
    )


def _panel(panel: Panel, top: int) -> str:
    rows = panel.rows.filter(pl.col("value").is_finite())
    head = (
        f'<text x="{LEFT}" y="{top + 20}" '
        f'font-weight="bold">{escape(panel.title)}{_in(panel.unit)}</text>'
    )
    if rows.is_empty():
        return (
            f'{head}<text x="{LEFT}" y="{top + HEIGHT // 2}" '
            'fill="#666">nothing in this time</text>'
        )
    scale = _Scale(rows, top, panel.mark)
    mark = "" if panel.mark is None else scale.mark(panel.mark)
    return head + "".join((*scale.grid(), mark, *_lines(panel, rows, scale)))


def _in(unit: str) -> str:
    return f" ({escape(unit)})" if unit else ""


class _Scale:
    """From time and value to pixels."""

    def __init__(self, rows: pl.DataFrame, top: int, mark: int | None = None) -> None:
        times, values = rows["time"].dt.timestamp("us"), rows["value"]
        self._top = top
        self._first, last = (int(t) for t in (times.min() or 0, times.max() or 0))  # type: ignore[arg-type] # int64 column
        if mark is not None:
            self._first, last = min(self._first, mark), max(last, mark)
        self._last = last if last > self._first else self._first + 1_000_000
        low, high = (float(v) for v in (values.min() or 0.0, values.max() or 0.0))  # type: ignore[arg-type] # float64 column
        self.ticks = nice(min(low, 0.0) if low < high / 2 or low == high else low, high)

    def x(self, time_us: int) -> float:
        """Pixels from the left."""
        return LEFT + (time_us - self._first) / (self._last - self._first) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """Pixels from the top."""
        low, high = self.ticks[0], self.ticks[-1]
        return self._top + HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def mark(self, time_us: int) -> str:
        """A line at a time."""
        x, low, high = self.x(time_us), self.y(self.ticks[0]), self.y(self.ticks[-1])
        at = f'x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}"'
        return f'<line {at} stroke="#c00" stroke-dasharray="4 3"/>'

    def grid(self) -> Iterator[str]:
        """Lines and numbers of both axes."""
        for tick in self.ticks:
            y = self.y(tick)
            yield (
                f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
            )
            yield (
                f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" '
                f'fill="#444">{number(tick)}</text>'
            )
        for time, word in moments(self._first, self._last):
            x = self.x(time)
            bottom = self._top + HEIGHT - BOTTOM
            yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 4}" stroke="#444"/>'
            yield (
                f'<text x="{x:.1f}" y="{bottom + 17}" text-anchor="middle" '
                f'fill="#444">{word}</text>'
            )


def _lines(panel: Panel, rows: pl.DataFrame, scale: _Scale) -> Iterator[str]:
    for number_of, ((name,), line) in enumerate(
        rows.sort("name", "time").group_by("name", maintain_order=True)
    ):
        colour, dash = (
            COLOURS[number_of % len(COLOURS)],
            ' stroke-dasharray="5 3"' if number_of >= len(COLOURS) else "",
        )
        points = list(
            zip(line["time"].dt.timestamp("us").to_list(), line["value"].to_list(), strict=True)
        )
        if panel.dots:
            yield from (
                f'<circle cx="{scale.x(t):.1f}" cy="{scale.y(v):.1f}" r="3" fill="{colour}"/>'
                for t, v in points
            )
        else:
            yield (
                f'<path d="{path(points, scale)}" fill="none" stroke="{colour}" '
                f'stroke-width="1.3"{dash}/>'
            )
        if number_of < MAX_LINES:
            y = scale.y(scale.ticks[-1]) + 6 + 13 * number_of
            yield (
                f'<line x1="{WIDTH - RIGHT + 8}" x2="{WIDTH - RIGHT + 26}" y1="{y:.1f}" '
                f'y2="{y:.1f}" stroke="{colour}" stroke-width="2"{dash}/>'
            )
            yield f'<text x="{WIDTH - RIGHT + 30}" y="{y + 4:.1f}">{_words(str(name))}</text>'


def _words(name: str) -> str:
    """A name as XML may hold it: what is stored may be hostile."""
    return escape("".join(c if c.isprintable() else "?" for c in name[:28]))


def path(points: Sequence[tuple[int, float]], scale: _Scale) -> str:
    """SVG path of a line; it is broken where more than two buckets are missing."""
    steps = sorted(b - a for (a, _), (b, _) in pairwise(points))
    usual = steps[len(steps) // 2] if steps else 0
    parts, before = [], None
    for time, value in points:
        move = "M" if before is None or time - before > 3 * usual else "L"
        parts.append(f"{move}{scale.x(time):.1f} {scale.y(value):.1f}")
        before = time
    if len(points) == 1:
        parts.append("h1")
    return "".join(parts)


def nice(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers that enclose a range.

    >>> nice(0.0, 73.2), nice(5.0, 5.0)
    ([0.0, 20.0, 40.0, 60.0, 80.0], [5.0, 5.2, 5.4, 5.6, 5.8, 6.0])
    """
    largest = max(abs(low), abs(high))
    if high - low <= max(largest * 1e-9, 1e-300):  # no range, or none that floats can divide
        high = low + max(1.0, largest * 1e-6)
    raw = (high - low) / about
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * k for k in (1, 2, 2.5, 5, 10, 20) if (high - low) / (size * k) <= about)
    first, last = math.floor(low / step), math.ceil(high / step)
    digits = max(0, 2 - math.floor(math.log10(step)))
    return [round(i * step, digits) for i in range(first, last + 1)]


def number(value: float) -> str:
    """A number for people.

    >>> number(1500.0), number(2_500_000.0), number(0.25)
    ('1500', '2.5M', '0.25')
    """
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == 'k' else size):g}{letter}"
    return f"{value:g}"


def moments(first_us: int, last_us: int) -> Iterator[tuple[int, str]]:
    """Times to write below an axis, in UTC: at most eight, at whole minutes, hours or days."""
    span = last_us - first_us
    step = next(
        (t for t in TICKS if span / (t.total_seconds() * 1e6) <= 8),
        TICKS[-1] * math.ceil(span / 8 / 604_800e6 or 1),
    )
    size = round(step.total_seconds() * 1e6)
    form = (
        "%H:%M:%S"
        if size < 60_000_000
        else "%H:%M"
        if size < 86_400_000_000 and span <= 86_400_000_000
        else "%d %b %H:%M"
        if size < 86_400_000_000
        else "%d %b"
    )
    for time in range(-(-first_us // size) * size, last_us + 1, size):
        yield time, datetime.fromtimestamp(time / 1e6, UTC).strftime(form)
