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
class Part:
    """Some of what a detector judges, in words, that is seen only where one of these ``columns``
    (``kind.column``) or ``sources`` is.
    """

    what: str
    columns: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Needs:
    """What a detector must be given to judge: readings at most ``every_s`` seconds apart, of each
    group of ``columns`` (``kind.column``) at least one, and where ``sources`` are named one of
    them. Slower readings or fewer columns would find less than is claimed, or find what is not
    there (tests/contracts/test_cadence.py). ``parts`` need more than that.
    """

    every_s: float
    columns: tuple[tuple[str, ...], ...] = ()
    sources: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()

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

    def unseen(self, columns: Container[str], sources: Container[str]) -> Iterator[str]:
        """Parts that are not seen with these, and what they need, in words.

        >>> needs = Needs(30.0, parts=(Part("short errors", ("gpu.a",), ("kmsg",)),))
        >>> list(needs.unseen({"gpu.c"}, ())), list(needs.unseen((), {"kmsg"}))
        (['short errors: needs gpu.a or the source kmsg'], [])
        """
        for part in self.parts:
            seen = any(one in columns for one in part.columns)
            if not seen and not any(one in sources for one in part.sources):
                words = (*part.columns, *(f"the source {one}" for one in part.sources))
                yield f"{part.what}: needs {' or '.join(words)}"


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
