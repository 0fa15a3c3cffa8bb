"""What jobs ask of the nodes, for many nodes and instants at once: the phases
of workload.py as arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.fleet.jobs import FleetJob
from simulator.workload import (
    CHECKPOINT,
    EVAL,
    EVAL_AFTER_S,
    HOST_STALL,
    INIT,
    SPIN,
    WAITS,
    WORKS,
)

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# How a node's job goes on: as planned, in a collective that never ends, without its host's data,
# copying to the host, or at a share of its speed (``speed``) with the rest of each step spent in
# collectives, or without its host's data.
RUNS, SPINS, STARVES, SAVES, CRAWLS, LACKS = range(6)
# Phases at a share of the speed, and what the rest of each step is like.
SLOWED = (("crawl", SPIN), ("lack", HOST_STALL))

_WORDS = (
    "start_s",
    "init_s",
    "step_s",
    "communication",
    "load",
    "tensor",
    "dram",
    "memory",
    "every_s",
    "checkpoint_s",
    "eval_s",
)


@dataclass(slots=True)
class Demands:
    """Arrays (tick, node).

    ``load`` is that of the working part of a step, ``waits`` the share of the
    tick in the waiting part.

    The others are means over the tick. ``waiting`` says whether the instant at the end of the tick
    lies in the waiting part.
    """

    idle: Flags
    load: Floats
    waits: Floats
    waiting: Flags
    busy: Floats
    tensor: Floats
    dram: Floats
    nvlink: Floats
    fabric: Floats
    pcie: Floats
    memory: Floats


class Work:
    """Which job each node works for, and how it goes."""

    def __init__(self, nodes: int, eval_s: float) -> None:
        self._eval_s = eval_s
        self.jobs: list[FleetJob | None] = [None] * nodes
        self.mode = np.full(nodes, RUNS)
        self.speed = np.ones(nodes)  # of nodes whose mode is CRAWLS or LACKS
        self._of = {word: np.zeros(nodes) for word in _WORDS}
        self._of["step_s"] += 1.0
        self._of["every_s"] += 1.0
        self._of["eval_s"] += 1.0
        self._skew = np.zeros(nodes)
        self._first = np.zeros(nodes)
        self._share = np.ones(nodes)
        self.imbalance = np.ones(nodes)  # set by the world: sequences and experts are not alike
        self._held = np.zeros(nodes, bool)

    def start(self, job: FleetJob) -> None:
        """A job takes its nodes."""
        where, work = list(job.nodes), job.work
        values = (
            job.start_s,
            work.init_s,
            work.step_s,
            work.communication,
            work.load,
            work.tensor,
            work.dram,
            work.memory,
            work.checkpoint_every_s,
            work.checkpoint_s,
            work.eval_every_s,
        )
        for word, value in zip(_WORDS, values, strict=True):
            self._of[word][where] = value
        self._skew[where], self._share[where] = job.skew_s, job.share
        self._first[where] = job.first_checkpoint_s
        self._held[where] = True
        self.mode[where] = RUNS
        for node in where:
            self.jobs[node] = job

    def end(self, job: FleetJob) -> None:
        """A job gives back the nodes that it still holds."""
        for node in job.nodes:
            if self.jobs[node] is job:
                self.jobs[node] = None
                self._held[node] = False
                self.mode[node] = RUNS

    def demands(self, times_s: Floats, dt: float) -> Demands:
        """The ticks that end at these times."""
        of, at = self._of, times_s[:, None]
        began = at - dt - of["start_s"]
        since = began - of["init_s"]
        phases = self._phases(began, since)
        train, init = phases["train"], phases["init"]
        waits = np.where(train, _waited(since, dt, of["step_s"], of["communication"]), 0.0)
        works = train * (1 - waits)
        slowed = [(phases[name], rest) for name, rest in SLOWED if name in phases]
        for phase, _ in slowed:
            works = works + phase * self.speed
        phase_now = np.mod(since + dt, of["step_s"])
        share = self._share * self.imbalance

        def sums(word: str, own: Floats | float = 1.0) -> Floats:
            """The mean of a demand over the tick, whatever the phase; ``own`` is the job's in
            training and evaluation.
            """
            total = own * (getattr(WORKS, word) * works + getattr(EVAL, word) * phases["eval"])
            total += getattr(WAITS, word) * waits
            for name, demand in (
                ("init", INIT),
                ("checkpoint", CHECKPOINT),
                ("spin", SPIN),
                ("starve", HOST_STALL),
            ):
                if value := getattr(demand, word):
                    total += value * phases[name]
            for phase, rest in slowed:
                total += getattr(rest, word) * phase * (1 - self.speed)
            return np.asarray(total)

        load = of["load"] * share * (WORKS.load * train + EVAL.load * phases["eval"])
        load += (
            INIT.load * init + CHECKPOINT.load * phases["checkpoint"] + SPIN.load * phases["spin"]
        )
        load += HOST_STALL.load * phases["starve"]
        for phase, rest in slowed:
            load += phase * (of["load"] * share * self.speed + rest.load * (1 - self.speed))
        ramp = np.where(init, np.clip(began / np.maximum(of["init_s"], 1.0), 0.01, 1.0), 1.0)
        return Demands(
            idle=phases["idle"],
            load=load,
            waits=waits,
            waiting=train & (phase_now > of["step_s"] * (1 - of["communication"])),
            busy=sums("busy"),
            tensor=sums("tensor", of["tensor"] * share),
            dram=sums("dram", of["dram"]),
            nvlink=sums("nvlink"),
            fabric=sums("fabric"),
            pcie=sums("pcie"),
            memory=np.where(phases["idle"], 0.0, of["memory"] * ramp),
        )

    def within(self, names: Sequence[str], times_s: Floats, dt: float) -> Flags:
        """Whether nodes are in one of these phases at the start of the ticks that end at
        these times, (tick, node).
        """
        began = times_s[:, None] - dt - self._of["start_s"]
        phases = self._phases(began, began - self._of["init_s"])
        return np.asarray(np.any([phases[name] for name in names], axis=0))

    def _phases(self, began: Floats, since: Floats) -> dict[str, Flags]:
        """Which phase each node is in at the start of each tick: exactly one."""
        of = self._of
        left = np.broadcast_to(self._held, began.shape) & (began >= 0)
        phases: dict[str, Flags] = {"idle": ~left}

        def take(name: str, condition: Flags) -> None:
            nonlocal left
            phases[name] = left & condition
            left = left & ~condition

        take("starve", np.broadcast_to(self.mode == STARVES, began.shape))
        take("spin", np.broadcast_to(self.mode == SPINS, began.shape))
        saves = None
        if (self.mode > STARVES).any():
            take("saves", np.broadcast_to(self.mode == SAVES, began.shape))
            take("crawl", np.broadcast_to(self.mode == CRAWLS, began.shape))
            take("lack", np.broadcast_to(self.mode == LACKS, began.shape))
            saves = phases.pop("saves")
        take("init", since < 0)
        starts = of["every_s"] - of["checkpoint_s"]
        into = np.mod(since, of["every_s"]) - starts
        take(
            "checkpoint",
            (into > 0) & (into <= of["checkpoint_s"] - self._skew) & (into < of["checkpoint_s"]),
        )
        if saves is not None:
            phases["checkpoint"] = phases["checkpoint"] | saves
        if self._first.any():
            take("first", (since > starts) & (since < starts + self._first))
            phases["checkpoint"] = phases["checkpoint"] | phases.pop("first")
        take(
            "late", (into > 0) & (into < of["checkpoint_s"])
        )  # done, and waiting for those that are not
        phases["spin"] = phases["spin"] | phases.pop("late")
        take("eval", (since > EVAL_AFTER_S) & (np.mod(since, of["eval_s"]) < self._eval_s))
        phases["train"] = left
        return phases


def _waited(since: Floats, dt: float, step: Floats, communication: Floats) -> Floats:
    """Share of the spans of ``dt`` from ``since`` on that is spent
    waiting: Job.waiting for arrays.
    """
    works = step * (1 - communication)

    def total(t: Floats) -> Floats:
        steps = np.floor(t / step)
        return np.asarray(steps * (step - works) + np.maximum(0.0, t - steps * step - works))

    return np.asarray((total(since + dt) - total(since)) / dt)
