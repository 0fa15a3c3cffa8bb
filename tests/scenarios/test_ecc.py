"""Memory faults: what the counters, the remapper and the kernel log show."""

from __future__ import annotations

import numpy as np
import pytest

from tests.scenarios.traces import codes, rendered, trace

pytestmark = pytest.mark.slow

ERRORS = "ecc_corrected_aggregate"
HOUR = 360  # ticks


def hits_of(hours: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """Share of hours in which a counter went up."""
    return float(np.mean(np.diff(hours[::HOUR]) > 0))


def test_f01_hours_with_errors() -> None:
    """F01: as many hours bring errors as the magnitude says, and the other GPUs of the node
    stay at the fleet's rate.
    """
    run = rendered("F01", days=8.0, nodes=4, magnitude=0.2, step_s=60)
    shown = trace(run, "gpu", ERRORS)
    shares = []
    for truth in run.truth:
        _, during = shown.during(truth, truth.entity, ERRORS)
        hours = np.diff(during[::60]) > 0
        shares.append(np.nanmean(hours))
        assert 0.1 < shares[-1] < 0.35  # four standard deviations of 168 hours at 0.2
    faulty = {truth.entity for truth in run.truth}
    others = [shown.column(device, ERRORS) for device in shown.devices if device not in faulty]
    assert np.mean([np.nanmax(column) > 20 for column in others]) < 0.2


def test_f02_storm_then_hit() -> None:
    """F02: correctable errors between onset and evidence, then one uncorrectable error with XIDs
    48, 63 and 94, and a pending remap.
    """
    run = rendered("F02", days=2.0, magnitude=12.0, step_s=60)
    shown = trace(run, "gpu", ERRORS, "ecc_uncorrected_volatile", "row_remap_pending")
    truth = run.truth[0]
    assert codes(shown.reported(truth, device=truth.entity))[:4] == [92, 48, 63, 94]
    assert (truth.evident_ns - truth.onset_ns) / 3.6e12 == pytest.approx(12.0, abs=0.05)
    hit, column = shown.at(truth.evident_ns), shown.column(truth.entity, ERRORS)
    assert column[hit - 2] > column[shown.at(truth.onset_ns)]
    assert np.nanmax(shown.column(truth.entity, "ecc_uncorrected_volatile")[:hit]) == 0
    assert shown.column(truth.entity, "row_remap_pending")[hit + 1] == 1
    job = run.topology.job_at(run.topology.node_of(truth.entity.id), truth.evident_ns + 60 * 10**9)  # type: ignore[union-attr] # a GPU
    assert job is None


def test_f03_uncontained() -> None:
    """F03: XID 95 and 154 within two seconds, the recovery action stands until the reset, which
    clears volatile counters only.
    """
    run = rendered("F03", days=1.0)
    shown = trace(
        run, "gpu", "recovery_action", "ecc_uncorrected_volatile", "ecc_uncorrected_aggregate"
    )
    for truth in run.truth:
        assert codes(shown.reported(truth, device=truth.entity))[:4] == [48, 63, 95, 154]
        _, action = shown.during(truth, truth.entity, "recovery_action")
        assert set(action[~np.isnan(action)]) == {1.0}
    short = min(run.truth, key=lambda truth: truth.end_ns)
    after = slice(shown.at(short.end_ns) + 2, None)
    assert np.nanmax(shown.column(short.entity, "ecc_uncorrected_volatile")[after]) == 0
    assert np.nanmin(shown.column(short.entity, "ecc_uncorrected_aggregate")[after]) == 1


def test_f04_rows_run_out() -> None:
    """F04: a bank has no spare row left at the first truth's evidence; the next remap fails
    with XID 64 at the second's.
    """
    run = rendered("F04", days=2.0, magnitude=8.0)
    shown = trace(
        run, "gpu", "row_remap_banks_none", "row_remap_failed", "remapped_rows_uncorrectable"
    )
    none = [truth for truth in run.truth if truth.id.endswith("/none")]
    failed = [truth for truth in run.truth if truth.id.endswith("/failed")]
    assert none
    assert failed
    for truth in none:
        column, at = shown.column(truth.entity, "row_remap_banks_none"), shown.at(truth.evident_ns)
        assert np.nanmax(column[:at]) == 0
        assert np.nanmin(column[at : at + 2]) == 1
        assert np.nanmax(shown.column(truth.entity, "remapped_rows_uncorrectable")) == 8
    for truth in failed:
        column, at = shown.column(truth.entity, "row_remap_failed"), shown.at(truth.onset_ns)
        assert np.nanmax(column[:at]) == 0
        assert np.nanmax(column[at : at + 3]) == 1
        assert 64 in codes(shown.reported(truth, device=truth.entity))


def test_f05_sram_threshold() -> None:
    """F05: the flag comes with the last of at least five parity errors, not before."""
    run = rendered("F05", days=1.0)
    shown = trace(run, "gpu", "sram_threshold_exceeded", "sram_parity_volatile")
    for truth in run.truth:
        flag, at = shown.column(truth.entity, "sram_threshold_exceeded"), shown.at(truth.evident_ns)
        assert np.nanmax(flag[:at]) == 0
        assert np.nanmin(flag[at : at + 2]) == 1
        assert np.nanmax(shown.column(truth.entity, "sram_parity_volatile")[: at + 2]) >= 5
