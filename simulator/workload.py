"""What the node's GPUs are asked to do: one training job after another, each with its phases.

Marginals: jobs of 6-72 h, steps of 2-30 s, a checkpoint of 60-180 s each 25-60 min, now and then an
evaluation; between jobs the node idles. Figures of this kind are reported for large training
clusters (Llama 3 herd of models, section 3.3; AcmeTrace, NSDI'24).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

Phase = Literal["idle", "init", "train", "checkpoint", "eval", "stall", "host_stall"]

WATCHDOG_S = 600.0  # NCCL's default watchdog in PyTorch: a job that lost a rank dies after it


@dataclass(frozen=True, slots=True)
class Demand:
    """What a phase asks of each GPU: fractions of what it could do, 1 is all of it.

    ``load`` is dynamic power at full clock over the room between idle and the limit; it may
    exceed 1, then the cap binds.
    """

    phase: Phase
    load: float = 0.0
    busy: float = 0.0  # share of time with a kernel running: NVML's utilisation
    tensor: float = 0.0
    dram: float = 0.0
    nvlink: float = 0.0
    fabric: float = 0.0  # InfiniBand
    pcie: float = 0.0
    memory: float = 0.0  # share of the frame buffer in use

    @property
    def processes(self) -> bool:
        """Whether the job's processes hold the GPUs."""
        return self.memory > 0


# What the phases ask. Of training and evaluation load, tensor and memory traffic are shares of the
# job's own; a step of training works, then waits for the communication that ends it.
IDLE = Demand("idle")
INIT = Demand("init", load=0.05, busy=0.04, pcie=0.5)
CHECKPOINT = Demand("checkpoint", load=0.07, busy=0.06, pcie=0.35)
EVAL = Demand("eval", load=0.55, busy=0.8, tensor=0.5, dram=0.8, nvlink=0.08)
WORKS = Demand(
    "train", load=1.0, busy=0.995, tensor=1.0, dram=1.0, nvlink=0.22, fabric=0.05, pcie=0.02
)
# dram is absolute here
WAITS = Demand("train", load=0.62, busy=0.995, dram=0.25, nvlink=0.7, fabric=0.8, pcie=0.02)
# ranks spin in the collective: kernels run all the time and do nothing
SPIN = Demand("stall", load=0.07, busy=1.0)
HOST_STALL = Demand("host_stall", load=0.02)
EVAL_S, EVAL_AFTER_S = 420.0, 3600.0


@dataclass(frozen=True, slots=True)
class Job:
    """One training job as drawn from the seed. Times in seconds."""

    number: int
    start_s: float
    end_s: float
    init_s: float
    step_s: float
    communication: float
    load: float
    tensor: float
    dram: float
    memory: float
    checkpoint_every_s: float
    checkpoint_s: float
    eval_every_s: float
    pid: int

    def waiting(self, since_s: float, until_s: float) -> float:
        """Share of a span spent in the communication that ends each step: exact
        for spans of any length.

        >>> rng = np.random.default_rng(0)
        >>> job = draw_job(rng, 0, 0.0)
        >>> abs(job.waiting(0.0, 1000 * job.step_s) - job.communication) < 1e-9
        True
        """

        def total(t: float) -> float:
            steps, rest = divmod(t, self.step_s)
            return steps * self.step_s * self.communication + max(
                0.0, rest - self.step_s * (1 - self.communication)
            )

        return (total(until_s) - total(since_s)) / (until_s - since_s)


def draw_job(rng: np.random.Generator, number: int, start_s: float) -> Job:
    """The next job.

    The node's first one initialises quickly, so that a demonstration has something to show.
    """
    return Job(
        number=number,
        start_s=start_s,
        end_s=start_s + 3600 * float(np.exp(rng.uniform(math.log(6), math.log(72)))),
        init_s=15.0 if number == 0 else float(rng.uniform(60, 600)),
        step_s=float(np.exp(rng.uniform(math.log(2), math.log(30)))),
        communication=float(rng.uniform(0.08, 0.3)),
        load=float(rng.uniform(0.7, 1.08)),
        tensor=float(rng.uniform(0.35, 0.65)),
        dram=float(rng.uniform(0.3, 0.6)),
        memory=float(rng.uniform(0.62, 0.94)),
        checkpoint_every_s=float(rng.uniform(25, 60)) * 60,
        checkpoint_s=float(rng.uniform(60, 180)),
        eval_every_s=float(rng.uniform(2, 6)) * 3600,
        pid=int(rng.integers(20_000, 400_000)),
    )


class Workload:
    """The queue of one node.

    ``demand`` says what runs in a span; faults may stall or kill the job that runs.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self.job = draw_job(rng, 0, 5.0)
        self._stalled: dict[str, Phase] = {}
        self._dies_s = math.inf
        self.drained: set[str] = set()  # reasons for which the scheduler gives the node no job

    def stall(self, reason: str, kind: Phase = "stall") -> None:
        """Freeze the job: ranks spin in a collective (``stall``) or wait for
        their host (``host_stall``).
        """
        self._stalled[reason] = kind

    def resume(self, reason: str) -> None:
        """End a stall for one reason; others may go on."""
        self._stalled.pop(reason, None)

    def kill(self, now_s: float, after_s: float) -> None:
        """Let the job die: its processes leave, the node idles, the next job is queued."""
        self._dies_s = min(self._dies_s, now_s + after_s)

    def running(self, now_s: float) -> bool:
        """Whether a job holds the node."""
        return self.job.start_s <= now_s < min(self.job.end_s, self._dies_s)

    def demand(self, since_s: float, until_s: float) -> Demand:
        """The mean demand between two instants."""
        if until_s >= min(self.job.end_s, self._dies_s):
            self.job = draw_job(
                self._rng, self.job.number + 1, until_s + float(self._rng.uniform(60, 900))
            )
            self._dies_s = math.inf
            self._stalled.clear()
        job, t = self.job, since_s - self.job.start_s
        if t < 0 or self.drained:
            return IDLE
        if self._stalled:
            return replace(
                SPIN if "stall" in self._stalled.values() else HOST_STALL, memory=job.memory
            )
        if t < job.init_s:
            return replace(INIT, memory=job.memory * max(t / job.init_s, 0.01))
        t -= job.init_s
        if t % job.checkpoint_every_s > job.checkpoint_every_s - job.checkpoint_s:
            return replace(CHECKPOINT, memory=job.memory)
        if t > EVAL_AFTER_S and t % job.eval_every_s < EVAL_S:
            load, tensor, dram = (
                job.load * EVAL.load,
                job.tensor * EVAL.tensor,
                job.dram * EVAL.dram,
            )
            return replace(EVAL, load=load, tensor=tensor, dram=dram, memory=job.memory)
        waits = job.waiting(t, t + until_s - since_s)
        works = 1 - waits
        return Demand(
            "train",
            load=job.load * (works * WORKS.load + waits * WAITS.load),
            busy=WORKS.busy,
            tensor=job.tensor * works,
            dram=job.dram * works + WAITS.dram * waits,
            nvlink=WORKS.nvlink * works + WAITS.nvlink * waits,
            fabric=WORKS.fabric * works + WAITS.fabric * waits,
            pcie=WORKS.pcie,
            memory=job.memory,
        )
