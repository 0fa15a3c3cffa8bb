"""GPUs that draw less than their clock, their activity, their peers and their past predict."""

from __future__ import annotations

import numpy as np
import pytest

from detectors.power import Power
from pipeline.frame import Device
from tests.detectors.feed import Feed, Number, open_findings, updates

# of silicon: what each GPU's clock is above the middle
SPREAD = [0.06, 0.03, 0.01, 0.005, -0.005, -0.01, -0.03, -0.06]
FULL_MHZ, FULL_W, EXPONENT = 1800.0, 600.0, 2.4
WEAK = 5


def work(
    *,
    less: float = 0.0,
    load: float = 1.0,
    clock: float = 1.0,
    own_clock: float = 1.0,
    row: int = WEAK,
) -> dict[str, Number | list[Number]]:
    """A node at work: power follows clock and activity; one GPU draws less, or
    runs at a clock of its own.
    """
    clocks = [
        FULL_MHZ * clock * (1 + own) * (own_clock if i == row else 1.0)
        for i, own in enumerate(SPREAD)
    ]
    watts = [
        load * FULL_W * (mhz / FULL_MHZ) ** EXPONENT * (1 - less if i == row else 1.0)
        for i, mhz in enumerate(clocks)
    ]
    return {
        "gpu_utilization_percent": 99,
        "sm_clock_megahertz": list(clocks),
        "energy_millijoules": [w * 1000 for w in watts],
        "tensor_activity_percent": 50.0 * load,
        "dram_activity_percent": 40.0,
    }


@pytest.fixture
def node() -> Feed:
    """A node that has worked for an hour."""
    feed = Feed(Power())
    assert feed.run(3600, **work()) == []
    return feed


@pytest.mark.slow
def test_fifteen_percent_less_is_a_ticket_within_the_hour(node: Feed) -> None:
    """At the same clock and activity (F30)."""
    findings = node.run(3600, **work(less=0.15))
    assert open_findings(findings) == [("gpu", "GPU-n1-5", "power", "ticket")]
    assert findings[0].value == pytest.approx(-15.0, abs=1.0)


@pytest.mark.slow
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    ("loads", "found"),
    [
        ([1.0, 1.0, 0.6, 0.6, 0.6, 0.35, 0.35, 0.35], False),
        ([0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 1.0, 0.35], True),
    ],
)
def test_only_a_gpu_as_active_as_its_peers_is_compared_with_them(
    loads: list[float], *, known: bool, found: bool
) -> None:
    """Servers of requests, each with a load of its own, share no law of power."""
    feed = Feed(Power())
    if known:
        gpus = " ".join(gpu.id for gpu in feed.gpus)
        at = Device("n1", "node", "n1")
        feed.event(at, "job_started", source="jobs", job="1", gpus=gpus, hosts=1)

    def serve(less: float) -> dict[str, Number | list[Number]]:
        """Of the sixth other requests, which need less."""
        given = work(less=less)
        watts = np.array(given["energy_millijoules"]) * loads
        tensor = 50.0 * np.array(loads)
        return given | {
            "energy_millijoules": watts.tolist(),
            "tensor_activity_percent": tensor.tolist(),
        }

    assert feed.run(3600, **serve(0.0)) == []
    assert bool(feed.run(3600, **serve(0.15))) == found


@pytest.mark.slow
def test_five_percent_less_is_silent(node: Feed) -> None:
    """Below the floor."""
    assert node.run(4 * 3600, **work(less=0.05)) == []


@pytest.mark.slow
def test_a_kernel_that_waits_for_others_tells_nothing_of_power(node: Feed) -> None:
    """In a stalled job every GPU is busy and computes nothing; what it draws then follows
    neither clock nor activity.
    """
    waits = work(less=0.15, load=0.2) | {
        "tensor_activity_percent": 0.0,
        "dram_activity_percent": 0.5,
    }
    assert node.run(4 * 3600, **waits) == []


@pytest.mark.slow
def test_waiting_in_each_step_hides_nothing(node: Feed) -> None:
    """A GPU that computes in every other second only is judged by those."""
    findings = []
    for _ in range(120):
        findings += node.run(10, **work(less=0.15))
        findings += node.run(
            10, **(work(less=0.15) | {"tensor_activity_percent": 0.0, "dram_activity_percent": 0.5})
        )
    assert open_findings(findings) == [("gpu", "GPU-n1-5", "power", "ticket")]


@pytest.mark.slow
def test_it_is_never_a_page(node: Feed) -> None:
    """However much is missing: an inference from other readings wakes nobody."""
    findings = node.run(2 * 3600, **work(less=0.6))
    assert {f.severity for f in findings} == {"ticket"}


@pytest.mark.slow
def test_a_lower_clock_explains_less_power(node: Feed) -> None:
    """A GPU that runs 10 % slower draws a fifth less, as it should: that
    is the straggler's matter.
    """
    assert node.run(4 * 3600, **work(own_clock=0.9)) == []


@pytest.mark.slow
def test_a_lighter_load_of_all_is_no_fault(node: Feed) -> None:
    """Evaluation, an unequal batch, another stage: peers do the same."""
    for _ in range(4):
        assert node.run(900, **work(load=0.55)) + node.run(900, **work()) == []


@pytest.mark.slow
def test_a_clock_lock_of_all_is_no_fault(node: Feed) -> None:
    """Everybody slower, everybody cooler."""
    assert node.run(4 * 3600, **work(clock=0.7)) == []


@pytest.mark.slow
def test_it_ends_after_the_repair(node: Feed) -> None:
    """Five minutes near its own place."""
    node.run(3600, **work(less=0.15))
    assert updates(node.run(900, **work())) == [("gpu", "GPU-n1-5", "power", "ticket", "cleared")]


@pytest.mark.slow
def test_after_a_day_of_work_the_new_level_is_normal(node: Feed) -> None:
    """It draws what it draws."""
    node.period_s = 30.0
    node.run(3600, **work(less=0.15))
    findings = node.run(86_400, **work(less=0.15))
    assert [f.phase for f in findings] == ["cleared"]
    assert "new normal" in findings[0].evidence[-1]


@pytest.mark.slow
def test_marks_of_no_value_do_not_bend_the_regression(node: Feed) -> None:
    """Sentinels in clock, power and utilisation of one GPU after the other (H18): silent, and a
    fault is found as before.
    """
    for n in range(720):
        assert (
            node.once(**{name: damaged(name, value, n % 8) for name, value in work().items()}) == []
        )
    assert open_findings(node.run(3600, **work(less=0.15))) == [
        ("gpu", "GPU-n1-5", "power", "ticket")
    ]


def damaged(name: str, given: Number | list[Number], row: int) -> Number | list[Number]:
    """A frame's column with a mark of no value for one GPU.

    Counters grow by the value itself in ``Feed.once``.
    """
    marks = {
        "sm_clock_megahertz": 140737488355328.0,
        "gpu_utilization_percent": 4294967295.0,
        "energy_millijoules": None,
    }
    values = given if isinstance(given, list) else [given] * 8
    grows = 10.0 if name == "energy_millijoules" else 1.0
    kept: list[Number] = [None if value is None else value * grows for value in values]
    if name in marks:
        kept[(row + 3) % 8 if name == "energy_millijoules" else row] = marks[name]
    return kept


@pytest.mark.slow
def test_a_node_alone_learns_how_much_its_power_wanders() -> None:
    """Where each GPU's power wanders by 8 % over minutes, a quarter of an hour 12 % below is no
    finding; half of an hour 40 % below is.
    """
    feed, chance = Feed(Power()), np.random.default_rng(3)
    wander = np.zeros(len(SPREAD))
    findings = []
    for _ in range(6 * 60):
        wander = 0.8 * wander + chance.normal(0, 0.6 * 0.08, len(SPREAD))
        readings = work()
        watts = np.array(readings["energy_millijoules"]) * np.exp(wander)
        findings += feed.run(60, **readings | {"energy_millijoules": watts.tolist()})
    assert findings == []
    assert feed.run(15 * 60, **work(less=0.12)) == []
    assert feed.run(30 * 60, **work(less=0.40))


@pytest.mark.slow
def test_nothing_is_said_while_a_limit_holds_back_the_clocks(node: Feed) -> None:
    """At a limit all draw the same, and a better die runs faster with it: by its clock it draws
    less. Once nothing holds them back it is judged.
    """
    capped = {"clock_event_reasons": [0x4] * len(SPREAD)}
    assert node.run(3600, **work(clock=0.8, own_clock=1.1, less=0.2) | capped) == []
    assert node.run(3600, **work(less=0.15)) != []
