"""Problems as text and as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from collector.nccl_settings.model import Problem, some


def lines(problems: Sequence[Problem], ranks: int) -> Iterator[str]:
    """Lines for a terminal; ``ranks`` is how many were looked at."""
    for one in problems:
        yield f"{one.level}: {one.why}{_whose(one, ranks)}"
        yield f"    change: {one.change}"
        yield f"    see: {one.reference}"


def document(one: Problem) -> dict[str, Any]:
    """A problem as JSON has it."""
    return {
        "rule": one.rule,
        "level": one.level,
        "why": one.why,
        "change": one.change,
        "reference": one.reference,
        "ranks": list(one.ranks),
    }


def _whose(one: Problem, ranks: int) -> str:
    if not one.ranks or (len(one.ranks) == ranks and ranks > 1):
        return f" (all {ranks} ranks)" if one.ranks else ""
    return f" ({some(one.ranks, 8)})"
