"""All scenarios that can be scored: the suite's, and worlds of other authors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from evaluation.independent import WORLDS
from evaluation.independent.run import scenario_of
from simulator.fleet import Scenario, load_scenario, scenario_ids


def known_ids() -> tuple[str, ...]:
    """Their ids, the suite's first."""
    return (*scenario_ids(), *WORLDS)


def scenario(name: str) -> Scenario:
    """What is known of one before it is rendered.

    ValueError lists the ids there are.
    """
    return scenario_of(name, WORLDS[name]) if name in WORLDS else load_scenario(name)


@cache
def every_scenario() -> Mapping[str, Scenario]:
    """All by id: they are asked for by the thousand, and never change."""
    return {name: scenario(name) for name in known_ids()}
