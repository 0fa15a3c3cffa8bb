"""The simulated fleet: the scenarios that judge detectors, their frames,
and the truth about them.
"""

from simulator.fleet.run import Run, render
from simulator.fleet.scenario import (
    Parameter,
    Scenario,
    Verdict,
    load_scenario,
    scenario_ids,
)
from simulator.fleet.topology import Topology
from simulator.fleet.truth import Secondary, Truth

__all__ = [
    "Parameter",
    "Run",
    "Scenario",
    "Secondary",
    "Topology",
    "Truth",
    "Verdict",
    "load_scenario",
    "render",
    "scenario_ids",
]
