"""Faults of cooling, power and clocks: what sensors and nanosecond counters show."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.frame import Device
from tests.scenarios.traces import Floats, rendered, trace

pytestmark = pytest.mark.slow

MINUTE = 60 / 10  # ticks
TRAINING_W = 250_000  # milliwatts: below it a GPU does not train


def busy(power: Floats) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Readings in which a GPU trains."""
    return np.asarray(np.nan_to_num(power) > TRAINING_W)


def duty(counter: Floats, step_s: float) -> float:
    """Share of time that a nanosecond counter ran, over all readings there are."""
    at = np.flatnonzero(~np.isnan(counter))
    return float((counter[at[-1]] - counter[at[0]]) / ((at[-1] - at[0]) * step_s * 1e9))


def test_f10_resistance_jumps() -> None:
    """F10: kelvin per watt over the room jump by the magnitude; where the verdict is a page,
    hardware slowdown runs for a third of the time.
    """
    run = rendered("F10", days=7.0, nodes=8, step_s=60)
    shown = trace(
        run, "gpu", "temperature_celsius", "power_milliwatts", "throttled_hw_thermal_nanoseconds"
    )
    assert {truth.severity for truth in run.truth} == {"page", "ticket"}
    for truth in run.truth:
        onset = shown.at(truth.onset_ns)
        temperature, power = (
            shown.column(truth.entity, name) for name in ("temperature_celsius", "power_milliwatts")
        )
        resistance = (temperature - 30) / (power / 1000)
        works = busy(power)
        before, after = (
            np.nanmedian(resistance[a:b][works[a:b]])
            for a, b in ((onset - 60, onset), (onset + 10, onset + 120))
        )
        _, slowed = shown.during(truth, truth.entity, "throttled_hw_thermal_nanoseconds")
        if truth.severity == "page":
            assert 0.2 < duty(slowed[:110], 60) < 0.4  # the job trains for two hours at least
        else:
            assert after - before == pytest.approx(
                0.4 * 0.055, rel=0.3
            )  # kelvin per watt; GPUs differ by 6 %, the room drifts


def test_f11_ages() -> None:
    """F11: the thermal resistance grows day by day; a GPU beside it does not change."""
    run = rendered("F11", days=12.0, nodes=8, step_s=120)
    shown = trace(run, "gpu", "temperature_celsius", "power_milliwatts")
    truth, step = run.truth[0], 720  # of a day
    peer = next(
        device
        for device in shown.devices
        if device.host == truth.entity.host and device != truth.entity  # type: ignore[union-attr]
    )
    medians = {}
    for device in (truth.entity, peer):
        temperature, power = (
            shown.column(device, name) for name in ("temperature_celsius", "power_milliwatts")
        )
        resistance = np.where(busy(power), (temperature - 30) / (power / 1000), np.nan)
        onset = shown.at(truth.onset_ns)
        medians[device] = np.nanmedian(resistance[-step:]) / np.nanmedian(
            resistance[onset - step : onset]
        )
    assert medians[truth.entity] > 1.25
    assert medians[peer] == pytest.approx(1.0, abs=0.08)


def test_f12_rack_warms() -> None:
    """F12: all GPUs of the rack warm up by the rise against the other racks; nobody else does."""
    run = rendered("F12", nodes=32, days=0.5)
    shown = trace(run, "gpu", "temperature_celsius")
    truth = run.truth[0]
    minutes = 25
    onset = shown.at(truth.onset_ns)
    rows = np.array([device in truth.members for device in shown.devices])
    assert rows.sum() == 64
    change = np.nanmean(
        shown.values["temperature_celsius"][onset + minutes * 6 - 30 : onset + minutes * 6], axis=0
    )
    change = change - np.nanmean(shown.values["temperature_celsius"][onset - 30 : onset], axis=0)
    assert np.nanmedian(change[rows]) - np.nanmedian(change[~rows]) == pytest.approx(
        0.5 * (minutes - 2.5), abs=5
    )


def test_f13_memory_only() -> None:
    """F13: memory reads over its limit at first, software slowdown runs in most of the training
    time, and hardware slowdown never.
    """
    run = rendered("F13")
    names = (
        "memory_temperature_celsius",
        "throttled_sw_thermal_nanoseconds",
        "throttled_hw_thermal_nanoseconds",
    )
    shown = trace(run, "gpu", *names)
    for truth in run.truth:
        _, memory = shown.during(truth, truth.entity, names[0])
        assert np.nanmax(memory) >= 95
        assert duty(shown.during(truth, truth.entity, names[1])[1][20:], 10) > 0.4
        assert np.nanmax(shown.column(truth.entity, names[2])) == 0


def test_f14_pulses_between_readings() -> None:
    """F14: the brake's counter of all eight GPUs runs for the share of time that is the magnitude;
    the mask shows it in as few readings.
    """
    run = rendered("F14", magnitude=0.05)
    shown = trace(run, "gpu", "throttled_hw_power_brake_nanoseconds", "clock_event_reasons")
    for truth in run.truth:
        assert len(truth.members) == 8
        seen = []
        for gpu in truth.members:
            before, during = shown.during(truth, gpu, "throttled_hw_power_brake_nanoseconds")
            assert np.nanmax(before[-60:]) == np.nanmin(before[-60:])
            assert duty(during, 10) == pytest.approx(0.05, rel=0.1)
            _, mask = shown.during(truth, gpu, "clock_event_reasons")
            seen.append(np.mean(np.nan_to_num(mask).astype(int) & 0x80 > 0))
        assert 0.02 < np.mean(seen) < 0.09


def test_f15_limit() -> None:
    """F15: the enforced limit is below the default by the magnitude and above the requested one
    never changes; whole nodes have eight.
    """
    run = rendered("F15", nodes=16)
    names = (
        "power_limit_enforced_milliwatts",
        "power_limit_requested_milliwatts",
        "power_limit_default_milliwatts",
    )
    shown = trace(run, "gpu", *names)
    for truth in run.truth:
        gpus = truth.members or (truth.entity,)
        assert len(gpus) == (8 if truth.entity_kind == "node" else 1)
        for gpu in gpus:
            _, enforced = shown.during(truth, gpu, names[0])
            assert set(enforced[~np.isnan(enforced)]) == {560_000.0}
            for name in names[1:]:
                assert np.nanmin(shown.column(gpu, name)) == 700_000.0


def test_f30_less_power() -> None:
    """F30: dynamic power at the same clock falls by the magnitude against the job's other GPUs."""
    run = rendered("F30", nodes=12, days=1.0)
    shown = trace(run, "gpu", "power_milliwatts", "sm_clock_megahertz")
    for truth in run.truth:
        job = run.topology.job_at(truth.entity.host, truth.onset_ns)  # type: ignore[union-attr] # a GPU
        assert job is not None
        peers = [d for d in shown.devices if int(d.host[-4:]) in job.nodes and d != truth.entity]
        onset = shown.at(truth.onset_ns)
        span, past = slice(onset + 6, onset + 360), slice(onset - 360, onset)
        ratios = []
        for name in ("power_milliwatts", "sm_clock_megahertz"):
            relative = shown.column(truth.entity, name) / np.nanmedian(
                [shown.column(peer, name) for peer in peers], axis=0
            )
            ratios.append(float(np.nanmedian(relative[span]) / np.nanmedian(relative[past])))
        assert 0.8 < ratios[0] < 0.92  # of the whole power, idle power included
        assert ratios[1] == pytest.approx(1.0, abs=0.02)


def test_f47_one_gpu_is_at_its_limit_and_behind() -> None:
    """F47: the GPU is capped for most of its working time, its clock is below the median of its
    node by 2 % and more, and half of its neighbours are capped less than half as much.
    """
    capped, clock = "throttled_power_cap_nanoseconds", "sm_clock_megahertz"
    run = rendered("F47", magnitude=0.25)
    shown = trace(run, "gpu", capped, clock, "power_milliwatts")
    assert run.truth
    for truth in run.truth:
        gpu = truth.entity
        assert isinstance(gpu, Device)
        node = [device for device in shown.devices if device.host == gpu.host]
        span = slice(shown.at(truth.onset_ns) + 2, shown.at(truth.onset_ns) + 180)
        shares = {d: duty(shown.column(d, capped)[span], 10) for d in node}
        works = busy(shown.column(gpu, "power_milliwatts")[span])
        clocks = {d: np.nanmedian(shown.column(d, clock)[span][works]) for d in node}
        peers = [device for device in node if device != gpu]
        assert np.median([shares[peer] for peer in peers]) < shares[gpu] / 2
        assert clocks[gpu] < 0.98 * np.median([clocks[peer] for peer in peers])
