"""Leaf switches that die or lose their uplinks, judged by all that a cluster knows."""

from __future__ import annotations

import pytest

from tests.scenarios.test_score_slice import judged

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("scenario", ["F70", "F71", "F72"])
def test_a_leaf_switch_is_named_and_none_of_its_ports(scenario: str) -> None:
    """Dead, dead where only rails are known, and slow: one incident each, in time, and no other."""
    cases, false = judged(scenario, 16, days=0.09)
    assert cases
    assert [case.id for case in cases if not (case.in_time and case.top1)] == []
    assert [case.id for case in cases if case.duplicates or case.misplaced] == []
    assert false == []
