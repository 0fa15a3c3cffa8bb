"""Nodes that crash, and drivers all of whose calls hang."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from pipeline.clock import SECOND_NS
from simulator.fleet import effects, kernel_logs
from simulator.fleet.plan import Plan, TopologyNode
from simulator.fleet.repair import boot
from simulator.fleet.topology import GPUS
from simulator.fleet.troubles.hardware import BROKEN
from simulator.fleet.troubles.kernel import HARD, PANIC
from simulator.fleet.troubles.trouble import LINE_S, Spelling, Words
from simulator.fleet.truth import Truth
from simulator.fleet.world import HUNG, FleetState, Process

MINUTE, HOUR = 60.0, 3600.0
DAY_NS = 24 * 3600 * SECOND_NS
# What the firmware or a processor reports as fatal.
FATAL = tuple(text for text in BROKEN if "Exception: 5" in text[0] or "SError" in text[0]) + tuple(
    texts for texts in BROKEN if any("severity: fatal" in text for text in texts)
)
CRASHES = (*PANIC, *HARD, *FATAL)
VISIBLE_SHARE = 0.5  # of panics whose line is still read
READ_S = 60.0  # after the boot, until the log of the one before is read


def crashes(plan: Plan) -> None:
    """F34: a panic, which is read in its last moment or only after the node was booted again."""
    for case in plan.cases():
        off, read = plan.draw("off_minutes") * MINUTE, plan.draw("read_s")
        visible = plan.rng.random() < VISIBLE_SHARE
        busy = plan.rng.random() < plan.draw("busy_share")
        lasts = off + read + 2 * HOUR
        place = plan.place(
            lasts, needs_s=off + read + 10 * MINUTE, busy=busy, kills_s=MINUTE if busy else None,
            fits=partial(_spared, plan, off + MINUTE),
        )  # fmt: skip
        if place is None:
            continue
        node, onset = plan.topology.node_devices[place.node], place.onset_s
        back = plan.on_grid(onset + off)
        said = PANIC if visible else CRASHES
        texts = said[int(plan.rng.integers(len(said)))]
        if visible:
            plan.truth(case, node, onset, back, evident_s=onset + LINE_S)
        else:
            plan.truth(
                case, node, onset, back + read + 1, evident_s=back + read + LINE_S,
                severity="ticket", detect_by_s=MINUTE, from_evidence=True,
            )  # fmt: skip
        words = Words(plan.rng, plan.topology.profile, place.slot)
        plan.inject(onset, partial(_dies, at=place, off=back - onset))
        if not visible:
            plan.inject(
                back + read,
                partial(_found, at=place, words=words, said=texts, ago=back + read - onset),
            )
        else:
            plan.inject(onset, partial(_read, at=place, words=words, said=texts))
        plan.kill(place.job, onset + float(plan.rng.uniform(10, 600)))
        plan.drain(place.node, onset, back + MINUTE)
    plan.truths[:] = [_graver(plan, one) for one in plan.truths]


def _graver(plan: Plan, crash: Truth) -> Truth:
    """The second crash of a node within a day deserves a page, also where it is found later."""
    before = any(
        one.entity == crash.entity and 0 < crash.onset_ns - one.onset_ns <= DAY_NS
        for one in plan.truths
    )
    return replace(crash, severity="page") if before else crash


def driver_hung(plan: Plan) -> None:
    """F43: every call into the driver of a node hangs, of one GPU after the other."""
    for case in plan.cases():
        spread, repair = plan.draw("spread_s"), plan.draw("repair_hours") * HOUR
        busy = plan.rng.random() < plan.draw("busy_share")
        place = plan.place(
            repair + HOUR, needs_s=spread + 10 * MINUTE, busy=busy,
            kills_s=MINUTE if busy else None,
            fits=partial(_spare, plan, repair),
        )  # fmt: skip
        if place is None:
            continue
        end = plan.on_grid(place.onset_s + repair)
        gpus = plan.topology.gpus[place.node * GPUS : (place.node + 1) * GPUS]
        plan.truth(
            case, plan.topology.node_devices[place.node], place.onset_s, end,
            evident_s=place.onset_s + spread, members=gpus,
        )  # fmt: skip
        order = plan.rng.permutation(GPUS).tolist()
        plan.inject(place.onset_s, partial(_hangs, at=place, spread=spread, order=order))
        plan.inject(end, partial(boot, node=place.node))
        plan.kill(place.job, place.onset_s + spread + float(plan.rng.uniform(10, 600)))
        plan.kill(plan.job(place.node, end), end - MINUTE)
        plan.drain(place.node, place.onset_s, end + 10 * MINUTE)


def _spared(plan: Plan, off_s: float, place: TopologyNode) -> bool:
    """Nobody needs a job that would start while the node is off."""
    return plan.spares(place.node, place.onset_s, place.onset_s + off_s)


def _spare(plan: Plan, after_s: float, place: TopologyNode) -> bool:
    """Nobody needs the job that the boot ends."""
    return not plan.needed(place.node, place.onset_s + after_s - MINUTE)


def _read(world: FleetState, *, at: TopologyNode, words: Words, said: Spelling) -> Process:
    kernel_logs.write(world, at.node, words.of(said, world.rng), after_s=LINE_S)
    yield from ()


def _dies(world: FleetState, *, at: TopologyNode, off: float) -> Process:
    effects.stall(world, at.gpu)
    yield from boot(world, node=at.node, off_s=off)


def _found(
    world: FleetState, *, at: TopologyNode, words: Words, said: Spelling, ago: float
) -> Process:
    kernel_logs.write(world, at.node, words.of(said, world.rng), after_s=LINE_S, crashed_s=ago)
    yield from ()


def _hangs(world: FleetState, *, at: TopologyNode, spread: float, order: list[int]) -> Process:
    effects.stall(world, at.gpu)
    for slot in order:
        effects.gpu_state(world, at.node * GPUS + slot, HUNG)
        if spread:
            yield spread / (len(order) - 1)
