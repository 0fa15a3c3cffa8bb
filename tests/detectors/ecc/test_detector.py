"""Memory errors: facts at once, errors without an XID after a minute, trends by the hour; history
and single events are silent.
"""

from __future__ import annotations

import numpy as np
import pytest

from detectors.ecc import Ecc
from detectors.ecc.detector import TREND, UNCORRECTABLE
from detectors.ecc.trend import LIMITS
from detectors.kit.stats import bernoulli_arl
from tests.detectors.feed import Feed, Number, open_findings, relapse, updates

pytestmark = pytest.mark.slow

GPU = "GPU-n1-5"
HEALTHY: dict[str, Number | list[Number]] = {
    "row_remap_pending": 0,
    "row_remap_failed": 0,
    "sram_threshold_exceeded": 0,
    "memory_unrepairable": 0,
    "row_remap_banks_max": 640,
    "row_remap_banks_high": 0,
    "row_remap_banks_partial": 0,
    "row_remap_banks_low": 0,
    "row_remap_banks_none": 0,
    "remapped_rows_correctable": 0,
    "remapped_rows_uncorrectable": 0,
    "ecc_corrected_volatile": 0,
    "ecc_corrected_aggregate": 0,
    "ecc_uncorrected_volatile": 0,
    "ecc_uncorrected_aggregate": 0,
}
HOUR = 3600


def one(value: Number, row: int = 5) -> list[Number]:
    """This value for one of eight GPUs, 0 for the others."""
    return [value if i == row else 0 for i in range(8)]


def with_(**values: Number | list[Number]) -> dict[str, Number | list[Number]]:
    """Healthy, but for these."""
    return HEALTHY | values


@pytest.fixture
def node() -> Feed:
    """A node whose memory is well, and whose counters are not new."""
    feed = Feed(Ecc())
    assert feed.run(600, **HEALTHY) == []
    return feed


@pytest.mark.parametrize(
    ("flag", "fault"),
    [
        ("row_remap_failed", "ecc/remap_failed"),
        ("sram_threshold_exceeded", "ecc/sram"),
        ("memory_unrepairable", "ecc/unrepairable"),
    ],
)
def test_a_flag_pages_in_its_first_reading_as_a_candidate_for_return(
    node: Feed, flag: str, fault: str
) -> None:
    """F05: one poll; a field diagnostic decides about the return."""
    findings = node.once(**with_(**{flag: one(1)}))
    assert open_findings(findings) == [("gpu", GPU, fault, "page")]
    assert findings[0].action == "RUN_FIELDDIAG"
    assert "RMA" in findings[0].summary


def test_a_bank_without_spare_rows_is_a_ticket_in_its_first_reading(node: Feed) -> None:
    """F04: the best predictor of a failing remap."""
    assert open_findings(node.once(**with_(row_remap_banks_none=one(1)))) == [
        ("gpu", GPU, "ecc/spare_rows_gone", "ticket")
    ]


def test_a_bank_with_few_spare_rows_is_a_ticket(node: Feed) -> None:
    """Before it has none."""
    assert open_findings(node.once(**with_(row_remap_banks_low=one(1)))) == [
        ("gpu", GPU, "ecc/spare_rows_low", "ticket")
    ]


def test_a_pending_remap_is_a_ticket_until_the_reset(node: Feed) -> None:
    """H25: a remap and the reset that activates it wake nobody."""
    findings = node.run(HOUR, **with_(row_remap_pending=one(1)))
    assert open_findings(findings) == [("gpu", GPU, "ecc/remap_pending", "ticket")]
    assert findings[0].action == "COMPONENT_RESET"
    node.restart_counters()
    assert updates(node.run(HOUR, **HEALTHY)) == [
        ("gpu", GPU, "ecc/remap_pending", "ticket", "cleared")
    ]


def test_a_remap_of_errors_that_were_all_corrected_waits_for_the_reset_between_jobs(
    node: Feed,
) -> None:
    """H25: nothing was lost, and the reset comes by itself; only when it did not
    for a day there is a finding.
    """
    remap = with_(row_remap_pending=one(1))
    assert node.once(**{**remap, "remapped_rows_correctable": one(1)}) == []
    assert node.run(HOUR, **remap) == []
    node.restart_counters()
    assert node.run(HOUR, **HEALTHY) == []
    node.once(**{**remap, "remapped_rows_correctable": one(1)})
    node.period_s = 600
    assert node.run(23 * HOUR, **remap) == []
    assert open_findings(node.run(2 * HOUR, **remap)) == [
        ("gpu", GPU, "ecc/remap_pending", "ticket")
    ]


def test_a_remap_because_of_an_uncorrectable_error_is_told_at_once(node: Feed) -> None:
    """Whatever was remapped beside it."""
    findings = node.once(
        **with_(
            row_remap_pending=one(1),
            remapped_rows_correctable=one(1),
            remapped_rows_uncorrectable=one(1),
        )
    )
    assert open_findings(findings) == [("gpu", GPU, "ecc/remap_pending", "ticket")]


def test_a_remap_that_is_still_pending_after_the_reset_pages(node: Feed) -> None:
    """The repair does not take."""
    node.run(HOUR, **with_(row_remap_pending=one(1)))
    node.restart_counters()
    findings = node.run(300, **with_(row_remap_pending=one(1)))
    assert updates(findings) == [("gpu", GPU, "ecc/remap_pending", "page", "ongoing")]


def test_an_agent_that_counts_lives_anew_is_no_reset(node: Feed) -> None:
    """It restarted and lost its state: a repair that waits goes on waiting,
    and the next reset counts.
    """
    waits, before = with_(row_remap_pending=one(1)), node.gpus
    node.restart_counters()
    node.run(600, **HEALTHY)
    assert open_findings(node.run(600, **waits)) == [("gpu", GPU, "ecc/remap_pending", "ticket")]
    node.gpus = before
    assert node.run(600, **waits) == []
    node.restart_counters()
    assert updates(node.run(300, **waits)) == [("gpu", GPU, "ecc/remap_pending", "page", "ongoing")]


def test_an_uncorrectable_error_without_an_xid_pages_after_a_minute(node: Feed) -> None:
    """Gpud's ECC check never changes health: here a counted error without an XID is a finding."""
    assert (
        node.once(**with_(ecc_uncorrected_volatile=one(2), ecc_uncorrected_aggregate=one(2))) == []
    )
    findings = node.run(70, **HEALTHY)
    assert open_findings(findings) == [("gpu", GPU, UNCORRECTABLE, "page")]
    assert "2 uncorrectable errors" in findings[0].evidence[0]


@pytest.mark.parametrize("code", [95, 64, 140])
def test_an_uncontained_error_pages_with_its_xid(node: Feed, code: int) -> None:
    """F03: within ten seconds, in whatever order count and line come."""
    node.event(node.gpus[5], "xid", code=code, ago_s=2)
    assert open_findings(node.once(**with_(ecc_uncorrected_volatile=one(1)))) == [
        ("gpu", GPU, UNCORRECTABLE, "page")
    ]


def test_a_contained_error_is_a_ticket(node: Feed) -> None:
    """F02: 48 with 94, reported with the next reading; the minute after changes nothing."""
    node.once(**with_(ecc_uncorrected_volatile=one(1)))
    node.event(node.gpus[5], "xid", code=48)
    node.event(node.gpus[5], "xid", code=94)
    findings = node.run(600, **HEALTHY)
    assert open_findings(findings) == [("gpu", GPU, UNCORRECTABLE, "ticket")]
    assert findings[0].time_ns - findings[0].onset_ns <= 15e9


def test_an_error_of_which_nobody_says_that_it_was_contained_pages(node: Feed) -> None:
    """48 alone, ten seconds later."""
    node.once(**with_(ecc_uncorrected_volatile=one(1)))
    node.event(node.gpus[5], "xid", code=48)
    assert open_findings(node.run(20, **HEALTHY)) == [("gpu", GPU, UNCORRECTABLE, "page")]


def test_poison_that_was_not_contained_pages_at_once(node: Feed) -> None:
    """Also before any error is counted; over with the reset."""
    findings = node.event(node.gpus[5], "memory_poison", source="nvml", severity="fatal")
    assert open_findings(findings) == [("gpu", node.gpus[5].id, "ecc/uncorrectable", "page")]
    assert node.run(60, **HEALTHY) == []
    node.restart_counters()
    assert [f.phase for f in node.run(20, **HEALTHY)] == ["cleared"]


def test_poison_that_was_contained_says_how_serious_a_counted_error_is(node: Feed) -> None:
    """By itself it accuses nobody; with an error it is a ticket."""
    assert node.event(node.gpus[5], "memory_poison", source="nvml", severity="nonfatal") == []
    findings = node.once(**with_(ecc_uncorrected_volatile=one(1)))
    assert [f.severity for f in findings] == ["ticket"]


def test_a_storm_of_corrected_errors_by_itself_accuses_nobody(node: Feed) -> None:
    """It is an hour with errors."""
    assert node.event(node.gpus[5], "ecc_storm", source="nvml") == []
    assert node.run(60, **HEALTHY) == []


def test_an_xid_of_another_gpu_explains_nothing(node: Feed) -> None:
    """Each GPU has its own."""
    node.event(node.gpus[4], "xid", code=94)
    node.once(**with_(ecc_uncorrected_volatile=one(1)))
    assert open_findings(node.run(70, **HEALTHY)) == [("gpu", GPU, UNCORRECTABLE, "page")]


def test_an_error_of_which_the_kernel_told_while_the_agent_was_away_is_as_serious_as_it_said(
    node: Feed,
) -> None:
    """An upgrade of five minutes: the counter is read before the lines of then are, and 94
    among them says contained.
    """
    node.clock.advance(300)
    assert node.once(**with_(ecc_uncorrected_volatile=one(1))) == []
    for code in (48, 94):
        node.event(node.gpus[5], "xid", code=code, ago_s=200, before_start=True)
    assert open_findings(node.run(300, **HEALTHY)) == [("gpu", GPU, UNCORRECTABLE, "ticket")]


def test_an_xid_from_before_the_last_reading_explains_no_new_error(node: Feed) -> None:
    """Only those count that came since the counter was read without the
    error, or within the minute.
    """
    node.event(node.gpus[5], "xid", code=94)
    node.run(100, **HEALTHY)
    node.once(**with_(ecc_uncorrected_volatile=one(1)))
    assert open_findings(node.run(70, **HEALTHY)) == [("gpu", GPU, UNCORRECTABLE, "page")]


def test_an_error_that_is_counted_after_the_reset_wakes_nobody(node: Feed) -> None:
    """The node crashed before the counter was read: the reset was the remedy, and what was computed
    before it is for the morning.
    """
    node.clock.advance(300)
    node.restart_counters()
    findings = [*node.once(**with_(ecc_uncorrected_aggregate=one(1))), *node.run(300, **HEALTHY)]
    assert updates(findings) == [("gpu", GPU, UNCORRECTABLE, "ticket", "onset")]
    node.once(**with_(ecc_uncorrected_volatile=one(1), ecc_uncorrected_aggregate=one(1)))
    assert updates(node.run(70, **HEALTHY)) == [("gpu", GPU, UNCORRECTABLE, "page", "ongoing")]


@pytest.mark.parametrize(("code", "severity"), [(95, "page"), (94, "ticket")])
def test_an_error_whose_xid_comes_after_the_reset_is_of_this_life(
    node: Feed, code: int, severity: str
) -> None:
    """The counter was first read after both: the XID says that the reset was before the
    error, and how serious it is.
    """
    node.restart_counters()
    node.run(20)
    node.event(node.gpus[5], "xid", code=code)
    (onset,) = node.once(**with_(ecc_uncorrected_aggregate=one(1)))
    assert open_findings([onset]) == [("gpu", GPU, UNCORRECTABLE, severity)]
    assert onset.action != "NONE"


def test_an_uncorrectable_error_soon_after_the_reset_is_told(node: Feed) -> None:
    """It is another error and no fault that flickers: nothing rests, and no
    minute of it is reported twice.
    """
    for _ in range(2):
        node.event(node.gpus[5], "xid", code=95)
        findings = node.once(
            **with_(ecc_uncorrected_volatile=one(1), ecc_uncorrected_aggregate=one(1))
        )
        assert updates([*findings, *node.run(600, **HEALTHY)]) == [
            ("gpu", GPU, UNCORRECTABLE, "page", "onset")
        ]
        node.restart_counters()
        assert updates(node.run(60, **HEALTHY)) == [("gpu", GPU, UNCORRECTABLE, "page", "cleared")]


def test_volatile_and_aggregate_are_one_count(node: Feed) -> None:
    """The larger of the two, never the sum; the aggregate one counts on when a
    reload hides the volatile one.
    """
    node.once(**with_(ecc_uncorrected_volatile=one(3), ecc_uncorrected_aggregate=one(5)))
    assert "5 uncorrectable errors" in node.run(70, **HEALTHY)[0].evidence[0]


def test_a_finding_about_an_untold_error_ends_with_the_reset_or_a_clean_day() -> None:
    """DCGM never clears; here a reset does, and 24 hours without another."""
    for reset in (True, False):
        node = Feed(Ecc(), period_s=60)
        node.run(600, **HEALTHY)
        node.once(**with_(ecc_uncorrected_volatile=one(1)))
        assert [f.phase for f in node.run(20 * HOUR, **HEALTHY)] == ["onset"]
        if reset:
            node.restart_counters()
        assert [f.phase for f in node.run(60 if reset else 6 * HOUR, **HEALTHY)] == ["cleared"]


def test_a_lifetime_of_errors_is_silent_at_start() -> None:
    """GCM alarms on sums over the lifetime of the board: here a million old errors and a
    hundred old remaps are history.
    """
    assert Feed(Ecc()).run(2 * HOUR, **HEALTHY) == []


@pytest.mark.parametrize("mark", [0x7FFFFFF0, 0x7FFFFFFFFFFFFFF0])
def test_a_count_that_jumps_to_a_mark_of_no_value_counts_no_errors(node: Feed, mark: int) -> None:
    """No memory has two billion errors between two readings: there is no finding
    of a number that is none.
    """
    node.once(**with_(ecc_uncorrected_volatile=one(mark), ecc_corrected_volatile=one(mark)))
    assert node.run(70, **HEALTHY) == []


def test_a_reload_of_the_driver_is_silent(node: Feed) -> None:
    """Counters that fall to 0 are no errors."""
    for _ in range(5):
        node.restart_counters()
        assert node.run(300, **HEALTHY) == []


def test_eight_rows_in_a_day_page(node: Feed) -> None:
    """Of any cause."""
    assert node.once(**with_(remapped_rows_correctable=one(7))) == []
    assert open_findings(node.once(**with_(remapped_rows_correctable=one(1)))) == [
        ("gpu", GPU, "ecc/remaps_jumped", "page")
    ]


def test_eight_rows_over_a_week_do_not_page() -> None:
    """One a day is slower than that."""
    feed = Feed(Ecc(), period_s=600)
    feed.run(HOUR, **HEALTHY)
    for _ in range(8):
        assert feed.once(**with_(remapped_rows_correctable=one(1))) == []
        assert feed.run(86400, **HEALTHY) == []


def test_two_uncorrectable_remaps_within_a_month_are_a_ticket_with_a_forecast() -> None:
    """One event is no lemon, two are; the pace says how long the spare
    rows of the worst bank last.
    """
    feed = Feed(Ecc(), period_s=600, begin=3)
    feed.run(HOUR, **HEALTHY)
    assert feed.once(**with_(remapped_rows_uncorrectable=one(1))) == []
    assert feed.run(10 * 86400, **HEALTHY) == []
    findings = feed.once(
        **with_(remapped_rows_uncorrectable=one(1), row_remap_banks_partial=one(1))
    )
    assert open_findings(findings) == [("gpu", GPU, "ecc/remaps_repeat", "ticket")]
    # Two rows in 30 days, at least three spare ones left in a bank of the class
    # "partial": 3 / (2/30) days.
    assert "45.0 days" in findings[0].evidence[1]


def test_two_uncorrectable_remaps_further_apart_are_silent() -> None:
    """The window slides."""
    feed = Feed(Ecc(), period_s=3600, begin=3)
    feed.run(2 * HOUR, **HEALTHY)
    feed.once(**with_(remapped_rows_uncorrectable=one(1)))
    feed.run(31 * 86400, **HEALTHY)
    assert feed.once(**with_(remapped_rows_uncorrectable=one(1))) == []


def test_correctable_and_uncorrectable_remaps_stay_apart(node: Feed) -> None:
    """Gpud fills the uncorrectable ones from the correctable field: here correctable ones are no
    reason to suspect a lemon.
    """
    assert node.once(**with_(remapped_rows_correctable=one(3))) == []


def test_ten_thousand_errors_in_one_hour_are_one_hit(node: Feed) -> None:
    """DCGM's limit of ten single-bit errors is a dummy: no rule counts them."""
    assert (
        node.run(HOUR, **with_(ecc_corrected_volatile=one(3), ecc_corrected_aggregate=one(3))) == []
    )
    assert node.run(4 * HOUR, **HEALTHY) == []


def hours(feed: Feed, hit: list[bool]) -> None:
    """An hour per element, each with or without a burst of correctable errors on one GPU."""
    for burst in hit:
        feed.once(
            **with_(
                ecc_corrected_volatile=one(50 if burst else 0),
                ecc_corrected_aggregate=one(50 if burst else 0),
            )
        )
        feed.run(HOUR - feed.period_s, **HEALTHY)


def test_errors_in_one_hour_of_ten_are_a_ticket_within_a_week() -> None:
    """F01 at twice its nominal share: about every tenth hour, whatever the size of the bursts."""
    feed = Feed(Ecc(), period_s=600)
    hours(feed, [n % 10 == 0 for n in range(168)])
    assert open_findings(feed.findings) == [("gpu", GPU, TREND, "ticket")]
    assert "hours had an error" in feed.findings[0].evidence[0]


def test_errors_at_the_fleets_rate_are_silent() -> None:
    """H23: one hour in five hundred, for sixty days."""
    feed = Feed(Ecc(), period_s=1200)
    hours(feed, [n % 500 == 250 for n in range(60 * 24)])
    assert feed.findings == []


def test_a_trend_ends_after_a_calm_week() -> None:
    """And not before."""
    feed = Feed(Ecc(), period_s=600)
    hours(feed, [n % 5 == 0 for n in range(60)])
    hours(feed, [False] * 150)
    assert [f.phase for f in feed.findings] == ["onset"]
    hours(feed, [False] * 80)
    assert [f.phase for f in feed.findings] == ["onset", "cleared"]


def test_hours_without_data_hold() -> None:
    """An outage of the collector neither adds to suspicion nor takes from it."""
    feed = Feed(Ecc(), period_s=600)
    hours(feed, [n % 5 == 0 for n in range(10)])
    before = feed.detector._columns["S"].copy()  # type: ignore[attr-defined] # the statistic itself is the matter here
    feed.run(48 * HOUR)
    assert np.array_equal(feed.detector._columns["S"][5], before[5])  # type: ignore[attr-defined]
    assert before[5] > 0


def test_the_drivers_own_alarm_about_single_bit_errors_is_a_hit() -> None:
    """XID 92 in many hours is a trend even where nobody counts."""
    feed = Feed(Ecc(), period_s=600)
    feed.run(HOUR, **HEALTHY)
    for n in range(60):
        if n % 5 == 0:
            feed.event(feed.gpus[5], "xid", code=92)
        feed.run(HOUR, **HEALTHY)
    assert open_findings(feed.findings) == [("gpu", GPU, TREND, "ticket")]


@pytest.mark.parametrize("share", list(LIMITS))
def test_a_healthy_gpu_has_one_false_trend_in_a_thousand_months(share: float) -> None:
    """The run length at each limit of the table, in hours: 720 a month."""
    assert bernoulli_arl(share, share, min(0.5, 25 * share), LIMITS[share]) >= 720 * 1000


def test_a_full_table_of_retired_pages_is_a_ticket() -> None:
    """Before Ampere pages are retired, 64 at most."""
    feed = Feed(Ecc(), begin=0)
    assert feed.run(60, retired_pages_single_bit=0, retired_pages_double_bit=0) == []
    findings = feed.once(retired_pages_single_bit=one(50), retired_pages_double_bit=one(13))
    assert open_findings(findings) == [("gpu", GPU, "ecc/pages_retired", "ticket")]


def test_a_flag_that_blinks_is_one_finding(node: Feed) -> None:
    """Gone for a reading, there again: reported once."""
    for n in range(60):
        node.once(**with_(row_remap_failed=one(n % 3 > 0)))
    assert [f.phase for f in node.findings] == ["onset"]


def test_nothing_is_learnt_from_a_gpu_that_is_under_suspicion() -> None:
    """A failing GPU must not teach the detector that errors are healthy."""
    feed = Feed(Ecc(), period_s=600)
    hours(feed, [True] * 48)
    assert feed.detector._trend.share < 0.01  # type: ignore[attr-defined] # 48 hits in 384 GPU-hours would be 12 %


def test_four_hours_with_errors_in_a_week_are_a_ticket_and_three_are_none() -> None:
    """Two days apart, so that the CUSUM alone would forget each before the next."""
    feed = Feed(Ecc(), period_s=600)
    hours(feed, [False, *(n % 48 == 0 for n in range(144))])
    assert feed.findings == []
    hours(feed, [True])
    assert open_findings(feed.findings) == [("gpu", GPU, TREND, "ticket")]


def test_the_week_is_one_of_the_clock_and_not_of_what_was_seen() -> None:
    """A collector is away for days between four hours with errors, 63 hours apart: the last three
    of them lie within a week.
    """
    feed = Feed(Ecc(), period_s=600)
    for _ in range(4):
        hours(feed, [False, True, False])
        feed.clock.advance(60 * HOUR)
    assert "3 of them in the last week" in feed.findings[0].evidence[0]


def test_many_sick_gpus_do_not_make_errors_normal() -> None:
    """One GPU of eight has errors in every tenth hour: what is healthy is
    learnt from the seven others.
    """
    feed = Feed(Ecc(), period_s=600)
    hours(feed, [n % 10 == 0 for n in range(240)])
    assert feed.detector._trend.share < 0.0025  # type: ignore[attr-defined] # its 24 hits in 1,920 GPU-hours would be 1.3 %


def test_a_flag_that_comes_back_within_the_hour_is_reported_each_time(node: Feed) -> None:
    """A reset took it away, twice: the second time is no flicker of a fact."""
    faulty, healthy = with_(row_remap_failed=one(1)), HEALTHY
    assert [
        f.phase
        for f in relapse(
            node.clock, lambda: node.run(300, **faulty), lambda: node.run(300, **healthy)
        )
    ] == ["onset", "cleared"]
