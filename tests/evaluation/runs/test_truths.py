"""The simulator's truth in plain values: who may be named, who is near,
where symptoms are allowed.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from evaluation.metrics.alerts import Alert, AlertStatement
from evaluation.metrics.match import match
from evaluation.metrics.truth import Entity, entity_of
from evaluation.metrics.truth import Truth as Plain
from evaluation.runs.truths import of_an_agent, plain_truths
from pipeline.clock import SECOND_NS
from pipeline.frame import Device
from simulator.fleet import Run, Secondary, Truth, load_scenario, render


@pytest.fixture(scope="module")
def run() -> Run:
    """Four nodes of one rack for a quarter of a day, most of the time in jobs."""
    return render(load_scenario("F16"), 1, days=0.25, nodes=4)


def converted(run: Run, entity: Device | str, kind: str, **changes: object) -> Plain:
    """A fault of this entity an hour into the run, for an hour, as scoring sees it."""
    begin = run.topology.begin_ns
    truth = Truth(
        "t",
        "F16",
        0.1,
        kind,  # type: ignore[arg-type]
        entity,
        begin + 3600 * SECOND_NS,
        begin + 7200 * SECOND_NS,
        600.0,
        "thermal",
        "page",
    )
    return plain_truths(replace(run, truth=(replace(truth, **changes),)))[0]  # type: ignore[arg-type]  # any field may change


def test_a_gpu_is_named_by_itself_alone(run: Run) -> None:
    """Its node and its job contain it, its seven peers are near, itself is in none of these."""
    faulty = run.topology.gpus[9]
    truth = converted(run, faulty, "gpu")
    peers = {entity_of(device) for device in run.topology.gpus[8:16]} - {entity_of(faulty)}
    job = run.topology.job_at(faulty.host, truth.onset_ns)
    assert truth.exact == {entity_of(faulty)}
    assert Entity("node", faulty.host) in truth.wider
    assert job is None or Entity("job", job.id) in truth.wider
    assert peers <= truth.near
    assert not truth.exact & (truth.near | truth.wider)


def test_times_are_kept(run: Run) -> None:
    """The deadline is ten minutes after the onset."""
    truth = converted(run, run.topology.gpus[0], "gpu")
    assert (truth.deadline_ns - truth.onset_ns, truth.end_ns - truth.onset_ns) == (
        600 * SECOND_NS,
        3600 * SECOND_NS,
    )


def test_a_fault_that_never_becomes_evident_has_no_deadline_in_the_run(run: Run) -> None:
    """An infinite time to detect it is years, so the case is not watched to its end."""
    truth = converted(run, run.topology.gpus[0], "gpu", detect_by_s=float("inf"))
    assert truth.deadline_ns - truth.onset_ns > 365 * 86_400 * SECOND_NS


def test_a_link_is_named_by_either_end(run: Run) -> None:
    """Both ports name it, the nodes are wider, a rank's GPU and a collector's node
    are other names for these.
    """
    ends = (run.topology.ports[3], run.topology.switch_ports[3])
    truth = converted(run, "node-0000/3", "link", members=ends)
    assert {entity_of(end) for end in ends} <= truth.exact
    assert Entity("node", "node-0000") in truth.wider
    assert (
        Entity("gpu", run.topology.gpus[0].id) in converted(run, run.topology.gpus[0], "rank").exact
    )
    assert Entity("node", "node-0002") in converted(run, "node-0002", "collector").exact


def test_a_rack_is_not_found_by_naming_a_job_in_it(run: Run) -> None:
    """Its members are found on another level, a job that runs there is not the rack."""
    members = run.topology.gpus[:8]
    truth = converted(run, "rack-00", "rack", members=members)
    assert truth.exact == {Entity("rack", "rack-00")}
    assert {entity_of(gpu) for gpu in members} <= truth.wider
    assert not any(entity.kind == "job" for entity in truth.wider)


def test_symptoms_are_allowed_where_the_scenario_says(run: Run) -> None:
    """A straggler on the same GPU only, a hang on any device of its job or node, a drop at
    the other end of a port.
    """
    faulty = run.topology.gpus[9]
    allowed = (Secondary("straggler", "same"), Secondary("hang", "job"), Secondary("hang", "node"))
    truth = converted(run, faulty, "gpu", allowed_secondary=allowed)
    assert truth.secondary["straggler"] == truth.exact
    assert entity_of(run.topology.gpus[10]) in truth.secondary["hang"]
    port = converted(
        run, run.topology.ports[3], "port", allowed_secondary=(Secondary("ib", "peers"),)
    )
    assert port.secondary["ib"] == {
        entity_of(run.topology.switch_ports[3]),
        Entity("switch", run.topology.switch_ports[3].host),
    }


def test_every_truth_of_a_scenario_converts(run: Run) -> None:
    """The scenario's own truths keep their order and their names."""
    assert [truth.id for truth in plain_truths(run)] == [truth.id for truth in run.truth]


def test_a_ticket_about_one_fault_of_a_lemon_is_no_candidate_for_the_lemon() -> None:
    """Each of its weak faults is a fault of its own, whose older ticket names another device."""
    run = render(replace(load_scenario("F31"), cases=1), 3)
    truths = plain_truths(run)
    lemon = next(truth for truth in truths if truth.fault == "lemon")
    assert len(truths) > 5
    alerts = [
        Alert(
            truth.id,
            truth.fault,
            [
                AlertStatement(
                    truth.deadline_ns, truth.severity, inf, (min(truth.exact),),
                    truth.fault.replace("-", "_"),
                )
            ],
        )
        for truth in truths
    ]  # fmt: skip
    cases, strays = match(truths, alerts, lemon.deadline_ns)
    assert [case.id for case in cases if not (case.in_time and case.top1)] == []
    assert strays == []
    (alone,), _ = match([lemon], alerts, lemon.deadline_ns)
    assert alone.top1 is False


def test_an_agent_alone_is_asked_for_less_where_the_fleet_has_the_verdict(run: Run) -> None:
    """A slow node: the fleet pages in ten minutes, its own agent gives a ticket in twenty."""
    scenario = load_scenario("F55")
    fleet = converted(run, "node-0001", "node", fault="straggler", severity="page")
    alone = of_an_agent(fleet, scenario)
    assert (fleet.severity, alone.severity) == ("page", "ticket")
    assert (alone.deadline_ns - fleet.deadline_ns) / SECOND_NS == 600.0
    assert of_an_agent(fleet, load_scenario("F16")) == fleet
