"""Healthy situations: each really shows what could be taken for trouble, and none has a truth."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.fleet import load_scenario, render, scenario_ids
from tests.scenarios.traces import codes, rendered, trace, traces

pytestmark = pytest.mark.slow

UTILISATION, CLOCK, POWER = "gpu_utilization_percent", "sm_clock_megahertz", "power_milliwatts"
HEALTHY = [name for name in scenario_ids() if name.startswith("H")]


@pytest.mark.parametrize("name", HEALTHY)
def test_nothing_is_wrong(name: str) -> None:
    """No healthy scenario has a truth: whatever is told of it is a false alarm."""
    assert render(load_scenario(name), 1).truth == ()


def longest(flags: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int:
    """Ticks of the longest run."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(int), [0]))))
    return int(np.max(edges[1::2] - edges[::2], initial=0))


def test_h01_first_checkpoint_is_longest() -> None:
    """H01: pauses of minutes, and one of more than half an hour in the first hours of a job."""
    shown = trace(rendered("H01", nodes=4), "gpu", UTILISATION)
    pause = max(longest((column > 0) & (column < 20)) for column in shown.values[UTILISATION].T)
    assert pause * 10 > 1500


def test_h02_short_jobs() -> None:
    """H02: dozens of jobs per node and day, none longer than eight minutes."""
    run = rendered("H02")
    assert len(run.topology.jobs) > 100
    assert max(job.end_s - job.start_s for job in run.topology.jobs) < 500


def test_h03_long_start() -> None:
    """H03: processes hold their GPUs for ten minutes and more before anything is computed."""
    shown = trace(rendered("H03", nodes=4), "gpu", UTILISATION, "compute_processes")
    waits = (shown.values["compute_processes"] == 1) & (shown.values[UTILISATION] < 10)
    assert max(longest(column) for column in waits.T) * 10 > 550


def test_h04_evaluations() -> None:
    """H04: for about half an hour at a time a training job runs at reduced load."""
    shown = trace(rendered("H04", nodes=4), "gpu", UTILISATION)
    assert any(
        100 < longest((column > 70) & (column < 90)) < 200 for column in shown.values[UTILISATION].T
    )


def test_h05_idle() -> None:
    """H05: nobody works, power is that of idle GPUs, and temperatures drift with
    the room by several kelvin.
    """
    shown = trace(
        rendered("H05", days=1.0, nodes=4), "gpu", POWER, "temperature_celsius", UTILISATION
    )
    assert np.nanmax(shown.values[UTILISATION]) == 0
    assert np.nanmax(shown.values[POWER]) < 100_000
    assert (
        np.nanmax(shown.values["temperature_celsius"][:, 0])
        - np.nanmin(shown.values["temperature_celsius"][:, 0])
        >= 6
    )


def test_h06_stages_differ() -> None:
    """H06: GPUs of one job differ in power by a fifth and more for hours, and the clocks under
    the power limit with them.
    """
    run = rendered("H06", nodes=16)
    shown = trace(run, "gpu", POWER, CLOCK)
    job = max(run.topology.jobs, key=lambda job: len(job.nodes))
    rows = [8 * node for node in job.nodes]
    span = slice(int(job.train_s / 10) + 10, int(job.train_s / 10) + 400)
    power = np.nanmedian(shown.values[POWER][span][:, rows], axis=0)
    assert power.max() / power.min() > 1.15


def test_h07_mixed() -> None:
    """H07: two models with their own limits in one job, and some nodes under a
    limit that was asked for.
    """
    run = rendered("H07")
    shown = trace(run, "gpu", "power_limit_enforced_milliwatts", "power_limit_requested_milliwatts")
    assert len({device.attributes["name"] for device in shown.devices}) == 2
    enforced, requested = (
        shown.values[f"power_limit_{word}_milliwatts"][-1] for word in ("enforced", "requested")
    )
    known = ~np.isnan(enforced)
    assert (enforced[known] == requested[known]).all()
    assert len(set(enforced[known])) > 2


def test_h08_capped() -> None:
    """H08: training GPUs run into the power limit for most of the time, by
    the counter of nanoseconds.
    """
    shown = trace(rendered("H08"), "gpu", "throttled_power_cap_nanoseconds")
    share = np.nanmax(shown.values["throttled_power_cap_nanoseconds"], axis=0) / (0.5 * 86400e9)
    assert np.mean(share > 0.5) > 0.5


def test_h09_settings() -> None:
    """H09: application clocks, ECC mode and MIG mode change on some nodes."""
    names = ("sm_application_clock_megahertz", "ecc_mode_pending", "mig_mode_current")
    shown = trace(rendered("H09", nodes=16, days=3.0, step_s=30), "gpu", *names)
    assert all(np.nanmax(shown.values[name]) != np.nanmin(shown.values[name]) for name in names)


def test_h10_reload() -> None:
    """H10: energy counters begin again, the index of a GPU changes and its identity does not, the
    kernel says that the driver was loaded.
    """
    run = rendered("H10", nodes=4, days=4.0, step_s=30)
    energy = trace(run, "gpu", "energy_millijoules")
    values = energy.values["energy_millijoules"]
    assert (np.fmax.accumulate(values, axis=0) > values).any()
    assert {device.id for device in energy.devices} == {device.id for device in run.topology.gpus}
    before = {device.id: device.attributes["index"] for device in run.topology.gpus}
    assert any(before[device.id] != device.attributes["index"] for device in energy.devices)
    assert any(event.kind == "module_loaded" for event in energy.events)


def test_h11_swap() -> None:
    """H11: another UUID stands at the same PCI address; the node's boot id is another."""
    run = rendered("H11", nodes=4, days=4.0, step_s=30)
    shown, nodes = traces(run, gpu=("state",), node=("gpus_visible",))
    changed = [
        (old, new) for old, new in zip(run.topology.gpus, shown.devices, strict=True) if old != new
    ]
    assert changed
    for old, new in changed:
        assert old.attributes["pci_bus_id"] == new.attributes["pci_bus_id"]
        assert old.host == new.host
    assert any(
        old.attributes["boot_id"] != new.attributes["boot_id"]
        for old, new in zip(run.topology.node_devices, nodes.devices, strict=True)
    )


def test_h12_counters_begin_anew() -> None:
    """H12: all port counters fall back together, and PCIe byte counters wrap at their end."""
    run = rendered("H12", days=1.0)
    ports, gpus = traces(run, ib_port=("transmit_words",), gpu=("pcie_receive_bytes",))
    words, pcie = ports.values["transmit_words"], gpus.values["pcie_receive_bytes"]
    assert (np.nansum(np.diff(words, axis=0) < 0, axis=1) > 100).any()
    assert (np.nanmin(np.diff(pcie, axis=0), axis=0) < -(2.0**63)).any()


def test_h13_a_whole_switch() -> None:
    """H13: all nodes lose the port of one rail within a reading, and have it back minutes
    later; no XID comes with it.
    """
    run = rendered("H13", nodes=16)
    shown = trace(run, "ib_port", "state")
    down = np.nansum(shown.values["state"] == 1, axis=1)
    assert down.max() >= 16
    assert not [
        code
        for code in codes([e for e in shown.events if e.kind == "xid"])
        if code not in {13, 31, 43}
    ]
    assert {event.kind for event in shown.events} >= {
        "maintenance_started",
        "maintenance_ended",
        "link_down",
        "link_up",
    }


def test_h14_one_side() -> None:
    """H14: single ports of nodes count one link_downed each."""
    run = rendered("H14", days=1.0)
    shown = trace(run, "ib_port", "link_downed")
    ends = len(run.topology.ports)
    counts = np.nanmax(shown.values["link_downed"], axis=0)[:ends]
    assert 5 < (counts > 0).sum() <= 30
    assert counts.max() <= 3


def test_h15_rolling() -> None:
    """H15: one node after the other is silent for minutes and comes back with another boot;
    half of it is announced.
    """
    run = rendered("H15", nodes=16, days=1.0)
    shown = trace(run, "gpu", "state", "energy_millijoules")
    silent = np.isnan(shown.values["state"])
    gone = [longest(silent[:, 8 * node]) * 10 for node in range(16)]
    assert sum(300 < seconds < 600 for seconds in gone) > 8
    reported = {event.device.host for event in shown.events if event.kind == "maintenance_started"}
    assert 0 < len(reported) < 16


def test_h16_clocks() -> None:
    """H16: drivers' stamps of nodes differ by minutes, some run backwards, readings arrive
    twice and after later ones.
    """
    run = rendered("H16", days=1.0)
    stamps, times, backwards = [], [], 0
    last = None
    for observation in run.observations():
        if observation.source == "nvml":
            times.append(observation.time_ns)
            stamps.append(observation.frames[0].sampled_ns[::8])
            backwards += last is not None and bool((stamps[-1] < last).any())
            last = stamps[-1]
    spread = (np.array(stamps).max(axis=1) - np.array(stamps).min(axis=1)) / 1e9
    assert spread.min() > 60
    gaps = np.diff(times)
    assert (gaps == 0).any()
    assert (gaps < 0).any()
    assert backwards > 1


def test_h17_losses() -> None:
    """H17: a tenth of the readings is missing and some nodes are silent
    for a quarter of an hour.
    """
    shown = trace(rendered("H17"), "gpu", "state")
    missing = np.isnan(shown.values["state"])
    assert 0.08 < missing.mean() < 0.3
    assert max(longest(column) for column in missing.T) >= 90


def test_h18_values_that_are_none() -> None:
    """H18: among the readings are missing fields and the drivers' sentinels."""
    shown = trace(rendered("H18"), "gpu", POWER, "temperature_celsius")
    assert np.nanmin(shown.values[POWER]) < 0
    assert np.nanmax(shown.values["temperature_celsius"]) > 1e9


def test_h19_restarts() -> None:
    """H19: the run says when agents restart and with what they find, the same each time."""
    run = rendered("H19", days=1.0)
    assert len(run.restarts) == 9
    assert {kind for _, kind in run.restarts} == {"whole", "stale", "damaged"}
    assert run.restarts == rendered("H19", days=1.0).restarts
    assert rendered("H18").restarts == ()


def test_h21_weekend() -> None:
    """H21: fewer jobs start on Saturday and Sunday than on two other days."""
    started = [
        int(job.start_s // 86400)
        for seed in range(20)
        for job in render(load_scenario("H21"), seed).topology.jobs
    ]
    weekend, days = (
        sum(day % 7 in {5, 6} for day in started),
        sum(day % 7 in {2, 3} for day in started),
    )
    assert weekend < 0.8 * days


def test_h22_umbrella() -> None:
    """H22: hardware slowdown stands for single readings without its reasons, and no
    counter of nanoseconds moves.
    """
    shown = trace(
        rendered("H22"),
        "gpu",
        "clock_event_reasons",
        "throttled_hw_thermal_nanoseconds",
        "pcie_generation_current",
    )
    alone = shown.values["clock_event_reasons"] == 8
    assert alone.any()
    assert max(longest(column) for column in alone.T) == 1
    assert np.nanmax(shown.values["throttled_hw_thermal_nanoseconds"]) == 0
    assert 1 in shown.values["pcie_generation_current"]


def test_h23_users() -> None:
    """H23: XIDs 13, 31 and 43 about once an hour in 256 GPUs, and corrected
    errors at the fleet's rate.
    """
    run = rendered("H23", nodes=32, days=1.0)
    shown = trace(run, "gpu", "ecc_corrected_volatile")
    reported = codes([event for event in shown.events if event.kind == "xid"])
    assert set(reported) <= {13, 31, 43}
    assert 20 < len(reported) < 80  # 51 a day if all GPUs worked
    assert (
        2 < np.nanmax(shown.values["ecc_corrected_volatile"], axis=0).astype(bool).sum() < 40
    )  # 12 bursts a day


def test_h24_good_cables() -> None:
    """H24: symbol errors at signalling rate times 1e-16, no more."""
    run = rendered("H24", nodes=32, days=2.0, step_s=60)
    shown = trace(run, "ib_port", "symbol_errors")
    expected = (
        run.topology.profile.ports.signalling_gigabits_per_second
        * 1e9
        * 1e-16
        * 2
        * 86400
        * len(shown.devices)
    )
    assert np.nansum(np.nanmax(shown.values["symbol_errors"], axis=0)) == pytest.approx(
        expected, rel=0.2
    )


def test_h25_benign_remap() -> None:
    """H25: XID 63 with a pending remap of a correctable error, gone after the reset."""
    shown = trace(
        rendered("H25", days=4.0, step_s=30),
        "gpu",
        "row_remap_pending",
        "remapped_rows_correctable",
        "ecc_uncorrected_aggregate",
    )
    assert 63 in codes([event for event in shown.events if event.kind == "xid"])
    assert np.nanmax(shown.values["row_remap_pending"]) == 1
    assert max(longest(column == 1) for column in shown.values["row_remap_pending"].T) <= 12
    assert np.nanmax(shown.values["ecc_uncorrected_aggregate"]) == 0


def test_h26_hot() -> None:
    """H26: all GPUs train at once, five to ten kelvin warmer than in a usual fleet."""
    hot, usual = (
        trace(rendered(name), "gpu", "temperature_celsius").values["temperature_celsius"][2000:]
        for name in ("H26", "H00")
    )
    assert np.nanmedian(np.nanmax(hot, axis=0)) > np.nanmedian(np.nanmax(usual, axis=0)) + 3


def test_h27_steps() -> None:
    """H27: the clocks of a job's GPUs step together through several values of five minutes each."""
    run = rendered("H27")
    shown = trace(run, "gpu", "sm_application_clock_megahertz", CLOCK)
    seen = set(shown.values["sm_application_clock_megahertz"].ravel())
    assert len({value for value in seen if value == value}) >= 4  # noqa: PLR0124 - not NaN
