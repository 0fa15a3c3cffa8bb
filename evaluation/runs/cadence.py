"""How far apart the readings of a run are: as far as what happens in it allows.

Sites read their nodes each second to each minute: the agent each second, dcgm-exporter each 30 s
by default (``--collect-interval``), Prometheus scrapes each minute by default. A suite read each
ten seconds throughout costs three times as much and is not more like any of them.
"""

from __future__ import annotations

from simulator.fleet import Scenario

STEP_S = 10.0  # where nothing else is said
# The coarsest readings for a fault that is to be known within so many seconds and shown in a run of
# so many days: at least four readings lie before the deadline, at least twenty of a slow one.
COARSER = ((3600.0, 3.0, 60.0), (600.0, 0.0, 30.0), (60.0, 0.0, 15.0))
# What takes days in a healthy fleet (wear, seasons, crash loops), and what takes hours.
HEALTHY = ((3.0, 60.0), (2.0, 30.0))
# A stall differs from a save by when it begins within the job's own rhythm: the plan looks for such
# times on the grid of readings, so that other readings are other cases.
ON_THE_GRID = frozenset({"F40", "F45", "F50", "F51", "F52", "F53", "F56", "F85"})
# A node counts as frozen after a number of readings that repeat: each 15 s they take longer (120 s)
# than the deadline of 100 s.
BY_READINGS = frozenset({"F29"})


def step_of(scenario: Scenario) -> float:
    """Seconds between two readings of a run of a scenario; of worlds of other authors, which say
    it themselves, it has no effect.
    """
    if scenario.kind == "healthy":
        return next((step for days, step in HEALTHY if scenario.days >= days), STEP_S)
    if scenario.verdict is None or scenario.id in ON_THE_GRID | BY_READINGS:
        return STEP_S
    return next(
        (
            step
            for by_s, days, step in COARSER
            if scenario.verdict.detect_by_s >= by_s and scenario.days >= days
        ),
        STEP_S,
    )
