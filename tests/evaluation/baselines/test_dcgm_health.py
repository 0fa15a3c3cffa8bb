"""DCGM's health checks, with their documented verdicts, right and wrong."""

from __future__ import annotations

import pytest

from evaluation.baselines.dcgm_health import DcgmHealth
from tests.evaluation.baselines.world import Node, Values, outcomes


def test_any_growth_of_the_power_violation_counter_in_a_minute_warns() -> None:
    """One millisecond under the power cap, normal at full load, is a warning; it
    passes again a minute later.
    """
    node = Node(DcgmHealth())
    node.gpus({"throttled_power_cap_nanoseconds": 0})
    assert outcomes(node.gpus({"throttled_power_cap_nanoseconds": 1_000_000})) == [
        ("power violation", "onset", "ticket")
    ]
    assert outcomes(node.gpus({"throttled_power_cap_nanoseconds": 1_000_000}, steps=7)) == [
        ("power violation", "cleared", "ticket")
    ]


def test_a_reload_that_clears_a_counter_counts_as_growth() -> None:
    """PCIe replays 500 before, 0 after the driver was loaded again: a distance of 500 in a
    minute, a warning for nothing.
    """
    node = Node(DcgmHealth())
    assert node.gpus({"pcie_replays": 500}, steps=30) == []
    (finding,) = node.gpus({"pcie_replays": 0}, epoch="b")
    assert (finding.summary, finding.severity, finding.value) == (
        "PCIe replay rate",
        "ticket",
        500.0,
    )


@pytest.mark.slow
def test_a_severe_xid_is_remembered_for_ever() -> None:
    """After a reset and a clean day the GPU still fails: the history is cleared by a restart
    of the host engine only.
    """
    node = Node(DcgmHealth())
    assert outcomes(node.xid(79)) == [("XID 79", "onset", "page")]
    assert node.gpus({}, epoch="b", steps=144, every_s=600) == []


@pytest.mark.parametrize(
    ("shows", "verdict"),
    [
        ({"ecc_uncorrected_volatile": 1}, ("volatile double-bit errors", "onset", "page")),
        ({"row_remap_failed": 1}, ("row remap failed", "onset", "page")),
        ({"remapped_rows_uncorrectable": 512}, ("uncorrectable rows remapped", "onset", "ticket")),
        ({"retired_pages_pending": 1}, ("page retirement pending", "onset", "ticket")),
        ({"inforom_valid": 0}, ("InfoROM corrupt", "onset", "ticket")),
        ({"nvlinks_down": 1}, ("NVLink down", "onset", "page")),
    ],
)
def test_states_that_fail_or_warn(shows: Values, verdict: tuple[str, str, str]) -> None:
    """Each state is reported at the first reading, as a failure or a warning."""
    assert outcomes(Node(DcgmHealth()).gpus(shows)) == [verdict]


def test_replays_are_allowed_eight_a_minute() -> None:
    """Eight pass, nine warn, whatever the link's speed."""
    eight, nine = Node(DcgmHealth()), Node(DcgmHealth())
    eight.gpus({"pcie_replays": 0})
    nine.gpus({"pcie_replays": 0})
    assert eight.gpus({"pcie_replays": 8}) == []
    assert outcomes(nine.gpus({"pcie_replays": 9})) == [("PCIe replay rate", "onset", "ticket")]


def test_single_bit_errors_are_no_verdict() -> None:
    """Its limit for them is a placeholder, and no rule of ours uses it."""
    node = Node(DcgmHealth())
    node.gpus({"ecc_corrected_volatile": 0})
    assert node.gpus({"ecc_corrected_volatile": 100_000}) == []


def test_a_reading_that_is_missing_clears_nothing() -> None:
    """A state that was open before is still open when it could not be read."""
    node = Node(DcgmHealth())
    node.gpus({"row_remap_failed": 1, "ecc_uncorrected_volatile": 2})
    assert node.gpus({}, {"row_remap_failed": None}) == []
