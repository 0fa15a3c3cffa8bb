"""Jobs that stand still: told, in time, of whom they wait for; and everything that only
looks like it is left alone.
"""

from __future__ import annotations

import numpy as np
import pytest

from detectors.hang import Hang
from detectors.kit.snapshot import dump, load
from pipeline.finding import Finding
from pipeline.frame import Device
from tests.detectors.feed import updates
from tests.detectors.hang.job import (
    EVALUATES,
    GONE,
    HELD,
    LOST,
    PER_NODE,
    SAVES,
    WAITS,
    WORKS,
    Shows,
    Training,
    shows,
)

pytestmark = pytest.mark.slow

LONG = 2400.0  # more than any pause is given that is not known of the job


def pages(findings: list[Finding]) -> list[tuple[str, str, str]]:
    """(kind, id, fault) of the pages that began, also of what was a ticket until then."""
    paged = {f.id: f for f in reversed(findings) if f.severity == "page" and f.phase != "cleared"}
    return [(f.device.kind, f.device.id, f.fault) for f in reversed(paged.values())]


def test_a_rank_that_does_nothing_while_all_others_wait_is_paged_within_five_minutes() -> None:
    """The spin hang: the odd one out is to blame, not those that spin."""
    job = Training()
    said = job.all(WAITS, 300, gpu11=HELD)
    assert pages(said) == [("gpu", "GPU-n1-3", "hang/rank_stuck")]
    assert said[0].summary.startswith("Job 7 is stalled: 15 of its 16 GPUs wait for GPU 3 of n1, ")


@pytest.mark.parametrize("shown", [WORKS, SAVES], ids=["computes", "copies"])
def test_a_gpu_whose_process_claims_the_job_hides_no_stall_of_it(shown: Shows) -> None:
    """Anybody may call a process on another node by the job's id, and keep a GPU busy there."""
    job = Training(3, scheduler=False, worked_s=0)
    for host in job.hosts:
        gpus = [gpu.id for gpu in job.gpus if gpu.host == host]
        claim = host == "n2"
        job.feed.event(
            Device(host, "node", host),
            "job_started",
            source="nccl" if claim else "jobs",
            job="7",
            gpus=gpus[0] if claim else " ".join(gpus),
            **({"hosts": 4096} if claim else {"scheduler": "slurm", "hosts": 2}),
        )
    for phase, seconds in ((WORKS, 1000), (SAVES, 60), (WORKS, 60)):
        job.all(phase, seconds, n2=shown)
    said = job.all(WAITS, 300, gpu11=HELD, n2=shown)
    assert pages(said) == [("gpu", "GPU-n1-3", "hang/rank_stuck")]


def test_a_stall_bears_its_job() -> None:
    """Whoever shows it by job need not read its words."""
    assert {f.device.attributes["job"] for f in Training().all(WAITS, 300, gpu11=HELD)} == {"7"}


def test_a_rank_whose_process_is_gone_is_paged_within_ninety_seconds() -> None:
    """Hard evidence needs no patience."""
    assert pages(Training().all(WAITS, 90, gpu4=GONE)) == [("gpu", "GPU-n0-4", "hang/process_lost")]


def test_a_gpu_that_the_driver_lost_is_whom_the_job_waits_for() -> None:
    """It shows no utilisation any more, and still it is the culprit."""
    assert pages(Training().all(WAITS, 90, gpu0=LOST)) == [("gpu", "GPU-n0-0", "hang/process_lost")]


def test_a_serious_xid_of_a_member_names_the_rank_that_seems_to_wait_too() -> None:
    """All spin: what the driver said shortly before the stop outranks what telemetry shows."""
    job = Training()
    job.feed.event(job.gpus[9], "xid", code=119, origin="kmsg")
    assert pages(job.all(WAITS, 90)) == [("gpu", "GPU-n1-1", "hang/hardware")]


def test_an_xid_of_an_application_or_of_long_ago_explains_nothing() -> None:
    """31 is the program's own; 119 long ago was not this stop."""
    job = Training()
    job.feed.event(job.gpus[9], "xid", code=119, origin="kmsg")
    job.all(WORKS, LONG)
    job.feed.event(job.gpus[8], "xid", code=31, origin="kmsg")
    assert pages(job.all(WAITS, 300)) == [("job", "7", "hang/in_flight")]


def test_one_idle_node_of_several_is_blamed_as_a_node() -> None:
    """Its data loader hangs, and the other nodes wait for it in a collective."""
    assert pages(Training().all(WAITS, 300, n1=HELD)) == [("node", "n1", "hang/rank_stuck")]


def test_a_job_whose_gpus_are_all_idle_is_told_of_the_job_within_ten_minutes() -> None:
    """The storage hangs: no rank is to blame."""
    assert pages(Training().all(HELD, 600)) == [("job", "7", "hang/host_stall")]


def test_when_most_nodes_are_idle_the_job_is_told_and_no_node_is_blamed() -> None:
    """Two of three idle, one waits: which side is at fault cannot be seen."""
    assert pages(Training(3).all(HELD, 300, n2=WAITS)) == [("job", "7", "hang/undecided")]


def test_when_many_ranks_of_all_nodes_are_idle_the_job_is_told() -> None:
    """Six of sixteen are no minority."""
    odd = {f"gpu{row}": HELD for row in (0, 2, 4, 9, 11, 13)}
    assert pages(Training().all(WAITS, 300, **odd)) == [("job", "7", "hang/undecided")]


def test_a_node_that_lost_a_link_is_whom_others_wait_for() -> None:
    """All spin: the only thing that happened was a port that went down."""
    job = Training()
    job.feed.event(Device("n1", "ib_port", "0x1"), "link_down", driver="mlx5_core")
    assert pages(job.all(WAITS, 300)) == [("node", "n1", "hang/link")]


def test_a_job_that_waits_for_nobody_in_particular_is_told_of_itself() -> None:
    """All spin, all are seen: a message was lost."""
    assert pages(Training().all(WAITS, 300)) == [("job", "7", "hang/in_flight")]


def test_a_node_whose_job_waits_for_another_node_only_records_it() -> None:
    """Fifteen of sixteen nodes are victims, and must not page."""
    said = Training(1, reaches=16).all(WAITS, LONG)
    assert updates(said) == [("node", "n0", "hang/waits", "record", "onset")]


def test_a_node_pages_the_stuck_rank_that_is_its_own() -> None:
    """Seen from one node of sixteen: seven GPUs wait, one does not."""
    assert pages(Training(1, reaches=16).all(WAITS, 300, gpu2=HELD)) == [
        ("gpu", "GPU-n0-2", "hang/rank_stuck")
    ]


def test_without_a_scheduler_a_waiting_node_is_a_ticket_as_the_job_is_not_known() -> None:
    """It may be a victim, or all there is."""
    said = Training(1, scheduler=False).all(WAITS, 300)
    assert updates(said) == [("node", "n0", "hang/waits", "ticket", "onset")]


@pytest.mark.parametrize(
    ("shown", "fault", "severity"),
    [(WAITS, "hang/waits", "ticket"), (HELD, "hang/host_stall", "record")],
)
def test_a_job_that_is_found_but_not_how_far_it_reaches_wakes_nobody(
    shown: Shows, fault: str, severity: str
) -> None:
    """Its launcher set no world size: of sixty-four nodes that wait for one, each would page."""
    job = Training(1, scheduler=False, worked_s=0)
    own = " ".join(gpu.id for gpu in job.gpus)
    job.feed.event(Device("n0", "node", "n0"), "job_started", source="nccl", job="71.0", gpus=own)
    job.all(WORKS, 1000)
    assert updates(job.all(shown, LONG)) == [("node", "n0", fault, severity, "onset")]


def test_without_a_scheduler_a_rank_that_hangs_is_a_ticket_that_names_it() -> None:
    """All eight worked together until seven wait and one does not: most likely one
    job, but nobody said so.
    """
    said = Training(1, scheduler=False).all(WAITS, 300, gpu3=HELD)
    assert updates(said) == [("gpu", "GPU-n0-3", "hang/rank_stuck", "ticket", "onset")]
    assert "no job is known here" in said[0].summary


def test_without_a_scheduler_a_process_that_leaves_as_the_others_wait_is_a_ticket() -> None:
    """It may have crashed, or have been somebody else's who is done."""
    said = Training(1, scheduler=False).all(WAITS, 300, gpu3=GONE)
    assert updates(said) == [("gpu", "GPU-n0-3", "hang/process_lost", "ticket", "onset")]


@pytest.mark.parametrize("other", [GONE, HELD, LOST])
@pytest.mark.parametrize("others", [2, 4])
def test_without_a_scheduler_gpus_that_stopped_long_before_are_not_waited_for(
    other: Shows, others: int
) -> None:
    """An hour ago their people left, or only held on to them: the others go on, and
    their wait is their own.
    """
    job = Training(1, scheduler=False)
    odd = {f"gpu{row}": other for row in range(others)}
    assert job.all(WORKS, 3600, **odd) == []
    assert updates(job.all(WAITS, 300, **odd)) == [("node", "n0", "hang/waits", "ticket", "onset")]


def test_without_a_scheduler_half_a_node_that_idles_while_half_waits_is_a_ticket() -> None:
    """Two jobs of four GPUs each that paused in the same minute look like one."""
    odd = {f"gpu{row}": HELD for row in range(4)}
    assert updates(Training(1, scheduler=False).all(WAITS, 300, **odd)) == [
        ("node", "n0", "hang/undecided", "ticket", "onset")
    ]


def test_without_a_scheduler_the_last_gpu_that_works_waits_for_nobody() -> None:
    """Seven of eight are free for an hour; one kernel that spins is no job that stalls."""
    job = Training(1, scheduler=False)
    odd = {f"gpu{row}": GONE for row in range(7)}
    job.all(WORKS, 3600, **odd)
    assert job.all(WAITS, LONG, **odd) == []


def test_without_a_scheduler_a_serious_xid_of_one_that_waits_still_pages() -> None:
    """The driver bears witness, whoever shares a job."""
    job = Training(1, scheduler=False)
    job.feed.event(job.gpus[5], "xid", code=119, origin="kmsg")
    assert pages(job.all(WAITS, 90)) == [("gpu", "GPU-n0-5", "hang/hardware")]


def test_a_rank_that_hangs_in_a_job_of_unknown_reach_is_paged() -> None:
    """Its launcher set no world size, but these GPUs are known to belong together; it died minutes
    before its peers had to wait.
    """
    job = Training(1, scheduler=False, worked_s=0)
    own = " ".join(gpu.id for gpu in job.gpus)
    job.feed.event(Device("n0", "node", "n0"), "job_started", source="nccl", job="71.0", gpus=own)
    job.all(WORKS, 1000)
    job.all(WORKS, 300, gpu2=GONE)
    assert pages(job.all(WAITS, 300, gpu2=GONE)) == [("gpu", "GPU-n0-2", "hang/process_lost")]


def test_without_a_scheduler_an_idle_node_wakes_nobody() -> None:
    """An inference server without requests holds its GPUs and idles for hours."""
    assert pages(Training(1, scheduler=False).all(HELD, LONG)) == []


def test_a_single_idle_node_that_is_a_whole_job_wakes_nobody() -> None:
    """A notebook between two cells, which works for ten minutes in an hour."""
    job = Training(1)
    for _ in range(3):
        assert {f.severity for f in job.all(HELD, 3000)} <= {"record"}
        job.all(WORKS, 600)


@pytest.mark.parametrize("phase", [SAVES, EVALUATES, WORKS])
def test_saving_evaluating_and_working_for_hours_are_silent(phase: Shows) -> None:
    """Somebody moves bytes or computes."""
    assert Training().all(phase, LONG) == []


def test_waiting_for_one_node_that_still_saves_is_silent() -> None:
    """The others have reached the barrier: the last one writes for longer
    than any stall is given.
    """
    assert Training().all(WAITS, LONG, n0=SAVES) == []


def test_a_job_that_starts_is_silent() -> None:
    """GPUs that never worked for the job are waited for by nobody:
    loading, compiling, connecting.
    """
    job = Training(worked_s=0)
    assert job.all(HELD, LONG) == []


def test_a_young_job_gets_twenty_minutes() -> None:
    """In its first quarter of an hour it tunes and compiles while its peers wait."""
    job = Training(worked_s=600)
    assert job.all(WAITS, 1100, gpu0=HELD) == []
    assert updates(job.all(WAITS, 200, gpu0=HELD)) == [
        ("gpu", "GPU-n0-0", "hang/rank_stuck", "ticket", "onset")
    ]


def test_pauses_that_a_job_came_out_of_are_usual_for_it() -> None:
    """Its ranks arrive at different times, 40 s apart, then 60 s: it copies while it saves, so
    what waits for four times as long is no save.
    """
    job = Training()
    for seconds in (40, 60):
        assert job.all(WAITS, seconds, gpu0=HELD) == []
        job.all(WORKS, LONG)
    said = job.all(WAITS, 230, gpu0=HELD)
    assert [f.severity for f in said] == ["ticket"]
    assert len(pages(job.all(WAITS, 30, gpu0=HELD))) == 1


@pytest.mark.parametrize(
    ("shown", "odd", "seconds"), [(HELD, {}, 2700), (WAITS, {"gpu0": HELD}, 900)]
)
def test_a_save_to_slow_storage_is_a_ticket_once_and_then_usual(
    shown: Shows, odd: dict[str, Shows], seconds: float
) -> None:
    """Nothing crosses PCIe while rank 0, or all ranks, write from the memory of their hosts: what
    ended by itself is not reported again, and never pages.
    """
    job, said = Training(saved=False), []
    for _ in range(4):
        said.append([f.severity for f in job.all(shown, seconds, **odd) if f.phase == "onset"])
        job.all(WORKS, 1800)
    assert said == [["ticket"], [], [], []]
    assert pages(job.feed.findings) == []


@pytest.mark.parametrize("period_s", [1.0, 15.0, 30.0, 60.0, 120.0])
def test_short_saves_are_silent_however_far_apart_readings_are(period_s: float) -> None:
    """dcgm-exporter's readings may be a minute apart, of which a save fills one."""
    job = Training(saved=False)
    job.feed.period_s = period_s
    for _ in range(10):
        assert job.all(WAITS, max(45.0, period_s), gpu0=HELD) == []
        job.all(WORKS, 900)


@pytest.mark.parametrize("period_s", [1.0, 15.0, 60.0, 120.0])
def test_a_short_copy_to_the_host_is_no_way_to_save_however_far_apart_readings_are(
    period_s: float,
) -> None:
    """A snapshot for an asynchronous writer: a pause in which nothing moves may be a save still."""
    job = Training(saved=False)
    job.feed.period_s = period_s
    for _ in range(10):
        job.all(SAVES, max(30.0, period_s))
        job.all(WORKS, 900)
    assert pages(job.all(WAITS, 1200, gpu0=HELD)) == []


def test_a_short_copy_before_readings_are_missed_is_no_way_to_save() -> None:
    """A GPU that is not read keeps doing what it did, but nobody saw it copy for that long."""
    job = Training(saved=False)
    unread = dict.fromkeys(WORKS)
    for _ in range(10):
        job.all(SAVES, 20)
        job.all(unread, 50)
        job.all(WORKS, 900)
    assert pages(job.all(WAITS, 1200, gpu0=HELD)) == []


def test_a_stall_that_paged_is_a_page_again_and_no_habit_before_that() -> None:
    """The job saves in another way, and went on after a quarter of an hour: once more is a page,
    what happens again and again is usual.
    """
    job, said = Training(), []
    for _ in range(3):
        said.append(len(pages(job.all(WAITS, 900, gpu0=HELD))))
        job.all(WORKS, 7200)
    assert said == [1, 1, 0]


def test_a_pause_far_out_of_the_jobs_saves_is_a_page() -> None:
    """Saves of half an hour may take three hours on a bad day; this one takes longer."""
    job = Training(saved=False)
    job.all(WAITS, 1800, gpu0=HELD)
    job.all(WORKS, 1800)
    assert pages(job.all(WAITS, 6 * 1800 - 30, gpu0=HELD)) == []
    assert pages(job.all(WAITS, 60, gpu0=HELD)) == [("gpu", "GPU-n0-0", "hang/rank_stuck")]


def test_a_hang_in_a_job_whose_saves_are_not_known_is_a_page_after_three_hours() -> None:
    """No checkpoint that was ever published took so long."""
    job = Training(saved=False)
    assert pages(job.all(WAITS, 10_700, gpu0=HELD)) == []
    assert len(pages(job.all(WAITS, 200, gpu0=HELD))) == 1


def test_a_save_that_begins_with_a_copy_to_the_host_is_no_page() -> None:
    """The last one writes the whole model: a minute of copying, then forty of rank 0 writing, in a
    job that was known to save while bytes move.
    """
    job = Training()
    job.all(SAVES, 60)
    said = job.all(WAITS, LONG, gpu0=HELD)
    assert [f.severity for f in said] == ["ticket"]


@pytest.mark.parametrize("odd", [{"gpu0": GONE}, {"gpu0": LOST}])
def test_a_rank_that_dies_in_a_pause_pages_at_once(odd: dict[str, Shows]) -> None:
    """What was a checkpoint until then will not end."""
    job = Training(saved=False)
    job.all(WAITS, 120, gpu0=HELD)
    assert pages(job.all(WAITS, 70, **odd)) == [("gpu", "GPU-n0-0", "hang/process_lost")]


def test_all_that_wait_for_nobody_page_after_the_watchdogs_limit() -> None:
    """Nobody writes: PyTorch would have ended the job after ten minutes."""
    job = Training(saved=False)
    assert pages(job.all(WAITS, 600)) == []
    assert pages(job.all(WAITS, 90)) == [("job", "7", "hang/in_flight")]


def test_ranks_that_spin_at_much_power_wait_where_their_tensor_cores_rest() -> None:
    """Kernels that spin draw up to 45 % of the power limit, and read a little memory."""
    spins = shows(util=100, watts=320) | {"dram_activity_percent": 2.5}
    assert pages(Training().all(spins, 900)) == [("job", "7", "hang/in_flight")]


def test_a_job_alike_needs_no_second_lesson() -> None:
    """The same user submits the same job again: its slow first save is known."""
    job = Training(saved=False, user="ada", name="train")
    assert [f.severity for f in job.all(WAITS, 900, gpu0=HELD)] == ["ticket"]
    job.all(WORKS, 300)
    job.ends()
    job.all(GONE, 120)
    job.begins("8", user="ada", name="train")
    job.all(WORKS, 4000)
    assert job.all(WAITS, 900, gpu0=HELD) == []


def test_a_job_of_another_user_teaches_nothing() -> None:
    """A name alone can be chosen by anybody."""
    job = Training(saved=False, user="eve", name="train")
    job.all(WAITS, 3000, gpu0=HELD)
    job.all(WORKS, 300)
    job.ends()
    job.all(GONE, 120)
    job.begins("8", user="ada", name="train")
    job.all(WORKS, 4000)
    assert [f.severity for f in job.all(WAITS, 900, gpu0=HELD)] == ["ticket"]


def test_a_job_whose_user_is_known_later_is_as_much_alike() -> None:
    """The prolog reports a job before its first process shows whose it is."""
    job = Training(saved=False, user="ada", name="train")
    job.all(WAITS, 900, gpu0=HELD)
    job.all(WORKS, 300)
    job.ends()
    job.all(GONE, 120)
    job.begins("8")
    job.all(WORKS, 600)
    job.begins("8", user="ada", name="train")
    job.all(WORKS, 3400)
    assert job.all(WAITS, 900, gpu0=HELD) == []


@pytest.mark.parametrize(("scheduler", "alike"), [({}, False), ({"scheduler": "slurm"}, True)])
def test_a_name_that_two_users_claim_is_alike_for_whom_the_scheduler_says(
    scheduler: dict[str, str], alike: bool
) -> None:
    """Processes of another user elsewhere may claim the number of the job: without a scheduler it
    is nobody's.
    """
    job = Training(saved=False, user="ada", name="train")
    job.all(WAITS, 900, gpu0=HELD)
    job.all(WORKS, 300)
    job.ends()
    job.all(GONE, 120)
    job.begins("8", None, user="ada", name="train", **scheduler)
    job.begins("8", user="eve", name="train")
    job.all(WORKS, 4000)
    found = [f.severity for f in job.all(WAITS, 900, gpu0=HELD)]
    assert found == ([] if alike else ["ticket"])


def test_one_rank_that_computes_while_all_others_wait_is_a_ticket() -> None:
    """A loop without end: an evaluation on rank 0 takes ten minutes, and PyTorch would end the
    wait of the others then.
    """
    job = Training()
    assert job.all(WAITS, 640, gpu3=WORKS) == []
    assert updates(job.all(WAITS, 30, gpu3=WORKS)) == [
        ("gpu", "GPU-n0-3", "hang/rank_busy", "ticket", "onset")
    ]
    assert [f.phase for f in job.all(WORKS, 60)] == ["cleared"]


CRAWLS: Shows = shows(util=100, watts=150, tensor=2, nvlink=4_000, pcie=5e7)


def test_a_job_at_a_twentieth_of_its_speed_is_a_ticket_within_twenty_minutes() -> None:
    """Every collective ends, so that no time-out ever fires."""
    job = Training(worked_s=3600)
    assert updates(job.all(CRAWLS, 1200)) == [("job", "7", "hang/crawl", "ticket", "onset")]
    assert [f.phase for f in job.all(WORKS, 600)] == ["cleared"]


def test_a_job_that_stops_to_compute_at_all_does_not_crawl() -> None:
    """Copying to the host for an hour is a save."""
    job = Training(worked_s=3600)
    assert job.all(SAVES, 3600) == []


def test_a_single_node_whose_steady_job_stands_still_is_a_ticket() -> None:
    """Its loader hangs: for an hour it worked without a pause, and now all its GPUs idle."""
    job = Training(1, worked_s=3600)
    said = job.all(HELD, 1000)
    assert updates(said)[-1][2:4] == ("hang/host_stall", "ticket")
    assert pages(said) == []


@pytest.mark.parametrize("between_s", [900, 3600])
@pytest.mark.parametrize("idle", [{}, {"n1": HELD}])
def test_a_stall_that_ended_by_itself_hides_no_second_one(
    idle: dict[str, Shows], between_s: int
) -> None:
    """The file system hung twice, for the whole job or one node: a job that saves by moving data
    saved neither time. What happened twice is its habit.
    """
    job, everybody = Training(worked_s=3600), WAITS if idle else HELD
    for _ in range(2):
        assert len(pages(job.all(everybody, 1500, **idle))) == 1
        job.all(WORKS, between_s)
    assert pages(job.all(everybody, 1500, **idle)) == []


def test_nights_that_a_job_hung_are_no_habit() -> None:
    """Nobody came to the ticket, twice: a hang still pages after four hours."""
    job = Training()
    for hours in (8, 6):
        job.all(WAITS, hours * 3600, gpu0=HELD)
        job.all(WORKS, 1800)
    assert len(pages(job.all(WAITS, 4 * 3600 + 60, gpu0=HELD))) == 1


def test_a_stir_of_one_reading_does_not_begin_the_wait_anew() -> None:
    """A monitoring tool copied something from one GPU."""
    job = Training()
    job.all(WAITS, 150, gpu11=HELD)
    job.all(WAITS, 10, gpu11=SAVES)
    assert len(pages(job.all(WAITS, 60, gpu11=HELD))) == 1


def test_it_clears_when_the_job_works_again() -> None:
    """With the id of its onset."""
    job = Training()
    (onset,) = job.all(WAITS, 300, gpu11=HELD)
    (cleared,) = job.all(WORKS, 120)
    assert (cleared.id, cleared.phase, cleared.evidence[-1]) == (
        onset.id,
        "cleared",
        "the job works again",
    )


def test_it_clears_when_the_scheduler_ends_the_job() -> None:
    """The watchdog of its library ended it."""
    job = Training()
    (onset,) = job.all(WAITS, 300, gpu11=HELD)
    job.ends()
    (cleared,) = job.all(GONE, 10)
    assert (cleared.id, cleared.phase) == (onset.id, "cleared")


def test_without_a_scheduler_a_job_is_over_when_its_processes_have_left() -> None:
    """What comes on these GPUs is another job, and young."""
    job = Training(1, scheduler=False)
    assert len(job.all(WAITS, 300, gpu3=HELD)) == 1
    (cleared,) = job.all(GONE, 120)
    assert cleared.phase == "cleared"
    job.all(WORKS, 120)
    assert job.all(WAITS, 600, gpu3=HELD) == []


def test_processes_that_leave_one_after_the_other_are_a_job_that_ends() -> None:
    """Two and a half minutes from the first to the last."""
    job = Training()
    for left in range(1, 2 * PER_NODE):
        assert job.each([GONE] * left + [WAITS] * (2 * PER_NODE - left), 10) == []


def test_gpus_whose_energy_counter_stands_still_are_not_read() -> None:
    """A collector that repeats itself in the middle of a wait must not look like a stall."""
    stuck = {**WAITS, "energy_millijoules": 0}
    assert Training().all(stuck, LONG) == []


def test_readings_that_are_missing_hold_what_was_seen() -> None:
    """A tenth of all readings get lost on the way."""
    job, rng, said = Training(), np.random.default_rng(1), []
    for _ in range(30):
        waiting = [HELD if row == 11 else WAITS for row in range(len(job.gpus))]
        said += job.each([{} if rng.random() < 0.1 else one for one in waiting], 10)
    assert pages(said) == [("gpu", "GPU-n1-3", "hang/rank_stuck")]


def test_a_node_that_is_not_read_at_all_keeps_its_job_unjudged() -> None:
    """Half of the job is dark: whom the others wait for cannot be said."""
    assert pages(Training().all(WAITS, LONG, n1={})) == []


def test_mig_instances_are_not_judged() -> None:
    """Utilisation and power of one GPU are those of several tenants."""
    split = {**WAITS, "mig_mode_current": 1}
    assert Training().all(split, LONG, gpu0={**HELD, "mig_mode_current": 1}) == []


def plain(what: Shows) -> Shows:
    """What plain NVML shows on boards without GPM."""
    finer = ("_activity_percent", "_mebibytes_per_second")
    return {name: value for name, value in what.items() if not name.endswith(finer)}


@pytest.fixture
def plain_job() -> Training:
    """A job that trained for a while on such boards."""
    job = Training(worked_s=0)
    job.all(plain(WORKS), LONG)
    job.all(plain(SAVES), 60)
    job.all(plain(WORKS), 60)
    return job


def test_without_activity_and_link_counters_utilisation_and_power_suffice(
    plain_job: Training,
) -> None:
    """Where one is idle, it bears witness that the others wait."""
    assert pages(plain_job.all(plain(WAITS), 300, gpu3=plain(HELD))) == [
        ("gpu", "GPU-n0-3", "hang/rank_stuck")
    ]


@pytest.mark.parametrize("shown", [WAITS, shows(util=100, watts=215, pcie=4e5)])
def test_light_work_without_activity_and_link_counters_wakes_nobody(
    plain_job: Training, shown: Shows
) -> None:
    """A phase that generates in small batches, with less than a megabyte per second over PCIe,
    looks like a wait: a ticket says both.
    """
    said = plain_job.all(plain(shown), LONG)
    assert updates(said) == [("job", "7", "hang/in_flight", "ticket", "onset")]
    assert "or they work lightly" in said[0].summary


def test_light_work_of_most_without_activity_and_link_counters_wakes_nobody(
    plain_job: Training,
) -> None:
    """Six of sixteen idle: who has nothing to generate is waited for by nobody."""
    odd = {f"gpu{row}": plain(HELD) for row in (0, 2, 4, 9, 11, 13)}
    assert updates(plain_job.all(plain(WAITS), 300, **odd)) == [
        ("job", "7", "hang/undecided", "ticket", "onset")
    ]


def test_low_power_work_is_no_wait() -> None:
    """A memory-bound kernel under a power cap: full utilisation, few watts, and DRAM at work."""
    assert (
        Training().all(shows(util=100, watts=160, tensor=8, nvlink=16_000), LONG, gpu1=HELD) == []
    )


def test_a_restart_in_the_middle_of_a_stall_changes_nothing() -> None:
    """The clock of the silence, the learnt pauses and what was told survive."""
    job = Training()
    job.all(WAITS, 100, gpu11=HELD)
    fresh = Hang()
    assert load(dump([job.feed.detector]), [fresh]) == ()
    job.feed.detector = fresh
    assert len(pages(job.all(WAITS, 100, gpu11=HELD))) == 1


def test_the_first_pause_of_a_job_is_reported_before_a_watchdog_would_end_it() -> None:
    """Saves of minutes are usual: nobody knows yet how this one saves."""
    job = Training(saved=False)
    assert updates(job.all(WAITS, 520, gpu11=HELD)) == []
    assert [f.severity for f in job.all(WAITS, 40, gpu11=HELD)] == ["ticket"]


@pytest.mark.parametrize(("user", "patient"), [("ada", True), ("bob", False)])
def test_jobs_of_a_user_teach_how_long_their_saves_are(user: str, patient: bool) -> None:
    """Two of them came out of 1,000 s; a job of another user must not be taught by them."""
    job = Training(saved=False, user="ada", name="a")
    for before, name, by in (("7", "b", "ada"), ("b", "c", user)):
        job.all(WAITS, 1000, gpu0=HELD)
        job.all(WORKS, 120)
        job.ends(before)
        job.begins(name, user=by, name=name)
        job.all(WORKS, 1000)
    said = job.all(WAITS, 1000, gpu0=HELD)
    assert ([f.severity for f in said] == []) is patient
    assert [f.severity for f in job.all(WAITS, 600, gpu0=HELD)] == ["ticket"] * patient


def test_a_steady_job_of_two_nodes_that_idles_for_three_hours_is_a_page() -> None:
    """The ticket before, which single nodes have too, must not take its place."""
    job = Training(saved=False, worked_s=3600)
    assert pages(job.all(HELD, 10_700)) == []
    assert pages(job.all(HELD, 200)) == [("job", "7", "hang/host_stall")]
