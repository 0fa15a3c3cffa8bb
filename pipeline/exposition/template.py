"""Template: a page whose series names are joined once, and whose values are
filled in for every scrape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from pipeline.exposition.text import Family

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Block:
    """A family with its series in page order: the index of the cell of each, (series,), and
    ``name``, which makes the text of the nth.

    A text is made when its cell is first present, and shared by all layouts: most cells of a page
    never are, and each takes 200 bytes.
    """

    def __init__(
        self, family: Family, cells: NDArray[np.int32], name: Callable[[int], bytes]
    ) -> None:
        self.family, self.cells, self._name = family, cells, name
        self.lines: list[bytes] = [b""] * len(cells)  # as far as they were made

    @classmethod
    def of(cls, family: Family, series: Iterable[tuple[bytes, int]]) -> Block:
        """Of texts that are there already, each with the index of its cell."""
        names, cells = [], []
        for name, cell in series:
            names.append(name)
            cells.append(cell)
        return cls(family, np.array(cells, np.int32), names.__getitem__)

    def line(self, number: int) -> bytes:
        """What comes between the value before and that of the nth series."""
        line = self.lines[number] = self.lines[number] or b"\n%b " % self._name(number)
        return line


class _Layout:
    """The parts of a page for one format and one set of present cells."""

    def __init__(
        self, blocks: Sequence[Block], present: NDArray[np.bool_], *, openmetrics: bool
    ) -> None:
        self.parts: list[bytes] = []
        self.duplicates = 0
        picked: list[int] = []
        # Present series of all blocks at once: their places in the page, and their cells.
        cells = np.concatenate([np.zeros(0, np.int32), *(block.cells for block in blocks)])
        places = np.flatnonzero(present[cells])
        shown = list(zip(places.tolist(), cells[places].tolist(), strict=True))
        ends = np.cumsum([len(block.cells) for block in blocks], dtype=np.intp)
        begin = first = 0
        for block, last, end in zip(
            blocks, np.searchsorted(places, ends).tolist(), ends.tolist(), strict=True
        ):
            head = b"\n" + block.family.header(openmetrics=openmetrics)
            seen: set[bytes] = set()
            for place, cell in shown[first:last]:
                line = block.lines[place - begin] or block.line(place - begin)
                if line in seen:
                    self.duplicates += 1
                    continue
                self.parts += (line if seen else head + line[1:], b"")
                seen.add(line)
                picked.append(cell)
            begin, first = end, last
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
