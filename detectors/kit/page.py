"""What a detector's page contains beyond its code: the formula in symbols, where it comes from,
what to look at, and what to do next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Default(NamedTuple):
    """What a detector judges by: names, values as displayed, and why."""

    names: str
    value: str
    why: str


class Shown(NamedTuple):
    """A column of frames in which the evidence of a finding can be seen."""

    kind: str
    column: str


def gpu_columns(*columns: str) -> tuple[Shown, ...]:
    """Columns of GPUs."""
    return tuple(Shown("gpu", column) for column in columns)


def port_columns(*columns: str) -> tuple[Shown, ...]:
    """Columns of InfiniBand and RoCE ports."""
    return tuple(Shown("ib_port", column) for column in columns)


@dataclass(frozen=True, slots=True)
class Page:
    """A page.

    ``formula`` in symbols or words, ``sources`` as names or URLs, ``shows`` in the order of their
    worth, ``next_step`` for operators, ``clears`` when a finding ends, ``scored_as`` the classes of
    the scenario suite that it is judged by, or in ``unscored`` why there is none; ``limits`` what
    is in a table of the detector and not in a constant. The rest (what it judges, its other
    defaults, what it accepts) is its own docstring and constants.
    """

    formula: str
    sources: tuple[str, ...]
    shows: tuple[Shown, ...]
    next_step: str
    clears: str
    scored_as: tuple[str, ...] = ()
    unscored: str = ""
    limits: tuple[Default, ...] = ()
