"""A line of a log, as the reader hands it on."""

from __future__ import annotations

from collector.sources.joblog.lines import Joiner, Line


def line_of(raw: str) -> Line:
    """Without its wrapper; it must be complete."""
    line = Joiner().add(raw)
    assert line is not None, raw
    return line
