"""Which alert is about which fault: deadlines, entities, classes,
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
    FAULTY,
    JOB,
    NODE,
    ONSET,
    PEER,
    alert,
    case_of,
    statement,
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
    ("reported", "wanted", "found"),
    [
        ("ticket", "page", False),
        ("page", "page", True),
        ("page", "ticket", True),
        ("ticket", "ticket", True),
        ("record", "ticket", False),
        ("record", "record", True),
    ],
)
def test_a_fault_must_be_reported_as_severely_as_it_is(
    reported: Severity, wanted: Severity, *, found: bool
) -> None:
    """A ticket is no page; a page is a ticket; a record counts only where no more is asked for."""
    assert case_of(alert(10, severity=reported), of=truth(severity=wanted)).in_time is found


def test_severity_that_rises_counts_from_when_it_rose() -> None:
    """Ticket after 10 s, page after 100 s: the page-level fault was found after 100 s."""
    both = alert(10, severity="ticket")
    both.add(replace(both.statements[0], time_ns=ONSET + 100 * SECOND_NS, severity="page"))
    assert case_of(both).detected_s == 100


@pytest.mark.parametrize(
    ("entity", "fault", "own", "noticed", "false"),
    [
        (FAULTY, "thermal", True, True, False),  # right
        (NODE, "thermal", True, True, False),  # found, on another level
        (FAULTY, "straggler", False, True, False),  # an allowed symptom
        (JOB, "straggler", False, True, False),  # the same, where it is allowed
        (NODE, "straggler", False, False, True),  # where it is not
        (FAULTY, "pcie", False, True, True),  # right GPU, wrong story
        (PEER, "thermal", False, False, True),  # right story, wrong GPU
        (PEER, "pcie", False, False, True),  # neither
        (Entity("gpu", "GPU-far"), "thermal", False, False, True),
        (FAULTY, "outlier", True, True, False),  # claims no class, so none can be wrong
        (NODE, "outlier", False, False, True),  # but it has to name the GPU
    ],
)
def test_class_and_entity_decide(
    entity: Entity, fault: str, *, own: bool, noticed: bool, false: bool
) -> None:
    """Recall asks for the right class of the entity or what contains it; symptoms are no false
    alarms; wrong stories are.
    """
    one = alert(10, entity=entity, fault=fault)
    case = case_of(one)
    assert (case.in_time, case.noticed_s is not None, bool(strays_of(one))) == (
        own,
        noticed,
        false,
    )


def test_attribution_takes_the_most_serious_then_the_earliest() -> None:
    """Reported by the deadline: a ticket on the peer after 5 s, a page on the peer after 20 s, a
    page on the faulty GPU after 10 s. The faulty GPU is first.
    """
    case = case_of(alert(5, entity=PEER, severity="ticket"), alert(20, entity=PEER), alert(10))
    assert (case.top1, case.top3, case.level) == (True, True, True)


def test_a_neighbour_blamed_first_costs_top_1() -> None:
    """The peer is paged 5 s before the faulty GPU: second place, right level."""
    case = case_of(alert(5, entity=PEER), alert(10))
    assert (case.top1, case.top3, case.level) == (False, True, True)


def test_the_node_instead_of_the_gpu_is_the_wrong_level() -> None:
    """Found, but the person who goes there has eight GPUs to choose from."""
    case = case_of(alert(10, entity=NODE))
    assert (case.in_time, case.top1, case.top3, case.level) == (True, False, False, False)


def test_blame_after_the_deadline_does_not_count() -> None:
    """The node is paged in time, the GPU too late: it was not known by then."""
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


def test_an_incident_that_was_open_before_and_became_a_page_since_reports_the_fault() -> None:
    """A bank without spare rows has a ticket for days; the remap that then
    fails is reported by raising it.
    """
    earlier = alert(-3600, severity="ticket")
    assert case_of(earlier).in_time is False
    earlier.add(statement(5))
    assert (case_of(earlier).detected_s, case_of(earlier).top1) == (5.0, True)


def test_a_root_named_earlier_and_cleared_ranks_below_the_one_named_now() -> None:
    """A program's failure was reported for its job an hour ago and is over; now the GPU's is."""
    case = case_of(alert(10, entity=NODE, cleared_s=60), alert(200))
    assert (case.top1, case.level) == (True, True)


def test_an_nvlink_is_on_its_level_when_its_gpu_is_its_name() -> None:
    """Where frames hold no single NVLinks the truth itself names the GPU: to name
    just that is no wrong level.
    """
    case = case_of(alert(10), of=truth(kind="link", exact=[FAULTY]))
    assert (case.top1, case.level) == (True, True)


def test_duplicates_flaps_and_secondaries_are_counted_separately() -> None:
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
    """The fault ends after 3600 s; an alert that is open forever is not cleared, one whose
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


def test_an_alert_of_one_fault_is_none_of_a_neighbour_with_another() -> None:
    """Two peers have the same fault: the page about one is right for it and says
    nothing about the other.
    """
    peer = replace(truth(exact=(PEER,)), id="t2", near=frozenset({FAULTY}))
    (faulty, other), strays = match(
        [truth(), peer], [alert(5, entity=PEER), alert(10)], ONSET + 10_000 * SECOND_NS
    )
    assert (faulty.top1, faulty.misplaced, other.top1, other.misplaced) == (True, 0, True, 0)
    assert strays == []


def test_a_symptom_on_one_faulty_gpu_is_none_of_another_faulty_gpu() -> None:
    """Both GPUs of a job are faulty and the first symptom is reported for the peer: it counts for
    the peer alone, and is no false alarm.
    """
    anywhere = {"straggler": frozenset({FAULTY, PEER})}
    peer = replace(truth(exact=(PEER,)), id="t2", near=frozenset({FAULTY}), secondary=anywhere)
    symptom = alert(5, entity=PEER, fault="straggler")
    (faulty, other), strays = match(
        [replace(truth(), secondary=anywhere), peer],
        [symptom, alert(10)],
        ONSET + 10_000 * SECOND_NS,
    )
    assert (faulty.top1, faulty.secondaries, other.secondaries) == (True, 0, 1)
    assert strays == []


@pytest.mark.parametrize(("until_s", "watched"), [(299, False), (300, True)])
def test_a_case_is_watched_when_the_run_reaches_its_deadline(
    until_s: float, *, watched: bool
) -> None:
    """The deadline is 300 s after the onset."""
    assert case_of(until_s=until_s).watched is watched


def test_a_root_named_later_was_not_named_before() -> None:
    """An incident pages the peer at 5 s and the faulty GPU at 1,000 s, long after the deadline:
    found late, whatever its last root is.
    """
    turned = alert(5, entity=PEER)
    turned.add(statement(1000, FAULTY, PEER))
    case = case_of(turned)
    assert (case.detected_s, case.in_time, case.top1) == (1000, False, None)


def test_a_root_that_moves_away_in_time_is_wrong() -> None:
    """The faulty GPU is paged at 5 s, and its node in its place at 100 s: found, and an operator
    looks at the node at the deadline.
    """
    turned = alert(5)
    turned.add(statement(100, NODE, FAULTY))
    assert (case_of(turned).in_time, case_of(turned).top1, case_of(turned).top3) == (
        True,
        False,
        True,
    )


def test_what_was_false_for_hours_stays_false_when_it_turns_out_right() -> None:
    """A page on the peer ten hours before anything was wrong: a false page, though the incident
    names the faulty GPU since it is hot.
    """
    turned = alert(-36_000, entity=PEER)
    turned.add(statement(10, FAULTY, PEER))
    (stray,) = strays_of(turned)
    assert (case_of(turned).detected_s, stray.root, stray.severity) == (10, PEER, "page")


def test_a_root_that_changes_and_changes_back_is_reported_each_time() -> None:
    """A page on the peer, a ticket on the faulty GPU, then the page on the faulty GPU: the same
    severity as before, and another root.
    """
    turned = alert(1, entity=PEER)
    turned.add(statement(2, FAULTY, severity="ticket"))
    turned.add(statement(3, FAULTY))
    assert case_of(turned).detected_s == 3


def test_another_class_that_joins_makes_no_news_of_what_was_known() -> None:
    """The GPU has been hot for hours when an XID joins: the heat is not reported again."""
    earlier = alert(-3600)
    earlier.add(statement(20, FAULTY, also=["thermal", "xid/gpu"]))
    assert (case_of(earlier).detected_s, case_of(earlier).before) == (None, 1)


def test_a_class_that_joins_later_was_not_reported_before() -> None:
    """A page for something else about the GPU at 5 s; that it is hot too
    is reported at 200 s, in time.
    """
    grows = alert(5, fault="xid/gpu")
    grows.add(statement(200, FAULTY, fault="xid/gpu", also=["xid/gpu", "thermal"]))
    assert (case_of(grows).detected_s, case_of(grows).noticed_s) == (200, 5)


def test_an_open_alert_that_names_more_faults_since_is_news() -> None:
    """A page about the GPU is open for days; a second fault of the same class
    joins it when it strikes.
    """
    earlier = alert(-3600, fault="thermal")
    assert case_of(earlier).before == 1
    earlier.add(statement(20, FAULTY, also=["thermal", "thermal/fan"]))
    assert case_of(earlier).detected_s == 20


@pytest.mark.parametrize(("fault", "found"), [("thermal", 20), ("xid/gpu", None)])
def test_an_open_alert_that_reports_the_next_time_is_news(fault: str, found: int | None) -> None:
    """The second crash of a node whose first one is an open ticket; not what else happened."""
    earlier = alert(-3600)
    again = statement(20, FAULTY, also=["thermal", "xid/gpu"], times={fault: 2})
    earlier.add(again)
    assert case_of(earlier).detected_s == found


def test_signs_before_the_evidence_are_neither_false_nor_the_fault() -> None:
    """Single errors for an hour before the threshold: reporting them is right and does not find the
    fault; what is reported at the threshold does.
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
    """Where the class may be reported for the job as a symptom, that finds no GPU,
    though the job contains it.
    """
    of = replace(truth(), wider=frozenset({JOB, NODE}), secondary={"thermal": frozenset({JOB})})
    assert (
        case_of(alert(5, entity=JOB), of=of).in_time,
        case_of(alert(5, entity=JOB), of=of).secondaries,
    ) == (False, 1)
    assert case_of(alert(5, entity=NODE), of=of).in_time


def test_a_fault_that_was_reported_as_a_neighbour_s_is_marked_so() -> None:
    """The faulty GPU is below its peer in one incident: missed, and the report can give the reason,
    though the peer has a fault of its own.
    """
    both = alert(5, entity=PEER)
    both.add(statement(6, PEER, FAULTY))
    peer = replace(truth(exact=(PEER,)), id="t2", near=frozenset({FAULTY}))
    (faulty, _), _ = match([truth(), peer], [both], ONSET + 10_000 * SECOND_NS)
    assert (faulty.in_time, faulty.within) == (False, 1)


@pytest.mark.parametrize(("wanted", "too_loud"), [("ticket", True), ("page", False)])
def test_a_page_for_a_ticket_is_too_loud(wanted: Severity, *, too_loud: bool) -> None:
    """Found, and a page for nothing; unless another fault of the
    same GPU requires the page.
    """
    assert case_of(alert(5), of=truth(severity=wanted)).too_loud is too_loud
    (case, _), _ = match(
        [truth(severity=wanted), replace(truth(), id="t2")], [alert(5)], ONSET + 10_000 * SECOND_NS
    )
    assert case.too_loud is False
