"""A detector alerts by default where the suite has shown it, at horizon node."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from detectors import DETECTORS
from detectors.paging import PROVED
from detectors.shadow import MISSING
from evaluation.metrics.false_alarms import FalseAlarm
from evaluation.metrics.match import Evidence, match
from evaluation.runs.by_detector import ALERTS, OWN, SHADOW, UNDECIDED, by_detector
from evaluation.runs.scenarios import every_scenario
from tests.evaluation.metrics.cases import ONSET, alert, truth
from tests.sources import ROOT

MONTH_S = 30 * 86_400.0
# What no score decides: whether a site wants to hear of it.
OF_THE_SITE = {"drift", "starvation", "waste"}
# Refuted by the run that is published, and alerting (docs/decisions.md, 2026-11-30): what gave the
# false page is mended, and what the agent alone says is true, though a gateway knows the cause.
ALERTS_ALL_THE_SAME = {"straggler", "ib_link"}


def results(
    hits: int, of: int, alarms: tuple[FalseAlarm, ...] = (), others: int = 0
) -> list[dict[str, Any]]:
    """Cases of F29, so many of them reported by ``frozen`` and some more by another detector, and
    2,000 healthy GPU-months.
    """
    end_ns = ONSET + round(MONTH_S * 1e9)
    frozen = replace(truth(by_s=100.0), fault="observability")
    (one,), _ = match([frozen], [alert(30.0, fault="observability")], end_ns)
    found = replace(one, evidence=(Evidence("frozen", 30.0, 1.0),))
    left = replace(one, evidence=(Evidence("nccl", 30.0, 1.0),))
    (missed,), _ = match([frozen], [], end_ns)
    part = {"contestant": "ours", "scope": "node", "gpu_s": 0.0, "port_s": 0.0}
    return [
        {
            "kind": "fault",
            "job": {"scenario": "F29", "magnitude": "nominal"},
            "results": [
                part | {"false": [], "cases": [asdict(one)] * count}
                for one, count in ((found, hits), (left, others), (missed, of - hits))
            ],
        },
        {
            "kind": "healthy",
            "job": {"scenario": "H00", "magnitude": "nominal"},
            "results": [
                part
                | {"gpu_s": 2000 * MONTH_S, "cases": [], "false": [asdict(one) for one in alarms]}
            ],
        },
    ]


def alarm_of(severity: str) -> FalseAlarm:
    """One false alarm of ``frozen``."""
    return FalseAlarm("frozen", "observability", "gpu", severity, 1.0, 1.0)  # type: ignore[arg-type]


def decided(found: list[dict[str, Any]]) -> tuple[str, list[str]]:
    """Decision and what is lacking for ``frozen``."""
    (row,) = [row for row in by_detector(found) if row["detector"] == "frozen"]
    return row["decision"], row["lacking"]


def test_enough_cases_found_without_a_false_page_let_it_alert() -> None:
    """200 of 200 in 2,000 GPU-months."""
    assert decided(results(200, 200)) == (ALERTS, [])


def test_a_case_that_another_detector_reported_in_its_place_is_not_counted() -> None:
    """It shows nothing of this one: neither as found nor as missed."""
    assert decided(results(200, 200, others=50)) == (ALERTS, [])
    assert decided(results(199, 199, others=50)) == (UNDECIDED, ["200 cases"])


def test_only_faults_of_its_own_class_are_counted() -> None:
    """F23 has links of NVLink and of InfiniBand: what one detector misses is not the other's."""
    found = results(200, 200)
    found[0]["job"]["scenario"] = "F23"
    end_ns = ONSET + round(MONTH_S * 1e9)
    cases = []
    for fault, alerts in (("nvlink", [alert(30.0, fault="nvlink", detector="nvlink")]), ("ib", [])):
        (one,), _ = match([replace(truth(by_s=100.0), fault=fault)], alerts, end_ns)
        cases.append(asdict(one))
    found[0]["results"][0]["cases"] = cases
    rows = {row["detector"]: row["recall"] for row in by_detector(found)}
    assert (rows["nvlink"]["hits"], rows["nvlink"]["of"]) == (1, 1)
    assert (rows["ib_link"]["hits"], rows["ib_link"]["of"]) == (0, 1)


@pytest.mark.parametrize(
    ("found", "decision", "lacking"),
    [
        (results(199, 199), UNDECIDED, "200 cases"),
        (results(185, 200), SHADOW, "a lower bound of 0.9"),
        (results(200, 200, (alarm_of("page"),)), SHADOW, "no false page"),
        (
            results(200, 200, (alarm_of("ticket"),) * 40),
            SHADOW,
            "at most 0.02 false tickets a GPU-month",
        ),
        (results(200, 200)[:1], UNDECIDED, "2000 healthy GPU-months"),
    ],
)
def test_what_is_lacking_is_named(found: list[dict[str, Any]], decision: str, lacking: str) -> None:
    """One condition that fails is enough to stay in shadow mode; too little data is undecided."""
    assert decided(found) == (decision, [lacking])


def test_a_bound_of_too_few_cases_decides_nothing() -> None:
    """Ten of ten have a lower bound of 0.7."""
    assert decided(results(10, 10)) == (UNDECIDED, ["200 cases", "a lower bound of 0.9"])


def test_every_scenario_of_the_table_is_known_by_an_agent_alone() -> None:
    """And every detector of it exists."""
    scenarios = every_scenario()
    assert OWN.keys() <= DETECTORS.keys()
    assert all(scenarios[name].known_to_an_agent for own in OWN.values() for name in own)


def test_defaults_are_those_that_the_scores_decide() -> None:
    """Where docs/scores.json lets a detector alert, it does, or the site decides, or worlds of
    another author refute it; where 200 cases or the healthy fleet do, it is in shadow mode, with
    the exceptions that are explained.
    """
    rows = json.loads((ROOT / "docs" / "scores.json").read_text())["detectors"]
    alerting = {row["detector"] for row in rows if row["decision"] == ALERTS}
    refuted = {row["detector"] for row in rows if row["decision"] == SHADOW}
    assert alerting - OF_THE_SITE <= PROVED
    assert refuted & PROVED == ALERTS_ALL_THE_SAME
    assert MISSING.keys() == DETECTORS.keys() - PROVED
