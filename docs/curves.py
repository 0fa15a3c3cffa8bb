"""Operating curves as SVG: recall of one class of fault at each budget of false alarms, a line per
contestant, with its interval.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 52, 210, 34, 44
# Okabe and Ito's palette (jfly.uni-koeln.de/color), which people with any
# colour vision can tell apart.
COLOURS = ("#0072b2", "#56b4e9", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#000000", "#999999")


def curve(fault: str, budgets: Sequence[float], rows: Sequence[Mapping[str, Any]]) -> str:
    """One class: rows as ``tocsin score`` writes them under ``curves``, ours first."""
    body = "".join(
        [
            *_frame(fault, budgets),
            *_lines(
                budgets, sorted(rows, key=lambda r: (r["contestant"] != "ours", r["contestant"]))
            ),
        ]
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 '
        f'{WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12"><rect width="100%" '
        f'height="100%" fill="#fff"/>{body}</svg>\n'
    )


def _x(place: int, budgets: Sequence[float], shift: float = 0.0) -> float:
    return LEFT + (place + 0.5 + shift) / len(budgets) * (WIDTH - LEFT - RIGHT)


def _y(recall: float) -> float:
    return TOP + (1 - recall) * (HEIGHT - TOP - BOTTOM)


def _frame(fault: str, budgets: Sequence[float]) -> Iterator[str]:
    yield (
        f'<text x="{LEFT}" y="20" font-weight="bold">{escape(fault)}: recall by the deadline</text>'
    )
    for step in range(6):
        recall = step / 5
        yield (
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{_y(recall):.1f}" '
            f'y2="{_y(recall):.1f}" stroke="#ddd"/>'
        )
        yield f'<text x="{LEFT - 8}" y="{_y(recall) + 4:.1f}" text-anchor="end">{recall:.1f}</text>'
    for place, budget in enumerate(budgets):
        yield (
            f'<text x="{_x(place, budgets):.1f}" y="{HEIGHT - BOTTOM + 18}" '
            f'text-anchor="middle">{budget:g}</text>'
        )
    middle = (LEFT + WIDTH - RIGHT) / 2
    yield (
        f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle" fill="#555">false alarms '
        "allowed per GPU-month</text>"
    )


def _lines(budgets: Sequence[float], rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for number, row in enumerate(rows):
        colour, shift = COLOURS[number % len(COLOURS)], (number - (len(rows) - 1) / 2) * 0.06
        known = [
            (place, p["recall"], p["resolved"])
            for place, p in enumerate(row["points"])
            if p["recall"]["value"] is not None
        ]
        points = " ".join(
            f"{_x(place, budgets, shift):.1f},{_y(r['value']):.1f}" for place, r, _ in known
        )
        yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        for place, r, resolved in known:
            x = _x(place, budgets, shift)
            yield (
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_y(r["low95"]):.1f}" '
                f'y2="{_y(r["high95"]):.1f}" stroke="{colour}"/>'
            )
            fill = (
                colour if resolved else "#fff"
            )  # hollow: too few months were watched to show so low a rate
            yield (
                f'<circle cx="{x:.1f}" cy="{_y(r["value"]):.1f}" r="3" fill="{fill}" '
                f'stroke="{colour}"/>'
            )
        of = known[0][1]["of"] if known else 0
        name = f"{row['contestant']} ({of} cases)"
        yield (
            f'<text x="{WIDTH - RIGHT + 14}" y="{TOP + 12 + 18 * number}" '
            f'fill="{colour}">{escape(name)}</text>'
        )
