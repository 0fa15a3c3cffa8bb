"""GPUs that silently became slower than their peers, and the many good
reasons for which GPUs differ.
"""

from __future__ import annotations

import numpy as np
import pytest

from detectors.straggler import Straggler
from pipeline.frame import Device
from tests.detectors.feed import Feed, Number, a_gpu, open_findings, updates

pytestmark = pytest.mark.slow

FULL_MHZ = 1800.0
# Silicon differs: what each GPU of a node runs above or below the middle, free of locks and caps.
SPREAD = [0.06, 0.03, 0.01, 0.005, -0.005, -0.01, -0.03, -0.06]
SLOW = 5  # row of the faulty GPU


def work(
    *, lost: float = 0.0, row: int = SLOW, lock_mhz: float = 9999.0, **more: Number | list[Number]
) -> dict[str, Number | list[Number]]:
    """A node at work; one GPU has lost a share of its clock."""
    keeps = [1 - lost if index == row else 1.0 for index in range(len(SPREAD))]
    clocks: list[Number] = [
        min(FULL_MHZ * (1 + own), lock_mhz) * kept for own, kept in zip(SPREAD, keeps, strict=True)
    ]
    return {"gpu_utilization_percent": 99, "sm_clock_megahertz": clocks, **more}


@pytest.fixture
def node() -> Feed:
    """A node that has worked for half an hour."""
    feed = Feed(Straggler())
    assert feed.run(1800, **work()) == []
    return feed


def test_a_tenth_less_is_paged_within_six_minutes(node: Feed) -> None:
    """The GPU is named, with what it lost (F16)."""
    findings = node.run(360, **work(lost=0.10))
    assert open_findings(findings) == [("gpu", "GPU-n1-5", "straggler", "page")]
    assert findings[0].value == pytest.approx(-10.0, abs=0.5)


def test_six_percent_less_is_a_ticket(node: Feed) -> None:
    """Between the two floors, and only after five minutes."""
    assert node.run(240, **work(lost=0.06)) == []
    assert open_findings(node.run(300, **work(lost=0.06))) == [
        ("gpu", "GPU-n1-5", "straggler", "ticket")
    ]


@pytest.mark.parametrize("gpus", [4, 8])
def test_a_node_alone_learns_how_much_its_clocks_wander(gpus: int) -> None:
    """Where each GPU's clock wanders by 4 % over minutes nothing is a straggler by chance; one that
    loses a third is.
    """
    feed, chance, wander = Feed(Straggler(), gpus=gpus), np.random.default_rng(7), np.zeros(gpus)
    findings = []
    usual = np.array(work()["sm_clock_megahertz"])[:gpus]
    for _ in range(12 * 60):
        wander = 0.8 * wander + chance.normal(0, 0.6 * 0.04, gpus)
        clocks = (usual * np.exp(wander)).tolist()
        findings += feed.run(60, **work() | {"sm_clock_megahertz": clocks})
    assert findings == []
    slow = (usual * np.where(np.arange(gpus) == 2, 0.67, 1.0)).tolist()
    findings = feed.run(600, **work() | {"sm_clock_megahertz": slow})
    assert open_findings(findings) == [("gpu", "GPU-n1-2", "straggler", "page")]


def test_a_ticket_that_gets_worse_becomes_a_page(node: Feed) -> None:
    """One finding, reported again."""
    ticket = node.run(600, **work(lost=0.06))
    page = node.run(600, **work(lost=0.20))
    assert (ticket[-1].severity, page[0].severity, page[0].phase) == ("ticket", "page", "ongoing")
    assert {f.id for f in (*ticket, *page)} == {ticket[0].id}


def test_three_percent_are_within_what_silicon_does(node: Feed) -> None:
    """Below both floors, for as long as it lasts."""
    assert node.run(7200, **work(lost=0.03)) == []


def test_it_ends_within_ten_minutes_of_the_repair(node: Feed) -> None:
    """Five blocks near its own place."""
    node.run(900, **work(lost=0.10))
    assert updates(node.run(600, **work())) == [("gpu", "GPU-n1-5", "straggler", "page", "cleared")]


def test_it_does_not_learn_the_fault(node: Feed) -> None:
    """After six slow hours the baseline is still the one from before."""
    node.run(600, **work(lost=0.10))
    assert node.run(6 * 3600, **work(lost=0.10)) == []
    assert open_findings(node.findings)


def test_after_a_day_of_work_the_new_level_is_normal(node: Feed) -> None:
    """Nobody repaired it: that is how the GPU is."""
    node.period_s = 30.0
    node.run(900, **work(lost=0.10))
    findings = node.run(86_400, **work(lost=0.10))
    assert [f.phase for f in findings] == ["cleared"]
    assert "new normal" in findings[0].evidence[-1]


@pytest.mark.parametrize("boot", ["boot-1", "boot-2"])
def test_a_place_among_peers_is_learnt_anew_after_hours_that_nobody_saw(
    node: Feed, boot: str
) -> None:
    """The agent was off for twenty hours, and where no scheduler reports jobs another one may run:
    it ranks the GPUs otherwise.
    """
    again = Straggler()
    again.restore(node.detector.state())  # type: ignore[attr-defined] # it remembers
    node.detector, node.boot = again, boot
    node.clock.advance(20 * 3600)
    assert node.run(3600, **work(lost=0.08)) == []
    assert open_findings(node.run(600, **work(lost=0.20))) == [
        ("gpu", "GPU-n1-5", "straggler", "page")
    ]


def test_a_restart_takes_nothing_from_what_was_learnt(node: Feed) -> None:
    """Ten minutes without an agent."""
    node.clock.advance(600)
    assert open_findings(node.run(900, **work(lost=0.08))) == [
        ("gpu", "GPU-n1-5", "straggler", "page")
    ]


@pytest.mark.parametrize("reason", ["hw_thermal", "hw_power_brake", "sw_thermal"])
def test_what_throttling_explains_is_left_to_its_detector(node: Feed, reason: str) -> None:
    """A fifth of the time at half the clock: a tenth less on average, and
    the reason is on record.
    """
    held: list[Number] = [0.2e9 if row == SLOW else 0.0 for row in range(8)]
    assert node.run(3600, **(work(lost=0.10) | {f"throttled_{reason}_nanoseconds": held})) == []


def test_a_little_throttling_does_not_excuse_a_great_loss(node: Feed) -> None:
    """2 % of the time cannot have taken 15 % of the clock."""
    held: list[Number] = [0.02e9 if row == SLOW else 0.0 for row in range(8)]
    findings = node.run(600, **work(lost=0.15, throttled_sw_thermal_nanoseconds=held))
    assert open_findings(findings) == [("gpu", "GPU-n1-5", "straggler", "page")]


def test_episodes_of_throttling_leave_no_trace(node: Feed) -> None:
    """A brake that came and went all morning is no slow-down that comes and goes (F14)."""
    held: list[Number] = [0.2e9 if row == SLOW else 0.0 for row in range(8)]
    none: list[Number] = [0.0] * 8
    for _ in range(6):
        assert node.run(240, **work(lost=0.12, throttled_hw_power_brake_nanoseconds=held)) == []
        assert node.run(240, **work(throttled_hw_power_brake_nanoseconds=none)) == []


def test_two_minutes_in_twelve_are_a_ticket_within_three_hours(node: Feed) -> None:
    """Too short for a run, too often for chance (F17)."""
    findings = []
    for _ in range(15):
        findings += node.run(120, **work(lost=0.10)) + node.run(600, **work())
    assert findings[0].severity == "ticket"
    assert (findings[0].device.id, findings[0].fault) == ("GPU-n1-5", "straggler")


def test_one_slow_minute_an_hour_is_silent(node: Feed) -> None:
    """A pause of the clock is no fault."""
    for _ in range(5):
        assert node.run(60, **work(lost=0.30)) + node.run(3540, **work()) == []


@pytest.mark.parametrize(
    ("alone_w", "others_w", "found"), [(320.0, 180.0, False), (260.0, 300.0, True)]
)
def test_a_rank_that_works_alone_at_its_power_limit_is_no_straggler(
    node: Feed, alone_w: float, others_w: float, *, found: bool
) -> None:
    """It evaluates while its peers wait in a kernel, where clocks are free; one that lost its clock
    draws less than they do.
    """
    watts: list[Number] = [1000 * others_w] * len(SPREAD)
    watts[SLOW] = 1000 * alone_w
    assert bool(node.run(1800, **work(lost=0.10, power_milliwatts=watts))) == found


@pytest.mark.parametrize(
    ("watts", "known", "found"),
    [
        ([300, 300, 300, 420, 420, 420, 620, 620], False, False),  # servers of three kinds
        ([300, 300, 300, 420, 420, 420, 620, 620], True, True),
        ([640] * 5 + [530] + [640] * 2, False, True),
    ],
)
def test_servers_beside_each_other_are_no_peers_where_jobs_are_not_known(
    watts: list[float], *, known: bool, found: bool
) -> None:
    """A node counts as one job then; a server of requests that gets more of them, or other ones,
    delays nobody.
    """
    power: dict[str, Number | list[Number]] = {
        "power_milliwatts": [1000 * each for each in watts],
        "power_limit_enforced_milliwatts": 700_000,
    }
    feed = Feed(Straggler())
    if known:
        start(feed, "1")
    assert feed.run(3600, **work() | power) == []
    assert bool(feed.run(1800, **work(lost=0.10) | power)) == found


@pytest.mark.parametrize(("slow_w", "found"), [(690, False), (560, True)])
@pytest.mark.parametrize("known", [False, True])
def test_the_clock_at_the_power_limit_is_that_of_the_work(
    slow_w: float, *, known: bool, found: bool
) -> None:
    """An expert with more tokens than the others has a lower clock at 690 of 700 W; a GPU that lost
    its clock draws less.
    """
    watts: list[Number] = [690_000] * len(SPREAD)
    watts[SLOW] = 1000 * slow_w
    power: dict[str, Number | list[Number]] = {
        "power_milliwatts": watts,
        "power_limit_enforced_milliwatts": 700_000,
    }
    feed = Feed(Straggler())
    if known:
        start(feed, "1")
    assert feed.run(3600, **work()) == []
    assert bool(feed.run(1800, **work(lost=0.10) | power)) == found


WAITS: tuple[dict[str, Number], ...] = (
    {"tensor_activity_percent": 0.0, "dram_activity_percent": 0.5, "power_milliwatts": 250_000},
    {"power_milliwatts": 150_000},  # what it computes is not read
)


@pytest.mark.parametrize("wait", WAITS, ids=["activity", "power"])
def test_an_hour_of_waiting_is_no_pace_to_compare_work_with(wait: dict[str, Number]) -> None:
    """One rank of another node evaluates: all GPUs of this one wait in a kernel, at free clocks,
    all alike, and then work again as each did before, all a little faster.
    """
    feed = Feed(Straggler())
    limit: dict[str, Number | list[Number]] = {"power_limit_enforced_milliwatts": 700_000}
    does = {name: 60.0 for name in wait if name.endswith("percent")}
    working = limit | does | {"power_milliwatts": 500_000}
    uneven = FULL_MHZ * (1 + np.array([*SPREAD[:-1], -0.12]))
    for level in (0.97, 0.98):
        clocks: list[Number] = (level * uneven).tolist()
        assert feed.run(3600, **work(sm_clock_megahertz=clocks) | working) == []
        assert feed.run(3600, **work(sm_clock_megahertz=FULL_MHZ) | limit | wait) == []


def test_work_without_tensor_cores_that_leaves_memory_alone_is_compared() -> None:
    """Single precision from registers: no activity that is read, and the power of work."""
    feed = Feed(Straggler())
    does: dict[str, Number | list[Number]] = {
        "tensor_activity_percent": 0.0,
        "dram_activity_percent": 0.5,
        "power_milliwatts": 500_000,
        "power_limit_enforced_milliwatts": 700_000,
    }
    assert feed.run(3600, **work() | does) == []
    assert feed.run(1800, **work(lost=0.10) | does)


def test_single_low_readings_are_silent_where_two_make_a_minute() -> None:
    """A clock read every thirty seconds, low by chance six times an hour: half of the minute it is
    in, and nothing before or after.
    """
    feed = Feed(Straggler(), period_s=30.0)
    assert feed.run(1800, **work()) == []
    for _ in range(18):
        assert feed.run(30, **work(lost=0.30)) + feed.run(570, **work()) == []


def test_a_node_that_slows_down_as_a_whole_has_no_straggler(node: Feed) -> None:
    """All GPUs a quarter slower: a setting or a cap; nobody is behind the others."""
    slower: list[Number] = [FULL_MHZ * 0.75 * (1 + own) for own in SPREAD]
    assert node.run(7200, **work(sm_clock_megahertz=slower)) == []


@pytest.mark.parametrize("shown", [True, False])
def test_clock_locks_are_accepted(node: Feed, shown: bool) -> None:
    """Locked clocks are alike, free ones spread again: neither is a fault, whether the lock can be
    read (-ac) or not (-lgc).
    """
    node.period_s = 30.0
    locked: dict[str, Number | list[Number]] = {
        "sm_application_clock_megahertz": 1350 if shown else 1980
    }
    node.run(600, **work(sm_application_clock_megahertz=1980))
    assert node.run(9 * 3600, **(work(lock_mhz=1350) | locked)) == []
    assert node.run(2 * 3600, **work(sm_application_clock_megahertz=1980)) == []


def test_a_sweep_of_clocks_is_accepted(node: Feed) -> None:
    """Five minutes at each of five locks, again and again (H27)."""
    for _ in range(4):
        for lock in (990, 1190, 1390, 1590, 1980):
            assert node.run(300, **work(lock_mhz=lock)) == []


def test_a_fast_gpu_that_falls_back_to_the_middle_is_silent(node: Feed) -> None:
    """It lost 6 % and is as fast as half of its peers: it holds nobody up."""
    assert node.run(7200, **work(lost=0.055, row=0)) == []


def test_another_power_limit_begins_anew(node: Feed) -> None:
    """A GPU that was given a lower limit has no peers left: power_limit reports it."""
    limits: list[Number] = [500_000 if row == SLOW else 700_000 for row in range(8)]
    node.run(600, **work(power_limit_enforced_milliwatts=700_000))
    assert node.run(3600, **work(lost=0.15, power_limit_enforced_milliwatts=limits)) == []
    assert node.run(1100, **work(lost=0.15, power_limit_enforced_milliwatts=700_000)) == []


def test_a_new_job_is_learnt_anew(node: Feed) -> None:
    """Within the first twenty minutes of a job its GPUs have no place yet; 8 % less than in
    the job before is no fault.
    """
    start(node, "2")
    assert node.run(3600, **work(lost=0.08)) == []


def test_slow_from_the_start_of_a_job_is_a_ticket(node: Feed) -> None:
    """What earlier jobs taught: 15 % below its place there for ten minutes (F32)."""
    start(node, "1")
    node.run(4 * 3600, **work())
    start(node, "2")
    assert open_findings(node.run(1800, **work(lost=0.15))) == [
        ("gpu", "GPU-n1-5", "straggler", "ticket")
    ]


def test_a_new_job_is_no_repair(node: Feed) -> None:
    """The finding stays open in the next job of the same GPU."""
    node.run(600, **work(lost=0.10))
    start(node, "2")
    assert node.run(3600, **work(lost=0.10)) == []


def test_a_swapped_gpu_takes_its_finding_with_it(node: Feed) -> None:
    """Another GPU in the slot begins cold, and open findings about the old one end."""
    node.run(600, **work(lost=0.10))
    node.gpus[SLOW] = Device("n1", "gpu", "GPU-new", node.gpus[SLOW].attributes)
    assert updates(node.run(900, **work(lost=0.10))) == [
        ("gpu", "GPU-n1-5", "straggler", "page", "cleared")
    ]


def test_idle_gpus_are_not_judged(node: Feed) -> None:
    """Low clocks without work are normal."""
    assert node.run(7200, **work(lost=0.5, gpu_utilization_percent=0)) == []


def test_three_working_peers_are_too_few(node: Feed) -> None:
    """A median of three says little: no verdict."""
    few: list[Number] = [99.0 if row in (3, 4, SLOW) else 0.0 for row in range(8)]
    assert node.run(3600, **work(lost=0.20, gpu_utilization_percent=few)) == []


@pytest.mark.parametrize(("hosts", "found"), [(4, True), (3, False)])
def test_few_gpus_a_node_are_compared_across_the_job_from_eight_on(hosts: int, found: bool) -> None:
    """Two GPUs of each node work together: eight peers are enough, six are not."""
    feed = Feed(
        Straggler(), gpus=[a_gpu(f"n{host}", index) for host in range(hosts) for index in range(2)]
    )
    for host in range(hosts):
        start(feed, "1", host=f"n{host}", hosts=hosts)
    clocks: list[Number] = [FULL_MHZ] * len(feed.gpus)
    assert feed.run(1800, gpu_utilization_percent=99, sm_clock_megahertz=clocks) == []
    clocks[3] = FULL_MHZ * 0.85
    findings = feed.run(600, gpu_utilization_percent=99, sm_clock_megahertz=clocks)
    assert open_findings(findings) == ([("gpu", "GPU-n1-1", "straggler", "page")] if found else [])


@pytest.mark.parametrize("mark", [140737488355328.0, 4294967295.0, -1.0, None])
def test_marks_of_no_value_are_no_clocks(node: Feed, mark: Number) -> None:
    """Every third reading of one GPU is a driver's word for nothing (H18)."""
    for n in range(360):
        given = work()
        if n % 3 == 0:
            given["sm_clock_megahertz"] = [
                mark if row == SLOW else FULL_MHZ * (1 + own) for row, own in enumerate(SPREAD)
            ]
            given["gpu_utilization_percent"] = [mark if row == 2 else 99.0 for row in range(8)]
        assert node.once(**given) == []


def start(feed: Feed, job: str, *, host: str = "n1", hosts: int = 1) -> None:
    """A job takes all GPUs of a host."""
    gpus = " ".join(gpu.id for gpu in feed.gpus if gpu.host == host)
    feed.event(
        Device(host, "node", host), "job_started", source="jobs", job=job, gpus=gpus, hosts=hosts
    )
