"""A healthy fleet whose jobs are short, so that many end in a few hours, each in its way."""

from __future__ import annotations

from dataclasses import replace

from simulator.fleet import Run, load_scenario, render

DEATHS, HEALTHY = "deaths", "H00"
HOURS = (0.3, 0.6)


def short_jobs(seed: int, nodes: int, days: float, step_s: float = 30.0) -> Run:
    """Jobs of half an hour on one or two nodes."""
    scenario = load_scenario(HEALTHY)
    world = replace(
        scenario.world, job_hours_low=HOURS[0], job_hours_high=HOURS[1], job_gpus=8.0,
        job_gpus_sigma=0.5, gap_low_s=120.0, gap_high_s=300.0, init_low_s=60.0, init_high_s=120.0,
    )  # fmt: skip
    return render(replace(scenario, world=world), seed, step_s=step_s, days=days, nodes=nodes)
