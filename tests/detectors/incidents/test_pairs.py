"""The matrix of pairs: no fault is swallowed by another one, and what is joined follows from the
causal edges alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from detectors.faults import FAULTS, causes
from detectors.faults.causes import EDGES, Edge, is_named
from detectors.incidents.book import OpenIncident
from detectors.incidents.evidence import Evidence
from detectors.incidents.placing import Placing
from detectors.incidents.summary import name_of
from pipeline.finding import Finding
from tests import golden
from tests.detectors.incidents.pairs import (
    DELAYS_S,
    RELATIONS,
    Beginning,
    Kind,
    Pair,
    happen,
    kinds,
    on_each_level,
    outcome,
    related,
)
from tests.detectors.incidents.story import Story

pytestmark = pytest.mark.slow

FIRST = tuple(kind for kind in kinds() if kind.fault.severity != "record")
# The relation in which an edge joins two devices.
WHERE = {
    "device": ("same device",),
    "link": ("other end",),
    "gpu": ("same device", "other end"),
    "job": ("same job",),
}


def grid(relation: str, delay_s: int) -> str:
    """A line for each first fault, a sign for each second one."""
    lines = []
    for first in FIRST:
        beginning = Beginning(first, delay_s)
        signs = (
            outcome(*beginning.then(second, relation))
            if relation in related(first, second)
            else " "
            for second in kinds()
        )
        lines.append(f"{first.name:32}{''.join(signs)}")
    return "\n".join([f"second: {' '.join(kind.name for kind in kinds())}", *lines]) + "\n"


def expected(pair: Pair) -> str:
    """The sign of a pair in the golden file."""
    text = (golden.FOLDER / _file(pair.relation, pair.delay_s)).read_text(encoding="utf-8")
    line = text.splitlines()[1 + FIRST.index(pair.first)]
    return line[32 + kinds().index(pair.second)]


def _file(relation: str, delay_s: int) -> str:
    return f"pairs/{relation.replace(' ', '_')}_{delay_s}s.txt"


@pytest.mark.parametrize("delay_s", DELAYS_S)
@pytest.mark.parametrize("relation", RELATIONS)
def test_the_incidents_of_a_pair_follow_from_the_table(relation: str, delay_s: int) -> None:
    """As the golden file has them, whose difference is the review of a change of the table."""
    golden.check(_file(relation, delay_s), grid(relation, delay_s))


@pytest.mark.parametrize("first", FIRST, ids=lambda kind: kind.name)
def test_each_broken_device_is_named_until_it_is_repaired(first: Kind) -> None:
    """As the root of an open incident, or in its summary; also after the other one was repaired."""
    beginning = Beginning(first, 30)
    for second in FIRST:
        for relation in related(first, second):
            story, one, other = beginning.then(second, relation)
            assert _named(story, one), (second.name, relation)
            assert _named(story, other), (second.name, relation)
            story.clears(one)
            story.wait(1200, step=300)
            assert _named(story, other), (second.name, relation, "first repaired")
            assert any(other.id in incident.findings for incident in story.fusion.open())


def _named(story: Story, finding: Finding) -> bool:
    """A symptom is named by what causes it."""
    device = finding.device
    return any(
        incident.root == device
        or name_of(device, incident.root) in incident.summary
        or (finding.id in incident.findings and _explained(finding, incident.fault))
        for incident in story.fusion.open()
    )


def _explained(finding: Finding, fault: str) -> bool:
    return any(is_named(edge.cause, fault) for edge in causes.edges_to(finding.fault))


@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: f"{edge.cause}-{edge.where}-{edge.effect}")
def test_without_an_edge_the_matrix_differs(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    """No edge is there for nothing."""
    fewer = tuple(each for each in EDGES if each is not edge)
    assert any(outcome(*happen(pair)) != _with(fewer, pair, monkeypatch) for pair in _pairs(edge))


def _with(edges: tuple[Edge, ...], pair: Pair, monkeypatch: pytest.MonkeyPatch) -> str:
    """The sign of a pair if the table had these edges."""
    with monkeypatch.context() as patch:
        patch.setattr(causes, "EDGES", edges)
        causes.forget()
        try:
            return outcome(*happen(pair))
        finally:
            patch.undo()
            causes.forget()


def _pairs(edge: Edge) -> Iterator[Pair]:
    """Pairs of a cause and an effect of this edge."""
    for first in _all_of(edge.cause):
        if first.fault.severity != "record":
            for second in _all_of(edge.effect):
                for relation in WHERE.get(edge.where, ("same node",)):
                    if relation in related(first, second):
                        yield Pair(first, second, relation, 1)
                        yield Pair(first, second, relation, 540)


def _all_of(name: str) -> list[Kind]:
    """A fault, or one of a class, on each kind of device that it is found on."""
    rows = [row for row in FAULTS.values() if is_named(name, row.name)]
    return [kind for row in rows for kind in on_each_level(row)]


def test_with_a_window_of_ten_minutes_the_matrix_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is near in time is not a cause."""
    cause = Placing.cause

    def nearby(self: Placing, one: Evidence) -> OpenIncident | None:
        recent = [each for each in self._near(one) if one.at_ns - each.evidence_ns <= 600 * 10**9]
        return cause(self, one) or next(iter(recent), None)

    monkeypatch.setattr(Placing, "cause", nearby)
    pairs = [Pair(FIRST[0], second, "same node", 540) for second in FIRST]
    assert any(outcome(*happen(pair)) != expected(pair) for pair in pairs)
