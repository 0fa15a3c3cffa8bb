"""Which detectors can judge a history, and what the others need."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from detectors import PAGES
from pipeline.store.query.coverage import Coverage


@dataclass(frozen=True, slots=True)
class Judgeable:
    """A detector on a history: on how many of its nodes it can judge, ``lacks``, what is missing
    where it cannot, and ``unseen``, parts that it cannot see where it can, in words.
    """

    name: str
    nodes: int
    of: int
    lacks: tuple[str, ...]
    unseen: tuple[str, ...] = ()

    @property
    def is_judged(self) -> bool:
        """Whether it can judge any node."""
        return self.nodes > 0

    @property
    def words(self) -> str:
        """What a report says of it."""
        if not self.is_judged:
            return f"not judged: needs {'; '.join(self.lacks)}"
        words = ["judged"]
        if self.nodes < self.of:
            lacks = "; ".join(self.lacks)
            words = [f"judged on {self.nodes} of {self.of} nodes; elsewhere needs {lacks}"]
        return ", ".join([*words, *(f"except {one}" for one in self.unseen)])


def judgeable(found: Coverage) -> list[Judgeable]:
    """Every detector on the nodes of a history."""
    nodes = sorted({*found.columns, *found.sources})
    return [_on(name, nodes, found) for name in PAGES]


def _on(name: str, nodes: Collection[str], found: Coverage) -> Judgeable:
    needs = PAGES[name].needs
    kinds = {column.partition(".")[0] for group in needs.columns for column in group}
    every_s = max((found.every_s[kind] for kind in kinds if kind in found.every_s), default=0.0)
    lacks = dict.fromkeys(needs.lacking((), (), 0.0) if not nodes else ())
    unseen: dict[str, None] = {}
    count = total = 0
    for node in nodes:
        own = found.columns.get(node, set()), found.sources.get(node, set())
        lacking = list(needs.lacking(*own, round(every_s)))
        lacks.update(dict.fromkeys(lacking))
        if not lacking:
            unseen.update(dict.fromkeys(needs.unseen(*own)))
        total, count = total + 1, count + (not lacking)
    return Judgeable(name, count, total, tuple(lacks), tuple(unseen))
