"""The dcgm-exporter dialect: the same frames under DCGM's names, so that a node can
take that exporter's place.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pipeline.clock import Clock
from pipeline.dcgm import derived
from pipeline.dcgm.clock_events import ClockEvents
from pipeline.dcgm.entities import Entity, absent, entities
from pipeline.dcgm.links import LinkEntity, link_entities
from pipeline.dcgm.loose_values import CLOCK_FAMILIES, FACT_OF, LooseValues, Value
from pipeline.dcgm.names import LINK_LEVEL
from pipeline.dcgm.options import NoXids, Options, Xids
from pipeline.dcgm.sheet import Sheet, answering, columns_of
from pipeline.dcgm.shown import Shown, families, label_fields
from pipeline.exposition.latest import Entry, Snapshot
from pipeline.exposition.loose import Labels
from pipeline.exposition.template import Block, Template
from pipeline.exposition.text import series
from pipeline.frame import Frame
from pipeline.observation import Observation

log = logging.getLogger("tocsin.dcgm")
MILLISECOND = 1_000_000


class _Row(NamedTuple):
    """A value that stands in no cell: number of its family, of its entity (links count on behind
    the others), labels, text.
    """

    family: int
    entity: int
    labels: Labels
    text: bytes


class _View(NamedTuple):
    """One snapshot as the dialect sees it."""

    snapshot: Snapshot
    gpus: Entry
    instances: Entry | None
    nvlinks: Entry | None
    entities: list[Entity]
    links: list[LinkEntity]


class _Around(NamedTuple):
    """What values that stand in no cell are worked out from: the frames of GPUs and instances, and
    which GPUs answer, by row.
    """

    node: derived.Node
    inside: Frame | None
    answers: list[bool]


class DcgmDialect:
    """Renders a snapshot as dcgm-exporter would.

    Series names are joined again only when a label of any of them changed.
    """

    def __init__(self, options: Options, clock: Clock, xids: Xids | None = None) -> None:
        self._options = options
        self._shown = families(options.counters, options.compat)
        self._labels = label_fields(options.counters, options.compat)
        self._ids = [s.id for s in self._shown] + [label.id for label in self._labels]
        self._counters = frozenset(s.id for s in self._shown if s.family.type == "counter")
        self._events = ClockEvents(
            options.clock_window_ms * MILLISECOND, options.collect_interval_ms * MILLISECOND
        )
        self._counts_events = bool(CLOCK_FAMILIES & set(self._ids))
        self._loose = LooseValues(options, xids or NoXids(), clock, self._events)
        self._in_cells = {
            i
            for i, s in enumerate(self._shown)
            if s.id in columns_of("gpu") or s.id in columns_of("gpu_instance")
        }
        self._of_links = {i for i, s in enumerate(self._shown) if s.id in LINK_LEVEL}
        known = self._in_cells | self._of_links
        self._in_no_cell = [(i, s.id) for i, s in enumerate(self._shown) if i not in known]
        self._entities_key: Any = None
        self._entities: list[Entity] = []
        self._generation = -1
        self._sheets: dict[str, Sheet] = {}
        self._links: Mapping[tuple[str, str], int] = {}
        self._key: Any = None
        self._template = Template(())
        self._missing: list[str] = []

    def write(self, observation: Observation) -> None:
        """Take note of what depends on the past."""
        if self._counts_events:
            for frame in observation.frames:
                if frame.kind == "gpu":
                    self._events.write(frame)

    def render(
        self, snapshot: Snapshot, *, openmetrics: bool
    ) -> tuple[bytes, int, Mapping[str, int]]:
        """Text, number of series, and samples dropped by reason. Empty while no GPU is known."""
        view = self._view(snapshot)
        if view is None:
            return b"", 0, {}
        self._fill(view)
        around = self._around(view)
        rows = [*self._loose_rows(view, around), *self._link_rows(view)]
        typed = [self._typed(entity, around) for entity in view.entities]
        holders = self._options.jobs.of(snapshot)
        copies = [holders(entity.device) for entity in view.entities]
        key = (
            snapshot.generation,
            view.entities,
            view.links,
            typed,
            copies,
            [row[:3] for row in rows],
        )
        if key != self._key:
            self._key = key
            self._template = Template(list(self._blocks(view, rows, typed, copies)))
        texts = [text for sheet in self._sheets.values() for text in sheet.texts]
        present = [sheet.present for sheet in self._sheets.values()] + [
            np.ones(len(rows), np.bool_)
        ]
        page = self._template.render(
            texts + [row.text for row in rows], np.concatenate(present), openmetrics=openmetrics
        )
        return page, self._template.series, self._dropped()

    def _view(self, snapshot: Snapshot) -> _View | None:
        gpus, instances, nvlinks = (
            next(iter(snapshot.of(kind)), None) for kind in ("gpu", "gpu_instance", "nvlink")
        )
        if gpus is None:
            return None
        present: frozenset[str] = frozenset()
        if instances is not None and instances.fresh:
            there = zip(instances.frame.devices, answering(instances.frame).tolist(), strict=True)
            present = frozenset(device.id for device, answers in there if answers)
        key = (snapshot.generation, present, absent(gpus))
        if key != self._entities_key:
            self._entities_key = key
            style, selection = self._options.style, self._options.selection
            self._entities = entities(
                snapshot, gpus, instances, present, style=style, selection=selection
            )
            self._tell_missing(self._entities)
        links = (
            link_entities(snapshot, nvlinks, self._options.style)
            if nvlinks is not None and self._of_links
            else []
        )
        return _View(snapshot, gpus, instances, nvlinks, self._entities, links)

    def _fill(self, view: _View) -> None:
        entries = {
            entry.frame.kind: entry for entry in (view.gpus, view.instances) if entry is not None
        }
        if view.snapshot.generation != self._generation:
            self._generation = view.snapshot.generation
            self._sheets = {
                kind: Sheet(entry, self._ids, self._counters) for kind, entry in entries.items()
            }
            ends = enumerate(view.nvlinks.frame.devices) if view.nvlinks is not None else ()
            facts = [(row, view.snapshot.facts(link)) for row, link in ends]
            self._links = {(f.get("gpu_uuid", ""), f.get("link", "")): row for row, f in facts}
        for kind, entry in entries.items():
            self._sheets[kind].fill(entry)

    def _around(self, view: _View) -> _Around:
        states = view.gpus.frame
        node = derived.Node(
            states,
            len({e.gpu for e in view.entities}),
            view.nvlinks.frame if view.nvlinks is not None else None,
            self._links,
        )
        return _Around(
            node,
            view.instances.frame if view.instances is not None else None,
            (answering(states) & view.gpus.fresh).tolist(),
        )

    def _loose_rows(self, view: _View, around: _Around) -> Iterator[_Row]:
        """Values of the families that stand in no cell, for every entity."""
        for number, field in self._in_no_cell:
            for place, entity in enumerate(view.entities):
                for value in self._loose_values(field, entity, around):
                    yield _Row(number, place, value.labels, value.text)

    def _loose_values(self, field: int, entity: Entity, around: _Around) -> Iterator[Value]:
        return self._loose.of(
            field, entity, around.node, around.inside, answers=around.answers[entity.gpu_row]
        )

    def _link_rows(self, view: _View) -> Iterator[_Row]:
        if view.nvlinks is None:
            return
        node = derived.Node(view.gpus.frame, 0, view.nvlinks.frame)
        for number in sorted(self._of_links):
            for place, link in enumerate(view.links, len(view.entities)):
                found = derived.link_value(self._shown[number].id, node, link.row)
                if found is not None:
                    yield _Row(number, place, (), b"%d" % int(found))

    def _typed(self, entity: Entity, around: _Around) -> tuple[tuple[str, str, str], ...]:
        """(name on old families, name on new ones, value) of the label-typed fields of an entity;
        unknown ones are absent.
        """
        return tuple(
            (label.name, label.new_name, value)
            for label in self._labels
            if (value := self._label_value(label.id, entity, around))
        )

    def _label_value(self, number: int, entity: Entity, around: _Around) -> str:
        """The value of a field as a label; empty where it is unknown."""
        if number in FACT_OF:
            return entity.facts.get(FACT_OF[number], "")
        if number in derived.DERIVED_IDS:
            values = self._loose_values(number, entity, around)
            return next((value.text.decode() for value in values), "")
        return self._cell_text(number, entity)

    def _cell_text(self, number: int, entity: Entity) -> str:
        sheet = self._sheets["gpu"]
        cell = sheet.cell(number, entity.gpu_row)
        return sheet.texts[cell].decode() if cell >= 0 and sheet.present[cell] else ""

    def _blocks(
        self,
        view: _View,
        rows: Sequence[_Row],
        typed: Sequence[tuple[tuple[str, str, str], ...]],
        copies: Sequence[Sequence[Labels]],
    ) -> Iterator[Block]:
        first = sum(len(sheet) for sheet in self._sheets.values())
        loose: dict[int, list[tuple[int, _Row]]] = {}
        for cell, row in enumerate(rows, first):
            loose.setdefault(row.family, []).append((cell, row))
        for number, shown in enumerate(self._shown):
            found: list[tuple[bytes, int]] = []
            for cell, row in loose.get(number, []):
                if row.entity >= len(view.entities):
                    found.append(
                        (
                            series(
                                shown.family.name,
                                view.links[row.entity - len(view.entities)].labels,
                            ),
                            cell,
                        )
                    )
                    continue
                named = self._named(
                    shown,
                    view.entities[row.entity],
                    typed[row.entity],
                    copies[row.entity],
                    row.labels,
                )
                found += [(name, cell) for name in named]
            if number in self._in_cells:
                for place, entity in enumerate(view.entities):
                    cell = self._cell(shown.id, entity)
                    if cell >= 0:
                        found += [
                            (name, cell)
                            for name in self._named(shown, entity, typed[place], copies[place], ())
                        ]
            yield Block.of(shown.family, found)

    def _cell(self, number: int, entity: Entity) -> int:
        """The cell of a field: an instance's own where DCGM reads it per
        instance, else its GPU's.
        """
        gpus, instances = self._sheets["gpu"], self._sheets.get("gpu_instance")
        if entity.instance_row >= 0 and instances is not None:
            cell = instances.cell(number, entity.instance_row)
            if cell >= 0:
                return len(gpus) + cell
        return gpus.cell(number, entity.gpu_row)

    @staticmethod
    def _named(
        shown: Shown,
        entity: Entity,
        typed: Sequence[tuple[str, str, str]],
        copies: Sequence[Labels],
        labels: Labels,
    ) -> Iterator[bytes]:
        """The series of one value: one per copy.

        Order: own labels, label-typed fields by name, attributes by name.
        """
        fields = sorted((new if shown.new else old, value) for old, new, value in typed)
        for copy in copies:
            yield series(shown.family.name, (*entity.labels, *fields, *sorted((*copy, *labels))))

    def _dropped(self) -> dict[str, int]:
        dropped = {"duplicate": self._template.duplicates}
        for sheet in self._sheets.values():
            for reason, count in sheet.dropped.items():
                dropped[reason] = dropped.get(reason, 0) + count
        return dropped

    def _tell_missing(self, found: Sequence[Entity]) -> None:
        gpus = {dict(e.labels)["gpu"] for e in found}
        missing = self._options.selection.missing_gpus(gpus)
        if missing != self._missing:
            for text in missing:
                log.warning("%s", text)
            self._missing = missing
