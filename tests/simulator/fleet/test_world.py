"""The healthy world: its marginals, what counters integrate, what is read of it."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from simulator.fleet import load_scenario, render
from simulator.fleet.demand import Work
from simulator.fleet.jobs import schedule
from simulator.fleet.settings import Settings
from simulator.workload import Workload
from tests.scenarios.traces import Trace, rendered, trace

POWER, CLOCK, TEMPERATURE = "power_milliwatts", "sm_clock_megahertz", "temperature_celsius"


@pytest.fixture(scope="module")
def healthy() -> Trace:
    """Half a day of 16 nodes that work as they should."""
    names = (
        POWER,
        CLOCK,
        TEMPERATURE,
        "energy_millijoules",
        "gpu_utilization_percent",
        "tensor_activity_percent",
    )
    return trace(rendered("H00", nodes=16), "gpu", *names)


def training(shown: Trace) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """Readings of GPUs in training."""
    return np.asarray(np.nan_to_num(shown.values["tensor_activity_percent"]) > 20)


@pytest.mark.slow
def test_power_by_phase(healthy: Trace) -> None:
    """A GPU draws 75 W idle, about 120 W in a checkpoint, and 380 to 680 W on
    average over a job's training.
    """
    power, use = healthy.values[POWER] / 1000, healthy.values["gpu_utilization_percent"]
    assert np.nanmedian(power[use == 0]) == pytest.approx(75, abs=4)
    assert np.nanmedian(power[use == 6]) == pytest.approx(120, abs=8)
    works = np.where(training(healthy), power, np.nan)
    assert np.nanpercentile(works, 5) > 290  # the waiting part of a step draws less
    assert np.nanpercentile(works, 95) < 690


def test_temperature_follows_power(healthy: Trace) -> None:
    """Busy GPUs lie at 45 to 75 C, and no healthy one reaches its highest operating temperature."""
    busy = healthy.values[TEMPERATURE][training(healthy)]
    assert np.nanpercentile(busy, 5) > 45
    assert np.nanpercentile(busy, 99) < 78
    assert np.nanmax(healthy.values[TEMPERATURE]) < 87


def test_spread_of_clocks(healthy: Trace) -> None:
    """Mean clocks of GPUs differ by 2.5 % of silicon and 0.8 % of the job; one GPU's own clock
    wanders by 1 %, slowly, with rare spikes.
    """
    ln_clock = np.log(np.where(training(healthy), healthy.values[CLOCK], np.nan))
    ln_clock = ln_clock[:, np.isfinite(ln_clock).sum(axis=0) > 1000]
    spikes = ln_clock < np.nanmedian(ln_clock, axis=0) - 0.2
    assert np.nansum(spikes) / np.isfinite(ln_clock).sum() == pytest.approx(0.0005, rel=0.3)
    ln_clock[spikes] = np.nan
    assert np.nanstd(np.nanmean(ln_clock, axis=0)) == pytest.approx(np.hypot(0.025, 0.008), rel=0.2)
    wander = ln_clock - np.nanmean(ln_clock, axis=0)
    assert np.sqrt(np.nanmean(wander**2)) == pytest.approx(
        0.0105, rel=0.2
    )  # steps of 15 MHz add a little
    lagged = np.nanmean(wander[1:] * wander[:-1]) / np.nanmean(wander**2)
    assert lagged == pytest.approx(0.95 * (1 - 0.08), abs=0.08)


def test_energy_is_power_over_time(healthy: Trace) -> None:
    """Over hours the energy counter gains what the power readings say,
    though they see instants only.
    """
    energy, power = healthy.values["energy_millijoules"], healthy.values[POWER]
    for gpu in range(0, 128, 16):
        at = np.flatnonzero(~np.isnan(energy[:, gpu]))
        gained = energy[at[-1], gpu] - energy[at[0], gpu]
        assert gained == pytest.approx(np.nanmean(power[:, gpu]) * (at[-1] - at[0]) * 10, rel=0.03)
        assert (np.diff(energy[at, gpu]) > 0).all()


def test_losses(healthy: Trace) -> None:
    """Half a percent of a node's readings never arrive, all its GPUs together."""
    missing = np.isnan(healthy.values[POWER])
    assert missing.mean() == pytest.approx(0.005, rel=0.25)
    assert (missing[:, :8].all(axis=1) == missing[:, :8].any(axis=1)).all()


def test_driver_stamps() -> None:
    """Stamps of the driver lie before the reading by less than the jitter, in whole microseconds,
    alike for all GPUs of a node.
    """
    for observation in render(load_scenario("H00"), 1, days=0.01, nodes=2).observations():
        if observation.source == "nvml":
            stamps = observation.frames[0].sampled_ns
            assert (
                (observation.time_ns - stamps >= 0) & (observation.time_ns - stamps <= 0.4e9)
            ).all()
            assert (stamps % 1000 == 0).all()
            assert len(set(stamps[:8].tolist())) == 1


def test_energy_at_the_stamp() -> None:
    """A counter holds what it held at the driver's stamp: its rate by stamps is that of the
    power, late readings or not.
    """
    scenario = load_scenario("H05")
    scenario = replace(
        scenario, world=replace(scenario.world, jitter_s=8.0, loss=0.0, power_noise=0.0)
    )
    rates = []
    last: (
        tuple[
            np.ndarray[tuple[int], np.dtype[np.float64]], np.ndarray[tuple[int], np.dtype[np.int64]]
        ]
        | None
    ) = None
    for observation in render(scenario, 1, days=0.02, nodes=1).observations():
        if observation.source == "nvml":
            frame = observation.frames[0]
            energy, stamps = (
                frame.counter("energy_millijoules")[0].astype(np.float64),
                frame.sampled_ns,
            )
            if last is not None:
                rates.append((energy - last[0]) / ((stamps - last[1]) / 1e9))
            last = energy, stamps
    assert (
        np.std(np.array(rates), axis=0).max() < 2.0
    )  # milliwatts: the counter's steps; readings are up to 8 s late


@pytest.mark.slow
def test_resolution_does_not_matter() -> None:
    """At a second or ten the same GPUs do the same work: energies of an
    hour agree within a percent.
    """

    def energy(step_s: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        run = render(load_scenario("H00"), 1, days=1 / 12, nodes=2, step_s=step_s)
        values = trace(run, "gpu", "energy_millijoules").values["energy_millijoules"]
        return np.asarray(np.nanmax(values, axis=0))

    assert energy(1.0) == pytest.approx(energy(10.0), rel=0.03)


@pytest.mark.slow
def test_demand_is_the_nodes_own() -> None:
    """One job asks the same of a fleet's node as of a single simulated node, phase by phase."""
    settings = Settings(jobs="one", first_checkpoint_s=0.0)
    job = schedule(np.random.default_rng(3), settings, 1, 3600.0)[0]
    node = Workload(np.random.default_rng(0))
    node.job = replace(job.work, start_s=job.start_s)
    work = Work(1, settings.eval_s)
    work.start(job)
    times = job.start_s + 7.0 + 10.0 * np.arange(3000.0)
    found = work.demands(times, 10.0)
    phases = set()
    for tick, time in enumerate(times.tolist()):
        demand = node.demand(time - 10, time)
        phases.add(demand.phase)
        mean_load = found.load[tick, 0] * (1 - found.waits[tick, 0] + 0.62 * found.waits[tick, 0])
        assert mean_load == pytest.approx(demand.load, abs=1e-9), (time, demand.phase)
        for word in ("busy", "tensor", "dram", "nvlink", "fabric", "pcie"):
            assert getattr(found, word)[tick, 0] == pytest.approx(
                getattr(demand, word), abs=1e-9
            ), (time, demand.phase, word)
    assert {"idle", "init", "train", "checkpoint", "eval"} <= phases | {"idle"}


def test_sizes_of_jobs() -> None:
    """Jobs hold whole nodes, 8 to 512 GPUs with a median of about 48, never two on one
    node, and last 6 to 72 hours.
    """
    jobs = schedule(np.random.default_rng(1), Settings(), 64, 60 * 86400.0)
    sizes = [8 * len(job.nodes) for job in jobs]
    assert min(sizes) >= 8
    assert max(sizes) <= 512
    assert 24 <= np.median(sizes) <= 80
    assert all(6 * 3600 <= job.end_s - job.start_s <= 73 * 3600 for job in jobs)
    for node in range(64):
        spans = sorted((job.start_s, job.end_s) for job in jobs if node in job.nodes)
        assert all(end < start for (_, end), (start, _) in itertools.pairwise(spans))


@pytest.mark.slow
def test_a_narrow_register_ends_where_it_ends() -> None:
    """A counter of 16 bits never shows more than 65535, one of 8 bits never more than
    255, and neither falls back.
    """
    run = render(load_scenario("F19"), 3, magnitude=3.0, days=0.6, nodes=4, step_s=60)
    errors = trace(run, "ib_port", "symbol_errors").values["symbol_errors"]
    assert np.nanmax(errors) <= 65535
    assert np.nanmin(np.diff(errors, axis=0)) >= 0


@pytest.mark.slow
def test_jobs_are_told() -> None:
    """A job's start names its GPUs on each of its hosts, its end how it ended."""
    run = rendered("H00", nodes=4, days=1.0)
    shown = trace(run, "gpu", "state")
    started = [event for event in shown.events if event.kind == "job_started"]
    job = run.topology.jobs[0]
    own = [event for event in started if event.attributes["job"] == job.id]
    assert {event.device.host for event in own} == {f"node-{node:04d}" for node in job.nodes}
    assert own[0].attributes["gpus"] == " ".join(
        d.id for d in run.topology.gpus if d.host == own[0].device.host
    )
    assert run.topology.job_at(own[0].device.host, own[0].time_ns + 10**9) is job
