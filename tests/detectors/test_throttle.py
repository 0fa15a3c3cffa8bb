"""Duty of hardware slowdown, of the power brake and of software thermal slowdown: the root,
how loudly, and until when.
"""

from __future__ import annotations

import pytest

from detectors.throttle import Throttle
from tests.detectors.feed import Feed, a_gpu, open_findings, updates

MS = 10**6  # ns
HOT, BRAKE, SOFT = "thermal/hw_slowdown", "throttle/hw_power_brake", "throttle/sw_thermal"


def duties(
    hot: float | list[float] = 0.0,
    brake: float | list[float] = 0.0,
    soft: float | list[float] = 0.0,
    cap: float = 0.0,
) -> dict[str, float | list[float]]:
    """Counters that grow by these shares of the time."""

    def ns(share: float | list[float]) -> float | list[float]:
        return [1e9 * s for s in share] if isinstance(share, list) else 1e9 * share

    return {
        "throttled_hw_thermal_nanoseconds": ns(hot),
        "throttled_hw_power_brake_nanoseconds": ns(brake),
        "throttled_sw_thermal_nanoseconds": ns(soft),
        "throttled_power_cap_nanoseconds": ns(cap),
    }


def one(share: float, row: int = 3, of: int = 8) -> list[float]:
    """This share for one of the GPUs."""
    return [share if i == row else 0.0 for i in range(of)]


@pytest.fixture
def node() -> Feed:
    """A node that has worked for ten quiet minutes."""
    feed = Feed(Throttle())
    assert feed.run(600, gpu_utilization_percent=99, **duties()) == []
    return feed


def test_one_hot_gpu_is_paged_within_three_minutes(node: Feed) -> None:
    """20 % of the time in hardware slowdown pages about that GPU, and says how much of the time."""
    findings = node.run(
        180, gpu_utilization_percent=99, sm_clock_megahertz=1400, **duties(hot=one(0.2))
    )
    assert open_findings(findings) == [("gpu", "GPU-n1-3", HOT, "page")]
    assert findings[-1].value == pytest.approx(0.2, abs=0.001)
    assert "20.0% of the time, SM clock 1400 MHz" in findings[-1].evidence[0]


def test_a_little_slowdown_is_a_ticket(node: Feed) -> None:
    """5 % of the time is more than 1 % and less than 10 %."""
    assert open_findings(node.run(300, gpu_utilization_percent=99, **duties(hot=one(0.05)))) == [
        ("gpu", "GPU-n1-3", HOT, "ticket")
    ]


def test_a_ticket_becomes_a_page_when_it_gets_worse(node: Feed) -> None:
    """The same finding, reported again with a higher severity."""
    ticket = node.run(300, gpu_utilization_percent=99, **duties(hot=one(0.05)))
    page = node.run(300, gpu_utilization_percent=99, **duties(hot=one(0.3)))
    assert (ticket[-1].severity, page[-1].severity, page[-1].phase) == ("ticket", "page", "ongoing")
    assert {f.id for f in (*ticket, *page)} == {ticket[0].id}


def test_60_ms_in_five_minutes_are_a_duty_of_two_in_ten_thousand(node: Feed) -> None:
    """OCI HPC divides nanoseconds by 3e8 over 5 minutes and calls this 20 %: here it is silent."""
    assert node.once(gpu_utilization_percent=99, throttled_hw_thermal_nanoseconds=60 * MS) == []
    assert node.run(600, gpu_utilization_percent=99, **duties()) == []


def test_one_long_pulse_is_no_fault(node: Feed) -> None:
    """A whole second of slowdown in one block, as at a change of the
    performance state, is silent (H22).
    """
    assert (
        node.once(gpu_utilization_percent=99, throttled_hw_thermal_nanoseconds=one(1000 * MS)) == []
    )
    assert node.run(600, gpu_utilization_percent=99, **duties()) == []


def test_a_brake_on_half_of_the_gpus_is_the_nodes(node: Feed) -> None:
    """Four of eight GPUs braked together: one page about the node and none about its GPUs."""
    brake = [0.2, 0.2, 0.2, 0.2, 0.0, 0.0, 0.0, 0.0]
    findings = node.run(300, gpu_utilization_percent=99, **duties(brake=brake))
    assert open_findings(findings) == [("node", "n1", BRAKE, "page")]
    assert len(findings[-1].evidence) == 4


def test_a_brake_on_one_gpu_is_that_gpus(node: Feed) -> None:
    """Fewer than half of the GPUs: the node is not the root."""
    assert open_findings(node.run(300, gpu_utilization_percent=99, **duties(brake=one(0.2)))) == [
        ("gpu", "GPU-n1-3", BRAKE, "page")
    ]


def test_a_brake_on_an_idle_node_is_told(node: Feed) -> None:
    """The brake comes from outside: it needs no load."""
    assert open_findings(node.run(300, gpu_utilization_percent=0, **duties(brake=0.2))) == [
        ("node", "n1", BRAKE, "page")
    ]


def test_a_brake_in_most_nodes_of_a_rack_is_the_racks() -> None:
    """Three of four nodes braked: one page about the rack."""
    feed = Feed(Throttle(), gpus=[a_gpu(f"n{n}", i, rack="r1") for n in range(4) for i in range(8)])
    feed.run(300, gpu_utilization_percent=99, **duties())
    findings = feed.run(300, gpu_utilization_percent=99, **duties(brake=[0.2] * 24 + [0.0] * 8))
    assert open_findings(findings) == [("rack", "r1", BRAKE, "page")]
    assert "and 16 more GPUs" in findings[-1].evidence


def test_a_brake_in_one_node_of_a_rack_is_the_nodes() -> None:
    """One of four nodes is not the rack."""
    feed = Feed(Throttle(), gpus=[a_gpu(f"n{n}", i, rack="r1") for n in range(4) for i in range(8)])
    feed.run(300, gpu_utilization_percent=99, **duties())
    findings = feed.run(300, gpu_utilization_percent=99, **duties(brake=[0.2] * 8 + [0.0] * 24))
    assert open_findings(findings) == [("node", "n0", BRAKE, "page")]


def test_software_thermal_slowdown_is_a_ticket_within_ten_minutes(node: Feed) -> None:
    """Half of the time held back by the driver's governor, for one GPU (F13)."""
    assert open_findings(node.run(600, gpu_utilization_percent=99, **duties(soft=one(0.5)))) == [
        ("gpu", "GPU-n1-3", SOFT, "ticket")
    ]


@pytest.mark.slow
def test_now_and_then_software_slowdown_is_silent(node: Feed) -> None:
    """A tenth of the time, for hours."""
    assert node.run(7200, gpu_utilization_percent=99, **duties(soft=0.1)) == []


def test_the_software_governor_is_no_second_finding_beside_the_hardware(node: Feed) -> None:
    """A GPU in hardware thermal slowdown is reported once, whatever else the heat does."""
    findings = node.run(1200, gpu_utilization_percent=99, **duties(hot=one(0.4), soft=one(0.5)))
    assert {f.fault for f in findings} == {HOT}


@pytest.mark.slow
def test_a_power_capped_cluster_is_silent(node: Feed) -> None:
    """DCGM warns on any growth of the power violation: at full load it is normal (H08)."""
    assert node.run(3600, gpu_utilization_percent=99, **duties(cap=0.9)) == []


@pytest.mark.slow
def test_idle_gpus_do_not_tell_of_heat(node: Feed) -> None:
    """Slowdown of an idle GPU costs nobody anything and comes with changes of its state."""
    assert node.run(1800, gpu_utilization_percent=0, **duties(hot=0.3, soft=0.5)) == []


def test_a_reload_of_the_driver_is_no_slowdown(node: Feed) -> None:
    """Counters that go back to 0 give no increment of their old size (DCGM takes the
    difference without its sign).
    """
    node.run(60, gpu_utilization_percent=99, throttled_hw_thermal_nanoseconds=5e6)
    node.restart_counters()
    assert node.run(600, gpu_utilization_percent=99, **duties()) == []


@pytest.mark.slow
def test_a_finding_ends_after_five_calm_minutes_and_rests_for_an_hour(node: Feed) -> None:
    """Cleared once; the same fault within the hour after is not reported
    again, and after it once more.
    """
    node.run(300, gpu_utilization_percent=99, **duties(hot=one(0.2)))
    calm = node.run(420, gpu_utilization_percent=99, **duties())
    assert updates(calm) == [("gpu", "GPU-n1-3", HOT, "page", "cleared")]
    assert node.run(2400, gpu_utilization_percent=99, **duties(hot=one(0.2))) == []
    assert [
        f.phase for f in node.run(3600, gpu_utilization_percent=99, **duties(hot=one(0.2)))
    ] == ["onset"]


@pytest.mark.slow
def test_what_comes_back_and_goes_again_within_the_rest_is_not_told_after_it(node: Feed) -> None:
    """Another episode half an hour after the first, over long before the hour is: nobody
    reports it when it is past.
    """
    node.run(300, gpu_utilization_percent=99, **duties(hot=one(0.2)))
    node.run(900, gpu_utilization_percent=99, **duties())
    assert node.run(300, gpu_utilization_percent=99, **duties(hot=one(0.2))) == []
    assert node.run(7200, gpu_utilization_percent=99, **duties()) == []


@pytest.mark.slow
def test_heat_of_a_drained_node_ends_after_a_day_without_load() -> None:
    """It gets no load while the page is open: it is judged again when it gets some."""
    node = Feed(Throttle(), period_s=60)
    node.run(600, gpu_utilization_percent=99, **duties())
    node.run(600, gpu_utilization_percent=99, **duties(hot=one(0.2), soft=one(0.5, row=5)))
    assert node.run(86000, gpu_utilization_percent=0, **duties()) == []
    over = updates(node.run(3600, gpu_utilization_percent=0, **duties()))
    assert over == [
        ("gpu", "GPU-n1-3", HOT, "page", "cleared"),
        ("gpu", "GPU-n1-5", SOFT, "ticket", "cleared"),
    ]
    assert open_findings(node.run(600, gpu_utilization_percent=99, **duties(hot=one(0.2)))) == [
        ("gpu", "GPU-n1-3", HOT, "page")
    ]


def test_heat_of_a_drained_node_ends_soon_after_a_new_life(node: Feed) -> None:
    """Repaired, booted, idle for minutes.

    A GPU that is reset and still hot under load keeps its finding.
    """
    node.run(300, gpu_utilization_percent=99, **duties(hot=one(0.2)))
    node.restart_counters()
    assert node.run(300, gpu_utilization_percent=99, **duties(hot=one(0.2))) == []
    node.restart_counters()
    node.boot = "boot-2"
    assert updates(node.run(420, gpu_utilization_percent=0, **duties())) == [
        ("gpu", "GPU-n1-3", HOT, "page", "cleared")
    ]


@pytest.mark.slow
def test_a_brake_that_stays_for_days_on_an_idle_node_stays_told() -> None:
    """Its counters are read without load: a day of rest proves nothing."""
    node = Feed(Throttle(), period_s=60)
    node.run(600, gpu_utilization_percent=0, **duties())
    assert open_findings(node.run(3 * 86400, gpu_utilization_percent=0, **duties(brake=0.2))) == [
        ("node", "n1", BRAKE, "page")
    ]


@pytest.mark.slow
def test_a_gap_in_the_readings_decides_nothing(node: Feed) -> None:
    """A finding neither begins nor ends while the counters are not observed."""
    node.run(300, gpu_utilization_percent=99, **duties(hot=one(0.2)))
    assert node.run(3600, gpu_utilization_percent=99) == []
    assert [f.phase for f in node.run(420, gpu_utilization_percent=99, **duties())] == ["cleared"]


def test_without_counters_the_mask_is_sampled() -> None:
    """Drivers that do not count: a GPU whose mask shows hardware thermal slowdown
    in a third of the samples.
    """
    feed = Feed(Throttle())
    for n in range(60):
        feed.once(
            gpu_utilization_percent=99,
            clock_event_reasons=[0x48 if n % 3 == 0 and i == 2 else 4.0 for i in range(8)],
        )
    assert open_findings(feed.findings) == [("gpu", "GPU-n1-2", HOT, "page")]


def test_the_umbrella_bit_alone_is_silent() -> None:
    """0x8 is set at changes of the performance state too: without 0x40 or 0x80 it means nothing."""
    feed = Feed(Throttle())
    assert feed.run(1800, gpu_utilization_percent=99, clock_event_reasons=0x8) == []


def test_a_swapped_gpu_takes_its_finding_with_it(node: Feed) -> None:
    """Another GPU in the slot: open findings about the old one end (conditions are kept by
    identity, not by index).
    """
    node.run(300, gpu_utilization_percent=99, **duties(hot=one(0.2)))
    new = a_gpu("n1", 3)
    node.gpus[3] = type(new)("n1", "gpu", "GPU-new", new.attributes)
    findings = node.run(600, gpu_utilization_percent=99, **duties())
    assert updates(findings) == [("gpu", "GPU-n1-3", HOT, "page", "cleared")]


def test_a_gpu_that_is_given_to_a_virtual_machine_takes_its_finding_with_it(node: Feed) -> None:
    """Whatever its fault is, the end cannot be seen here; the findings of its peers stay."""
    node.run(
        300,
        gpu_utilization_percent=99,
        state=0,
        **duties(hot=[0.2 if row in (3, 5) else 0.0 for row in range(8)]),
    )
    findings = node.run(
        600,
        gpu_utilization_percent=99,
        state=[5 if row == 3 else 0 for row in range(8)],
        **duties(hot=one(0.2, 5)),
    )
    assert updates(findings) == [("gpu", "GPU-n1-3", HOT, "page", "cleared")]
