"""The queue of the fleet: jobs of log-normal size on whole nodes, first in, first out, drawn from
the seed before anything runs.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from simulator.fleet.settings import Settings
from simulator.workload import Job, draw_job

GPUS_PER_NODE = 8
DAY_S, FRIDAY = 86400.0, 5
SHORT_S = 300.0  # a job of the world that starts and stops all the time
MAX_SKEW_S = 60.0  # ranks reach the end of a checkpoint this far apart at most


@dataclass(slots=True)
class FleetJob:
    """A job on whole nodes.

    It ends early when a fault kills it: ``end_s`` is then moved, ``outcome`` says how.

    Arrays (node,): ``skew_s`` how much earlier a node is done with a checkpoint than the last one;
    ``share`` its share of the work.
    """

    id: str
    work: Job
    nodes: tuple[int, ...]
    start_s: float
    end_s: float
    skew_s: np.ndarray[tuple[int], np.dtype[np.float64]]
    share: np.ndarray[tuple[int], np.dtype[np.float64]]
    outcome: str = "completed"
    first_checkpoint_s: float = 0.0
    planned_end_s: float = field(default=0.0)
    name: str = "train"
    user: str = ""  # empty where the scheduler does not report one
    gpus: int = GPUS_PER_NODE  # of each node: the others are nobody's

    def __post_init__(self) -> None:
        self.planned_end_s = self.planned_end_s or self.end_s

    @property
    def train_s(self) -> float:
        """When it begins to train."""
        return self.start_s + self.work.init_s

    def runs(self, since_s: float, until_s: float) -> bool:
        """Whether it trains or does the like during all of a span."""
        return self.train_s <= since_s and until_s <= self.end_s


def schedule(
    rng: np.random.Generator, settings: Settings, nodes: int, end_s: float
) -> list[FleetJob]:
    """All jobs that start before ``end_s``, in the order of their starts.

    The fleet is busy from the first minutes on.
    """
    if settings.jobs == "none":
        return []
    jobs: list[FleetJob] = []
    free: set[int] = set()
    returns: list[tuple[float, int, tuple[int, ...]]] = [(0.0, 0, tuple(range(nodes)))]
    wanted = _size(rng, settings, nodes)
    while returns:
        now, _, back = heapq.heappop(returns)
        if now >= end_s:
            break
        free.update(back)
        while len(free) >= wanted:
            job = _draw(
                rng, settings, len(jobs), now + float(rng.uniform(5, 60)), _place(free, wanted)
            )
            free.difference_update(job.nodes)
            if (
                now // DAY_S % 7 < FRIDAY or rng.random() < settings.weekend
            ):  # runs begin on a Monday
                jobs.append(job)
            heapq.heappush(
                returns,
                (
                    job.end_s + float(rng.uniform(settings.gap_low_s, settings.gap_high_s)),
                    len(jobs),
                    job.nodes,
                ),
            )
            wanted = _size(rng, settings, nodes)
    return sorted(jobs, key=lambda job: job.start_s)


def _size(rng: np.random.Generator, settings: Settings, nodes: int) -> int:
    """Nodes of the next job; drawn in any case, so that worlds of one seed
    differ as little as possible.
    """
    gpus = float(np.exp(rng.normal(math.log(settings.job_gpus), settings.job_gpus_sigma)))
    if settings.jobs == "one":
        return nodes
    return int(np.clip(round(gpus / GPUS_PER_NODE), 1, nodes))


def _place(free: Iterable[int], wanted: int) -> tuple[int, ...]:
    return tuple(sorted(free)[:wanted])


def _draw(
    rng: np.random.Generator,
    settings: Settings,
    number: int,
    start_s: float,
    nodes: tuple[int, ...],
) -> FleetJob:
    work = draw_job(rng, number, start_s)
    hours = math.exp(
        rng.uniform(math.log(settings.job_hours_low), math.log(settings.job_hours_high))
    )
    work = replace(
        work,
        end_s=start_s + hours * 3600,
        init_s=float(rng.uniform(settings.init_low_s, settings.init_high_s)),
        load=float(rng.uniform(settings.load_low, settings.load_high)),
        checkpoint_s=float(rng.uniform(settings.checkpoint_low_s, settings.checkpoint_high_s)),
    )
    if settings.step_s:
        work = replace(work, step_s=settings.step_s * math.exp(rng.uniform(-0.7, 0.7)))
    if settings.jobs == "short":
        work = replace(work, init_s=20.0, end_s=start_s + float(rng.uniform(0.5, 1.5)) * SHORT_S)
    skew = rng.uniform(0, min(MAX_SKEW_S, 0.8 * work.checkpoint_s), len(nodes))
    skew[int(rng.integers(len(nodes)))] = 0.0
    stage = np.arange(len(nodes)) / max(len(nodes) - 1, 1) if len(nodes) > 1 else np.zeros(1)
    share = 1 - settings.stage_spread * stage
    return FleetJob(
        f"{number + 1001}",
        work,
        nodes,
        start_s,
        work.end_s,
        skew,
        share,
        first_checkpoint_s=settings.first_checkpoint_s,
    )
