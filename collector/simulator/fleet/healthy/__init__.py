"""Healthy life that looks like trouble, by scenario: nothing here is a fault, and nobody may be woken by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from collector.simulator.fleet.plan import Plan


def as_described(plan: Plan) -> None:
    """Nothing beyond what the scenario's file says of the world."""


HEALTHY: Mapping[str, Callable[[Plan], None]] = {
    "H05": as_described,
}
