"""One shape per level: colour is never the only sign.

And the mark of the program, as the icon of the page in the colour of its verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from collector.web.levels import Level
from collector.web.page.markup import Html, el

# Paths in a square of 16.
_SHAPES: Mapping[Level, str] = {
    "bad": "M5 1h6l4 4v6l-4 4H5l-4-4V5zM5.5 5.5l5 5m0-5l-5 5",
    "warn": "M8 1.5L15.2 14.5H.8zM8 6v4m0 2v.2",
    "blind": "M1 8s2.5-4.5 7-4.5S15 8 15 8s-2.5 4.5-7 4.5S1 8 1 8zM2.5 14l11-12",
    "out": "M1.5 8a6.5 6.5 0 1 0 13 0a6.5 6.5 0 1 0-13 0M6 5.5v5m4-5v5",
    "note": "M1.5 8a6.5 6.5 0 1 0 13 0a6.5 6.5 0 1 0-13 0M8 7.5v3.7m0-6.4v.2",
    "ok": "M1.5 8a6.5 6.5 0 1 0 13 0a6.5 6.5 0 1 0-13 0M5 8.3l2.1 2.1L11 6",
}
_BELL = "M8 1.5v1M3.5 11.5c1-1 1-2 1-4a3.5 3.5 0 0 1 7 0c0 2 0 3 1 4zM6.7 13.5a1.4 1.4 0 0 0 2.6 0"
# The icon of a browser's tab knows no style sheet: the same colours as in page.css, those of the
# dark scheme, which show on both.
_COLOURS: Mapping[Level, str] = {
    "bad": "#ff6b77",
    "warn": "#f0b354",
    "blind": "#b79cf0",
    "out": "#9aa5b3",
    "note": "#7fb0ff",
    "ok": "#4cc38a",
}


def path(level: Level) -> str:
    """The shape of a level, as an SVG path in a square of 16."""
    return _SHAPES[level]


def icon(level: Level) -> Html:
    """The shape of a level; the words beside it say the same."""
    return el(
        "svg", el("path", d=_SHAPES[level]), class_="icon", viewBox="0 0 16 16", aria_hidden="true"
    )


def bell() -> Html:
    """The mark of the program."""
    return el("svg", el("path", d=_BELL), class_="icon", viewBox="0 0 16 16", aria_hidden="true")


def tab_icon(level: Level) -> str:
    """The mark in the colour of a level, as an address."""
    drawn = el(
        "svg",
        el(
            "path",
            d=_BELL,
            fill="none",
            stroke=_COLOURS[level],
            stroke_width="1.6",
            stroke_linecap="round",
        ),
        xmlns="http://www.w3.org/2000/svg",
        viewBox="0 0 16 16",
    )
    return f"data:image/svg+xml,{quote(drawn)}"
