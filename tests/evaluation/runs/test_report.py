"""The report: figures of many runs, by hand; tables; the page of runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evaluation.runs import log
from evaluation.runs.report import report_of
from evaluation.runs.table import tables
from tests.evaluation.runs.results import alarm, case, part, result
from tests.sources import ROOT


def document(*results: dict[str, Any]) -> dict[str, Any]:
    """The report over these results, as it comes back from JSON."""
    made: dict[str, Any] = json.loads(json.dumps(report_of(results).document(), allow_nan=False))
    return made


def test_cases_of_all_seeds_are_one_group() -> None:
    """Two found of three in one seed, one of one in another: 3 of 4; delays 100, 200, 300 and a
    miss: p50 200, p90 none.
    """
    first = result("F16", part(cases=[case(100), case(200), case(None)]))
    second = result("F16", part(cases=[case(300)]), seed=2)
    (row,) = document(first, second)["scenarios"]
    assert (row["recall"]["hits"], row["recall"]["of"], row["delay_s"]) == (
        3,
        4,
        {"p50": 200, "p90": None, "p99": None},
    )


def test_magnitudes_are_apart_and_only_the_nominal_counts_in_the_summary() -> None:
    """Half magnitude is missed: shown in its own row, not in the summary's recall."""
    made = document(
        result("F16", part(cases=[case(100)])),
        result("F16", part(cases=[case(None)]), magnitude="half"),
    )
    assert [(row["magnitude"], row["recall"]["value"]) for row in made["scenarios"]] == [
        ("half", 0.0),
        ("nominal", 1.0),
    ]
    assert made["summary"]["fleet"]["intervals"]["recall_critical"]["of"] == 1


def test_what_was_not_watched_to_its_deadline_is_not_missed() -> None:
    """A run that was cut short says nothing: no miss, no recall."""
    made = document(result("F16", part(cases=[case(None, watched=False)])))
    assert made["misses"] == []
    assert (
        made["scenarios"][0]["recall"]["of"]
        == made["summary"]["fleet"]["intervals"]["recall_critical"]["of"]
        == 0
    )


def test_false_alarms_are_those_of_healthy_runs() -> None:
    """Two pages and a ticket in 10 + 10 GPU-months: 0.1 and 0.05 a month.

    What is false in a fault's run is a stray, beside it.
    """
    made = document(
        result("H01", part(false=[alarm(kind="ib_port"), alarm("ticket")])),
        result("H02", part(false=[alarm()])),
        result("F16", part(cases=[case(1)], false=[alarm(), alarm("ticket")])),
    )
    summary = made["summary"]["fleet"]
    assert (summary["healthy_gpu_months"], summary["false_pages"]) == (20, 2)
    assert summary["false_pages_per_gpu_month"]["rate"] == pytest.approx(0.1)
    assert summary["false_tickets_per_gpu_month"] == pytest.approx(0.05)
    assert [
        (row["gpu_months"], row["stray_pages"], row["stray_tickets"]) for row in made["scenarios"]
    ] == [(10, 1, 1)]
    assert [row["pages"]["of_all"]["count"] for row in made["healthy"]] == [1, 1]
    assert [row["pages"]["per_port_month"]["count"] for row in made["healthy"]] == [1, 0]


def test_a_fault_that_needs_the_fleet_is_not_asked_of_a_node() -> None:
    """Missed by the node, found by the fleet: the node's summary leaves it out, its row stays."""
    both = result(
        "F16",
        part(scope="node", cases=[case(None)]),
        part(scope="fleet", cases=[case(1)]),
        needs="fleet",
    )
    summary = document(both)["summary"]
    assert (
        summary["node"]["intervals"]["recall_critical"]["of"],
        summary["fleet"]["intervals"]["recall_critical"]["of"],
    ) == (
        0,
        1,
    )
    assert len(document(both)["scenarios"]) == 2


def test_baselines_stand_beside_ours_in_every_scope() -> None:
    """A baseline was asked once; its figures are in both summaries, with
    the same fields as ours.
    """
    made = document(
        result(
            "F16",
            part(scope="node", cases=[case(1)]),
            part(cases=[case(1)]),
            part("gpud", cases=[case(None)]),
        )
    )
    for scope in ("node", "fleet"):
        summary = made["summary"][scope]
        assert summary["baselines"]["gpud"]["recall_critical"] == 0.0
        assert (
            summary.keys() - {"baselines", "better_baselines", "same_runs"}
            == summary["baselines"]["gpud"].keys()
        )


def test_baselines_are_compared_in_the_runs_that_they_took_part_in() -> None:
    """Ours missed a case in a run without them, and are listed with the one that they
    found in the shared run.
    """
    made = document(
        result("F16", part(cases=[case(1)]), part("gpud", cases=[case(1)])),
        result("F16", part(cases=[case(None)]), seed=2),
    )
    summary = made["summary"]["fleet"]
    assert summary["same_runs"]["recall_by_class"]["straggler"]["hits"] == 1
    assert (summary["recall_by_class"]["straggler"]["of"], summary["better_baselines"]) == (2, [])


def test_peers_are_compared_with_their_open_signs_as_found() -> None:
    """An error that a peer reported and left open counts for its class beside ours; our own
    recall asks for the fault itself.
    """
    signed = case(None, signed=True)
    summary = document(result("F16", part(cases=[signed]), part("gpud", cases=[signed])))[
        "summary"
    ]["fleet"]
    assert [
        each["recall_by_class"]["straggler"]["hits"]
        for each in (summary, summary["same_runs"], summary["baselines"]["gpud"])
    ] == [0, 1, 1]


def test_ours_as_shipped_stand_beside_ours_and_are_no_baseline() -> None:
    """A detector in shadow mode finds nothing that alerts: its misses are no
    misses of the detectors.
    """
    made = document(result("F16", part(cases=[case(1)]), part("as-shipped", cases=[case(None)])))
    summary = made["summary"]["fleet"]
    assert (summary["recall_critical"], summary["as_shipped"]["recall_critical"]) == (1.0, 0.0)
    assert (summary["baselines"], made["misses"]) == ({}, [])


@pytest.mark.parametrize(("fault", "rate"), [("outlier", 0.1), ("thermal", 0.0)])
def test_what_claims_no_class_is_a_false_alarm_of_every_class(fault: str, rate: float) -> None:
    """A detector of anything unusual is right whatever is wrong: it is wrong in every class too."""
    made = document(
        result("F16", part(cases=[case(1)]), part("forest", cases=[case(1)])),
        result("H01", part(), part("forest", false=[alarm() | {"fault": fault}])),
    )
    assert (
        made["summary"]["fleet"]["baselines"]["forest"]["false_alarms_by_class"]["straggler"][
            "rate"
        ]
        == rate
    )


@pytest.mark.parametrize(
    ("theirs", "false", "better"), [(2, 0, True), (2, 1, False), (1, 0, False)]
)
def test_a_baseline_that_finds_more_and_is_wrong_less_often_is_named(
    theirs: int, false: int, *, better: bool
) -> None:
    """In a class where we find one of two and are wrong once; both must be so."""
    found = [case(1)] * theirs + [case(None)] * (2 - theirs)
    made = document(
        result("F16", part(cases=[case(1), case(None)]), part("gpud", cases=found)),
        result("H01", part(false=[alarm()]), part("gpud", false=[alarm()] * false)),
    )
    assert (
        made["summary"]["fleet"]["better_baselines"]
        == [{"class": "straggler", "baseline": "gpud"}] * better
    )


@pytest.mark.parametrize(
    ("changes", "equivalent"),
    [
        ({}, None),
        ({"restarted": True}, True),
        ({"restarted": True, "differences": ["observation 7 of nvml: xid"]}, False),
        ({"restarted": True, "forgetful": ["availability"]}, False),
    ],
)
def test_restart_equivalence_is_claimed_only_where_it_was_tried(
    changes: dict[str, Any], *, equivalent: bool | None
) -> None:
    """Not restarted: unknown. Restarted: no difference, and every detector saves its state."""
    assert (
        document(result("F16", part(cases=[case(1)], **changes)))["summary"]["fleet"][
            "restart_equivalent"
        ]
        is equivalent
    )


def test_delays_of_the_acceptance() -> None:
    """Ten stragglers of 10 ... 100 s: p90 is 90; without a hang there is no delay of hangs."""
    summary = document(result("F16", part(cases=[case(10.0 * i) for i in range(1, 11)])))[
        "summary"
    ]["fleet"]
    assert (summary["straggler_delay_p90_s"], summary["hang_delay_p99_s"]) == (90, None)


@pytest.mark.parametrize(
    ("missed", "cause"),
    [
        (case(700), "late by 100 s"),
        (case(None, misplaced=1), "wrong device"),
        (case(None, within=1, misplaced=1), "merged into another incident"),
        (case(None, before=1), "already open before the fault"),
        (
            case(None, signed=True, secondaries=1),
            "its early signs only",
        ),
        (case(None, misnamed=1), "wrong class"),
        (case(None, secondaries=2), "its symptoms only"),
        (case(None), "no finding, or severity too low"),
    ],
)
def test_every_miss_is_listed_with_its_cause(missed: dict[str, Any], cause: str) -> None:
    """Found ones are not in the list, missed ones with the reason."""
    misses = document(result("F16", part(cases=[case(1), missed])))["misses"]
    assert [miss["cause"] for miss in misses] == [cause]


def test_the_curve_of_a_class_uses_the_alarms_of_its_class() -> None:
    """A false page of strength 3 in ten months costs a case of strength 2 its place at every
    budget below 0.1 a month.
    """
    weak = [{"detector": "straggler", "delay_s": 1.0, "strength": 2.0}]
    made = document(
        result("F16", part(cases=[case(1, evidence=weak)])), result("H01", part(false=[alarm()]))
    )
    (curve,) = made["curves"]
    assert [point["recall"]["hits"] for point in curve["points"]] == [0, 0, 0, 1]


def test_tables_show_every_row_and_every_contestant() -> None:
    """A line per scenario, magnitude, scope and contestant; one per healthy scenario; one per
    contestant side by side.
    """
    made = document(
        result("F16", part(cases=[case(100)]), part("gpud", cases=[case(None)])),
        result("H01", part(), part("gpud", false=[alarm()])),
    )
    text = "".join(tables(made))
    assert text.count("F16") == 2
    assert text.count("H01") == 2
    assert text.count("gpud") == 3


def test_nothing_to_show_is_no_error() -> None:
    """A suite whose jobs all failed has empty tables."""
    assert "".join(tables(document())).strip() == ""


def test_the_page_of_runs_is_begun_once_and_only_grows(tmp_path: Path) -> None:
    """Two runs: one head, two rows with as many cells as the head, the first row untouched."""
    made = document(result("F16", part(cases=[case(100)], restarted=True)), result("H01", part()))
    page = tmp_path / "scoring.md"
    for commit in ("aaa", "bbb dirty"):
        log.append(
            page,
            log.rows(
                made,
                log.Logged(
                    "2026-11-20", commit, [1001, 1002, 1003, 7], 2, done=3, asked=4, failed=1
                ),
            ),
        )
    head, _, first, second = [
        line for line in page.read_text().splitlines() if line.startswith("|")
    ]
    assert {line.count("|") for line in (head, first, second)} == {head.count("|")}
    assert (
        "| aaa | 7, 1001..1003 | fleet | 2 | 3 of 4, 1 failed | 10.0 | 0 | 0 (0-0.37) | 0 | 1/1"
        in first
    )
    assert second.endswith("| yes |")


def test_a_run_without_a_result_is_a_row_of_dashes(tmp_path: Path) -> None:
    """Nothing was judged: the page still says what was asked for, in a row of the usual width."""
    page = tmp_path / "scoring.md"
    log.append(
        page,
        log.rows(document(), log.Logged("2026-11-20", "aaa", [7], 2, done=0, asked=4, failed=4)),
    )
    head, _, row = [line for line in page.read_text().splitlines() if line.startswith("|")]
    assert row.startswith("| 2026-11-20 | aaa | 7 | - | 2 | 0 of 4, 4 failed | - | ")
    assert row.count("|") == head.count("|")


@pytest.mark.slow
def test_the_commit_is_that_of_the_checkout(tmp_path: Path) -> None:
    """Twelve digits in a checkout, unknown outside of one."""
    if (ROOT / ".git").exists():
        assert len(log.commit_of(ROOT).split()[0]) == 12
    assert log.commit_of(tmp_path) == "unknown"
