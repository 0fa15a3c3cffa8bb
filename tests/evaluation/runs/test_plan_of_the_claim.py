"""The plan of the claim: enough cases, enough healthy months, each run once, and
a word before it begins.
"""

from __future__ import annotations

from collections import Counter

import pytest

from collector.cli.main import main
from evaluation.metrics.scope import Scope
from evaluation.runs.cost_estimate import seconds_of
from evaluation.runs.run import OURS, Job, judged_agents, rendered, scaled
from evaluation.runs.scenarios import every_scenario
from evaluation.runs.suite import (
    CASES,
    HEALTHY_MONTHS,
    OF_HALF,
    ROOM,
    Claim,
    months_of,
    stage_of,
    suite,
)

CLAIM = Claim(
    "test",
    1001,
    ours=True,
    baselines=("gpud",),
    scopes=("node", "fleet"),
    scenarios=tuple(every_scenario()),
)
OF_AN_AGENT = {
    one.verdict.fault for one in every_scenario().values() if one.verdict and one.known_to_an_agent
}


def cases(job: Job) -> int:
    """How many faults a run is asked for."""
    return scaled(every_scenario()[job.scenario], job.nodes, job.cases).cases


@pytest.mark.parametrize("scope", ["node", "fleet"])
def test_every_class_has_its_cases_at_each_magnitude(scope: Scope) -> None:
    """Nominal cases of classes that an agent can know reach the number, of others half of it, and
    those of half the magnitude of what is swept a share of it, in the narrowest scope in which they
    can be known.
    """
    count: Counter[tuple[str, str]] = Counter()
    for job in suite(CLAIM):
        verdict = every_scenario()[job.scenario].verdict
        if verdict is not None and job.nodes and (OURS, scope) in job.contestants:
            count[verdict.fault, job.magnitude] += cases(job)
    classes = {
        one.verdict.fault
        for one in every_scenario().values()
        if one.verdict and (scope == "fleet" or one.known_to_an_agent)
    }
    assert {fault for fault, magnitude in count if magnitude == "nominal"} == classes
    for (fault, magnitude), found in count.items():
        wanted = CASES if fault in OF_AN_AGENT else 0.5 * CASES
        if magnitude != "nominal":
            narrowest = "node" if fault in OF_AN_AGENT else "fleet"
            wanted *= OF_HALF if scope == narrowest else 0
        assert found >= wanted, (fault, magnitude)


def test_ageing_paste_is_as_rare_among_many_nodes_as_a_fleet_would_have_it() -> None:
    """Large runs of F11 have a third as many cases for their nodes as its own
    size, whatever their number.
    """
    scenario = every_scenario()["F11"]
    large = [job for job in suite(CLAIM) if job.scenario == "F11" and job.nodes]
    assert {
        round(scenario.cases * (job.nodes or 0) / scenario.nodes / cases(job), 1) for job in large
    } == {3.0}


@pytest.mark.parametrize("scope", ["node", "fleet"])
def test_the_healthy_fleet_is_watched_long_enough(scope: Scope) -> None:
    """Healthy runs hold at least the GPU-months that a claim of no false page needs, of agents
    alone as of the fleet.
    """
    healthy = [
        job
        for job in suite(CLAIM)
        if every_scenario()[job.scenario].kind == "healthy" and (OURS, scope) in job.contestants
    ]
    scenarios = every_scenario()
    watched = sum(
        months_of(j.nodes or scenarios[j.scenario].nodes, j.days or scenarios[j.scenario].days)
        for j in healthy
    )
    assert watched >= HEALTHY_MONTHS


def test_no_run_is_made_twice() -> None:
    """Each run has a file of its own to be kept in."""
    names = [job.name for job in suite(CLAIM)]
    assert len(set(names)) == len(names)


def test_what_ships_is_shown_first_and_the_dearest_run_of_a_stage_begins() -> None:
    """Runs are in the order of their stage, and within it of what they cost."""
    order = [(stage_of(job), -seconds_of(job)) for job in suite(CLAIM)]
    assert order == sorted(order)


def test_what_ships_is_complete_after_two_stages() -> None:
    """An interrupted suite has all of its healthy operation, then whole classes at horizon node."""
    healthy, first = (
        [every_scenario()[job.scenario] for job in suite(CLAIM) if stage_of(job) == stage]
        for stage in (0, 1)
    )
    assert {one.id for one in healthy} == {
        one.id for one in every_scenario().values() if one.kind == "healthy"
    }
    known = {
        one.verdict.fault
        for one in every_scenario().values()
        if one.verdict is not None and one.known_to_an_agent
    }
    assert {one.verdict.fault for one in first if one.verdict is not None} == known


def test_denser_runs_have_room_for_their_cases() -> None:
    """A run with twice the cases on its nodes holds as many as its class is to have."""
    for job in suite(CLAIM):
        if job.scenario == "F05" and job.nodes and job.magnitude == "nominal":
            one = every_scenario()[job.scenario]
            lost = ROOM.get(job.scenario, 1.0)
            assert len(rendered(job).truth) >= 0.95 * cases(job) * lost, one.id


def test_a_larger_fleet_has_more_cases() -> None:
    """Four times the nodes, four times the faults."""
    small, large = (
        len(rendered(Job("F15", "nominal", 1, "dev", (), nodes=nodes)).truth) for nodes in (16, 64)
    )
    assert large == 4 * small


def test_agents_of_struck_nodes_are_asked_first() -> None:
    """In a fault's run the agents that are asked are those of nodes that
    something is wrong with.
    """
    run = rendered(Job("F15", "nominal", 1, "dev", ()))
    struck = {getattr(truth.entity, "host", truth.entity) for truth in run.truth}
    assert judged_agents(run, None) == struck
    assert len(judged_agents(run, 2)) == 2
    assert judged_agents(run, 2) < struck


def test_a_run_too_short_says_how_long_it_must_be() -> None:
    """A rack that must warm up does not fit into two hours; the message names the scenario
    and a length that would do.
    """
    with pytest.raises(
        ValueError, match=r"F12: 0\.1 days are too short for what happens in it, 0\.\d would do"
    ):
        rendered(Job("F12", "nominal", 1, "dev", (), days=0.1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--days", "1", "--days: the plan says"),
        ("--nodes", "8", "--nodes: the plan says"),
        ("--magnitudes", "nominal,half,range", "--magnitudes: the plan says"),
        ("--seeds", "7,8", "--seeds: the plan counts on from one seed"),
    ],
)
def test_what_the_plan_decides_itself_is_not_asked(
    option: str, value: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An option that would have no effect beside --plan is refused by
    name, its default value too.
    """
    assert main(["score", "--plan", option, value]) == 2
    assert message in capsys.readouterr().err
