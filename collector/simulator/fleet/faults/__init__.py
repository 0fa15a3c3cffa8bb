"""The faults of the fleet, by scenario: each plans its cases. One line here makes a scenario file come alive."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from collector.simulator.fleet.faults import straggler
from collector.simulator.fleet.plan import Plan

FAULTS: Mapping[str, Callable[[Plan], None]] = {
    "F16": straggler.silent_clock_loss,
}
