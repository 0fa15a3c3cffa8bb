"""Which alert tells of which fault: deadlines, entities, classes,
severities; every figure by hand.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from evaluation.metrics.match import match
from evaluation.metrics.truth import Entity
from pipeline.clock import SECOND_NS
from pipeline.finding import Severity
from tests.evaluation.metrics.cases import (
    JOB,
    MATE,
    NODE,
    ONSET,
    SICK,
    alert,
    case_of,
    said,
    strays_of,
    truth,
)


@pytest.mark.parametrize(
    ("at_s", "detected_s", "in_time"),
    [
        (0, 0.0, True),
        (299, 299.0, True),
        (300, 300.0, True),
        (300.001, 300.001, False),
        (4000, 4000.0, False),
    ],
)
def test_late_is_a_miss(at_s: float, detected_s: float, *, in_time: bool) -> None:
    """The deadline is 300 s after the onset, itself included; an alert after it keeps its
    delay and is no detection.
    """
    case = case_of(alert(at_s))
    assert (case.detected_s, case.in_time) == (detected_s, in_time)


@pytest.mark.parametrize("at_s", [-1, 3600 + 601])
def test_alerts_before_the_onset_or_long_after_the_end_do_not_count(at_s: float) -> None:
    """The fault lasts an hour; ten minutes later its alerts are no longer explained by
    it, and none before it is.
    """
    assert case_of(alert(at_s)).detected_s is None
    assert len(strays_of(alert(at_s))) == 1


def test_ten_minutes_after_the_end_an_alert_is_late_and_not_false() -> None:
    """Findings are joined within ten minutes."""
    assert case_of(alert(4200)).detected_s == 4200
    assert strays_of(alert(4200)) == []


@pytest.mark.parametrize(
    ("told", "wanted", "found"),
    [
        ("ticket", "page", False),
        ("page", "page", True),
        ("page", "ticket", True),
        ("ticket", "ticket", True),
        ("record", "ticket", False),
        ("record", "record", True),
    ],
)
def test_a_fault_must_be_told_as_loudly_as_it_deserves(
    told: Severity, wanted: Severity, *, found: bool
) -> None:
    """A ticket is no page; a page is a ticket; a record counts only where no more is asked for."""
    assert case_of(alert(10, severity=told), of=truth(severity=wanted)).in_time is found


def test_severity_that_rises_counts_from_when_it_rose() -> None:
    """Ticket after 10 s, page after 100 s: the page-level fault was found after 100 s."""
    both = alert(10, severity="ticket")
    both.say(replace(both.said[0], time_ns=ONSET + 100 * SECOND_NS, severity="page"))
    assert case_of(both).detected_s == 100


@pytest.mark.parametrize(
    ("entity", "fault", "own", "noticed", "false"),
    [
        (SICK, "thermal", True, True, False),  # right
        (NODE, "thermal", True, True, False),  # found, on another level
        (SICK, "straggler", False, True, False),  # an allowed symptom
        (JOB, "straggler", False, True, False),  # the same, where it is allowed
        (NODE, "straggler", False, False, True),  # where it is not
        (SICK, "pcie", False, True, True),  # right GPU, wrong story
        (MATE, "thermal", False, False, True),  # right story, wrong GPU
        (MATE, "pcie", False, False, True),  # somebody else
        (Entity("gpu", "GPU-far"), "thermal", False, False, True),
        (SICK, "outlier", True, True, False),  # claims no class, so none can be wrong
        (NODE, "outlier", False, False, True),  # but it has to name the GPU
    ],
)
def test_class_and_entity_decide(
    entity: Entity, fault: str, *, own: bool, noticed: bool, false: bool
) -> None:
    """Recall asks for the right class of the entity or what contains it; symptoms are no false
    alarms; wrong stories are.
    """
    told = alert(10, entity=entity, fault=fault)
    case = case_of(told)
    assert (case.in_time, case.noticed_s is not None, bool(strays_of(told))) == (
        own,
        noticed,
        false,
    )


def test_attribution_takes_the_most_serious_then_the_earliest() -> None:
    """Told by the deadline: a ticket on the mate after 5 s, a page on the mate after 20 s, a page
    on the sick GPU after 10 s. The sick GPU is first.
    """
    case = case_of(alert(5, entity=MATE, severity="ticket"), alert(20, entity=MATE), alert(10))
    assert (case.top1, case.top3, case.level) == (True, True, True)


def test_a_neighbour_blamed_first_costs_top_1() -> None:
    """The mate is paged 5 s before the sick GPU: second place, right level."""
    case = case_of(alert(5, entity=MATE), alert(10))
    assert (case.top1, case.top3, case.level) == (False, True, True)


def test_the_node_instead_of_the_gpu_is_the_wrong_level() -> None:
    """Found, but the person who goes there has eight GPUs to choose from."""
    case = case_of(alert(10, entity=NODE))
    assert (case.in_time, case.top1, case.top3, case.level) == (True, False, False, False)


def test_blame_after_the_deadline_does_not_count() -> None:
    """The node is paged in time, the GPU too late: nobody knew by then."""
    assert case_of(alert(10, entity=NODE), alert(301)).top3 is False


def test_a_link_is_blamed_rightly_by_either_of_its_ends() -> None:
    """Naming one port of the pair is right; naming its node is the wrong level."""
    ends = [Entity("ib_port", "0x1"), Entity("ib_port", "0x2")]
    link = truth(kind="link", exact=ends)
    assert (
        case_of(alert(10, entity=ends[1]), of=link).top1,
        case_of(alert(10, entity=ends[1]), of=link).level,
    ) == (True, True)
    assert (
        case_of(alert(10, entity=NODE), of=link).top1,
        case_of(alert(10, entity=NODE), of=link).level,
    ) == (False, False)


def test_an_incident_that_stood_before_and_became_a_page_since_tells_of_the_fault() -> None:
    """A bank without spare rows has a ticket for days; the remap that then
    fails is told by raising it.
    """
    stood = alert(-3600, severity="ticket")
    assert case_of(stood).in_time is False
    stood.say(said(5))
    assert (case_of(stood).detected_s, case_of(stood).top1) == (5.0, True)


def test_who_was_blamed_earlier_and_cleared_stands_behind_whom_is_blamed_now() -> None:
    """A program's failure was told of its job an hour ago and is over; the GPU is told of now."""
    case = case_of(alert(10, entity=NODE, cleared_s=60), alert(200))
    assert (case.top1, case.level) == (True, True)


def test_an_nvlink_is_on_its_level_when_its_gpu_is_its_name() -> None:
    """Where frames hold no single NVLinks the truth itself names the GPU: to name
    just that is no wrong level.
    """
    case = case_of(alert(10), of=truth(kind="link", exact=[SICK]))
    assert (case.top1, case.level) == (True, True)


def test_duplicates_flaps_and_secondaries_are_told_apart() -> None:
    """Thermal on the GPU three times (two flaps), thermal on the node (one duplicate), straggler on
    the GPU (one secondary).
    """
    case = case_of(
        alert(10, cleared_s=20),
        alert(30, cleared_s=40),
        alert(50),
        alert(60, entity=NODE),
        alert(70, fault="straggler"),
    )
    assert (case.flaps, case.duplicates, case.secondaries) == (2, 1, 1)


@pytest.mark.parametrize(
    ("cleared_s", "until_s", "expected", "clearable"),
    [
        (3900, 10_000, 300.0, True),
        (3000, 10_000, 0.0, True),
        (None, 10_000, None, True),
        (None, 3600, None, False),
    ],
)
def test_time_to_clear_counts_from_the_end_of_the_fault(
    cleared_s: float | None, until_s: float, expected: float | None, *, clearable: bool
) -> None:
    """The fault ends after 3600 s; an alert that stands forever is not cleared, one whose
    fault never ended cannot be.
    """
    case = case_of(alert(10, cleared_s=cleared_s), until_s=until_s)
    assert (case.cleared_s, case.clearable) == (expected, clearable)


def test_one_alert_may_tell_of_two_faults_of_one_entity() -> None:
    """Two faults at once on one GPU with one class: one page is enough for both, and
    it is false for neither.
    """
    cases, strays = match([truth(), truth()], [alert(10)], ONSET + 10_000 * SECOND_NS)
    assert [case.in_time for case in cases] == [True, True]
    assert strays == []


def test_an_alert_of_one_fault_blames_no_neighbour_for_another() -> None:
    """Two mates have the same fault: the page about one is right for it and says
    nothing about the other.
    """
    mate = replace(truth(exact=(MATE,)), id="t2", near=frozenset({SICK}))
    (sick, other), strays = match(
        [truth(), mate], [alert(5, entity=MATE), alert(10)], ONSET + 10_000 * SECOND_NS
    )
    assert (sick.top1, sick.misplaced, other.top1, other.misplaced) == (True, 0, True, 0)
    assert strays == []


def test_a_symptom_on_one_sick_gpu_blames_no_other_sick_gpu() -> None:
    """Both GPUs of a job are sick and the first symptom is told of the mate: it counts for the mate
    alone, and is false for nobody.
    """
    anywhere = {"straggler": frozenset({SICK, MATE})}
    mate = replace(truth(exact=(MATE,)), id="t2", near=frozenset({SICK}), secondary=anywhere)
    symptom = alert(5, entity=MATE, fault="straggler")
    (sick, other), strays = match(
        [replace(truth(), secondary=anywhere), mate],
        [symptom, alert(10)],
        ONSET + 10_000 * SECOND_NS,
    )
    assert (sick.top1, sick.secondaries, other.secondaries) == (True, 0, 1)
    assert strays == []


@pytest.mark.parametrize(("until_s", "watched"), [(299, False), (300, True)])
def test_a_case_is_watched_when_the_run_reaches_its_deadline(
    until_s: float, *, watched: bool
) -> None:
    """The deadline is 300 s after the onset."""
    assert case_of(until_s=until_s).watched is watched


def test_who_is_blamed_later_was_not_blamed_before() -> None:
    """An incident pages the mate at 5 s and the sick GPU at 1,000 s, long after the deadline: found
    late, whatever it says in the end.
    """
    turned = alert(5, entity=MATE)
    turned.say(said(1000, SICK, MATE))
    case = case_of(turned)
    assert (case.detected_s, case.in_time, case.top1) == (1000, False, None)


def test_blame_that_moves_away_in_time_is_wrong() -> None:
    """The sick GPU is paged at 5 s, and its node in its place at 100 s: found, and whoever looks at
    the deadline goes to the node.
    """
    turned = alert(5)
    turned.say(said(100, NODE, SICK))
    assert (case_of(turned).in_time, case_of(turned).top1, case_of(turned).top3) == (
        True,
        False,
        True,
    )


def test_what_was_false_for_hours_stays_false_when_it_turns_out_right() -> None:
    """A page on the mate ten hours before anything was wrong: a false page, though the incident
    names the sick GPU since it is hot.
    """
    turned = alert(-36_000, entity=MATE)
    turned.say(said(10, SICK, MATE))
    (stray,) = strays_of(turned)
    assert (case_of(turned).detected_s, stray.root, stray.severity) == (10, MATE, "page")


def test_blame_that_goes_astray_and_comes_back_is_heard_each_time() -> None:
    """A page on the mate, a ticket on the sick GPU, then the page on the sick GPU: as loud as
    before, and of somebody else.
    """
    turned = alert(1, entity=MATE)
    turned.say(said(2, SICK, severity="ticket"))
    turned.say(said(3, SICK))
    assert case_of(turned).detected_s == 3


def test_another_class_that_joins_makes_no_news_of_what_was_known() -> None:
    """The GPU has been hot for hours when an XID joins: nobody is told again that it is hot."""
    stood = alert(-3600)
    stood.say(said(20, SICK, also=["thermal", "xid/gpu"]))
    assert (case_of(stood).detected_s, case_of(stood).before) == (None, 1)


def test_a_class_that_joins_later_was_not_told_before() -> None:
    """A page for something else about the GPU at 5 s; that it is hot too
    is told at 200 s, in time.
    """
    grows = alert(5, fault="xid/gpu")
    grows.say(said(200, SICK, fault="xid/gpu", also=["xid/gpu", "thermal"]))
    assert (case_of(grows).detected_s, case_of(grows).noticed_s) == (200, 5)


def test_what_stood_before_and_tells_of_more_since_is_news() -> None:
    """A page about the GPU stands for days; a second fault of the same class
    joins it when it strikes.
    """
    stood = alert(-3600, fault="thermal")
    assert case_of(stood).before == 1
    stood.say(said(20, SICK, also=["thermal", "thermal/fan"]))
    assert case_of(stood).detected_s == 20


def test_signs_before_the_evidence_are_neither_false_nor_the_fault() -> None:
    """Single errors for an hour before the threshold: telling them is right and does not find it;
    what is told at the threshold does.
    """
    builds_up = replace(truth(), since_ns=ONSET - 3600 * SECOND_NS)
    sign, fault = alert(-1800), alert(5)
    assert (case_of(sign, of=builds_up).in_time, case_of(sign, of=builds_up).secondaries) == (
        False,
        1,
    )
    assert strays_of(sign, of=builds_up) == []
    assert case_of(sign, of=builds_up).signed
    assert not case_of(alert(-1800, cleared_s=-60), of=builds_up).signed
    assert not case_of(alert(-1800, severity="ticket"), of=builds_up).signed
    assert case_of(sign, fault, of=builds_up).detected_s == 5


def test_a_job_that_may_show_the_symptom_is_not_found_by_it() -> None:
    """Where the class may be told of the job as a symptom, telling it of the job finds no GPU,
    though the job contains it.
    """
    of = replace(truth(), wider=frozenset({JOB, NODE}), secondary={"thermal": frozenset({JOB})})
    assert (
        case_of(alert(5, entity=JOB), of=of).in_time,
        case_of(alert(5, entity=JOB), of=of).secondaries,
    ) == (False, 1)
    assert case_of(alert(5, entity=NODE), of=of).in_time


def test_a_fault_that_was_told_as_a_neighbour_s_says_so() -> None:
    """The sick GPU stands behind its mate in one incident: missed, and the report can say why,
    though the mate has a fault of its own.
    """
    both = alert(5, entity=MATE)
    both.say(said(6, MATE, SICK))
    mate = replace(truth(exact=(MATE,)), id="t2", near=frozenset({SICK}))
    (sick, _), _ = match([truth(), mate], [both], ONSET + 10_000 * SECOND_NS)
    assert (sick.in_time, sick.within) == (False, 1)


@pytest.mark.parametrize(("wanted", "too_loud"), [("ticket", True), ("page", False)])
def test_a_page_for_a_ticket_is_too_loud(wanted: Severity, *, too_loud: bool) -> None:
    """Found, and somebody was woken for nothing; unless another fault of the
    same GPU deserves the page.
    """
    assert case_of(alert(5), of=truth(severity=wanted)).too_loud is too_loud
    (case, _), _ = match(
        [truth(severity=wanted), replace(truth(), id="t2")], [alert(5)], ONSET + 10_000 * SECOND_NS
    )
    assert case.too_loud is False
