"""Trainings that are interrupted for good reason: one rank evaluates while all others wait in a
kernel, data comes late, a user's kernel fails on all nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.independent.interface import Event
from evaluation.independent.site.cluster import Cluster
from evaluation.independent.site.draw import between, spread
from evaluation.independent.site.plan import Plan, Scheduler, parts
from evaluation.independent.site.work import Indices, Load, Now, Training

HOUR_S = 3_600.0
Periods = Sequence[tuple[float, float]]


@dataclass
class Interrupted(Training):
    """``evaluations``: of its first GPU. ``late``: there are no data yet, and nothing runs."""

    evaluations: Periods = ()
    late: Periods = ()

    @property
    def waits(self) -> Periods:
        """No GPU but the first shows how fast it is while that evaluates."""
        return self.evaluations

    def fill(self, load: Load, now: Now) -> None:
        """Shares of each phase; a kernel that waits computes nothing, at free clocks."""
        if now.at_s >= self.first_step_s and _within(self.evaluations, now.at_s):
            load.set(self.gpus, 1.0, 0.25, 0.0, 0.01, 0.0)
            load.set(self.gpus[:1], 0.7, 0.5, 0.12, 0.3, 0.0)
        elif now.at_s >= self.first_step_s and _within(self.late, now.at_s):
            load.set(self.gpus, 0.0, 0.0, 0.0, 0.0, 0.0)
        else:
            super().fill(load, now)


def interrupted(source: np.random.Generator, cluster: Cluster, lasts_s: float) -> Plan:
    """Nodes in jobs of one to half of them, one after another, with experts of unequal load."""
    scheduler = Scheduler(source, cluster, lasts_s)
    for gpus in parts(source, cluster):
        _trainings(scheduler, gpus)
    return scheduler.plan


def _trainings(scheduler: Scheduler, gpus: Indices) -> None:
    source, lasts = scheduler.source, scheduler.lasts_s
    at = between(source, 30, HOUR_S)
    while at < lasts - 1_800:
        end = at + between(source, 4 * HOUR_S, 30 * HOUR_S)
        work = _training(scheduler, gpus, at, min(end, lasts + 60))
        fails = bool(source.random() < 0.4)
        scheduler.plan.add(scheduler.cluster, work, "pretrain", "failed" if fails else "completed")
        if fails and end < lasts:
            scheduler.plan.events += _faulty_kernel(scheduler, gpus, end)
        at = end + between(source, 20, 2_400)


def _training(scheduler: Scheduler, gpus: Indices, start_s: float, end_s: float) -> Interrupted:
    source, plain = scheduler.source, scheduler.habits.training(gpus, start_s, end_s)
    experts = spread(source, between(source, 0.01, 0.12), len(gpus))
    begin = np.arange(start_s, end_s, between(source, HOUR_S, 8 * HOUR_S)) + HOUR_S
    missing = source.uniform(start_s, end_s, source.poisson((end_s - start_s) / HOUR_S))
    evaluations = tuple((at, at + between(source, 60, 2.5 * HOUR_S)) for at in begin.tolist())
    late = tuple((at, at + between(source, 2, 300)) for at in missing.tolist())
    values = vars(plain) | {"share": plain.share * experts / (plain.share * experts).mean()}
    return Interrupted(**values, evaluations=evaluations, late=late)


def _faulty_kernel(scheduler: Scheduler, gpus: Indices, at_s: float) -> Iterator[Event]:
    """XID 31 on most GPUs, then 45 and here and there 43 on all: the program, not the GPUs."""
    source = scheduler.source
    for gpu in gpus:
        device = scheduler.cluster.gpus[gpu]
        codes = [31] * bool(source.random() < 0.8) + [45] + [43] * bool(source.random() < 0.4)
        for order, code in enumerate(codes):
            pci = device.attributes["pci_bus_id"].lower()[4:14]
            at = at_s - 4 + 2 * min(order, 1) + float(source.uniform(0, 2))
            facts = {"code": code, "pci": pci, "pid": 9_000 + int(gpu), "process": "python"}
            yield Event(at, "kmsg", device, "xid", {**facts, "origin": "kmsg", "seq": int(at * 10)})


def _within(periods: Periods, at_s: float) -> bool:
    return any(first <= at_s < last for first, last in periods)
