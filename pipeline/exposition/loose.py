"""Samples that come and go by themselves: the agent's own numbers, findings, XID
counters, process metrics.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pipeline.exposition.numbers import float_text
from pipeline.exposition.text import Family, series

_MAX_NAMES = 20_000  # names kept between scrapes; beyond it they are joined again

Labels = tuple[tuple[str, str], ...]


class Sample(NamedTuple):
    """One value of one family. An integer keeps all its digits."""

    family: Family
    labels: Labels
    value: float | int


class LoosePage:
    """Renders samples grouped by family; joined names are kept between scrapes."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, Labels], bytes] = {}

    def render(self, samples: Iterable[Sample], *, openmetrics: bool) -> tuple[bytes, int, int]:
        """Text, number of series, and number dropped because another had
        the same name and labels.
        """
        if len(self._names) > _MAX_NAMES:
            self._names.clear()
        families: dict[str, tuple[Family, dict[Labels, bytes]]] = {}
        shown = given = 0
        for family, labels, value in samples:
            _, lines = families.setdefault(family.name, (family, {}))
            given += 1
            if labels not in lines:
                lines[labels] = self._line(family.name, labels, value)
                shown += 1
        parts: list[bytes] = []
        for family, lines in families.values():
            parts.append(family.header(openmetrics=openmetrics))
            parts += lines.values()
        return b"".join(parts), shown, given - shown

    def _line(self, name: str, labels: Labels, value: float) -> bytes:
        key = (name, labels)
        text = self._names.get(key)
        if text is None:
            text = self._names[key] = series(name, labels) + b" "
        number = b"%d" % value if isinstance(value, int) else float_text(value)
        return text + number + b"\n"
