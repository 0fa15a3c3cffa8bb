"""A live gateway's incidents are found again from the stores, over a real NATS server: the small
form of benchmarks/fleet_day.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.fleet_day import Day
from simulator.fleet.every import Pace, every_fault

pytestmark = pytest.mark.integration


def test_live_incidents_are_those_of_a_replay(tmp_path: Path) -> None:
    """Every update of every incident of two gateways, with its device, times, severity and
    findings: where nodes are read every 15 s to a minute, one batch in fifty is lost, and the
    gateway that reports is killed in the middle and goes on from its snapshot.
    """
    paces = (Pace((1, 4), 30.0), Pace((2,), 60.0))
    names = ("F24", "F25", "F15")
    run, _ = every_fault(3, nodes=6, days=2.5 / 24, names=names, paces=paces)
    outcome = Day(run, tmp_path, lost=0.02).outcome()
    assert [*outcome.differences()] == []
    last = {one.id: one for one in outcome.replayed}
    assert {"hang", "power_limit"} <= {one.fault.partition("/")[0] for one in last.values()}
