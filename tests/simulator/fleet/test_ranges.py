"""Worlds that differ in everything at once: each row of the table is drawn from the range that it
states, and is in the world.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from simulator.fleet import load_scenario, render
from simulator.fleet.demand import Demands
from simulator.fleet.gpus import FleetGpus
from simulator.fleet.healthy import kernel, rooms, storage, wide
from simulator.fleet.noise import LongNoise, weights
from simulator.fleet.ranges import BEYOND_SHARE, draw, ranges
from simulator.fleet.settings import Settings
from simulator.gpus import HW_THERMAL, SW_THERMAL
from simulator.profile import load_profile

PROFILES = ("hgx-a100", "hgx-h100", "hgx-b200", "gb200")
SEEDS = 60


def drawn(split: str) -> list[dict[str, float]]:
    """What many runs draw."""
    return [draw(np.random.default_rng(seed), split) for seed in range(SEEDS)]  # type: ignore[arg-type]


def test_dev_draws_from_its_range() -> None:
    """Every row of every run."""
    for values in drawn("dev"):
        assert all(row.within(values[name]) for name, row in ranges().items())


def test_test_draws_a_third_of_its_rows_beyond_dev() -> None:
    """At least, and every row from the ranges that are stated."""
    for values in drawn("test"):
        outside = [name for name, row in ranges().items() if not row.within(values[name])]
        assert len(outside) * BEYOND_SHARE >= len(values)
        for name, row in ranges().items():
            spans = (row.dev, *row.beyond)
            assert any(low <= values[name] <= high for low, high in spans), name


def test_test_reaches_what_dev_does_not() -> None:
    """Each row in some run: its extremes there lie outside of all that dev draws."""
    dev, test = drawn("dev"), drawn("test")
    for name in ranges():
        seen = [values[name] for values in dev]
        assert any(not min(seen) <= values[name] <= max(seen) for values in test), name


def test_every_row_is_used() -> None:
    """A row is a setting of the world, or its healthy life draws it."""
    modules = (wide, rooms, storage, kernel)
    code = "".join(Path(str(module.__file__)).read_text() for module in modules)
    derived = {"stage_ratio", "init_s", "missed_share"}
    settings = {field.name for field in fields(Settings)}
    for name in set(ranges()) - derived - settings:
        assert f'("{name}")' in code, name


def test_a_table_with_a_wrong_row_is_refused(tmp_path: Path) -> None:
    """Ranges that overlap, or end before they begin, name their row."""
    for row, message in (
        ("x = { dev = [1, 3], beyond = [[2, 4]] }", "x: beyond overlaps dev"),
        ("x = { dev = [3, 1], beyond = [] }", r"x: \[3, 1\] must be \[low, high\]"),
    ):
        file = tmp_path / f"{len(row)}.toml"
        file.write_text(row)
        with pytest.raises(ValueError, match=message):
            ranges(file)


@pytest.mark.slow
@pytest.mark.parametrize("slow", [0.0, 0.4, 0.8])
def test_noise_has_the_spread_and_the_memory_that_were_asked_for(slow: float) -> None:
    """Means of a minute have this deviation; those of ten minutes scatter less by what the fast
    parts lose; half of the variance is common to a node.
    """
    noise = LongNoise(60, 8, minutes_sd=0.01, slow=slow, shared=0.5, rng=np.random.default_rng(1))
    made = noise.advance(720, 10.0)
    minutes = made.reshape(120, 6, 480).mean(axis=1)
    assert minutes.std() == pytest.approx(0.01, rel=0.1)
    node = minutes.reshape(120, 60, 8).mean(axis=2)
    assert node.var() / minutes.var() == pytest.approx(0.5 + 0.5 / 8, rel=0.15)
    ten = made.reshape(12, 60, 480).mean(axis=1)
    assert (ten.std() / minutes.std() > 0.9) == (slow > 0.6)
    assert weights(slow).sum() == pytest.approx(1.0)


@pytest.mark.slow
def test_a_wide_world_is_as_it_was_drawn() -> None:
    """Settings of the run are the values of its table; the same seed gives the same world."""
    runs = [render(load_scenario("H47"), 5, split="test", nodes=8, days=0.3) for _ in range(2)]
    world, again = (run.scenario.world for run in runs)
    assert world == again
    parameters = runs[0].scenario.parameters
    assert world.clock_noise == parameters["clock_noise"].nominal > 0
    assert world.stage_spread == pytest.approx(1 - 1 / parameters["stage_ratio"].nominal)
    assert [job.id for job in runs[0].topology.jobs] == [job.id for job in runs[1].topology.jobs]


@pytest.mark.slow
def test_jobs_that_hold_a_part_of_their_node_leave_the_rest_idle() -> None:
    """The GPUs that nobody has draw idle power, and no event names them."""
    scenario = load_scenario("H47")
    for seed in range(40):
        run = render(scenario, seed, split="test", nodes=8, days=0.3)
        part = next((job for job in run.topology.jobs if job.gpus < 8 and job.end_s < 7200), None)
        part = part or next((job for job in run.topology.jobs if job.gpus < 8), None)
        if part is not None and part.train_s < 6000:
            break
    assert part is not None
    (node,) = part.nodes
    host, seen = run.topology.hosts[node], 0
    for observation in run.observations():
        at_s = (observation.time_ns - run.topology.begin_ns) / 1e9
        for event in observation.events:
            if event.kind == "job_started" and event.attributes["job"] == part.id:
                assert len(str(event.attributes["gpus"]).split()) == part.gpus
                seen += 1
        if at_s > min(part.train_s + 120, part.end_s - 60):
            for frame in observation.frames:
                if frame.kind == "gpu":
                    rows = [n for n, gpu in enumerate(frame.devices) if gpu.host == host]
                    busy = frame.gauge("gpu_utilization_percent")[rows]
                    if np.isfinite(busy).all():
                        assert (busy[part.gpus :] == 0).all()
                        seen += 1
        if seen > 1:
            break
    assert seen > 1


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("sink_tau_s", [3.0, 25.0, 150.0])
@pytest.mark.parametrize("warmer_k", [0.0, 15.0])
def test_heat_of_a_healthy_world_is_held_by_the_driver(
    profile: str, sink_tau_s: float, warmer_k: float
) -> None:
    """However fast heat sinks are and however warm the room becomes, hardware halves no clock; in
    the usual air the driver holds none either.
    """
    settings = Settings(r_th_spread=0.2, front_k=16.0, inlet_daily_c=7.0, sink_tau_s=sink_tau_s)
    gpus = FleetGpus([load_profile(profile)] * 16, settings, np.random.default_rng(5))
    gpus.inlet_rise[:] = warmer_k
    step_s, ticks = 10.0, 90
    for hour in range(24):
        times_s = np.asarray(hour * 3600 + step_s * np.arange(1, ticks + 1), np.float64)
        works = np.tile((np.arange(ticks) // 30 % 2)[:, None], (1, 16))  # begins again and again
        made = gpus.advance(times_s, step_s, _demands(works))
        assert made.slowed.get(HW_THERMAL, np.zeros(1)).max() == 0
        assert warmer_k or made.slowed.get(SW_THERMAL, np.zeros(1)).max() == 0


def _demands(works: NDArray[np.int_]) -> Demands:
    """Full load where ``works`` (tick, node) is not 0, and nothing else."""
    load, none = works.astype(np.float64), np.zeros(works.shape)
    return Demands(
        idle=works == 0,
        load=load,
        waiting=works < 0,
        **dict.fromkeys(("waits", "busy", "tensor", "dram", "nvlink", "fabric"), none),
        pcie=none,
        memory=none,
    )
