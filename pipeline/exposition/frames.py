"""The ``tocsin_*`` families of all frames: one template over the cells of every source."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pipeline.catalog import KINDS, Profile
from pipeline.exposition.cells import Cells
from pipeline.exposition.families import columns_of, device_labels, infos, stays
from pipeline.exposition.latest import Entry, Snapshot
from pipeline.exposition.loose import Labels
from pipeline.exposition.template import Block, Template
from pipeline.exposition.text import Family, series

if TYPE_CHECKING:
    from numpy.typing import NDArray

_INFO_CELLS = 2


class FramePage:
    """Renders the frames of a snapshot; series names are joined again only when a device,
    attribute or source changed.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._generation = -1
        self._sheets: list[_Sheet] = []
        self._template = Template(())

    def render(self, snapshot: Snapshot, *, openmetrics: bool) -> tuple[bytes, int, int]:
        """Text, number of series, and number of series dropped because another had
        the same name and labels.
        """
        if snapshot.generation != self._generation:
            self._generation = snapshot.generation
            self._build(snapshot)
        # The first cells are the 1 of every info series: of what stays, and of
        # what goes with its readings.
        fresh = any(entry.fresh for entry in snapshot.entries if KINDS[entry.frame.kind].fleeting)
        texts, present = [b"1.0"] * _INFO_CELLS, [np.array([True, fresh])]
        for sheet, entry in zip(self._sheets, snapshot.entries, strict=True):
            texts += sheet.fill(entry)
            present.append(sheet.present)
        page = self._template.render(texts, np.concatenate(present), openmetrics=openmetrics)
        return page, self._template.series, self._template.duplicates

    def _build(self, snapshot: Snapshot) -> None:
        self._sheets = [_Sheet(entry, self._profile) for entry in snapshot.entries]
        blocks = [
            Block.of(
                Family(info.name, info.type, info.help),
                [(series(info.name, labels), int(kind.fleeting)) for labels in each],
            )
            for kind, info, each in infos(snapshot.attributes, self._profile)
        ]
        families: dict[str, Family] = {}
        rows: dict[str, _Series] = {}
        first = _INFO_CELLS
        for sheet in self._sheets:
            names = [
                device_labels(device, snapshot.facts(device)) for device in sheet.frame.devices
            ]
            for number, (column, labels) in enumerate(columns_of(sheet.frame.kind, self._profile)):
                metric = column.field.metric
                families.setdefault(metric.name, Family(metric.name, metric.type, metric.help))
                if metric.name not in rows:
                    rows[metric.name] = _Series(metric.name)
                rows[metric.name].add(names, labels, first + number * len(names))
            first += len(sheet.present)
        blocks += [
            Block(family, rows[name].cells(), rows[name].text) for name, family in families.items()
        ]
        self._template = Template(blocks)


class _Series:
    """The series of one family: columns of devices that lie one after the other."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._columns: list[tuple[Sequence[Labels], Labels, int]] = []
        self._ends: list[int] = []

    def add(self, devices: Sequence[Labels], labels: Labels, first: int) -> None:
        """A column: the labels of each device, those of the column, and its first cell."""
        self._columns.append((devices, labels, first))
        self._ends.append((self._ends[-1] if self._ends else 0) + len(devices))

    def cells(self) -> NDArray[np.int32]:
        """The cell of each series, (series,)."""
        each = [
            np.arange(first, first + len(devices), dtype=np.int32)
            for devices, _, first in self._columns
        ]
        return np.concatenate(each)

    def text(self, number: int) -> bytes:
        """The nth series."""
        place = bisect_right(self._ends, number)
        devices, labels, _ = self._columns[place]
        own = devices[number - self._ends[place]]  # counted from the column's end
        return series(self._name, own + labels)


class _Sheet:
    """The cells of one source and kind."""

    def __init__(self, entry: Entry, profile: Profile) -> None:
        self.frame = entry.frame
        columns = [column for column, _ in columns_of(entry.frame.kind, profile)]
        n = len(entry.frame.devices)
        self._cells = Cells(entry.frame.schema, columns, n)
        self._stays = np.repeat(np.array([stays(c.field) for c in columns], np.bool_), n)
        self.present: NDArray[np.bool_] = self._cells.present

    def fill(self, entry: Entry) -> list[bytes]:
        self._cells.fill(entry.frame)
        self.present = self._cells.present if entry.fresh else self._cells.present & self._stays
        return self._cells.texts
