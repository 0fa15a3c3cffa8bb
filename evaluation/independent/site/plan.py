"""Who has which GPUs when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from evaluation.independent.interface import Event, Job
from evaluation.independent.site.cluster import PER_NODE, Cluster
from evaluation.independent.site.draw import between
from evaluation.independent.site.work import Habits, Indices, Notebook, Serving, Training, Work

USERS = 7
RETRY_S = 660.0  # a failed job starts again after eleven minutes (median of a published cluster)


@dataclass
class Plan:
    """Works with their jobs, in the same order, and what happens in healthy ones."""

    works: list[Work]
    jobs: list[Job]
    events: list[Event] = field(default_factory=list)

    def add(self, cluster: Cluster, work: Work, name: str, outcome: str = "completed") -> None:
        """One more."""
        self.works.append(work)
        uuids = tuple(cluster.gpus[g].id for g in work.gpus)
        number = str(20_000 + 3 * len(self.jobs))
        user = f"u{int(work.gpus[-1]) // PER_NODE % USERS}"
        self.jobs.append(Job(number, uuids, work.start_s, work.end_s, name, user, outcome))

    def trainings(self, at_s: float, at_least: int = 1) -> list[int]:
        """Those that have made steps for an hour at a time, by number."""
        return [
            n
            for n, work in enumerate(self.works)
            if isinstance(work, Training)
            and len(work.gpus) >= at_least
            and work.first_step_s + 3600 < at_s < work.end_s - 7200
        ]


@dataclass(frozen=True)
class Scheduler:
    """Fills a cluster with works until ``lasts_s``."""

    source: np.random.Generator
    cluster: Cluster
    lasts_s: float
    plan: Plan = field(default_factory=lambda: Plan([], []))

    @cached_property
    def habits(self) -> Habits:
        """Of the trainings here."""
        return Habits(self.source)

    def one_after_another(self, gpus: Indices) -> None:
        """Trainings that run for hours or days."""
        at = between(self.source, 30, 3_600)
        while at < self.lasts_s - 1_800:
            end = at + between(self.source, 3 * 3_600, 3 * 86_400)
            work = self.habits.training(gpus, at, min(end, self.lasts_s + 60))
            outcome = self.source.choice(["completed", "cancelled", "failed"], p=[0.5, 0.3, 0.2])
            self.plan.add(self.cluster, work, "pretrain", str(outcome))
            at = end + between(self.source, 20, 2_400)

    def serving(self, gpus: Indices) -> None:
        """Replicas for as long as the world lasts."""
        each = np.exp(self.source.normal(0, 0.7, len(gpus)))
        work = Serving(
            gpus,
            120.0,
            self.lasts_s + 60,
            np.clip(between(self.source, 0.03, 0.7) * each, 0, 1),
            between(self.source, 0.3, 3),
            self.source.uniform(9, 21) * 3_600,
            self.source.uniform(0, 0.7),
        )
        self.plan.add(self.cluster, work, "serve")

    def sweeps(self, gpus: Indices) -> None:
        """Runs of one GPU that start within a minute; some crash until somebody stops them."""
        at = between(self.source, 60, 3_600)
        while at < self.lasts_s - 1_800:
            crashes = bool(self.source.random() < 0.3)
            length = between(self.source, *((40, 300) if crashes else (600, 20_000)))
            for gpu in gpus:
                start = at + self.source.uniform(0, 60)
                work = self.habits.training(np.array([gpu]), start, start + length)
                self.plan.add(self.cluster, work, "sweep", "failed" if crashes else "completed")
            at += length + between(self.source, *((10, 660) if crashes else (120, 7_200)))

    def notebooks(self, gpus: Indices) -> None:
        """One for each GPU, for days."""
        for gpu in gpus:
            work = Notebook(np.array([gpu]), 60.0, self.lasts_s + 60, 0.03)
            self.plan.add(self.cluster, work, "notebook")


def large_trainings(source: np.random.Generator, cluster: Cluster, lasts_s: float) -> Plan:
    """Whole nodes in jobs of one to half of the nodes, one after another."""
    scheduler = Scheduler(source, cluster, lasts_s)
    for gpus in parts(source, cluster):
        scheduler.one_after_another(gpus)
    return scheduler.plan


def parts(source: np.random.Generator, cluster: Cluster) -> Iterator[Indices]:
    """The GPUs of one, two, four or eight nodes at a time, until all have been given."""
    first = 0
    while first < len(cluster.nodes):
        nodes = min(int(2 ** source.integers(0, 4)), len(cluster.nodes) - first)
        yield np.arange(first * PER_NODE, (first + nodes) * PER_NODE)
        first += nodes


def mixed(source: np.random.Generator, cluster: Cluster, lasts_s: float) -> Plan:
    """Node by node: trainings, inference, two tenants, sweeps, notebooks."""
    scheduler = Scheduler(source, cluster, lasts_s)
    for node in range(len(cluster.nodes)):
        gpus, kind = np.arange(node * PER_NODE, (node + 1) * PER_NODE), source.random()
        if kind < 0.3:
            scheduler.one_after_another(gpus)
        elif kind < 0.55:
            scheduler.serving(gpus)
        elif kind < 0.75:
            for half in np.split(gpus, 2):
                scheduler.one_after_another(half)
        elif kind < 0.9:
            scheduler.sweeps(gpus)
        else:
            scheduler.notebooks(gpus[:5])
    return scheduler.plan
