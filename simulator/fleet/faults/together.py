"""Two or three faults within minutes: of one device, one node, one job, or of nodes that have
nothing to do with each other. Every broken device must be named.
"""

from __future__ import annotations

from functools import partial
from typing import Literal, NamedTuple

from pipeline.frame import Device
from simulator.fleet.faults.fabric import healthy
from simulator.fleet.faults.kinds import ALIKE, KINDS, Kind, Strike
from simulator.fleet.plan import Case, Plan, TopologyNode
from simulator.fleet.topology import GPUS
from simulator.fleet.troubles.trouble import Words

HOUR = 3600.0
Relation = Literal["device", "node", "job", "unrelated"]
RELATIONS: tuple[Relation, ...] = ("device", "node", "job", "unrelated")
DYING_S = (10.0, 600.0)
TRIES = 40


class Member(NamedTuple):
    """A fault of a case: its name, its row of GPUs or ports, and when."""

    name: str
    row: int
    onset_s: float

    @property
    def kind(self) -> Kind:
        """What it is."""
        return KINDS[self.name]


def several(plan: Plan, *, faults: int) -> None:
    """F45, F46: so many faults, the next one 1 s to 20 min after the one before."""
    plan.inject(0.0, healthy)
    for case in plan.cases():
        lasts = plan.draw("repair_hours") * HOUR
        gaps = [plan.draw("gap_s") for _ in range(faults - 1)]
        latest = sum(gaps)
        place = plan.place(
            latest + lasts, needs_s=latest + 900.0, nodes=2, alone=True,
            fits=partial(_spared, plan, latest + lasts),
        )  # fmt: skip
        if place is None:
            continue
        members = [Member(str(plan.rng.choice(list(KINDS))), place.gpu, place.onset_s)]
        at = place.onset_s
        for number, gap in enumerate(gaps):
            at += gap
            relation = RELATIONS[(case.number + number) % len(RELATIONS)]
            more = _next(plan, place, members, relation, at)
            if more is not None and relation == "unrelated":
                plan.claim((more.row // GPUS,), place.onset_s, at + lasts)
            if more is not None:
                members.append(more)
        for number, member in enumerate(members):
            _strike(plan, case, member, lasts, f"/{number}")
        _ends(plan, place, members, latest + lasts)


def _spared(plan: Plan, lasts: float, place: TopologyNode) -> bool:
    """Whether nobody needs a job that starts while its nodes are repaired."""
    assert place.job is not None  # noqa: S101 - busy places have one
    until = place.onset_s + lasts
    return all(plan.spares(node, place.onset_s, until) for node in place.job.nodes)


def _next(
    plan: Plan, place: TopologyNode, before: list[Member], relation: Relation, at: float
) -> Member | None:
    """A fault that can be distinguished from those before; None where there is no room for one."""
    for _ in range(TRIES):
        name, row = str(plan.rng.choice(list(KINDS))), _row(plan, place, relation)
        if row is None:
            return None
        one = Member(name, row, plan.on_grid(at) + (at % plan.step_s))
        if relation == "device" and one.kind.of != before[0].kind.of:
            continue
        if all(_apart(each, one, relation) for each in before):
            return one
    return None


def _row(plan: Plan, place: TopologyNode, relation: Relation) -> int | None:
    job, slot = place.job, int(plan.rng.integers(GPUS))
    assert job is not None  # noqa: S101 - busy places have one
    match relation:
        case "device":
            return place.gpu
        case "node":
            return place.node * GPUS + slot
        case "job":
            others = [node for node in job.nodes if node != place.node]
        case _:
            others = [node for node in range(plan.topology.nodes) if node not in job.nodes]
            others = [node for node in others if plan.is_free(node, place.onset_s)]
    return int(plan.rng.choice(others)) * GPUS + slot if others else None


def _apart(before: Member, one: Member, relation: Relation) -> bool:
    """Whether both are to be reported: not what the other one hides, or is."""
    if before.row // GPUS != one.row // GPUS:
        return True
    a, b = before.kind, one.kind
    if frozenset({before.name, one.name}) in ALIKE or before.name == one.name == "driver":
        return False
    if "driver" in (before.name, one.name):  # no GPU of the node is read
        return a.of != "gpu" and b.of != "gpu"
    same = a.of == b.of and (a.of == "node" or before.row == one.row)
    if not same:
        return relation != "device"
    known_s = before.onset_s + a.after_s + a.by_s
    return a.fault != b.fault and not a.silences and not (b.silences and one.onset_s < known_s)


def entity(plan: Plan, member: Member) -> Device:
    """What is broken."""
    match member.kind.of:
        case "gpu":
            return plan.topology.gpus[member.row]
        case "port":
            return plan.topology.ports[member.row]
        case _:
            return plan.topology.node_devices[member.row // GPUS]


def _strike(plan: Plan, case: Case, one: Member, lasts: float, suffix: str) -> None:
    onset, within = plan.on_grid(one.onset_s), one.onset_s % plan.step_s
    kind, device = one.kind, entity(plan, one)
    end = plan.end_s if kind.stays else onset + lasts
    rows = range(one.row // GPUS * GPUS, (one.row // GPUS + 1) * GPUS)
    plan.truth(
        case,
        device,
        onset,
        end,
        evident_s=onset + within + kind.after_s,
        kind=kind.of,
        fault=kind.fault,
        severity=kind.severity,
        detect_by_s=kind.by_s,
        members=tuple(plan.topology.gpus[row] for row in rows) if one.name == "driver" else (),
        suffix=suffix,
    )
    words = Words(plan.rng, plan.topology.profile, one.row % GPUS)
    strike = Strike(one.row, lasts, words)
    plan.inject(one.onset_s, partial(kind.act, at=strike))
    job = plan.job(one.row // GPUS, onset)
    if kind.halts:
        plan.kill(job, onset + kind.after_s + float(plan.rng.uniform(*DYING_S)))


def _ends(plan: Plan, place: TopologyNode, members: list[Member], lasts: float) -> None:
    """Nobody uses the nodes before they are repaired; what stays until a boot strikes no more."""
    for member in members:
        if member.kind.stays:
            plan.hold(member.row // GPUS, place.onset_s, plan.end_s)
    for node in {member.row // GPUS for member in members}:
        plan.drain(node, place.onset_s, place.onset_s + lasts)
