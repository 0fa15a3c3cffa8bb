"""Servers of requests: groups of GPUs that work in step, each with a role and a load of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from evaluation.independent.site.cluster import PER_NODE, Cluster
from evaluation.independent.site.draw import between
from evaluation.independent.site.plan import Plan, Scheduler
from evaluation.independent.site.work import Indices, Load, Now

HOUR_S = 3_600.0
MEMORY_S = (120.0, 1_200.0, 7_200.0)  # of the load: bursts, batches, other users


@dataclass(frozen=True, slots=True)
class Role:
    """What requests take of each of its GPUs at full load, as shares."""

    gpus: int
    effort: float
    tensor: float
    dram: float
    traffic: float


# One model over several GPUs; prompts and answers apart, as disaggregated servers have them.
ROLES = (
    Role(4, 0.7, 0.12, 0.6, 0.2),
    Role(2, 0.7, 0.15, 0.5, 0.1),
    Role(2, 1.05, 0.5, 0.45, 0.1),  # prompts: bound by tensor cores and power
    Role(1, 0.45, 0.05, 0.85, 0.0),  # answers: bound by memory
    Role(1, 0.6, 0.2, 0.3, 0.0),
)


@dataclass
class Server:
    """One server. ``night`` are the hours of a day in which it is scaled down to nothing."""

    gpus: Indices
    start_s: float
    end_s: float
    role: Role
    mean: float
    swing: float
    peak_s: float
    burst: float
    night: tuple[float, float]
    seed: int

    def fill(self, load: Load, now: Now) -> None:
        """By the time of the day, with bursts; the same for all of its GPUs."""
        first, last = self.night
        if first <= now.at_s / HOUR_S % 24 < last:
            return
        tide = np.exp(self.swing * (np.cos(2 * np.pi * (now.at_s - self.peak_s) / 86_400) - 1))
        noise = self._wander(now.at_s) + 0.3 * now.source.normal()
        busy = np.clip(self.mean * tide * np.exp(self.burst * noise), 0, 1)
        shares = (self.role.effort, self.role.tensor, self.role.dram, self.role.traffic)
        load.set(self.gpus, busy, *(share * busy for share in shares))

    def _wander(self, at_s: float) -> float:
        """Of unit variance about, from the time alone: every pass over a world is the same."""
        total = 0.0
        for memory in MEMORY_S:
            number, share = divmod(at_s / memory, 1.0)
            ends = [
                np.random.default_rng([self.seed, int(memory), int(number) + k]).normal()
                for k in (0, 1)
            ]
            total += (1 - share) * ends[0] + share * ends[1]
        return float(total / np.sqrt(len(MEMORY_S)))


def served(source: np.random.Generator, cluster: Cluster, lasts_s: float) -> Plan:
    """Servers of several roles on each node, beside notebooks and a small training here and there;
    of half of the nodes nobody reports the jobs.
    """
    scheduler = Scheduler(source, cluster, lasts_s)
    for node in range(len(cluster.nodes)):
        first, end = node * PER_NODE, (node + 1) * PER_NODE
        if source.random() < 0.25:
            scheduler.one_after_another(np.arange(first, first + 4))
            first += 4
        while first < end:
            role = ROLES[source.integers(len(ROLES))]
            gpus = np.arange(first, min(first + role.gpus, end))
            first += role.gpus
            if source.random() < 0.15:
                scheduler.notebooks(gpus)
            else:
                scheduler.plan.add(cluster, _server(source, gpus, role, lasts_s), "serve")
    known = source.random(len(cluster.nodes)) < 0.5
    reported = {
        gpu.id for gpu, node in zip(cluster.gpus, cluster.node_of, strict=True) if known[node]
    }
    return replace(
        scheduler.plan, jobs=[job for job in scheduler.plan.jobs if job.gpus[0] in reported]
    )


def _server(source: np.random.Generator, gpus: Indices, role: Role, lasts_s: float) -> Server:
    sleeps = source.random() < 0.3
    return Server(
        gpus,
        120.0,
        lasts_s + 60,
        replace(role, gpus=len(gpus)),
        between(source, 0.1, 0.95),
        between(source, 0.1, 3),
        source.uniform(9, 21) * HOUR_S,
        between(source, 0.05, 0.8),
        (source.uniform(0, 2), source.uniform(4, 7)) if sleeps else (0.0, 0.0),
        int(source.integers(2**31)),
    )
