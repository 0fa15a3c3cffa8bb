"""Lanes, generations, replays and fatal errors of PCIe links: what is a
fault, what is a link at rest.
"""

from __future__ import annotations

import pytest

from detectors.kit.stats import bernoulli_arl
from detectors.pcie.adapter import GENERATION, WIDTH
from detectors.pcie.detector import FATAL, REPLAYS, H, Pcie
from pipeline.frame import Device
from tests.detectors.feed import Feed, Number, open_findings, updates

HEALTHY: dict[str, Number | list[Number]] = {
    "gpu_utilization_percent": 99,
    "pcie_width_current": 16,
    "pcie_width_maximum": 16,
    "pcie_generation_current": 5,
    "pcie_generation_maximum": 5,
    "pcie_replays": 0.01,
    "pcie_fatal_errors": 0,
}


def one(value: float, usual: float, row: int = 4) -> list[Number]:
    """This value for one of eight GPUs."""
    return [value if i == row else usual for i in range(8)]


@pytest.fixture
def node() -> Feed:
    """A node whose links are well."""
    feed = Feed(Pcie())
    assert feed.run(600, **HEALTHY) == []
    return feed


def test_lost_lanes_are_paged_within_three_minutes(node: Feed) -> None:
    """x8 in place of x16 (F18); whether the GPU works does not matter."""
    findings = node.run(
        180, **(HEALTHY | {"pcie_width_current": one(8, 16), "gpu_utilization_percent": 0})
    )
    assert open_findings(findings) == [("gpu", "GPU-n1-4", WIDTH, "page")]
    assert (findings[0].value, findings[0].expected) == (8.0, 16.0)


def test_lost_lanes_are_paged_after_a_minute_and_a_half(node: Feed) -> None:
    """Whenever in a minute they are lost: nothing waits for the end of a block."""
    node.run(30, **HEALTHY)
    assert open_findings(node.run(100, **(HEALTHY | {"pcie_width_current": one(8, 16)})))


@pytest.mark.slow
def test_lanes_that_come_back_within_a_minute_are_silent(node: Feed) -> None:
    """A reset, a retraining."""
    for _ in range(10):
        assert (
            node.run(60, **(HEALTHY | {"pcie_width_current": one(8, 16)})) + node.run(60, **HEALTHY)
            == []
        )


@pytest.mark.slow
def test_a_mark_of_no_value_is_no_load(node: Feed) -> None:
    """An idle link at generation 1; every third utilisation is a
    driver's word for nothing (H18).
    """
    for n in range(360):
        busy: Number = 4294967295.0 if n % 3 == 0 else 0.0
        assert (
            node.once(
                **(
                    HEALTHY
                    | {
                        "pcie_generation_current": 1,
                        "gpu_utilization_percent": busy,
                        "pcie_replays": 0,
                    }
                )
            )
            == []
        )


def test_a_low_generation_under_load_is_paged_within_three_minutes(node: Feed) -> None:
    """Generation 3 of 5 while the GPU works."""
    findings = node.run(180, **(HEALTHY | {"pcie_generation_current": one(3, 5)}))
    assert open_findings(findings) == [("gpu", "GPU-n1-4", GENERATION, "page")]


@pytest.mark.slow
def test_generation_1_at_idle_is_silent(node: Feed) -> None:
    """An idle link slows down by design (H22)."""
    assert (
        node.run(3600, **(HEALTHY | {"pcie_generation_current": 1, "gpu_utilization_percent": 0}))
        == []
    )


def test_a_link_that_retrains_for_a_moment_is_silent(node: Feed) -> None:
    """One reading in six at a lower width and generation: the link had
    both within the same minute.
    """
    for n in range(60):
        low = n % 6 == 0
        assert (
            node.once(
                **(
                    HEALTHY
                    | {
                        "pcie_width_current": 8 if low else 16,
                        "pcie_generation_current": 1 if low else 5,
                    }
                )
            )
            == []
        )


@pytest.mark.slow
def test_a_link_that_never_had_more_lanes_is_silent(node: Feed) -> None:
    """The maximum that NVML gives is that of GPU and slot together."""
    assert node.run(3600, **(HEALTHY | {"pcie_width_current": 8, "pcie_width_maximum": 8})) == []


def test_five_bad_minutes_of_replays_are_a_ticket(node: Feed) -> None:
    """A minute may have 31 and has 60: a ticket within ten minutes."""
    findings = node.run(600, **(HEALTHY | {"pcie_replays": one(1.0, 0.01)}))
    assert open_findings(findings) == [("gpu", "GPU-n1-4", REPLAYS, "ticket")]
    assert (
        "60 packets retransmitted in 1 min; the specification allows 31" in findings[0].evidence[0]
    )


def test_one_minute_with_thousands_of_replays_is_silent(node: Feed) -> None:
    """The count does not matter, only how many minutes were bad."""
    assert node.once(**(HEALTHY | {"pcie_replays": 5000})) == []
    assert node.run(600, **HEALTHY) == []


@pytest.mark.slow
def test_replays_within_the_specification_are_silent(node: Feed) -> None:
    """30 a minute for six hours on x16 of generation 5."""
    assert node.run(21600, **(HEALTHY | {"pcie_replays": 0.5})) == []


def test_a_reload_of_the_driver_makes_no_replays(node: Feed) -> None:
    """DCGM takes the difference without its sign: 500 before and 0 after a
    reload would be 500 replays.
    """
    for _ in range(12):
        node.restart_counters()
        assert node.run(60, **HEALTHY) == []


@pytest.mark.slow
def test_a_healthy_link_alarms_once_in_ten_thousand_gpu_months() -> None:
    """The limit at one bad minute in a thousand: 0.0001 false alarms in the
    43200 minutes of a GPU-month.
    """
    assert round(43200 / bernoulli_arl(0.001, 0.001, 0.025, H), 4) == 0.0001


@pytest.mark.slow
def test_a_fatal_error_is_paged_at_once_and_ends_with_the_reset(node: Feed) -> None:
    """One more on the counter."""
    findings = node.once(**(HEALTHY | {"pcie_fatal_errors": one(1, 0)}))
    assert open_findings(findings) == [("gpu", "GPU-n1-4", FATAL, "page")]
    assert node.run(3600, **HEALTHY) == []
    node.restart_counters()
    assert updates(node.once(**HEALTHY)) == [("gpu", "GPU-n1-4", FATAL, "page", "cleared")]


@pytest.mark.slow
def test_a_fatal_error_ends_after_a_clean_day() -> None:
    """Without a reset: 24 hours without another."""
    node = Feed(Pcie(), period_s=60)
    node.run(600, **HEALTHY)
    node.once(**(HEALTHY | {"pcie_fatal_errors": one(1, 0)}))
    assert node.run(86000, **HEALTHY) == []
    assert [f.phase for f in node.run(1200, **HEALTHY)] == ["cleared"]


def test_fatal_errors_of_another_life_are_silent() -> None:
    """An old count at start is no news."""
    feed = Feed(Pcie())
    assert feed.run(600, **(HEALTHY | {"pcie_fatal_errors": 0})) == []


def test_the_kernels_fatal_line_is_paged_of_the_port_it_names(node: Feed) -> None:
    """PCIe advanced error reporting reports network adapters too."""
    port = Device("n1", "ib_port", "0x1")
    findings = node.event(
        port,
        "pcie_error",
        severity="fatal",
        text="mlx5_core 0000:5e:00.0: PCIe Bus Error: severity=Uncorrected (Fatal)",
    )
    assert open_findings(findings) == [("ib_port", "0x1", FATAL, "page")]


@pytest.mark.parametrize("severity", ["corrected", "nonfatal"])
def test_corrected_and_nonfatal_lines_are_silent(node: Feed, severity: str) -> None:
    """The link or the driver put them right."""
    assert node.event(node.gpus[0], "pcie_error", severity=severity) == []


def test_an_old_fatal_line_at_start_is_silent(node: Feed) -> None:
    """What is in the log from days ago, or from the boot before, is no news."""
    assert (
        node.event(node.gpus[0], "pcie_error", severity="fatal", before_start=True, ago_s=86400)
        == []
    )
    assert (
        node.event(node.gpus[0], "pcie_error", severity="fatal", previous_boot=True, ago_s=300)
        == []
    )


def test_width_ends_when_the_lanes_are_back(node: Feed) -> None:
    """Five minutes at full width."""
    node.run(180, **(HEALTHY | {"pcie_width_current": one(8, 16)}))
    assert updates(node.run(420, **HEALTHY)) == [("gpu", "GPU-n1-4", WIDTH, "page", "cleared")]


def test_a_low_generation_ends_when_the_idle_link_shows_the_highest(node: Feed) -> None:
    """A drained node gets no load while the page is open: full speed at rest is full speed."""
    node.run(180, **(HEALTHY | {"pcie_generation_current": one(3, 5)}))
    idle = HEALTHY | {"gpu_utilization_percent": 0}
    assert updates(node.run(420, **idle)) == [("gpu", "GPU-n1-4", GENERATION, "page", "cleared")]


@pytest.mark.slow
def test_a_low_generation_and_replays_end_on_an_idle_node_after_a_new_life_alone(
    node: Feed,
) -> None:
    """At rest at generation 1 nothing is proved, until a repair has begun another epoch: load
    shows again what is left.
    """
    node.run(
        600, **(HEALTHY | {"pcie_generation_current": one(3, 5), "pcie_replays": one(1.0, 0.01)})
    )
    idle = HEALTHY | {"gpu_utilization_percent": 0, "pcie_generation_current": 1}
    assert node.run(6 * 3600, **idle) == []
    node.restart_counters()
    assert node.run(300, **(HEALTHY | {"pcie_generation_current": one(3, 5)})) == []
    assert node.run(3 * 3600, **idle) == []
    node.restart_counters()
    over = node.run(3 * 3600, **idle)
    assert [(f.fault, f.phase) for f in over] == [(GENERATION, "cleared"), (REPLAYS, "cleared")]


@pytest.mark.slow
def test_replays_end_after_two_clean_hours_of_load(node: Feed) -> None:
    """And not while the GPU idles, which proves nothing."""
    node.run(600, **(HEALTHY | {"pcie_replays": one(1.0, 0.01)}))
    assert node.run(4 * 3600, **(HEALTHY | {"gpu_utilization_percent": 0})) == []
    assert updates(node.run(8000, **HEALTHY)) == [("gpu", "GPU-n1-4", REPLAYS, "ticket", "cleared")]
