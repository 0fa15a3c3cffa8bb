"""How the tables of docs/scores.md write numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import floor
from typing import Any

Row = Sequence[object]


def table_of(head: Row, rows: Iterable[Row]) -> Iterator[str]:
    """The lines of a table."""
    yield "| " + " | ".join(map(str, head)) + " |"
    yield "|---" * len(head) + "|"
    for row in rows:
        yield "| " + " | ".join(map(str, row)) + " |"


def rounded_down(share: float) -> str:
    """Two digits, never rounded up: a lower bound must stay one."""
    return f"{floor(share * 100) / 100:.2f}"


def duration(value: float | None) -> str:
    """In the largest unit of which there are two."""
    if value is None:
        return "-"
    for unit, seconds in (("d", 86_400), ("h", 3600), ("min", 60)):
        if value >= 2 * seconds:
            return f"{value / seconds:.3g} {unit}"
    return f"{value:.0f} s"


def three_digits(value: float | None) -> str:
    """A share."""
    return "-" if value is None else f"{value:.3f}"


def two_digits(value: float | None) -> str:
    """A share, or a mean."""
    return "-" if value is None else f"{value:.2f}"


def rate_of(rate: Mapping[str, Any]) -> str:
    """Events per GPU-month, with both bounds."""
    return (
        "-"
        if rate["rate"] is None
        else f"{rate['rate']:.2g} ({rate['low95']:.2g}-{rate['high95']:.2g})"
    )


def share_of(share: Mapping[str, Any]) -> str:
    """How many of how many, with both bounds."""
    if not share["of"]:
        return "-"
    return f"{share['hits']}/{share['of']} ({share['low95']:.2f}-{share['high95']:.2f})"


def counts_of(found: Mapping[str, Mapping[str, Any]]) -> str:
    """How many of how many, by name."""
    return ", ".join(f"{name} ({share['hits']}/{share['of']})" for name, share in found.items())
