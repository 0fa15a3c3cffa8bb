"""Counters that were high when the agent came, began again, or were read by others:
only what grows is evidence.
"""

from __future__ import annotations

import pytest

from tests.detectors.regressions.node import JudgedNode

# What an old board shows that has been in service for years; none of it happened today.
OLD_GPU = {
    "ecc_corrected_aggregate": 80_000_000,
    "ecc_uncorrected_aggregate": 12,
    "remapped_rows_correctable": 40,
    "remapped_rows_uncorrectable": 6,
    "retired_pages_single_bit": 9,
    "retired_pages_double_bit": 12,
    "pcie_replays": 100_000,
    "nvlink_replay_errors": 50_000,
    "throttled_hw_thermal_nanoseconds": 10**15,
    "throttled_power_cap_nanoseconds": 10**16,
}
OLD_PORT = {
    "symbol_errors": 60_000,
    "link_downed": 200,
    "link_error_recoveries": 250,
    "receive_errors": 60_000,
    "receive_remote_physical_errors": 60_000,
    "transmit_discards": 60_000,
    "local_link_integrity_errors": 14,
    "buffer_overrun_errors": 14,
}
# Counters that DCGM compares by the absolute difference of two instants.
COMPARED = (
    "pcie_replays",
    "nvlink_replay_errors",
    "nvlink_recovery_errors",
    "nvlink_crc_flit_errors",
    "throttled_hw_thermal_nanoseconds",
    "throttled_sw_thermal_nanoseconds",
    "throttled_hw_power_brake_nanoseconds",
    "throttled_power_cap_nanoseconds",
    "ecc_corrected_volatile",
    "ecc_uncorrected_volatile",
)


def still(*names: str) -> dict[str, float | None]:
    """Counters that are read and do not move."""
    return dict.fromkeys(names, 0)


@pytest.mark.slow
def test_an_old_board_is_not_born_sick() -> None:
    """Sums over a lifetime, as a check that asks for more than 0, 100 or 50 million sees
    them, say nothing about now.
    """
    node = JudgedNode(begin=OLD_GPU | OLD_PORT, period_s=60)
    node.run(2 * 3600, **still(*OLD_GPU, *OLD_PORT))
    assert node.alarms() == []


@pytest.mark.slow
@pytest.mark.parametrize("counter", COMPARED)
def test_a_driver_reload_from_a_large_count_to_nothing_is_no_increase(counter: str) -> None:
    """From 500,000 to 0: neither half a million errors nor half a second of slow-down."""
    node = JudgedNode(begin={counter: 500_000})
    node.run(600, **still(counter))
    node.driver_reload()
    node.run(600, **still(counter))
    assert node.alarms() == []


@pytest.mark.slow
def test_another_exporter_that_resets_full_counters_makes_no_rate() -> None:
    """Every five minutes a program resets the ports' counters, as one InfiniBand exporter does by
    itself: what shows after it is small.
    """
    node = JudgedNode(begin=OLD_PORT, period_s=30)
    for _ in range(8):
        node.run(300, **still(*OLD_PORT))
        for port in node.ports:
            node.count_from_zero(port, *OLD_PORT)
    assert node.alarms() == []


@pytest.mark.slow
def test_remapped_rows_of_one_cause_never_show_as_the_other() -> None:
    """Three correctable remaps are no uncorrectable one: the ticket about
    failing rows stays away.
    """
    node = JudgedNode()
    rows = ("remapped_rows_correctable", "remapped_rows_uncorrectable")
    node.run(600, **still(*rows))
    faulty = node.gpus[2].id
    for _ in range(3):
        node.run(
            10,
            {faulty: {"remapped_rows_correctable": 1, "remapped_rows_uncorrectable": 0}},
            **still(*rows),
        )
        node.run(200, **still(*rows))
    assert node.alarms() == []
    for _ in range(2):
        node.run(
            10,
            {faulty: {"remapped_rows_correctable": 0, "remapped_rows_uncorrectable": 1}},
            **still(*rows),
        )
        node.run(200, **still(*rows))
    assert {(f.device.id, f.fault, f.severity) for f in node.alarms()} == {
        (faulty, "ecc/remaps_repeat", "ticket")
    }


@pytest.mark.slow
def test_fifty_corrected_errors_in_a_day_are_no_alarm() -> None:
    """There is no official limit of single-bit errors: the ten in DCGM's code are
    marked as a dummy there.
    """
    node = JudgedNode(period_s=300)
    quiet = still("ecc_corrected_volatile", "ecc_corrected_aggregate")
    node.run(3600, **quiet)
    node.run(
        300,
        {node.gpus[4].id: {"ecc_corrected_volatile": 50, "ecc_corrected_aggregate": 50}},
        **quiet,
    )
    node.run(12 * 3600, **quiet)
    assert node.alarms() == []
