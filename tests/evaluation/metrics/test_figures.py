"""Figures of many cases and of the healthy fleet, each computed by hand in its test."""

from __future__ import annotations

from math import exp, inf, log

import pytest

from evaluation.metrics.curve import BUDGETS, cuts, found_with, operating_curve
from evaluation.metrics.false_alarms import MONTH_S, Exposure, FalseAlarm, false_alarms, rates
from evaluation.metrics.figures import figures, percentile
from evaluation.metrics.intervals import poisson_interval, share_interval
from evaluation.metrics.precision import INFINITE_HBD, LLAMA_3, MIXES, precision, precisions
from evaluation.metrics.truth import Entity
from pipeline.finding import Severity
from tests.evaluation.metrics.cases import JOB, NODE, PEER, alert, case_of, statement, truth


def test_recall_and_delay_of_ten_cases() -> None:
    """Seven found after 10, 20, ... 70 s, one late, two missed: recall 0.7, half by 50
    s, and nine tenths never.
    """
    cases = [case_of(alert(10 * i)) for i in range(1, 8)] + [
        case_of(alert(301)),
        case_of(),
        case_of(),
    ]
    made = figures(cases)
    assert (
        made["recall"]["hits"],
        made["recall"]["of"],
        made["recall"]["value"],
        made["late"],
    ) == (7, 10, 0.7, 1)
    assert made["delay_s"] == {"p50": 50.0, "p90": None, "p99": None}


def test_a_case_that_was_not_watched_to_its_end_is_neither_found_nor_missed() -> None:
    """The run ends 60 s after the onset of two of three cases, one of them found by then:
    recall is that of the third.
    """
    made = figures([case_of(alert(1), until_s=60), case_of(until_s=60), case_of(alert(1))])
    assert (made["recall"]["hits"], made["recall"]["of"], made["cases"], made["not_watched"]) == (
        1,
        1,
        1,
        2,
    )


def test_attribution_is_of_the_cases_that_were_found() -> None:
    """Of three found ones two name the GPU, one its node; the missed one names none: 2
    of 3, the level likewise.
    """
    made = figures(
        [case_of(alert(1)), case_of(alert(1)), case_of(alert(1, entity=NODE)), case_of()]
    )["attribution"]
    assert [(made[name]["hits"], made[name]["of"]) for name in ("top1", "top3", "level")] == [
        (2, 3),
        (2, 3),
        (2, 3),
    ]


def test_class_is_of_the_cases_with_any_alert() -> None:
    """One reported rightly, one reported as a straggler, one not reported: class 1 of 2,
    recall 1 of 3, noticed 2 of 3.
    """
    made = figures([case_of(alert(1)), case_of(alert(1, fault="straggler")), case_of()])
    assert [(made[name]["hits"], made[name]["of"]) for name in ("class", "recall", "noticed")] == [
        (1, 2),
        (1, 3),
        (2, 3),
    ]


def test_duplicates_and_flaps_are_means_over_found_cases() -> None:
    """Three alerts of one key and one of another: 2 flaps and 1 duplicate in one case, none in the
    other: 1 and 0.5 per incident.
    """
    busy = case_of(alert(1, cleared_s=2), alert(3, cleared_s=4), alert(5), alert(6, entity=NODE))
    made = figures([busy, case_of(alert(1)), case_of()])
    assert (made["flaps_per_incident"], made["duplicates_per_incident"]) == (1.0, 0.5)


def test_time_to_clear_leaves_out_faults_that_never_ended_and_nothing_else() -> None:
    """Cleared 100 and 300 s after the end, one never although it ended, one whose fault goes on:
    the middle of three is 300, nine tenths never.
    """
    made = figures(
        [
            case_of(alert(1, cleared_s=3700)),
            case_of(alert(1, cleared_s=3900)),
            case_of(alert(1)),
            case_of(alert(1), until_s=600),
        ]
    )
    assert (made["clear_s"], made["not_cleared"]) == ({"p50": 300.0, "p90": None}, 1)


@pytest.mark.parametrize(("p", "wanted"), [(0.5, 2.0), (0.51, 3.0), (0.9, 4.0), (0.99, 4.0)])
def test_percentiles_are_nearest_rank(p: float, wanted: float) -> None:
    """Of 1, 2, 3, 4: half reach 2, more than half need 3; of nothing there is none."""
    assert percentile([4.0, 2.0, 1.0, 3.0], p) == wanted
    assert percentile([], p) is None


@pytest.mark.parametrize("count", [0, 1, 5, 40, 1000])
def test_poisson_interval_is_where_the_tails_hold_a_fortieth(count: int) -> None:
    """At the upper bound so few events have chance 0.025, at the lower bound so many; computed by
    summing the distribution.
    """

    def at_most(n: int, mean: float) -> float:
        term = total = exp(-mean / 2)
        for i in range(1, n + 1):
            term *= mean / i
            total += term
        return total * exp(-mean / 2)

    low, high = poisson_interval(count, 1.0)
    assert at_most(count, high) == pytest.approx(0.025, rel=1e-6)
    assert low == 0 if count == 0 else 1 - at_most(count - 1, low) == pytest.approx(0.025, rel=1e-6)


def test_poisson_interval_of_five_is_garwoods() -> None:
    """Garwood's table of 1936: five events, 1.62 to 11.67."""
    low, high = poisson_interval(5, 1.0)
    assert (round(low, 2), round(high, 2)) == (1.62, 11.67)


def test_without_exposure_nothing_is_known() -> None:
    """No months watched: the rate may be anything."""
    assert poisson_interval(0, 0.0) == (0.0, inf)
    assert share_interval(0, 0) == (0.0, 1.0)


def test_share_interval_is_clopper_and_pearsons() -> None:
    """8 of 10: 0.4439 to 0.9748, as in every table; mirrored for 2 of 10."""
    low, high = share_interval(8, 10)
    assert (round(low, 4), round(high, 4)) == (0.4439, 0.9748)
    assert share_interval(2, 10) == pytest.approx((1 - high, 1 - low))


def test_195_of_200_prove_nine_tenths_and_186_do_not() -> None:
    """What the acceptance of a statistical class asks for: 195 of 200 leave a lower bound
    above 0.9, 186 of 200 do not.
    """
    assert share_interval(195, 200)[0] > 0.9 > share_interval(186, 200)[0]


def alarm(
    severity: Severity = "page", strength: float = inf, *, detector: str = "d", kind: str = "gpu"
) -> FalseAlarm:
    """One false alarm."""
    return FalseAlarm(
        detector, "thermal", kind, severity, strength, strength if severity == "page" else -inf
    )


def test_false_alarms_are_counted_per_month_of_their_kind() -> None:
    """Ten GPU-months and four port-months; two pages of GPUs, one of a port, three tickets: 0.2 and
    0.25 pages, 0.3 tickets.
    """
    alarms = [alarm(), alarm(), alarm(kind="ib_port"), *[alarm("ticket") for _ in range(3)]]
    made = rates(alarms, Exposure(10 * MONTH_S, 4 * MONTH_S))
    assert made["pages"]["per_gpu_month"]["rate"] == pytest.approx(0.2)
    assert made["pages"]["per_port_month"]["rate"] == pytest.approx(0.25)
    assert made["tickets"]["per_gpu_month"]["rate"] == pytest.approx(0.3)
    assert made["pages"]["by_detector"] == {"d": 3}


def test_no_false_page_in_two_thousand_months_is_below_the_one_sided_page_budget() -> None:
    """The rule of three: 3/2000 = 0.0015 at 95 percent one-sided; the two-sided
    upper bound is 3.69/2000.
    """
    assert poisson_interval(0, 2000, confidence=0.9)[1] == pytest.approx(-log(0.05) / 2000)
    assert poisson_interval(0, 2000)[1] == pytest.approx(-log(0.025) / 2000)


@pytest.mark.parametrize(
    ("severity", "fault", "entity", "counted"),
    [
        ("page", "xid", JOB, True),
        ("ticket", "xid", JOB, False),  # reports the application's own error to the job's owner
        ("ticket", "xid", PEER, True),
        ("ticket", "hang", JOB, True),
        ("record", "thermal", PEER, False),
    ],
)
def test_what_counts_as_a_false_alarm(
    severity: Severity, fault: str, entity: Entity, *, counted: bool
) -> None:
    """Pages always; tickets except those to a job about its XIDs; records never."""
    assert bool(false_alarms([alert(1, severity=severity, fault=fault, entity=entity)])) is counted


def test_a_false_ticket_that_becomes_a_job_s_later_was_false() -> None:
    """Reported for a GPU first: an operator then went to the GPU."""
    turned = alert(1, severity="ticket", fault="xid", entity=PEER)
    turned.add(statement(60, JOB, fault="xid", severity="ticket"))
    assert len(false_alarms([turned])) == 1


def test_the_cut_leaves_what_the_budget_allows() -> None:
    """Detector a raised 1, 2, 3, 4, b raised 10, c nothing.

    Four in all are two each: a is cut at 2 (3 and 4 stay), b not at all.
    """
    alarms = [
        *(alarm(strength=s, detector="a") for s in (1.0, 2.0, 3.0, 4.0)),
        alarm(strength=10.0, detector="b"),
    ]
    assert cuts(alarms, "page", 4) == {"a": 2.0, "b": -inf}
    assert cuts(alarms, "page", 1.9) == {"a": 4.0, "b": 10.0}


def test_tickets_do_not_use_up_the_budget_of_pages() -> None:
    """A ticket's strength cuts tickets only."""
    assert cuts([alarm("ticket", 5.0)], "page", 0) == {}
    assert cuts([alarm("ticket", 5.0)], "ticket", 0) == {"d": 5.0}


def test_evidence_must_be_stronger_than_the_cut_in_time() -> None:
    """Strength 3 after 10 s and 6 after 400 s, deadline 300 s: found uncut,
    not found with a cut of 3.
    """
    weak = case_of(alert(10, strength=3.0), alert(400, strength=6.0))
    assert found_with(weak, {})
    assert not found_with(weak, {"thermal": 3.0})


def test_operating_curve_of_a_detector_that_buys_recall_with_false_alarms() -> None:
    """In 1,000 months false pages of strength 1 ... 50; faults of strength 10.5, 30.5, 49.5 and 60.

    Budgets leave 1, 5, 20 and 100 of them, so the cut is at 49, 45, 30 and nowhere: 2, 2, 3 and
    4 of 4 faults are found.
    """
    alarms = [alarm(strength=float(s), detector="thermal") for s in range(1, 51)]
    cases = [case_of(alert(10, strength=s)) for s in (10.5, 30.5, 49.5, 60.0)]
    curve = operating_curve(cases, alarms, 1000)
    assert [point["recall"]["hits"] for point in curve] == [2, 2, 3, 4]
    assert [point["budget_per_month"] for point in curve] == list(BUDGETS)
    assert all(point["resolved"] for point in curve)


def test_too_few_months_cannot_resolve_a_budget() -> None:
    """In 100 months a rate of 0.0015 would be 0.15 alarms: marked, not guessed."""
    assert [
        point["resolved"] for point in operating_curve([case_of(alert(1), of=truth())], [], 100)
    ] == [
        False,
        False,
        True,
        True,
    ]


def test_mixes_are_whole() -> None:
    """Both sum to what their sources counted: 584 faults, 419 interruptions."""
    assert [sum(weight for weight, _ in mix.values()) for mix in (INFINITE_HBD, LLAMA_3)] == [
        584,
        419,
    ]


@pytest.mark.parametrize(
    ("wanted", "false"), [(0.5, 0.0128), (0.8, 0.0032), (0.9, 0.00142), (0.95, 0.00067)]
)
def test_precision_at_the_base_rate(wanted: float, false: float) -> None:
    """0.0142 faults a month at recall 0.9 are 0.01278 true alarms: as many false ones halve
    the precision, and so on.
    """
    assert precision(0.9, false) == pytest.approx(wanted, abs=0.002)


def test_precision_of_a_mix_weighs_causes_by_how_often_they_come() -> None:
    """Of Llama's causes only NIC (7, recall 1) and power supply (3, recall 0) are scored:
    0.7 of these, 7/419 of all.
    """
    made = precisions({"F28": 1.0, "F14": 0.0}, 0.0, 0.0014)["llama_3"]
    assert made["recall_of_scored_causes"] == pytest.approx(0.7)
    assert made["recall_of_all_causes"] == pytest.approx(7 / 419)
    assert made["precision"] == 1.0
    assert made["precision_at_high95"] == pytest.approx(0.7 * 0.0142 / (0.7 * 0.0142 + 0.0014))


def test_nothing_scored_has_no_precision() -> None:
    """Silence is neither right nor wrong."""
    assert {precisions({}, 0.0, 0.1)[name]["precision"] for name in MIXES} == {None}
    assert precision(0.0, 0.0) is None
