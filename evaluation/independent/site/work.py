"""What GPUs do: phases of trainings, tides of inference, notebooks. Shares of what a GPU can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from evaluation.independent.site.draw import Values, between

Indices = NDArray[np.intp]


@dataclass
class Load:
    """Of every GPU at one time: shares, and whether a process holds it."""

    busy: Values
    effort: Values  # of the power that its work can take
    tensor: Values
    dram: Values
    traffic: Values  # of its links
    held: NDArray[np.bool_]

    @classmethod
    def idle(cls, size: int) -> Load:
        """Nothing runs."""
        busy, effort, tensor, dram, traffic = np.zeros((5, size))
        return cls(busy, effort, tensor, dram, traffic, np.zeros(size, bool))

    def set(self, gpus: Indices, *shares: float | Values) -> None:
        """busy, effort, tensor, dram and traffic of some GPUs, which are held."""
        for name, share in zip(
            ("busy", "effort", "tensor", "dram", "traffic"), shares, strict=True
        ):
            getattr(self, name)[gpus] = share
        self.held[gpus] = True


@dataclass(frozen=True, slots=True)
class Now:
    """A time, how fast each GPU can go then (1: as ever), and where chance comes from."""

    at_s: float
    pace: Values
    source: np.random.Generator


class Work(Protocol):
    """One job."""

    gpus: Indices
    start_s: float
    end_s: float

    def fill(self, load: Load, now: Now) -> None:
        """What its GPUs do at a time."""


@dataclass
class Training:
    """Steps in unison, saves, evaluations. The slowest GPU sets the pace, and the others spin."""

    gpus: Indices
    start_s: float
    end_s: float
    first_step_s: float
    effort: float
    tensor: float
    dram: float
    traffic: float
    jitter: float
    beat: float  # of sampling against steps: all ranks swing together
    beat_s: float
    share: Values  # of work, by expert or stage; 1 on average
    saves: Sequence[tuple[float, float]]
    every: int  # one GPU in so many writes the saves, from the host; the others spin
    stalls: Sequence[tuple[float, float]] = ()  # stands still, which is a fault
    stuck_spins: bool = True

    @property
    def waits(self) -> Sequence[tuple[float, float]]:
        """Long waits that are no save: nothing that breaks in one shows before its end."""
        return ()

    def fill(self, load: Load, now: Now) -> None:
        """Shares of each phase."""
        if any(a <= now.at_s < b for a, b in self.stalls):
            load.set(self.gpus, *((1.0, 0.28, 0.0, 0.02, 0.0) if self.stuck_spins else (0.0,) * 5))
        elif now.at_s < self.first_step_s:
            busy = now.source.choice([0.0, 0.05, 0.4], p=[0.7, 0.2, 0.1])
            load.set(self.gpus, busy, 0.3 * busy, 0.0, 0.1 * busy, 0.0)
        elif any(a <= now.at_s < b for a, b in self.saves):
            load.set(self.gpus, 1.0, 0.3, 0.0, 0.02, 0.0)
            load.set(self.gpus[:: self.every], 0.0, 0.0, 0.0, 0.0, 0.0)
        else:
            self._step(load, now)

    def _step(self, load: Load, now: Now) -> None:
        swing = 1 + self.beat * np.sin(2 * np.pi * now.at_s / self.beat_s)
        swing *= float(np.exp(now.source.normal(0, self.jitter)))
        needed = self.share / now.pace[self.gpus]  # time of each for one step, 1 as ever
        rate = swing / max(1.0, float(needed.max() / self.share.max()))
        working = np.clip(needed * rate / self.share.max(), 0, 1)  # share of a step
        spinning = 0.3 * (1 - working)
        load.set(
            self.gpus,
            1.0,
            np.clip(self.effort * working + spinning, 0, 1.3),
            np.clip(self.tensor * self.share * rate, 0, 1),
            np.clip(self.dram * self.share * rate, 0, 1),
            np.clip(self.traffic * rate, 0, 1),
        )


@dataclass
class Serving:
    """Replicas that are not equally busy, and idle at night."""

    gpus: Indices
    start_s: float
    end_s: float
    mean: Values
    swing: float
    peak_s: float
    zero: float  # share of samples without a request

    def fill(self, load: Load, now: Now) -> None:
        """More by day than by night, and nothing at all for a part of the time."""
        tide = np.exp(self.swing * (np.cos(2 * np.pi * (now.at_s - self.peak_s) / 86_400) - 1))
        busy = np.clip(self.mean * tide * np.exp(now.source.normal(0, 0.4, len(self.gpus))), 0, 1)
        busy = np.where(now.source.random(len(self.gpus)) < self.zero, 0.0, busy)
        load.set(self.gpus, busy, 0.55 * busy, 0.15 * busy, 0.5 * busy, 0.0)


@dataclass
class Notebook:
    """Memory is held for days, and used in bursts."""

    gpus: Indices
    start_s: float
    end_s: float
    used: float

    def fill(self, load: Load, now: Now) -> None:
        """The same burst for five minutes."""
        seed = [int(now.at_s // 300), int(self.gpus[0])]
        burst = np.random.default_rng(seed).random() < self.used
        load.set(self.gpus, *((0.8, 0.5, 0.2, 0.3, 0.0) if burst else (0.0,) * 5))


@dataclass
class Habits:
    """Of the trainings of a site."""

    source: np.random.Generator
    interval_s: float = field(init=False)
    save_s: float = field(init=False)
    varies: float = field(init=False)

    def __post_init__(self) -> None:
        self.interval_s = between(self.source, 600, 14_400)
        self.save_s = min(between(self.source, 2, 2_400), self.interval_s / 2)
        self.varies = between(self.source, 1.05, 3.0)

    def training(self, gpus: Indices, start_s: float, end_s: float) -> Training:
        """One of them."""
        source, size = self.source, len(gpus)
        first = min(start_s + between(source, 20, 2_400), start_s + 0.5 * (end_s - start_s))
        share = np.ones(size)
        if source.random() < 0.3:  # experts
            share = np.exp(source.normal(0, between(source, 0.01, 0.12), size))
        if source.random() < 0.3 and size > 8:  # stages of a pipeline, one after another
            share = share * np.repeat(np.linspace(1, between(source, 1.02, 1.6), size // 8), 8)
        return Training(
            gpus,
            start_s,
            end_s,
            first,
            source.uniform(0.6, 1.15),
            source.uniform(0.15, 0.6),
            source.uniform(0.2, 0.7),
            source.uniform(0.05, 0.5) if size > 8 else 0.0,
            between(source, 0.002, 0.06),
            between(source, 0.002, 0.05),
            between(source, 40, 400),
            share / share.mean(),
            tuple(self._saves(first, end_s)),
            (size, 8, 1)[source.integers(3)],  # rank 0, one of each node, all
            stuck_spins=bool(source.random() < 0.7),
        )

    def _saves(self, first_s: float, end_s: float) -> list[tuple[float, float]]:
        found, at = [], first_s + self.interval_s
        while at < end_s:
            lasts = float(self.save_s * np.exp(self.source.uniform(0, np.log(self.varies))))
            found.append((at, at + lasts))
            at += lasts + self.interval_s  # of steps: no job only saves
        return found
