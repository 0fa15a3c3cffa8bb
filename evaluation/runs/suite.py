"""The plan of the claim: which runs give every class enough cases and enough healthy GPU-months,
and their cost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from evaluation.metrics.scope import Scope
from evaluation.runs.cadence import STEP_S, step_of
from evaluation.runs.cost_estimate import seconds_of
from evaluation.runs.run import OURS, Job, Split
from evaluation.runs.scenarios import every_scenario, scenario
from simulator.fleet import Scenario

Candidates = tuple[tuple[str, Scope], ...]

# of every class that an agent can know, at nominal magnitude: with 200 of 200 found the recall is
# at least 0.98, with 189 still at least 0.9 (exact, 95 %)
CASES = 200
SPARE = 1.05  # more are asked for: a few are not over when their run is
# without a false page there are at most 0.0015 in a GPU-month (rule of three)
HEALTHY_MONTHS = 2000.0
FLEET, FLEET_DAYS = 512, 4.0  # nodes and length of the large runs of the healthy fleet
OWN_DAYS = {"H00": 10.0}  # of the healthy fleet at its own size: months are those of the large runs
LARGEST = 512  # nodes of a run; more cases than fit take another seed
LARGE_AND_LONG = "H00"
HEALTHY_STEP_S = 60.0  # between readings of the large healthy runs: Prometheus' default
EACH_SECOND = (256, 0.1)  # nodes and days that are read as the agent itself reads
# These are made at their own size at STEP_S too, where the plan reads them less often, and compared
# case by case: four of 30 s and one of 15 s, of heat, clocks, jobs, links and PCIe.
COMPARED = ("F13", "F16", "F18", "F26", "F72")
MAX_OWN_DAYS = 8.0  # of a fault's run at its own size
BASELINES_EACH = 3  # of so many healthy scenarios at their own size one has the baselines
# Runs that take half of the scenario's days, or a quarter: their faults are read from a counter, a
# state or the kernel log, and no past of days has to be learnt.
SHORTER = dict.fromkeys(
    (
        *("F01", "F06", "F07", "F13", "F14", "F18", "F19", "F20", "F23", "F27", "F28", "F29"),
        *("F33", "F34", "F36", "F37", "F38", "F40", "F41", "F42", "F43", "F44"),
    ),
    0.5,
) | dict.fromkeys(("F02", "F03", "F04", "F05", "F08", "F09"), 0.25)
# Twice the scenario's days: more than ten incidents of one class within ten minutes are taken for
# one common cause at the gateway (detectors/incidents/joining.py, MANY), and so many cases of a
# fault that does not end need more hours.
LONGER = dict.fromkeys(("F22", "F49"), 2.0)
# Cases that a large run has room for, as a share of those asked for: two faults leave a job alone
# for hours. Measured at the days of the run; elsewhere it is all.
ROOM = {
    "F03": 0.55,
    "F06": 0.6,
    "F07": 0.58,
    "F08": 0.37,
    "F09": 0.56,
    "F13": 0.6,
    "F16": 0.92,
    "F23": 0.75,
    "F24": 0.87,
    "F27": 0.76,
    "F28": 0.5,
    "F30": 0.86,
    "F33": 0.7,
    "F34": 0.62,
    "F35": 0.58,
    "F36": 0.78,
    "F37": 0.66,
    "F38": 0.83,
    "F39": 0.62,
    "F40": 0.76,
    "F41": 0.6,
    "F42": 0.78,
    "F43": 0.85,
    "F44": 0.9,
}
# Times as many cases on as many nodes: faults of one device each, which leave their neighbours
# alone. A large run costs by its nodes; of those asked for, the plan has ROOM for that share.
DENSER = dict.fromkeys(
    ("F03", "F05", "F15", "F18", "F19", "F20", "F23", "F29", "F31", "F35", "F39", "F41", "F44"), 2
)
# nodes: congestion takes a complete part of the fabric, and a larger run has room for no more
SMALLER = {"F24": 64}
# Scenarios of which a run has one case, whatever its nodes.
SINGLE = frozenset({"F74"})
# Half of F23 are of NVLink, half of InfiniBand; F45 and F46 have two and three faults of any class
# in each case. Those of F24, F74, F87 and F88 are dear, and known to the fleet alone, for which no
# number is claimed. The others are of classes that several scenarios share, but of one detector,
# which is to have as many cases as a class (evaluation/runs/by_detector.py).
WANTED = {
    "F06": 110,
    "F07": 210,
    "F10": 150,
    "F11": 105,
    "F16": 250,
    "F18": 210,
    "F22": 210,
    "F23": 210,
    "F24": 105,
    "F27": 210,
    "F29": 210,
    "F43": 110,
    "F45": 110,
    "F46": 75,
    "F47": 210,
    "F48": 210,
    "F49": 210,
    "F55": 210,
    "F74": 20,
    "F87": 24,
    "F88": 105,
}
SEVERAL = "together"  # family of scenarios whose faults are of any class
# Times as many nodes for as many cases: at its own size nearly every node has a GPU whose paste
# ages, and when a large job loads them again all are reported within a minute, which is taken for
# one common cause.
SPARSE = {"F11": 3}
MAGNITUDES = ("nominal", "half")
# Of the cases: nobody is to be paged for half of a fault, and its row is for orientation.
OF_HALF = 0.25
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
    """All runs by stage, the dearest of each first, so that no core waits for the last one.

    Of every class the scenario with the fewest readings once at its own size with all candidates:
    ours, restarted half-way, and the baselines; so every healthy scenario, of which some have the
    baselines, and every world of other authors; not lemons, whose month costs more than the rest.
    Then ours in both scopes in runs with as many nodes as the cases need, at nominal and half
    magnitude, and a healthy fleet of 4,096 GPUs.
    """
    scenarios = [every_scenario().get(name) or scenario(name) for name in claim.scenarios]
    own = [one for one in scenarios if one.verdict is None or _stands_for_its_class(one)]
    jobs = [_own_size(one, claim) for one in own]
    if claim.ours:
        jobs += [job for one in scenarios for job in _many_cases(one, claim)]
        jobs += [_read_more_often(one, claim) for one in scenarios if one.id in COMPARED]
        jobs += _healthy_fleet(claim) if LARGE_AND_LONG in claim.scenarios else ()
    asked = (job for job in jobs if job.contestants)
    return sorted(asked, key=lambda job: (stage_of(job), -seconds_of(job)))


def stage_of(job: Job) -> int:
    """What is run first, so that a suite that was interrupted shows what ships, and a false page
    ends it early: 0 healthy operation, 1 the cases that an agent can know, 2 what the fleet alone
    knows, 3 faults and other authors' worlds at their own size with restarts and baselines, 4 half
    of the magnitude and comparisons.
    """
    if job.compared or job.magnitude != MAGNITUDES[0]:
        return 4
    one = every_scenario().get(job.scenario)  # none of another author's
    if one is not None and one.kind == "healthy":
        return 0
    if job.nodes is None:
        return 3
    return 1 if (OURS, "node") in job.contestants else 2


def _stands_for_its_class(one: Scenario) -> bool:
    """Whether it is compared at two steps, or the one of its class with the fewest readings that
    an agent can know, where there is one.
    """
    alike = [
        other
        for other in every_scenario().values()
        if other.verdict is not None
        and one.verdict is not None
        and other.verdict.fault == one.verdict.fault
        and other.family != SEVERAL
    ]
    first = min(
        alike,
        key=lambda other: (other.scope != "node", other.days / step_of(other), other.id),
        default=None,
    )
    return one.id in COMPARED or (one is first and one.days <= MAX_OWN_DAYS)


def _own_size(scenario: Scenario, claim: Claim) -> Job:
    """Of a fault ours are beside the baselines, which see the fleet; what an agent alone says of it
    is in the runs with many cases, and where two steps are compared.
    """
    in_both = scenario.verdict is None or scenario.id in COMPARED
    scopes = [scope for scope in claim.scopes if in_both or scope == "fleet"] or claim.scopes
    candidates: Candidates = (
        *((OURS, scope) for scope in scopes if claim.ours),
        *((name, "fleet") for name in claim.baselines),
    )
    if claim.ours and not _has_baselines(scenario):
        candidates = tuple(one for one in candidates if one[0] == OURS)
    restart = claim.ours and scenario.kind == "fault"
    return Job(
        scenario.id,
        "nominal",
        claim.first_seed,
        claim.split,
        candidates,
        restart=restart,
        days=OWN_DAYS.get(scenario.id) or _other_days(scenario),
        step_s=step_of(scenario),
    )


def _other_days(scenario: Scenario) -> float | None:
    """Days of a run where they are not the scenario's own."""
    share = (SHORTER | LONGER).get(scenario.id)
    return share * scenario.days if share else None


def _has_baselines(one: Scenario) -> bool:
    """Some that learn cost more than all of ours: over a month more than all other runs."""
    if one.verdict is not None:
        return True
    healthy = [other.id for other in every_scenario().values() if other.kind == "healthy"]
    return one.id != LARGE_AND_LONG and one.id in healthy[1::BASELINES_EACH]


def _read_more_often(scenario: Scenario, claim: Claim) -> Job:
    """The run at its own size once more, in the scope in which the fault can be known."""
    candidates = tuple((OURS, scope) for scope in claim.scopes if scope == scenario.scope)
    return replace(
        _own_size(scenario, claim),
        contestants=candidates,
        restart=False,
        step_s=STEP_S,
        compared=True,
    )


def _many_cases(scenario: Scenario, claim: Claim) -> Iterator[Job]:
    """Runs that give the scenario its share of the cases of its class."""
    if scenario.verdict is None:
        return
    for magnitude in MAGNITUDES if scenario.swept else MAGNITUDES[:1]:
        wanted = WANTED.get(scenario.id) or math.ceil(
            SPARE * claim.cases / _sharing(scenario.verdict.fault, magnitude, scenario.scope)
        )
        wanted = wanted if magnitude == MAGNITUDES[0] else math.ceil(OF_HALF * wanted)
        thinner, denser = SPARSE.get(scenario.id, 1), DENSER.get(scenario.id, 1)
        nodes = (
            math.ceil(wanted * scenario.nodes / scenario.cases / ROOM.get(scenario.id, 1.0))
            * thinner
        )
        nodes = math.ceil(nodes / denser)
        runs = math.ceil(nodes / SMALLER.get(scenario.id, LARGEST))
        if scenario.id in SINGLE:
            nodes, runs = LARGEST * wanted, wanted
        size = math.ceil(nodes / runs)
        cases = None
        if thinner > 1:
            cases = math.ceil(wanted / runs)
        elif denser > 1:
            cases = math.ceil(wanted / ROOM.get(scenario.id, 1.0) / runs)
        for number in range(runs):
            seed = claim.first_seed + 1 + number
            yield Job(
                scenario.id,
                magnitude,
                seed,
                claim.split,
                _ours(claim, scenario, magnitude),
                days=_other_days(scenario),
                nodes=size,
                cases=cases,
                step_s=step_of(scenario),
            )


def _ours(claim: Claim, scenario: Scenario, magnitude: str) -> Candidates:
    """Ours in the scopes in which the scenario can be known; of half a fault in the narrowest."""
    known = {"fleet", "node"} if scenario.known_to_an_agent else {"fleet"}
    if magnitude != MAGNITUDES[0] and "node" in known.intersection(claim.scopes):
        known = {"node"}
    return tuple((OURS, scope) for scope in claim.scopes if scope in known)


def _sharing(fault: str, magnitude: str, scope: Scope) -> int:
    """How many scenarios of a class share its cases that have this magnitude: those that an agent
    can know have enough without the others. Those that want a number of their own do not share.
    """
    some = [
        one
        for one in every_scenario().values()
        if one.verdict is not None
        and one.verdict.fault == fault
        and one.family != SEVERAL
        and one.id not in WANTED
        and one.scope in (scope, "node")
    ]
    return sum(one.swept is not None or magnitude == MAGNITUDES[0] for one in some)


def _healthy_fleet(claim: Claim) -> Iterator[Job]:
    """As many large runs as the healthy scenarios at their own size leave to be watched, and one
    that is read each second.
    """
    scopes = tuple((OURS, scope) for scope in claim.scopes)
    healthy = [one for one in every_scenario().values() if one.kind == "healthy"]
    watched = sum(months_of(one.nodes, OWN_DAYS.get(one.id, one.days)) for one in healthy)
    runs = math.ceil((HEALTHY_MONTHS - watched) / months_of(FLEET, FLEET_DAYS))
    sizes = [(FLEET, FLEET_DAYS, HEALTHY_STEP_S)] * runs
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
