"""The plan of the claim: which runs give every class enough cases and enough healthy GPU-months,
and their cost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from evaluation.metrics.scope import Scope
from evaluation.runs.cadence import STEP_S, step_of
from evaluation.runs.cost_estimate import seconds_of
from evaluation.runs.run import OURS, Job, Split
from evaluation.runs.scenarios import every_scenario, scenario
from simulator.fleet import Scenario

Candidates = tuple[tuple[str, Scope], ...]

# of every class at each magnitude: with 200 of 200 found the recall is at least 0.98, with 189
# still at least 0.9 (exact, 95 %)
CASES = 200
SPARE = 1.05  # more are asked for: a few are not over when their run is
# without a false page there are at most 0.0015 in a GPU-month (rule of three)
HEALTHY_MONTHS = 2000.0
FLEET, FLEET_DAYS = 512, 4.0  # nodes and length of the large runs of the healthy fleet
LARGEST = 512  # nodes of a run; more cases than fit take another seed
LARGE_AND_LONG = "H00"
# Seconds between readings of the large healthy runs in turn: the default intervals of Prometheus
# and of dcgm-exporter.
HEALTHY_STEPS = (60.0, 30.0)
EACH_SECOND = (256, 0.1)  # nodes and days that are read as the agent itself reads
# Runs at their own size of at most so many days are made at STEP_S too, where the plan reads them
# less often, and compared case by case.
COMPARED_DAYS = 1.0
# Cases that a large run has room for, as a share of those asked for: two faults leave a job alone
# for hours. Measured; elsewhere it is all.
ROOM = {
    "F06": 0.6,
    "F07": 0.74,
    "F08": 0.65,
    "F09": 0.9,
    "F16": 0.92,
    "F24": 0.87,
    "F27": 0.9,
    "F28": 0.62,
    "F30": 0.86,
    "F37": 0.82,
    "F38": 0.83,
}
# nodes: congestion takes a complete part of the fabric, and a larger run has room for no more
SMALLER = {"F24": 64}
# Two of three of F23 are of NVLink, which has no other scenario; F45 and F46 have two and three
# faults of any class in each case.
WANTED = {"F23": 315, "F43": 110, "F45": 110, "F46": 75}
SEVERAL = "together"  # family of scenarios whose faults are of any class
# Times as many nodes for as many cases: at its own size nearly every node has a GPU whose paste
# ages, and when a large job loads them again all are reported within a minute, which is taken for
# one common cause.
SPARSE = {"F11": 3}
MAGNITUDES = ("nominal", "half")
GPUS_PER_NODE, MONTH_DAYS = 8, 30.0


@dataclass(frozen=True, slots=True)
class Claim:
    """What is to be shown, for which candidates, scopes and split; ``cases`` of every class.

    ``scenarios`` narrow it to a part.
    """

    split: Split
    first_seed: int
    ours: bool
    baselines: tuple[str, ...]
    scopes: tuple[Scope, ...]
    scenarios: tuple[str, ...]
    cases: int = CASES


def suite(claim: Claim) -> list[Job]:
    """All runs, the dearest first, so that no core waits for the last one.

    Every scenario once at its own size with all candidates: ours, restarted half-way, and the
    baselines. Then ours in both scopes in runs with as many nodes as the cases need, at nominal and
    half magnitude, and a healthy fleet of 4,096 GPUs. Faults that the large runs have in scope node
    are judged so at their own size only to be compared with the same run read more often; what
    needs the fleet is run in scope node at its own size only.
    """
    scenarios = [every_scenario().get(name) or scenario(name) for name in claim.scenarios]
    jobs = [_own_size(one, claim) for one in scenarios]
    if claim.ours:
        jobs += [job for one in scenarios for job in _many_cases(one, claim)]
        jobs += [_read_more_often(one, claim) for one in scenarios if _is_compared(one)]
        jobs += _healthy_fleet(claim) if LARGE_AND_LONG in claim.scenarios else ()
    return sorted((job for job in jobs if job.contestants), key=seconds_of, reverse=True)


def _own_size(scenario: Scenario, claim: Claim) -> Job:
    candidates: Candidates = (
        *((OURS, scope) for scope in claim.scopes if claim.ours),
        *((name, "fleet") for name in claim.baselines),
    )
    if scenario.id == LARGE_AND_LONG:  # baselines over a month would cost more than all other runs
        candidates = tuple(one for one in candidates if one[0] == OURS)
    if scenario.verdict is not None and scenario.scope == "node" and not _is_compared(scenario):
        candidates = tuple(one for one in candidates if one != (OURS, "node"))
    restart = claim.ours and scenario.kind == "fault"
    return Job(
        scenario.id,
        "nominal",
        claim.first_seed,
        claim.split,
        candidates,
        restart=restart,
        step_s=step_of(scenario),
    )


def _is_compared(scenario: Scenario) -> bool:
    return (
        scenario.verdict is not None
        and step_of(scenario) > STEP_S
        and scenario.days <= COMPARED_DAYS
    )


def _read_more_often(scenario: Scenario, claim: Claim) -> Job:
    """The run at its own size once more, in the scope in which the fault can be known."""
    candidates = tuple((OURS, scope) for scope in claim.scopes if scope == scenario.scope)
    seed = claim.first_seed
    return Job(scenario.id, "nominal", seed, claim.split, candidates, compared=True)


def _many_cases(scenario: Scenario, claim: Claim) -> Iterator[Job]:
    """Runs that give the scenario its share of the cases of its class."""
    if scenario.verdict is None:
        return
    for magnitude in MAGNITUDES if scenario.swept else MAGNITUDES[:1]:
        wanted = WANTED.get(scenario.id) or math.ceil(
            SPARE * claim.cases / _sharing(scenario.verdict.fault, magnitude, scenario.scope)
        )
        thinner = SPARSE.get(scenario.id, 1)
        nodes = (
            math.ceil(wanted * scenario.nodes / scenario.cases / ROOM.get(scenario.id, 1.0))
            * thinner
        )
        runs = math.ceil(nodes / SMALLER.get(scenario.id, LARGEST))
        size = math.ceil(nodes / runs)
        cases = math.ceil(wanted / runs) if thinner > 1 else None
        for number in range(runs):
            seed = claim.first_seed + 1 + number
            yield Job(
                scenario.id,
                magnitude,
                seed,
                claim.split,
                _ours(claim, scenario),
                nodes=size,
                cases=cases,
                step_s=step_of(scenario),
            )


def _ours(claim: Claim, scenario: Scenario) -> Candidates:
    """Ours in the scopes in which the scenario can be known."""
    return tuple((OURS, scope) for scope in claim.scopes if scope in (scenario.scope, "fleet"))


def _sharing(fault: str, magnitude: str, scope: Scope) -> int:
    """How many scenarios of a class share its cases that have this magnitude: those that an agent
    can know have enough without the others.
    """
    some = [
        one
        for one in every_scenario().values()
        if one.verdict is not None
        and one.verdict.fault == fault
        and one.family != SEVERAL
        and one.scope in (scope, "node")
    ]
    return sum(one.swept is not None or magnitude == MAGNITUDES[0] for one in some)


def _healthy_fleet(claim: Claim) -> Iterator[Job]:
    """As many large runs as the healthy scenarios at their own size leave to be watched, and one
    that is read each second.
    """
    scopes = tuple((OURS, scope) for scope in claim.scopes)
    healthy = [one for one in every_scenario().values() if one.kind == "healthy"]
    watched = sum(months_of(one.nodes, one.days) for one in healthy)
    runs = math.ceil((HEALTHY_MONTHS - watched) / months_of(FLEET, FLEET_DAYS))
    sizes = [
        (FLEET, FLEET_DAYS, HEALTHY_STEPS[number % len(HEALTHY_STEPS)]) for number in range(runs)
    ]
    for number, (nodes, days, step_s) in enumerate([*sizes, (*EACH_SECOND, 1.0)]):
        seed = claim.first_seed + 1 + number
        yield Job(
            LARGE_AND_LONG,
            "nominal",
            seed,
            claim.split,
            scopes,
            days=days,
            nodes=nodes,
            step_s=step_s,
        )


def months_of(nodes: int, days: float) -> float:
    """GPU-months of 30 days.

    >>> months_of(512, 30.0)
    4096.0
    """
    return nodes * GPUS_PER_NODE * days / MONTH_DAYS
