"""Template: a page whose series names are joined once, and whose values are
filled in for every scrape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from pipeline.exposition.text import Family

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Block:
    """A family with its series in page order: the series' text and the index of its cell."""

    family: Family
    series: tuple[tuple[bytes, int], ...]


class _Layout:
    """The parts of a page for one format and one set of present cells."""

    def __init__(
        self, blocks: Sequence[Block], present: NDArray[np.bool_], *, openmetrics: bool
    ) -> None:
        self.parts: list[bytes] = []
        self.duplicates = 0
        shown = present.tolist()
        picked: list[int] = []
        for block in blocks:
            lead = b"\n" + block.family.header(openmetrics=openmetrics)
            seen: set[bytes] = set()
            for name, cell in block.series:
                if not shown[cell]:
                    continue
                if name in seen:
                    self.duplicates += 1
                    continue
                seen.add(name)
                self.parts += (lead + name + b" ", b"")
                picked.append(cell)
                lead = b"\n"
        self.series = len(picked)
        if picked:
            self.parts[0] = self.parts[0][1:]
            self.parts.append(b"\n")
        self._pick = itemgetter(*picked) if len(picked) > 1 else None
        self._picked = picked

    def join(self, texts: Sequence[bytes]) -> bytes:
        if not self._picked:
            return b""
        self.parts[1::2] = self._pick(texts) if self._pick else [texts[self._picked[0]]]
        return b"".join(self.parts)


class Template:
    """Blocks of one generation of label sets.

    A family stands once; of two series with one name the second is dropped.
    """

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._blocks = tuple(blocks)
        self._present: NDArray[np.bool_] | None = None
        self._layouts: dict[bool, _Layout] = {}
        self.series = 0
        self.duplicates = 0

    def render(
        self, texts: Sequence[bytes], present: NDArray[np.bool_], *, openmetrics: bool = False
    ) -> bytes:
        """The page, with a newline at its end; empty where no cell is present.

        Sets ``series`` and ``duplicates``.
        """
        if self._present is None or not np.array_equal(present, self._present):
            self._present = present.copy()
            self._layouts.clear()
        layout = self._layouts.get(openmetrics)
        if layout is None:
            layout = self._layouts[openmetrics] = _Layout(
                self._blocks, present, openmetrics=openmetrics
            )
        self.series, self.duplicates = layout.series, layout.duplicates
        return layout.join(texts)
