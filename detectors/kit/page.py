"""What a detector's page contains beyond its code: the formula in symbols, where it comes from,
what to look at, and what to do next.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
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


SLACK = 1.2  # scrapes are late by a little


@dataclass(frozen=True, slots=True)
class Needs:
    """What a detector must be given to judge: readings at most ``every_s`` seconds apart, of each
    group of ``columns`` (``kind.column``) at least one, and where ``sources`` are named one of
    them. Slower readings or fewer columns would find less than is claimed, or find what is not
    there (tests/contracts/test_cadence.py).
    """

    every_s: float
    columns: tuple[tuple[str, ...], ...] = ()
    sources: tuple[str, ...] = ()

    def lacking(
        self, columns: Container[str], sources: Container[str], every_s: float
    ) -> Iterator[str]:
        """What is missing of these, in words.

        >>> list(Needs(30.0, (("gpu.a", "gpu.b"),)).lacking({"gpu.c"}, (), 60.0))
        ['gpu.a or gpu.b', 'a reading every 30 s (here 60 s)']
        """
        for group in self.columns:
            if not any(column in columns for column in group):
                yield " or ".join(group)
        if self.sources and not any(source in sources for source in self.sources):
            yield f"the source {' or '.join(self.sources)}"
        if every_s > SLACK * self.every_s:
            yield f"a reading every {self.every_s:g} s (here {every_s:g} s)"


@dataclass(frozen=True, slots=True)
class Page:
    """A page.

    ``needs`` is what it must be given, ``formula`` in symbols or words, ``sources`` as names or
    URLs, ``shows`` in the order of their worth, ``next_step`` for operators, ``clears`` when a
    finding ends, ``scored_as`` the classes of the scenario suite that it is judged by, or in
    ``unscored`` why there is none; ``limits`` what is in a table of the detector and not in a
    constant. The rest (what it judges, its other defaults, what it accepts) is its own
    docstring and constants.
    """

    formula: str
    sources: tuple[str, ...]
    shows: tuple[Shown, ...]
    needs: Needs
    next_step: str
    clears: str
    scored_as: tuple[str, ...] = ()
    unscored: str = ""
    limits: tuple[Default, ...] = ()
