"""XIDs one by one and in bursts: what they are about, how serious, of
whom, once, and until when.
"""

from __future__ import annotations

from typing import Any

import pytest

from detectors.kit.snapshot import Snapshotable
from detectors.xid.repetition import REPEATED
from pipeline.finding import Finding
from pipeline.frame import Device
from pipeline.observation import Event
from pipeline.xid.table import xid_entry, xid_table
from tests.detectors.feed import a_gpu, open_findings, relapse, updates
from tests.detectors.xid_log import DAY, GPU, HOUR, LINK, MEMORY, NODE, PROGRAM, Log, id_


@pytest.fixture
def log() -> Log:
    """A node that has answered for a minute."""
    node = Log()
    node.quiet(60)
    return node


def memory_of(log: Log) -> int:
    """Bytes that the detector remembers."""
    assert isinstance(log.detector, Snapshotable)
    return sum(array.nbytes for array in log.detector.state().values())


# One code alone.


@pytest.mark.parametrize(
    "code", [46, 62, 79, 95, 109, 119, 120, 136, 140, 143, 155, 156, 158, 54, 64]
)
def test_codes_that_need_a_reset_or_hands_page_at_once(log: Log, code: int) -> None:
    """In the observation that brings them (109 included, which GCM holds for harmless)."""
    findings = log.xid(code)
    assert [(f.device, f.severity, f.phase) for f in findings] == [(log.gpus[0], "page", "onset")]
    assert findings[0].summary.startswith(f"XID {code}: {xid_entry(code).description}")


@pytest.mark.parametrize(
    ("code", "severity"),
    [(94, "ticket"), (121, "record"), (137, "record"), (63, "record"), (43, "record")],
)
def test_levels_that_other_tools_get_wrong(log: Log, code: int, severity: str) -> None:
    """GCM pages 94, 121 and 137; 43 is a program's error and no hang; 63 says
    that a repair was recorded.
    """
    assert [f.severity for f in log.xid(code)] == [severity]


@pytest.mark.parametrize("code", [38, 39, 42, 54, 56, 57, 58, 60, 61, 62, 67, 73, 78])
def test_codes_mean_what_nvidias_catalogue_says(log: Log, code: int) -> None:
    """DCGM calls these PCIe, power, thermal or NVLink errors; none of them is."""
    findings = log.xid(code)
    assert all(
        f.severity == xid_entry(code).level and xid_entry(code).description in f.summary
        for f in findings
    )
    wrong = (
        ("pcie", "nvlink")
        if code in (38, 39, 42, 67, 73)
        else ("thermal slow", "power brake", "bus error")
    )
    assert not [f.summary for f in findings if any(word in f.summary.lower() for word in wrong)]


@pytest.mark.slow
@pytest.mark.parametrize("code", sorted(xid_table()))
def test_every_code_of_the_table_is_told_as_the_table_says(code: int) -> None:
    """Alone, without details, after its burst is over: never above its level,
    and 45 is a ticket then.
    """
    node = Log(period_s=30)
    node.quiet(60)
    findings = [*node.xid(code), *node.quiet(300)]
    highest = max((["record", "ticket", "page"].index(f.severity) for f in findings), default=0)
    expected = {45: "ticket", 154: "ticket"}.get(code, xid_entry(code).level)
    assert highest == ["record", "ticket", "page"].index(expected)


def test_an_unknown_code_is_a_ticket(log: Log) -> None:
    """Never dropped: an operator looks it up."""
    assert open_findings(log.xid(4711)) == [("gpu", id_(), GPU, "ticket")]


def test_119_is_not_11(log: Log) -> None:
    """Moneo reads two digits."""
    assert "XID 119" in log.xid(119)[0].summary


# Once each.


@pytest.mark.slow
def test_kernel_log_and_nvml_tell_one_xid(log: Log) -> None:
    """The same code of the same GPU within two seconds is one."""
    assert len(log.xid(119)) == 1
    log.quiet(HOUR)
    findings = log.xid(119)
    assert log.event(log.gpus[0], "xid", source="nvml", code=119, origin="nvml") == []
    assert "2 bursts in 7 days" in findings[0].evidence[0]


def test_31_twice_counts_two(log: Log) -> None:
    """Repeats are visible: dcgm-exporter's gauge shows the second 31 as no change, and 94 then 13
    as a reset of a counter.
    """
    log.xid(31)
    log.quiet(HOUR / 2)
    assert [f.fault for f in log.xid(31)] == [REPEATED]


def test_eight_hundred_thousand_lines_are_one_finding_in_bounded_memory(log: Log) -> None:
    """NVSentinel kept 800,000 events of XID 95, 29 distinct: here every GPU has one
    finding that says how many.
    """
    findings = []
    for n in range(400):
        log.clock.advance(0.5)
        findings += log.xid(95, gpu=n % 8, count=2000)
    assert open_findings(findings) == [("gpu", id_(gpu), MEMORY, "page") for gpu in range(8)]
    assert memory_of(log) < 100_000


# Bursts.


@pytest.mark.parametrize("order", [(62, 45), (45, 62)])
def test_45_beside_another_code_only_follows(log: Log, order: tuple[int, int]) -> None:
    """F09: whatever comes last, the burst is about 62."""
    findings = [f for code in order for f in log.xid(code)]
    assert open_findings([*findings, *log.quiet(600)]) == [("gpu", id_(), GPU, "page")]
    assert "XID 62" in findings[0].summary


def test_45_never_pages(log: Log) -> None:
    """NVSentinel counted 168,924 of them as hardware faults: alone, and once its burst
    is over, one is a ticket.
    """
    assert log.xid(45, count=1000) == []
    findings = log.quiet(300)
    assert open_findings(findings) == [("gpu", id_(), PROGRAM, "ticket")]
    assert "Fabric Manager" in findings[0].summary


@pytest.mark.slow
def test_a_job_that_is_killed_says_nothing_about_its_gpus(log: Log) -> None:
    """45 on each as it ends: reported for the job, though it is gone when the burst is over, and
    forgotten within the hour (H23).
    """
    log.job("42", *range(8))
    for gpu in range(8):
        log.xid(45, gpu=gpu)
    log.event(NODE, "job_ended", source="jobs", job="42")
    assert open_findings(log.quiet(600)) == [("job", "42", PROGRAM, "ticket")]
    assert open_findings([*log.findings, *log.quiet(HOUR)]) == []


def test_45_on_the_peers_of_a_lost_gpu_is_silent(log: Log) -> None:
    """The job died everywhere because one GPU did."""
    log.xid(79)
    for gpu in range(1, 8):
        log.clock.advance(3)
        assert log.xid(45, gpu=gpu) == []
    assert [f for f in log.quiet(600) if f.device.id != id_()] == []


def test_79_then_119_and_154_is_one_loss(log: Log) -> None:
    """One finding, and what follows does not change what it is about."""
    findings = [
        *log.xid(79),
        *log.xid(119),
        *log.xid(154, recovery_from=0, recovery_to=2),
        *log.quiet(600),
    ]
    assert open_findings(findings) == [("gpu", id_(), GPU, "page")]
    assert all("XID 79" in f.summary for f in findings)


def test_79_after_119_takes_the_lead(log: Log) -> None:
    """The same finding, reported again: what to do has changed from a reset to a reboot."""
    first, second = log.xid(119), log.xid(79)
    assert (first[0].action, second[0].action, second[0].phase) == (
        "COMPONENT_RESET",
        "RESTART_BM",
        "ongoing",
    )
    assert first[0].id == second[0].id


@pytest.mark.parametrize("record", [63, 171, 172])
def test_48_pages_after_its_ten_seconds_also_beside_a_code_for_the_record(
    log: Log, record: int
) -> None:
    """GPUs without error containment say nothing of it, and other GPUs of
    the node may go on talking.
    """
    log.xid(48)
    log.xid(record)
    log.clock.advance(10)
    findings = log.quiet(20)
    assert open_findings([*log.findings]) == [("gpu", id_(), MEMORY, "page")]
    assert "XID 48" in findings[-1].summary


@pytest.mark.slow
@pytest.mark.parametrize("order", [(48, 45, 94), (94, 48, 45), (45, 94, 48)])
def test_a_contained_memory_error_is_a_ticket(log: Log, order: tuple[int, ...]) -> None:
    """48 with 94 (F09), in any order, and nothing louder later."""
    findings = [f for code in order for f in log.xid(code)]
    assert open_findings([*findings, *log.quiet(600)]) == [("gpu", id_(), MEMORY, "ticket")]


def test_48_waits_ten_seconds_and_then_pages(log: Log) -> None:
    """No XID reported that the error was contained."""
    assert log.xid(48) == []
    assert open_findings(log.quiet(20)) == [("gpu", id_(), MEMORY, "page")]


@pytest.mark.parametrize("code", [64, 95, 140, 79])
def test_48_with_an_uncontained_error_pages_at_once(log: Log, code: int) -> None:
    """Whatever else came: 94 does not take it back."""
    findings = [*log.xid(48), *log.xid(94), *log.xid(code)]
    assert open_findings(findings)[0][3] == "page"
    assert len(open_findings(findings)) == 1


def test_a_remap_and_its_reset_are_no_alarm(log: Log) -> None:
    """63 alone is for the record (H25)."""
    assert [f.severity for f in [*log.xid(63), *log.quiet(600)]] == ["record"]


def test_a_program_that_fails_on_a_broken_gpu_is_no_second_finding(log: Log) -> None:
    """13 and 31 beside 79 are what the job saw of it."""
    log.job("42", 0, 1)
    findings = [*log.xid(79), *log.xid(31), *log.xid(13)]
    assert open_findings(findings) == [("gpu", id_(), GPU, "page")]


# 154 decides.


@pytest.mark.parametrize(("action", "severity", "proposed"), [
    (1, "page", "COMPONENT_RESET"),
    (2, "page", "RESTART_BM"),
    (3, "ticket", "CONTACT_SUPPORT"),
    (4, "page", "COMPONENT_RESET"),
    (5, "ticket", "CONTACT_SUPPORT"),
    (99, "ticket", "CONTACT_SUPPORT"),
    (0, "record", "NONE"),
])  # fmt: skip
def test_154_is_as_serious_as_the_action_it_names(
    log: Log, action: int, severity: str, proposed: str
) -> None:
    """Alone, as where the line before it was lost."""
    assert [(f.severity, f.action) for f in log.xid(154, recovery_to=action)] == [
        (severity, proposed)
    ]


def test_154_raises_what_came_before(log: Log) -> None:
    """A contained error for which the driver then asks for a reset."""
    ticket, page = log.xid(94), log.xid(154, recovery_to=1)
    assert (ticket[0].severity, page[0].severity, page[0].id) == ("ticket", "page", ticket[0].id)
    assert "XID 94" in page[0].summary


def test_154_asks_for_a_reboot_where_a_reset_does_not_help(log: Log) -> None:
    """As serious, but another step; a reset that it asks for is not enough after XID 79."""
    (reset,), (reboot,) = log.xid(119), log.xid(154, recovery_to=2)
    assert (reset.severity, reset.action) == ("page", "COMPONENT_RESET")
    assert (reboot.severity, reboot.action) == ("page", "RESTART_BM")
    assert "reboot the node" in reboot.summary
    (lost,) = log.xid(79, gpu=1)
    assert [f.action for f in (lost, *log.xid(154, gpu=1, recovery_to=1))] == ["RESTART_BM"]


def test_the_polled_recovery_action_shows_what_the_lost_line_said(log: Log) -> None:
    """NVML field 230 asks for a reset, and there was no XID: a page, until it asks no more."""
    findings = log.quiet(60, recovery_action=1.0)
    assert [(f.device.id, f.fault, f.severity) for f in findings[:1]] == [
        (id_(0), "xid/recovery_action", "page")
    ]
    assert {f.phase for f in log.quiet(60)} == {"cleared"}


@pytest.mark.parametrize("mark", [2147483632.0, 2.0**63, float("inf")])
def test_a_recovery_action_that_is_a_mark_of_no_value_asks_for_nothing(
    log: Log, mark: float
) -> None:
    """Drivers and tools that have no answer say so by numbers far beyond any action."""
    assert log.quiet(60, recovery_action=mark) == []


def test_the_polled_recovery_action_is_silent_where_an_xid_said_as_much(log: Log) -> None:
    """One finding per trouble."""
    log.xid(95)
    findings = log.run(600, state=0, recovery_action=[1, 0, 0, 0, 0, 0, 0, 0])
    assert findings == []


# Programs and repetition.


def test_a_programs_xid_is_told_of_its_job(log: Log) -> None:
    """The program's author should look; no GPU is the root (H23)."""
    log.job("42", 0, 1, 2, 3)
    findings = log.xid(31, gpu=2, pid=4242, process="python3")
    assert open_findings(findings) == [("job", "42", PROGRAM, "ticket")]
    assert findings[0].action == "RESTART_APP"


def test_the_job_may_be_gone_before_its_last_words_are_read(log: Log) -> None:
    """The scheduler was faster than the kernel log."""
    log.job("42", 0, 1)
    log.event(NODE, "job_ended", source="jobs", job="42")
    log.clock.advance(20)
    assert open_findings(log.xid(13)) == [("job", "42", PROGRAM, "ticket")]


@pytest.mark.slow
def test_31_on_ever_other_gpus_is_the_programs(log: Log) -> None:
    """F08: three bursts of one job, each on other GPUs: no GPU is suspected."""
    log.job("42", *range(8))
    for burst in range(3):
        for gpu in (2 * burst, 2 * burst + 1):
            log.xid(31, gpu=gpu)
        log.quiet(HOUR)
    log.xid(31, gpu=0)
    assert {f.device.kind for f in log.findings} == {"job"}


@pytest.mark.slow
def test_31_on_one_gpu_again_suspects_it(log: Log) -> None:
    """F08: the second burst within a day, and on no other GPU."""
    log.job("42", *range(8))
    log.xid(31, gpu=3)
    log.quiet(HOUR)
    findings = log.xid(31, gpu=3)
    assert ("gpu", id_(3), REPEATED, "ticket", "onset") in updates(findings)
    assert "2 bursts in 24 h" in next(f for f in findings if f.fault == REPEATED).evidence[0]


def here_and_there(log: Log, gpus: int, *struck: int) -> set[str]:
    """A job of so many GPUs, and XID 31 on these, an hour apart: who is suspected."""
    log.job("42", *range(gpus))
    for gpu in struck:
        log.xid(31, gpu=gpu)
        log.quiet(HOUR)
    return {f.device.id for f in log.findings if f.fault == REPEATED}


@pytest.mark.slow
def test_31_that_comes_back_in_a_large_job_suspects_the_gpu_though_others_had_it_once() -> None:
    """F08: chance would strike one of 64 GPUs three times in five once
    in four hundred such days.
    """
    assert here_and_there(Log(gpus=64, period_s=60), 64, 1, 3, 2, 3, 3) == {id_(3)}


@pytest.mark.slow
def test_31_that_comes_back_in_a_small_job_is_the_programs_where_others_had_it_too(
    log: Log,
) -> None:
    """F08: among eight GPUs chance does the same on every sixth such day."""
    assert here_and_there(log, 8, 1, 3, 2, 3, 3) == set()


@pytest.mark.slow
def test_a_program_that_fails_all_day_here_and_there_is_to_blame_not_its_gpus(log: Log) -> None:
    """Forty bursts among eight GPUs: some have more of them than others."""
    counts = dict(zip(range(8), (8, 8, 7, 6, 5, 3, 2, 1), strict=True))
    struck = [gpu for turn in range(8) for gpu, times in counts.items() if turn < times]
    log.job("42", *range(8))
    for gpu in struck:
        log.xid(31, gpu=gpu)
        log.quiet(1800)
    assert {f.device.kind for f in log.findings} == {"job"}


@pytest.mark.slow
def test_a_program_started_in_ever_new_jobs_of_a_node_is_to_blame_not_its_gpus() -> None:
    """A user's sweep: forty jobs, each of which fails on some GPU."""
    log = Log(period_s=60)
    for job in range(40):
        log.job(f"sweep-{job}", *range(8))
        log.xid(31, gpu=(5 * job + job // 8) % 8)
        log.quiet(1800)
    assert {f.device.kind for f in log.findings} == {"job"}


@pytest.mark.slow
def test_a_gpu_on_which_one_user_debugs_never_pages() -> None:
    """H23: ever new jobs of one GPU, which the scheduler takes from the same place:
    no other could be struck.
    """
    log = Log(period_s=60)
    for job in range(6):
        log.job(f"try-{job}", 3)
        log.xid(31, gpu=3)
        log.quiet(1800)
    assert "page" not in {f.severity for f in log.findings}


def failing_alone(*jobs: dict[str, str], code: int = 31, **facts: int) -> set[str]:
    """Jobs that have GPU 3 only, one after the other, each of which fails once, half an hour apart:
    who is suspected.
    """
    log = Log(period_s=60)
    for number, about in enumerate(jobs):
        log.job(f"4{number}", 3, **about)
        log.xid(code, gpu=3, **facts)
        log.quiet(900)
        log.event(NODE, "job_ended", source="jobs", job=f"4{number}")
        log.quiet(900)
    return {f.device.id for f in log.findings if f.fault == REPEATED}


MINE = {"user": "1000", "name": "serve"}


@pytest.mark.slow
def test_one_program_that_fails_ever_again_on_its_only_gpu_says_nothing_about_the_gpu() -> None:
    """A pod that crashes in a loop: no other GPU could be struck, and no other program is."""
    assert failing_alone(*[MINE] * 6) == set()


@pytest.mark.slow
@pytest.mark.parametrize(
    "other",
    [
        {"user": "1001", "name": "serve"},
        {"user": "1000", "name": "train"},
    ],
    ids=["of another user", "of another name"],
)
def test_two_programs_that_fail_on_the_only_gpu_that_each_has_suspect_it(
    other: dict[str, str],
) -> None:
    """What strikes every program on the GPU is the GPU's."""
    assert failing_alone(MINE, MINE, other) == {id_(3)}


@pytest.mark.slow
def test_13_on_the_same_unit_suspects_the_only_gpu_of_one_program() -> None:
    """A program has no reason to fail on one unit."""
    assert failing_alone(MINE, MINE, code=13, gpc=2, tpc=4, sm=0) == {id_(3)}


@pytest.mark.slow
def test_a_jobs_size_is_that_of_now_where_names_come_back() -> None:
    """A name that other GPUs bore last week does not make the job of today
    larger, and its repeats rarer.
    """
    log = Log(gpus=64, period_s=600)
    log.job("user1000", *range(4, 64))
    log.event(NODE, "job_ended", source="jobs", job="user1000")
    log.quiet(5 * DAY)
    log.job("user1000", *range(4))
    for gpu in (1, 2, 0, 0, 0):
        log.xid(31, gpu=gpu)
        log.quiet(HOUR)
    assert REPEATED not in {f.fault for f in log.findings}


@pytest.mark.slow
def test_a_gpu_that_repeats_31_does_not_hide_another_that_does(log: Log) -> None:
    """F08: what one GPU repeats is one other GPU, not four bursts elsewhere."""
    assert here_and_there(log, 8, 0, 0, 0, 0, 3, 3, 3) == {id_(0), id_(3)}


@pytest.mark.slow
def test_31_on_one_gpu_on_two_days_is_silent_about_it(log: Log) -> None:
    """The window is a day."""
    node = Log(period_s=60)
    node.quiet(120)
    node.job("42", *range(8))
    node.xid(31, gpu=3)
    node.quiet(25 * HOUR)
    assert REPEATED not in {f.fault for f in node.xid(31, gpu=3)}


@pytest.mark.slow
def test_13_on_the_same_unit_suspects_the_gpu_and_on_another_does_not(log: Log) -> None:
    """GPC and TPC distinguish hardware from a program."""
    log.job("42", *range(8))
    log.xid(13, gpu=1, gpc=2, tpc=4, sm=0)
    log.quiet(HOUR)
    assert REPEATED not in {f.fault for f in log.xid(13, gpu=1, gpc=3, tpc=0, sm=1)}
    log.quiet(HOUR)
    assert REPEATED in {f.fault for f in log.xid(13, gpu=1, gpc=2, tpc=4, sm=1)}


@pytest.mark.slow
def test_a_crash_loop_of_one_job_never_pages(log: Log) -> None:
    """A buggy user starts the same program again and again (H23): at most a ticket."""
    log.job("42", *range(8))
    for _ in range(20):
        log.xid(31, gpu=3)
        log.quiet(600)
    assert "page" not in {f.severity for f in log.findings}


@pytest.mark.slow
def test_a_gpu_that_fails_programs_of_several_jobs_pages(log: Log) -> None:
    """Five bursts in a day, of more than one job, and on no other GPU."""
    for n in range(5):
        log.job(f"4{n % 2}", *range(8))
        log.xid(31, gpu=3)
        log.quiet(HOUR)
    assert ("gpu", id_(3), REPEATED, "page") in open_findings(log.findings)


@pytest.mark.slow
def test_a_fatal_code_that_is_back_within_the_week_goes_to_support(log: Log) -> None:
    """A reset was not the remedy."""
    node = Log(period_s=60)
    node.quiet(120)
    node.xid(119)
    node.restart_counters()
    node.quiet(2 * DAY)
    findings = node.xid(119)
    assert findings[0].action == "CONTACT_SUPPORT"
    assert "2 bursts in 7 days" in findings[0].evidence[0]


def test_a_code_that_comes_back_after_two_reboots_is_for_an_inspection(log: Log) -> None:
    """Boots are distinguished by their id."""
    node = Log(period_s=60)
    for _ in range(3):
        node.quiet(HOUR)
        findings = node.xid(79)
        node.reboot()
    assert findings[-1].action == "RUN_FIELDDIAG"


def test_five_bursts_of_a_fatal_code_in_a_day_are_told(log: Log) -> None:
    """Every three minutes a burst of its own."""
    for _ in range(5):
        findings = log.xid(46)
        log.quiet(300)
    assert "5 bursts in 24 h" in findings[-1].evidence[0]


@pytest.mark.slow
def test_what_a_repetition_says_is_not_taken_back_when_its_burst_is_over(log: Log) -> None:
    """Vendor support stays the next step."""
    log.xid(95)
    reset(log)
    log.quiet(HOUR)
    findings = [*log.xid(95), *log.quiet(600)]
    assert [f.action for f in findings if f.fault == MEMORY] == ["CONTACT_SUPPORT"]


@pytest.mark.slow
@pytest.mark.parametrize("code", [147, 148, 157, 161])
def test_a_failed_retirement_is_a_ticket_the_second_time(log: Log, code: int) -> None:
    """Once is for the record."""
    first = log.xid(code)
    log.quiet(HOUR)
    assert [f.severity for f in (*first, *log.xid(code))] == ["record", "ticket"]


def put_right(log: Log, times: int) -> None:
    """A GPU's system processor dies and the GPU is reset, every day so
    often; other GPUs each time.
    """
    log.period_s = 600
    for n in range(times):
        log.xid(119, gpu=n)
        log.quiet(HOUR)
        log.restart_counters()
        log.quiet(DAY - HOUR)


@pytest.mark.slow
def test_a_node_that_was_put_right_five_times_in_a_week_is_suspect(log: Log) -> None:
    """Each GPU alone is no lemon; it ends when the week is over."""
    put_right(log, 4)
    assert not [f for f in log.findings if f.device.kind == "node"]
    put_right(log, 5)
    node = [f for f in log.findings if f.device.kind == "node"]
    assert updates(node) == [("node", "n1", "xid/node_suspect", "ticket", "onset")]
    assert updates([f for f in log.quiet(6 * DAY) if f.device.kind == "node"]) == [
        ("node", "n1", "xid/node_suspect", "ticket", "cleared")
    ]


@pytest.mark.slow
def test_reboots_without_an_xid_make_no_node_suspect(log: Log) -> None:
    """Maintenance reboots nodes as often as it likes (H15)."""
    for _ in range(8):
        log.quiet(HOUR)
        log.reboot()
    log.quiet(HOUR)
    assert log.findings == []


# NVLink.

HARD_AGAIN = "0x10000 0x0 0x0 0x0 0x0 0x0 0x0"  # bit 16 of register 0


def test_74_pages_at_once_where_its_registers_name_hardware(log: Log) -> None:
    """Bit 13 of register 2."""
    findings = log.xid(74, link=4, registers="0x0 0x0 0x2000 0x0 0x0 0x0 0x0")
    assert open_findings(findings) == [("gpu", id_(), LINK, "page")]
    assert "NVLink 4" in findings[0].evidence[0]


@pytest.mark.slow
def test_74_pages_the_second_time_where_its_registers_name_hardware_again(log: Log) -> None:
    """Within a day and of the same link; another link starts again."""
    assert [f.severity for f in log.xid(74, link=4, registers=HARD_AGAIN)] == ["ticket"]
    log.quiet(HOUR)
    assert "page" not in {f.severity for f in log.xid(74, link=5, registers=HARD_AGAIN)}
    log.quiet(HOUR)
    assert [f.severity for f in log.xid(74, link=4, registers=HARD_AGAIN)] == ["page"]


def test_74_that_cannot_be_decoded_is_a_ticket(log: Log) -> None:
    """No registers, or not ours to read."""
    assert open_findings(log.xid(74)) == [("gpu", id_(), LINK, "ticket")]
    assert [f.severity for f in log.xid(74, gpu=1, registers="nonsense", link=1)] == ["ticket"]


@pytest.mark.parametrize(("body", "severity"), [
    ((
        "150, pid='<unknown>', name=<unknown>, MSE_WATCHDOG Nonfatal XC0 i0 Link -1 "
        "(0x00000000 0x00000001 0x0)"
    ), "page"),
    ((
        "147, pid='<unknown>', name=<unknown>, TREX Fatal XC0 i0 Link 03 "
        "(0x00000000 0x00000001 0x0)"
    ), "record"),
    ((
        "145, pid='<unknown>', name=<unknown>, RLW_REMAP Nonfatal XC0 i0 Link 03 "
        "(0x00000000 0x00000040 0x0)"
    ), "page"),
    ((
        "145, pid='<unknown>', name=<unknown>, RLW_REMAP Fatal XC0 i0 Link 03 "
        "(0x00000000 0x00000100 0x0)"
    ), "record"),
    ((
        "145, pid='<unknown>', name=<unknown>, RLW_NEW Fatal XC0 i0 Link 03 "
        "(0x00000000 0x00000100 0x0)"
    ), "page"),
    ((
        "145, pid='<unknown>', name=<unknown>, RLW_NEW Nonfatal XC0 i0 Link 03 "
        "(0x00000000 0x00000100 0x0)"
    ), "record"),
    ((
        "149, pid='<unknown>', name=<unknown>, NETIR_LINK_EVT Fatal XC0 i0 Link 08 "
        "(0x004004c6 0x0 0x0)"
    ), "page"),
    ((
        "149, pid='<unknown>', name=<unknown>, NETIR_LINK_EVT Fatal XC0 i0 Link 08 "
        "(0x02600000 0x0 0x0)"
    ), "record"),
    ("149", "ticket"),
])  # fmt: skip
def test_nvlink_5_events_are_decoded_by_the_catalogues_rules(
    log: Log, body: str, severity: str
) -> None:
    """Unit and error status, or sub-code, decide; without a rule fatal ones page; what
    has no details is a ticket.
    """
    assert [f.severity for f in log.line(f"NVRM: Xid (PCI:0000:1b:00): {body}")] == [severity]


def test_a_link_event_whose_root_is_the_peer_says_so(log: Log) -> None:
    """Sub-code 33: this GPU only noticed."""
    findings = log.line(
        "NVRM: Xid (PCI:0000:1b:00): 149, pid='<unknown>', name=<unknown>, NETIR_LINK_EVT Fatal "
        "XC0 i0 Link 08 (0x02100000 0x0)"
    )
    assert "root cause: the peer device" in findings[0].evidence[0]


def test_a_mig_line_is_judged_like_any_other(log: Log) -> None:
    """Gpud misses `GPU-I:02 GPU-CI:00`."""
    findings = log.line(
        "NVRM: Xid (PCI:0000:3b:00 GPU-I:02 GPU-CI:00): 95, pid=1, name=python3, "
        "Uncontained: LTC TAG (0x2,0x0)"
    )
    assert open_findings(findings) == [("gpu", id_(), MEMORY, "page")]
    assert "gpu instance 2" in findings[0].evidence[0]


def test_an_nvlink_domain_that_complains_is_one_finding() -> None:
    """NVSentinel flagged 77 healthy nodes after one NVL72 job crashed: after eight GPUs the
    domain is the root, and no GPU.
    """
    gpus = [a_gpu(f"n{n}", i, fabric_cluster="domain-1") for n in range(18) for i in range(4)]
    rack = Log(gpus=gpus)
    rack.quiet(60)
    facts: dict[str, Any] = {
        "unit": "RLW_NEW",
        "severity": "fatal",
        "sub_code": 0,
        "registers": "0x0 0x100",
        "link": 3,
    }
    for gpu in range(len(gpus)):
        rack.xid(145, gpu=gpu, **facts)
    assert open_findings(rack.findings) == [
        ("nvlink_domain", "domain-1", "xid/nvlink_domain", "page")
    ]
    assert len([f for f in rack.findings if f.device.kind == "gpu" and f.phase == "onset"]) == 8


# Old lines.


def test_last_months_xid_is_silent_at_start() -> None:
    """GCM greps the whole kernel log."""
    node = Log()
    assert node.xid(79, ago_s=30 * DAY, before_start=True) == []
    assert node.quiet(600) == []


def test_an_xid_of_minutes_before_the_start_is_told(log: Log) -> None:
    """The agent was down; the GPU still is."""
    findings = log.xid(79, ago_s=300, before_start=True)
    assert open_findings(findings) == [("gpu", id_(), GPU, "page")]
    assert findings[0].time_ns - findings[0].onset_ns == 300 * 10**9


def test_an_xid_of_the_boot_before_is_told_as_such() -> None:
    """79 minutes ago it took the node down: a ticket, because the reboot was its remedy; what is
    still broken is reported.
    """
    node = Log()
    findings = node.xid(79, ago_s=50 * 60, previous_boot=True)
    assert open_findings(findings) == [("gpu", id_(), GPU, "ticket")]
    assert findings[0].summary.startswith("In the boot before, 50 minutes ago: XID 79")


def test_an_old_xid_counts_for_repetition() -> None:
    """Hours before the start it was no news; with another one it is."""
    node = Log()
    assert node.xid(119, ago_s=10 * HOUR, before_start=True) == []
    assert "2 bursts in 7 days" in node.xid(119)[0].evidence[0]


# The end.


@pytest.mark.slow
def test_a_finding_ends_ten_minutes_after_the_reset_that_helped(log: Log) -> None:
    """DCGM never forgets an XID until it is restarted."""
    log.xid(119)
    log.quiet(HOUR)
    log.restart_counters()
    assert log.quiet(500) == []
    assert updates(log.quiet(200)) == [("gpu", id_(), GPU, "page", "cleared")]


@pytest.mark.slow
def test_a_finding_ends_after_a_clean_day() -> None:
    """Without a reset, and without a restart of the agent."""
    node = Log(period_s=60)
    node.quiet(120)
    node.xid(119)
    assert node.quiet(23 * HOUR) == []
    assert [f.phase for f in node.quiet(2 * HOUR)] == ["cleared"]


@pytest.mark.slow
@pytest.mark.parametrize("faulty", [{"state": 1.0}, {"recovery_action": 2.0}])
def test_a_finding_stands_while_the_gpu_is_gone_or_the_driver_asks_for_recovery(
    faulty: dict[str, float],
) -> None:
    """However long that is."""
    node = Log(period_s=60)
    node.quiet(120)
    node.xid(79)
    assert [
        f for f in node.quiet(3 * DAY, **faulty) if f.device.id == id_() and f.fault == GPU
    ] == []
    assert updates([f for f in node.quiet(3 * HOUR) if f.fault == GPU]) == [
        ("gpu", id_(), GPU, "page", "cleared")
    ]


def test_a_swapped_gpu_takes_its_findings_with_it(log: Log) -> None:
    """Conditions are kept by identity."""
    log.xid(79, gpu=3)
    new = a_gpu("n1", 3)
    log.gpus[3] = Device("n1", "gpu", "GPU-new", new.attributes)
    assert updates(log.quiet(60)) == [("gpu", id_(3), GPU, "page", "cleared")]


@pytest.mark.slow
def test_a_hostile_flood_of_codes_costs_bounded_memory(log: Log) -> None:
    """Ten thousand different codes that do not exist."""
    for code in range(1000, 11_000):
        log.xid(code)
    assert len(open_findings(log.findings)) == 1
    assert memory_of(log) < 400_000


def test_an_event_out_of_order_is_counted_where_it_belongs(log: Log) -> None:
    """Ten minutes late (H16): no burst of its own beside the one it belongs to."""
    log.xid(31)
    log.quiet(540)
    assert log.xid(31, ago_s=530) == []


def test_events_of_other_kinds_are_left_alone(log: Log) -> None:
    """A module that is loaded is no XID."""
    assert (
        log.events(Event(log.clock.time_ns(), 0, NODE, "module_loaded", {"module": "nvidia"})) == []
    )


def reset(log: Log) -> list[Finding]:
    """The GPU is reset five minutes later."""
    findings = log.quiet(HOUR / 12)
    log.restart_counters()
    return findings + log.quiet(HOUR / 5)


@pytest.mark.slow
def test_a_ticket_that_comes_back_and_goes_again_within_the_rest_is_not_told_after_it(
    log: Log,
) -> None:
    """A code that came again after the reset, and not after the second one."""
    assert relapse(log.clock, lambda: log.xid(94), lambda: reset(log)) == []


def test_a_page_that_comes_back_is_told_at_once_however_short_it_was_gone(log: Log) -> None:
    """F03: reset, cleared, and within the hour the memory fails again: that is no flicker."""
    log.xid(95)
    assert [f.phase for f in reset(log)] == ["cleared"]
    assert [(f.phase, f.severity) for f in log.xid(95)] == [("onset", "page")]


def test_a_code_that_comes_again_while_its_finding_is_open_is_counted(log: Log) -> None:
    """Its lines within ten minutes are one event; what to do may differ the second time."""
    (first,) = log.xid(95)
    log.quiet(HOUR / 12)
    assert all(one.times == 1 for one in log.xid(95))
    log.quiet(HOUR)
    (second,) = log.xid(95)
    assert (second.id, second.phase, second.times) == (first.id, "ongoing", 2)
    assert second.again_ns == second.time_ns


@pytest.mark.slow
@pytest.mark.parametrize("after", [30, 100, 170, 200])
def test_a_reset_is_credited_however_soon_it_comes(log: Log, after: int) -> None:
    """Remedies run by themselves reset a GPU while its burst is still open."""
    log.xid(119)
    log.quiet(after)
    log.restart_counters()
    assert [f.phase for f in log.quiet(HOUR / 4)] == ["cleared"]
