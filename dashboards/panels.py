"""What a panel is, as plain values: its question, its queries, and how the answer looks. grafana.py
turns them into Grafana's own types.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from dashboards.meaning import PLAIN, State, Step
from dashboards.places import Place


class Query(NamedTuple):
    """An expression, and how its series are called (``{{label}}``)."""

    expr: str
    legend: str = ""


class Link(NamedTuple):
    """From a value to a dashboard: the variables to set there, each from a label of the
    series or a column of the row.
    """

    title: str
    uid: str
    variables: tuple[tuple[str, str], ...]


class Column(NamedTuple):
    """A column of a table: the label, or the letter of the query, that fills it; its
    heading and how it looks.
    """

    source: str
    heading: str
    unit: str = ""
    states: tuple[State, ...] = ()
    steps: tuple[Step, ...] = ()
    width: int = 0


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A question and its answer.

    ``about`` says what is shown, and what to make of it. ``unit`` is one of Grafana's. ``steps``
    colour numbers, ``states`` name and colour the numbers 0, 1, 2 ... ``empty`` is shown where
    there is no answer: it must not sound like good news. ``width`` of 24, ``height`` in units of 30
    pixels. ``place`` where something outside points here.
    """

    title: str
    about: str
    queries: tuple[Query, ...]
    unit: str = "short"
    steps: tuple[Step, ...] = PLAIN
    states: tuple[State, ...] = ()
    empty: str = "no data"
    width: int = 12
    height: int = 8
    decimals: int | None = None
    minimum: float | None = None
    maximum: float | None = None
    links: tuple[Link, ...] = ()
    place: Place | None = None


@dataclass(frozen=True, kw_only=True)
class Stat(Panel):
    """Numbers of now.

    ``cells``: one coloured cell per series with its name in it, in the order of their
    labels, for many at a glance.
    """

    cells: bool = False
    width: int = 4
    height: int = 4


@dataclass(frozen=True, kw_only=True)
class Lines(Panel):
    """Numbers over time.

    Series whose name ends in " limit" are drawn as dashed grey lines; ``named`` gives
    others, by their label or else their words, these words and the colour they mean.

    ``shades``: all series in shades of one colour, where each of them means the same.
    ``bars`` stand on each other.
    """

    stacked: bool = False
    logarithmic: bool = False
    bars: bool = False
    legend: bool = True
    named: tuple[State, ...] = ()
    shades: str = ""


@dataclass(frozen=True, kw_only=True)
class Timeline(Panel):
    """States over time, one row per series."""


@dataclass(frozen=True, kw_only=True)
class Heatmap(Panel):
    """How many series have which value, over time; ``bucket`` is the height of a
    cell in the panel's unit.
    """

    bucket: float
    scheme: str = "Oranges"


@dataclass(frozen=True, kw_only=True)
class Table(Panel):
    """Current values, one row per series; ``columns`` in order, ``by`` is the heading it is
    sorted by, largest first.
    """

    columns: tuple[Column, ...]
    by: str = ""
    unit: str = (
        "string"  # text that looks like a number stays as it is; columns of numbers say their own
    )


@dataclass(frozen=True, slots=True)
class Row:
    """A heading between panels."""

    title: str


@dataclass(frozen=True, slots=True)
class Variable:
    """Something the viewer chooses: the values of a ``label`` of a series.

    ``every`` is the value that means all of them.
    """

    name: str
    title: str
    series: str
    label: str
    every: str = ".+"
    one: bool = False  # a single value must be chosen
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One screen, one question (``about``)."""

    uid: str
    title: str
    about: str
    rows: tuple[Row | Panel, ...]
    variables: tuple[Variable, ...]
    since: str = "now-6h"
    incidents: str = ""  # selector of the incidents that are marked in every panel
