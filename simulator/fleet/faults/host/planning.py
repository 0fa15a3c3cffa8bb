"""Cases of the troubles that the kernel reports: which one, of which device, with a job or without,
how its reports follow each other, and how it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from pipeline.frame import Device
from simulator.fleet import effects, kernel_logs
from simulator.fleet.demand import RUNS, STARVES
from simulator.fleet.jobs import FleetJob
from simulator.fleet.plan import Case, Plan, TopologyNode
from simulator.fleet.repair import BOOT_S, boot
from simulator.fleet.troubles.trouble import LINE_S, Spelling, Trouble, Words
from simulator.fleet.world import LOST, OK, FleetState, Process

MINUTE, HOUR = 60.0, 3600.0
CHAIN_S = (
    3.0  # within which the lines of a chain follow each other at home; elsewhere the file says
)
DYING_S = (20.0, 600.0)  # from the last evidence to the end of the job
QUIET_S = 6 * HOUR  # without a word, until what nobody reports the end of is over
PATIENCE_S = (10 * MINUTE, 40 * MINUTE)  # of a job that waits for its files


@dataclass(frozen=True, slots=True)
class Course:
    """What is drawn for a case: seconds between two reports, further reports after the one that
    makes it due, the spelling of all (None: each has its own), which lines of the chain follow how
    many seconds apart, seconds from the last report to the repair, whether the GPU is lost.
    """

    gap_s: float
    repeats: int
    spelling: Spelling | None
    chain: tuple[str, ...]
    chain_gap_s: float
    repair_s: float
    lost: bool

    def due_s(self, trouble: Trouble) -> float:
        """Seconds from the onset until it is due."""
        return (trouble.least - 1) * self.gap_s + LINE_S + trouble.wait_s


class Spans(NamedTuple):
    """Seconds from the onset until it is due, and until it is repaired or recovers."""

    due_s: float
    over_s: float


def troubles(plan: Plan, *, of: Sequence[Trouble]) -> None:
    """Each case has the next trouble of a list."""
    order = plan.rng.permutation(len(of)).tolist()
    for case in plan.cases():
        trouble = of[order[case.number % len(of)]]
        course = _course(plan, trouble)
        reports_s = (trouble.least - 1 + course.repeats) * course.gap_s
        over_s = max(reports_s, course.due_s(trouble)) + course.repair_s
        busy = trouble.needs_job or plan.rng.random() < plan.draw("busy_share")
        due = course.due_s(trouble)
        place = plan.place(
            over_s + (QUIET_S if trouble.quiet else BOOT_S),
            needs_s=due + 10 * MINUTE,
            busy=busy,
            stays_s=due + MINUTE if busy else 0.0,
            kills_s=due if busy and trouble.halts else None,
            fits=partial(_fits, plan, Spans(due, over_s), busy),
        )
        if place:
            _strike(plan, case, place, (trouble, course, over_s))


def _fits(plan: Plan, spans: Spans, busy: bool, place: TopologyNode) -> bool:
    """Nobody needs the job that a boot ends; where no job is to be, none is, nor starts before all
    is due.
    """
    over = place.onset_s + spans.over_s
    if plan.needed(place.node, over - MINUTE):
        return False
    if not plan.spares(place.node, place.onset_s, over + BOOT_S + MINUTE):
        return False
    later = plan.job(place.node, place.onset_s + spans.due_s)
    return busy or (place.job is None and later is None)


def _course(plan: Plan, trouble: Trouble) -> Course:
    rng = plan.rng
    spelling = trouble.spellings[int(rng.integers(len(trouble.spellings)))]
    keep = plan.draw("chain_share")
    return Course(
        gap_s=max(1.0, plan.draw("gap_share") * trouble.within_s / max(trouble.least, 2)),
        repeats=plan.pick("repeats") if trouble.repeats else 0,
        spelling=spelling if trouble.wait_s else None,
        chain=tuple(text for text in trouble.chain if rng.random() < keep),
        chain_gap_s=plan.draw("chain_gap_s"),
        repair_s=plan.draw("repair_hours") * HOUR,
        lost=trouble.gone and rng.random() < 0.5,
    )


def _strike(
    plan: Plan,
    case: Case,
    place: TopologyNode,
    what: tuple[Trouble, Course, float],
) -> None:
    trouble, course, over_s = what
    onset, due, job = place.onset_s, course.due_s(trouble), place.job
    boots = not (trouble.ends or trouble.quiet)
    last = onset + (trouble.least - 1 + course.repeats) * course.gap_s + LINE_S
    end = onset + over_s + (BOOT_S if boots else 0.0)
    if trouble.quiet:
        end = max(last, onset + due) + plan.step_s
    plan.truth(
        case,
        entity(plan, trouble, place),
        onset,
        end,
        evident_s=onset + due,
        severity=trouble.severity if job or trouble.idle is None else trouble.idle,
    )
    words = Words(plan.rng, plan.topology.profile, place.slot)
    plan.inject(onset, partial(_reports, at=place, trouble=trouble, course=course, words=words))
    if course.chain or course.lost:
        plan.inject(onset + due, partial(_chain, at=place, course=course, words=words))
    if boots or trouble.ends:
        over: Callable[[FleetState], Process] = partial(
            _recovers, at=place, trouble=trouble, words=words, lost=course.lost
        )
        plan.inject(plan.on_grid(onset + over_s), over)
    if job is not None and trouble.halts:
        _halt(plan, job, trouble, onset, Spans(due, over_s))
    plan.drain(place.node, onset, end + MINUTE)
    if boots:
        rest = plan.job(place.node, onset + over_s)
        plan.kill(rest, onset + over_s - MINUTE)


def entity(plan: Plan, trouble: Trouble, place: TopologyNode) -> Device:
    """What is broken."""
    match trouble.of:
        case "gpu":
            return plan.topology.gpus[place.gpu]
        case "port":
            return plan.topology.ports[place.gpu]
        case _:
            return plan.topology.node_devices[place.node]


def _halt(plan: Plan, job: FleetJob, trouble: Trouble, onset: float, spans: Spans) -> None:
    dies = onset + spans.due_s + float(plan.rng.uniform(*DYING_S))
    if trouble.halts == "waits":
        plan.inject(onset, partial(_waits, job=job, until_s=spans.over_s))
        dies = onset + spans.due_s + float(plan.rng.uniform(*PATIENCE_S))
    if trouble.halts == "dies" or dies < onset + spans.over_s:
        plan.kill(job, dies)


def _waits(world: FleetState, *, job: FleetJob, until_s: float) -> Process:
    nodes = list(job.nodes)
    world.work.mode[nodes] = STARVES
    yield until_s
    for node in nodes:
        if world.work.jobs[node] is job:
            world.work.mode[node] = RUNS


def _reports(
    world: FleetState, *, at: TopologyNode, trouble: Trouble, course: Course, words: Words
) -> Process:
    spellings = trouble.spellings
    for _ in range(trouble.least + course.repeats):
        texts = course.spelling or spellings[int(world.rng.integers(len(spellings)))]
        kernel_logs.write(world, at.node, words.of(texts, world.rng), after_s=LINE_S)
        yield course.gap_s


def _chain(world: FleetState, *, at: TopologyNode, course: Course, words: Words) -> Process:
    if course.lost:
        effects.xid(world, at.gpu, 79, after_s=LINE_S)
        effects.gpu_state(world, at.gpu, LOST)
    for text in course.chain:
        yield course.chain_gap_s
        kernel_logs.write(world, at.node, words.of((text,), world.rng), after_s=LINE_S)


def _recovers(
    world: FleetState, *, at: TopologyNode, trouble: Trouble, words: Words, lost: bool
) -> Process:
    if trouble.ends:
        kernel_logs.write(world, at.node, words.of(trouble.ends, world.rng), after_s=LINE_S)
        return
    yield from boot(world, node=at.node)
    if lost:
        effects.gpu_state(world, at.gpu, OK)
