"""The plan of a run: which faults strike where and when, drawn before anything runs, so that
the truth is known first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pipeline.clock import SECOND_NS
from pipeline.finding import Severity
from pipeline.frame import Device
from simulator.fleet import effects
from simulator.fleet.demand import Work
from simulator.fleet.jobs import FleetJob
from simulator.fleet.scenario import Scenario, Split
from simulator.fleet.topology import GPUS, Topology
from simulator.fleet.truth import EntityKind, Truth
from simulator.fleet.world import FleetState, Process

WARM_S = 5400.0  # nothing happens before: detectors may learn, as after an agent's first start
APART_S = 7200.0  # two faults leave a node and a job alone for so long
TRIES = 400


@dataclass(frozen=True, slots=True)
class Case:
    """One fault to come: its number in the run and its magnitude (NaN
    where the scenario has none).
    """

    number: int
    magnitude: float


@dataclass(frozen=True, slots=True)
class TopologyNode:
    """Where and when a case strikes: seconds since the start, on the grid of the ticks; the job
    is None on an idle node.
    """

    onset_s: float
    node: int
    slot: int
    job: FleetJob | None

    @property
    def gpu(self) -> int:
        """Row of the GPU; of the port too."""
        return self.node * GPUS + self.slot


@dataclass(frozen=True, slots=True)
class Draws:
    """From which ranges cases are drawn, and with what magnitude:
    nominal, half, range or a value.
    """

    split: Split = "dev"
    magnitude: str | float | None = None


class Plan:
    """What faults are planned with.

    ``truths`` and ``processes`` fill up; ``skipped`` counts cases for which there was no room.
    """

    def __init__(
        self,
        scenario: Scenario,
        topology: Topology,
        rng: np.random.Generator,
        *,
        draws: Draws,
        step_s: float,
    ) -> None:
        self.scenario, self.topology, self.rng, self.step_s = scenario, topology, rng, step_s
        self.split = draws.split
        self.end_s = scenario.days * 86400
        self._wanted = draws.magnitude
        self.truths: list[Truth] = []
        self.processes: list[tuple[float, Callable[[FleetState], Process]]] = []
        self.skipped = 0
        self.apart_s = APART_S
        self._busy: list[tuple[int, float, float]] = []

    def of(self, scenario: Scenario, *, claims: bool = True) -> Plan:
        """A plan of another scenario's cases in the same fleet: what one has claimed the other
        leaves alone, unless it ``claims`` nothing; truths and processes are those of both.
        """
        scenario = replace(scenario, days=self.scenario.days, world=self.scenario.world)
        plan = Plan(
            scenario,
            self.topology,
            self.rng,
            draws=Draws(self.split, self._wanted),
            step_s=self.step_s,
        )
        plan.truths, plan.processes = self.truths, self.processes
        plan._busy = self._busy if claims else [*self._busy]
        plan.apart_s = self.apart_s
        return plan

    # What to do.

    def cases(self) -> Iterator[Case]:
        """The scenario's cases, each with its magnitude."""
        for number in range(self.scenario.cases):
            drawn = self.draw(self.scenario.magnitude) if self.scenario.magnitude else math.nan
            yield Case(number, self._magnitude(drawn))

    def _magnitude(self, drawn: float) -> float:
        swept = self.scenario.swept
        if swept is None:
            return math.nan
        if self._wanted is None or self._wanted == "nominal":
            return swept.nominal
        if isinstance(self._wanted, str):
            words = {"half": swept.nominal / 2, "range": drawn}
            if self._wanted not in words:
                raise ValueError(
                    f"magnitude {self._wanted!r}: must be nominal, half, range or a number"
                )
            return words[self._wanted]
        return float(self._wanted)

    def draw(self, name: str) -> float:
        """A value of a parameter, from the range of the split."""
        parameter = self.scenario.parameters[name]
        low, high = parameter.span(self.split)
        if parameter.whole:
            return float(self.rng.integers(int(low), int(high) + 1))
        return (
            math.exp(self.rng.uniform(math.log(low), math.log(high)))
            if parameter.log
            else float(self.rng.uniform(low, high))
        )

    def pick(self, name: str) -> int:
        """A whole number of a parameter."""
        return round(self.draw(name))

    # Where and when.

    def place(
        self,
        lasts_s: float,
        *,
        needs_s: float = 0.0,
        busy: bool = True,
        alone: bool = True,
        nodes: int = 1,
        lead_s: float = 3600.0,
        stays_s: float = 0.0,
        warm_s: float = WARM_S,
        kills_s: float | None = None,
        fits: Callable[[TopologyNode], bool] | None = None,
    ) -> TopologyNode | None:
        """A GPU and an onset for a fault of some length, ``needs_s`` of which must lie in the run.

        None where there is no such place.

        ``busy``: in a job of at least ``nodes`` nodes that trains for ``lead_s`` before and
        ``stays_s`` after the onset; else idle nodes will do. ``alone``: no other fault in the job,
        else only none in the node. ``kills_s`` after the onset the job dies, so nobody may need it
        later. ``fits`` may refuse a place.
        """
        latest = self.end_s - (needs_s or min(lasts_s, self.end_s / 4)) - self.step_s
        for _ in range(TRIES):
            onset = self.on_grid(float(self.rng.uniform(warm_s, max(latest, warm_s))))
            node, slot = int(self.rng.integers(self.topology.nodes)), int(self.rng.integers(GPUS))
            job = self.job(node, onset)
            if busy and (
                job is None
                or len(job.nodes) < nodes
                or not job.runs(onset - lead_s, onset + stays_s)
            ):
                continue
            place = TopologyNode(onset, node, slot, job)
            if (kills_s is not None and self.needed(node, onset + kills_s)) or (
                fits is not None and not fits(place)
            ):
                continue
            if self.claim(job.nodes if job and alone else (node,), onset, onset + lasts_s):
                return place
        self.skipped += 1
        return None

    def needed(self, node: int, at_s: float) -> bool:
        """Whether a fault is to strike the job on a node after a time."""
        job = self.job(node, at_s)
        return job is not None and any(
            n in job.nodes and at_s < end and start < job.end_s for n, start, end in self._busy
        )

    def spares(self, node: int, since_s: float, until_s: float) -> bool:
        """Whether no job that starts on a node in this time, while it is drained, has a fault of
        its own later.
        """
        jobs = (
            job
            for job in self.topology.jobs
            if node in job.nodes and since_s <= job.start_s < until_s
        )
        return not any(
            n in job.nodes and start < job.end_s and job.start_s < end
            for job in jobs
            for n, start, end in self._busy
        )

    def claim(self, nodes: Sequence[int], since_s: float, until_s: float) -> bool:
        """Keep nodes for one fault; False where another has one of them."""
        wanted = set(nodes)
        if any(
            node in wanted and since_s < end + self.apart_s and start < until_s + self.apart_s
            for node, start, end in self._busy
        ):
            return False
        self._busy += [(node, since_s, until_s) for node in nodes]
        return True

    def hold(self, node: int, since_s: float, until_s: float) -> None:
        """Keep a node from other faults: what struck it is still open."""
        self._busy.append((node, since_s, until_s))

    def is_free(self, node: int, at_s: float) -> bool:
        """Whether no fault has a node around a time."""
        return not any(
            n == node and start - self.apart_s < at_s < end + self.apart_s
            for n, start, end in self._busy
        )

    def job(self, node: int, at_s: float) -> FleetJob | None:
        """The job on a node at a time."""
        return next(
            (
                job
                for job in self.topology.jobs
                if node in job.nodes and job.start_s <= at_s < job.end_s
            ),
            None,
        )

    def until_seen(self, place: TopologyNode, needs_s: float, *phases: str) -> float:
        """Seconds after the onset until the job was in these phases for so long: others show
        nothing of what only load shows.
        """
        assert place.job is not None  # noqa: S101 - busy places have one
        work = self._work_of(place.job)
        after = np.arange(self.step_s, place.job.end_s - place.onset_s, self.step_s)
        seen = (
            np.cumsum(work.within(phases, place.onset_s + after, self.step_s)[:, 0]) * self.step_s
        )
        return float(after[seen >= needs_s][0])

    def saves(self, place: TopologyNode) -> bool:
        """Whether any node of the job writes a checkpoint as the fault begins: a stall that begins
        so is to every reading a save that takes long.
        """
        around = place.onset_s + self.step_s * np.arange(-1.0, 3.0)
        return self._saves_at(place, around)

    def has_saved(self, place: TopologyNode) -> bool:
        """Whether the job has saved before the fault begins: until then nobody knows how it does,
        and a rank that stands still looks like one that writes.
        """
        assert place.job is not None  # noqa: S101 - busy places have one
        return self._saves_at(place, np.arange(place.job.train_s, place.onset_s, self.step_s))

    def _saves_at(self, place: TopologyNode, at_s: NDArray[np.float64]) -> bool:
        """Whether the node of the job that saves for longest does at any of these times."""
        assert place.job is not None  # noqa: S101 - busy places have one
        work = self._work_of(replace(place.job, skew_s=np.zeros_like(place.job.skew_s)))
        return bool(work.within(("checkpoint",), at_s, self.step_s).any())

    def _work_of(self, job: FleetJob) -> Work:
        """What its first node does."""
        work = Work(1, self.scenario.world.eval_s)
        work.start(replace(job, nodes=(0,), skew_s=job.skew_s[:1], share=job.share[:1]))
        return work

    def on_grid(self, at_s: float) -> float:
        """The beginning of the tick a time falls into."""
        return math.floor(at_s / self.step_s) * self.step_s

    def kill(self, job: FleetJob | None, at_s: float) -> None:
        """The job dies at a time."""
        if job is not None and job.start_s < at_s < job.end_s:
            job.end_s, job.outcome = at_s, "failed"

    def drain(self, node: int, since_s: float, until_s: float) -> None:
        """No job starts on a node for a while."""
        jobs = self.topology.jobs
        assert isinstance(jobs, list)  # noqa: S101 - the plan's own
        jobs[:] = [
            job for job in jobs if node not in job.nodes or not since_s <= job.start_s < until_s
        ]

    # What is true of it.

    def inject(self, at_s: float, process: Callable[[FleetState], Process]) -> None:
        """Let a process act in the world from a time on."""
        self.processes.append((at_s, process))

    def truth(
        self,
        case: Case,
        entity: Device | str,
        onset_s: float,
        end_s: float,
        *,
        evident_s: float | None = None,
        detect_by_s: float | None = None,
        kind: EntityKind | None = None,
        fault: str | None = None,
        severity: Severity | None = None,
        members: tuple[Device, ...] = (),
        suffix: str = "",
        from_evidence: bool = False,
    ) -> None:
        """Write down a fault: the scenario's verdict, where nothing else is said.

        ``detect_by_s`` counts from ``evident_s``.
        """
        verdict = self.scenario.verdict
        assert verdict is not None  # noqa: S101 - faults have one, the loader holds that
        evident = onset_s if evident_s is None else evident_s
        by_s = verdict.detect_by_s if detect_by_s is None else detect_by_s
        one_reading = by_s < 2 * self.step_s
        if (
            one_reading and isinstance(entity, Device) and entity.host in self.topology.hosts
        ):  # and that one arrives
            self.inject(evident, partial(effects.is_read, host=entity.host))
        self.truths.append(
            Truth(
                id=f"{self.scenario.id}/{case.number}{suffix}",
                scenario=self.scenario.id,
                magnitude=case.magnitude,
                entity_kind=kind or verdict.entity,
                entity=entity,
                onset_ns=self.ns(onset_s),
                end_ns=self.ns(min(end_s, self.end_s)),
                detect_by_s=evident - onset_s + by_s,
                fault=fault or verdict.fault,
                severity=severity or verdict.severity,
                allowed_secondary=verdict.secondary,
                evident_ns=self.ns(evident),
                members=members,
                from_evidence=from_evidence,
            )
        )

    def ns(self, at_s: float) -> int:
        """Unix time of a second of the run."""
        return self.topology.begin_ns + round(at_s * 1e6) * (SECOND_NS // 10**6)

    def finished(self) -> tuple[Truth, ...]:
        """All truths in the order of their onsets, numbered by seed elsewhere."""
        return tuple(
            sorted(
                (replace(truth) for truth in self.truths),
                key=lambda truth: (truth.onset_ns, truth.id),
            )
        )
