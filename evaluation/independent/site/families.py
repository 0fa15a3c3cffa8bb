"""The families of worlds: which site, which works, and what breaks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from evaluation.independent.interface import Family, World
from evaluation.independent.site import plan
from evaluation.independent.site.cluster import PER_NODE, Cluster, build
from evaluation.independent.site.faults import Breaker, Trouble
from evaluation.independent.site.interrupted import interrupted
from evaluation.independent.site.life import Life, Site
from evaluation.independent.site.manners import manners
from evaluation.independent.site.room import furnish
from evaluation.independent.site.servers import served
from evaluation.independent.site.too_hot import too_hot

NODES = 16
HOUR_S = 3600.0
LEARNT_S = 16 * HOUR_S  # nothing breaks before
Planner = Callable[[np.random.Generator, Cluster, float], plan.Plan]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a family's worlds are drawn. ``together``: the share of faults that bring another one
    on their node within twenty minutes.
    """

    days: float
    periods: tuple[float, ...]
    planner: Planner = plan.large_trainings
    kinds: tuple[str, ...] = ()
    cases: int = 0
    together: float = 0.0

    def __call__(self, source: np.random.Generator) -> World:
        """One of them."""
        lasts = self.days * 86_400
        cluster = build(source, NODES)
        room = furnish(source, int(cluster.rack_of[-1]) + 1, lasts)
        planned, trouble = self.planner(source, cluster, lasts), Trouble()
        self._break(source, Breaker(source, cluster, planned, trouble), lasts)
        how = manners(source, float(source.choice(self.periods)), lasts)

        works, effects = planned.works, trouble.effects
        events = [*planned.events, *trouble.events]
        site = Site(cluster, room, works, effects, events, how, lasts)
        faults = sorted((*trouble.faults, *too_hot(site)), key=lambda fault: fault.since_s)
        return World(
            cluster.devices,
            how.period_s,
            lasts,
            lambda: Life(site).ticks(),
            tuple(planned.jobs),
            tuple(faults),
        )

    def _break(self, source: np.random.Generator, breaker: Breaker, lasts_s: float) -> None:
        """Each fault is on a node that has none yet and works then."""
        free = [int(n) for n in source.permutation(len(breaker.cluster.nodes))]
        racks: set[int] = set()
        times = np.sort(source.uniform(LEARNT_S, lasts_s - 9 * HOUR_S, self.cases))
        order = source.permutation(self.cases)
        for number, at in zip(order.tolist(), times.tolist(), strict=True):  # jobs fail in order
            kind = self.kinds[number % len(self.kinds)]
            node = next((n for n in free if _works(breaker, n, at, kind, racks)), None)
            if node is None:
                continue
            free.remove(node)
            racks.add(int(breaker.cluster.rack_of[node]))
            first, second = source.permutation(PER_NODE)[:2] + node * PER_NODE
            getattr(breaker, kind)(int(first), at)
            if source.random() < self.together:
                other = str(source.choice(self.kinds))
                getattr(breaker, other)(int(second), at + float(source.uniform(30, 1_200)))


def _works(breaker: Breaker, node: int, at_s: float, kind: str, racks: set[int]) -> bool:
    """Whether a node makes steps then, in a job as large as the fault needs to be seen."""
    nodes = 2 if kind in ("slow_node", "stall") else 1
    if kind == "hot_rack" and int(breaker.cluster.rack_of[node]) in racks:
        return False
    trainings = breaker.plan.trainings(at_s, nodes * PER_NODE)
    return any(node * PER_NODE in breaker.plan.works[number].gpus for number in trainings)


CERTAIN = ("lost", "link_down", "uncorrectable", "power_brake", "remap_failed", "narrow_pcie")
SILENT = ("slow_gpu", "slow_node", "limited", "hot", "frozen", "hot_rack")
FABRIC = ("bit_errors", "flap", "link_down")

FAMILIES: Mapping[str, Family] = {
    "I01": Family(
        "healthy: trainings of whole nodes, with long and short saves, experts and stages",
        NODES,
        2.0,
        0,
        Recipe(2.0, (10.0, 15.0, 30.0)),
    ),
    "I02": Family(
        "healthy: inference, notebooks, sweeps, jobs that crash at once, several on a node",
        NODES,
        2.0,
        0,
        Recipe(2.0, (10.0, 15.0, 30.0), plan.mixed),
    ),
    "I03": Family(
        "what the driver or the kernel knows for certain, some of it in pairs on a node",
        NODES,
        1.5,
        6,
        Recipe(1.5, (10.0,), kinds=CERTAIN, cases=6, together=0.2),
        "node",
    ),
    "I04": Family(
        "slow or hot GPUs, nodes and racks, and readings that freeze",
        NODES,
        1.5,
        6,
        Recipe(1.5, (10.0, 15.0), kinds=SILENT, cases=6),
    ),
    "I05": Family(
        "links with bit errors, links that flap, links that are down",
        NODES,
        1.5,
        6,
        Recipe(1.5, (10.0, 30.0), kinds=FABRIC, cases=6),
        "node",
    ),
    "I06": Family(
        "jobs that stand still, among saves, evaluations and slow starts",
        NODES,
        1.5,
        3,
        Recipe(1.5, (10.0,), kinds=("stall",), cases=3),
    ),
    "I07": Family(
        "healthy: servers of requests of several roles on a node; of half of them no job is known",
        NODES,
        2.0,
        0,
        Recipe(2.0, (10.0, 20.0, 30.0), served),
    ),
    "I08": Family(
        "healthy: trainings that wait for evaluations and data, experts, a user's faulty kernel",
        NODES,
        2.0,
        0,
        Recipe(2.0, (10.0, 20.0, 30.0), interrupted),
    ),
    "I09": Family(
        "slow GPUs in trainings that wait for evaluations and data",
        NODES,
        1.5,
        6,
        Recipe(1.5, (10.0, 15.0), interrupted, ("slow_gpu",), 6),
        "node",
    ),
}
