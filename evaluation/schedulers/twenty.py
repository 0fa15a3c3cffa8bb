"""Twenty scenarios that are run whole under each scheduler: faults, and how jobs lie on nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from evaluation.schedulers.deaths import WAYS
from simulator.fleet import Run, load_scenario, render

WHOLE_NODE = (8,)


@dataclass(frozen=True)
class Hours:
    """Hours of a fleet and their jobs. ``scenario`` is the fleet's; ``days`` None are all of its
    own. ``world`` are settings in place of its own, ``cases`` its faults (0: as many as it says).

    ``first`` is the number of the first job, which says its kind with both schedulers. ``parts``
    are GPUs of each node: a job of the fleet is as many jobs, which share its nodes. ``runs`` of a
    job, each queued again when the one before ended; 0: two of each fifth job. ``ways`` are how
    jobs end that nothing else ended, in turn.
    """

    scenario: str
    covers: str
    first: int = 0
    days: float | None = None
    nodes: int = 4
    world: Mapping[str, Any] = field(default_factory=dict)
    cases: int = 0
    parts: tuple[int, ...] = WHOLE_NODE
    runs: int = 0
    ways: tuple[str, ...] = WAYS
    step_s: float = 60.0  # between two readings: as often as the detector in question needs them

    def render(self, seed: int, *, days: float | None = None) -> Run:
        """The run for a seed; ``days`` in place of its own."""
        scenario = load_scenario(self.scenario)
        world = replace(scenario.world, **self.world)
        scenario = replace(scenario, world=world, cases=self.cases or scenario.cases)
        return render(
            scenario, seed, magnitude="range", step_s=self.step_s, days=days or self.days,
            nodes=self.nodes,
        )  # fmt: skip


# Jobs of half an hour on one or two nodes, so that many end in a few hours; longer ones for faults
# that need a job that has settled.
SHORT: Mapping[str, Any] = {
    "job_hours_low": 0.3, "job_hours_high": 0.6, "job_gpus": 8.0, "job_gpus_sigma": 0.5,
    "gap_low_s": 120.0, "gap_high_s": 300.0, "init_low_s": 60.0, "init_high_s": 120.0,
}  # fmt: skip
MIDDLE = {**SHORT, "job_hours_low": 2.0, "job_hours_high": 4.0}
LONG = {**SHORT, "job_hours_low": 3.0, "job_hours_high": 8.0, "job_gpus": 16.0}
QUARTER, HALF = 0.25, 0.4  # days

TWENTY: Mapping[str, Hours] = {
    "deaths": Hours("H00", "seven ways to end", 0, QUARTER, world=SHORT),
    "shared_nodes": Hours(
        "H00",
        "three jobs share each node, one of them has one GPU",
        1,
        QUARTER,
        world=SHORT,
        parts=(1, 3, 4),
    ),
    "crash_loop": Hours(
        "H00",
        "jobs that fail and are queued again four times",
        2,
        QUARTER,
        world=SHORT,
        runs=5,
        ways=("exit", "segfault"),
    ),
    "lost_gpu": Hours(
        "F06", "XID 79 on nodes of two jobs each", 3, QUARTER, world=MIDDLE, cases=2, parts=(4, 4)
    ),
    "programs": Hours("F08", "XIDs of programs, for owners of jobs", 4, HALF, world=LONG, cases=3),
    "burst": Hours("F09", "XIDs of which one hides another", 5, QUARTER, world=MIDDLE, cases=2),
    "uncontained": Hours("F03", "uncontained memory errors", 6, QUARTER, world=MIDDLE, cases=2),
    "dead_rank": Hours(
        "F25", "ranks spin for one that is dead", 7, QUARTER, world=MIDDLE, cases=3, step_s=10.0
    ),
    "stuck_save": Hours(
        "F50", "a rank is stuck in a save", 8, QUARTER, world=MIDDLE, cases=3, step_s=10.0
    ),
    "idle_loader": Hours(
        "F26", "GPUs idle behind a loader", 9, 0.2, world=LONG, cases=3, step_s=10.0
    ),
    "straggler": Hours("F16", "the clock of one GPU", 10, HALF, world=LONG, cases=3),
    "slow_node": Hours("F55", "the clocks of a node", 11, HALF, world=LONG, cases=3, step_s=30.0),
    "slow_rail": Hours("F27", "a port at half its rate", 12, HALF, world=LONG, cases=3),
    "adapter": Hours(
        "F28", "an adapter stops under a job", 13, HALF, world=LONG, cases=3, step_s=30.0
    ),
    "file_server": Hours("F36", "a file server does not respond", 14, HALF, world=LONG, cases=3),
    "panic": Hours("F34", "nodes panic", 15, HALF, world=LONG, cases=3),
    "rank_killed": Hours("F42", "no memory: a rank is killed", 16, HALF, world=LONG, cases=3),
    "brake": Hours(
        "F14", "a node without a power supply", 17, QUARTER, world=MIDDLE, cases=3, step_s=30.0
    ),
    "data": Hours("F80", "starvation: data", 18, QUARTER, world=MIDDLE, cases=3, step_s=10.0),
    "ranks": Hours(
        "F83", "starvation: communication", 19, QUARTER, world=MIDDLE, cases=3, step_s=30.0
    ),
}
