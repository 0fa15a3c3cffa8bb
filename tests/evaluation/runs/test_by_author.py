"""Recall in worlds of other authors beside that of the suite."""

from __future__ import annotations

from evaluation.independent import WORLDS
from evaluation.runs.by_author import by_author
from tests.evaluation.runs.results import case, part, result

WORLD = next(iter(WORLDS))


def test_a_class_is_compared_with_the_same_class_of_the_suite() -> None:
    """Per scope and candidate of ours; classes that only the suite has are left out."""
    rows = by_author(
        [
            result(WORLD, part(cases=[case(100.0), case(None, id="b")])),
            result("F16", part(cases=[case(100.0)])),
            result("F01", part(cases=[case(1.0, fault="ecc")])),
        ]
    )
    (row,) = rows
    assert (row["scope"], row["contestant"], row["class"]) == ("fleet", "ours", "straggler")
    assert (row["recall"]["hits"], row["recall"]["of"]) == (1, 2)
    assert (row["suite"]["hits"], row["suite"]["of"]) == (1, 1)


def test_an_agent_alone_is_compared_with_what_an_agent_can_know() -> None:
    """Baselines, half of the magnitude and faults that need the fleet count nowhere."""
    one = [case(100.0)]
    rows = by_author(
        [
            result(WORLD, part(scope="node", cases=one), part("gpud", "node", cases=one)),
            result("F16", part(scope="node", cases=one), magnitude="half"),
            result("F55", part(scope="node", cases=one), needs="fleet"),
        ]
    )
    assert [(row["contestant"], row["suite"]["of"]) for row in rows] == [("ours", 0)]
