"""PCIe links that lost lanes or speed, or send everything twice."""

from __future__ import annotations

from functools import partial

from simulator.fleet import effects
from simulator.fleet.plan import Plan
from simulator.fleet.topology import GPUS
from simulator.fleet.world import FleetState, Process
from simulator.kernel_log import aer_corrected

HOUR = 3600.0
# replays of a x16 link of generation 5 (0.48 per lane of generation 3, doubled by each)
ALLOWED_PER_MINUTE = 31.0
LANES = (8, 4)
BY_S = 180.0  # of load, where the generation drops: a link that rests is slow in health


def links(plan: Plan) -> None:
    """F18: a GPU with fewer lanes, a lower generation under load, or a storm of replays; an adapter
    with fewer lanes or a lower generation.
    """
    for case in plan.cases():
        lasts, what = plan.draw("hours") * HOUR, case.number % 5
        if place := plan.place(lasts, needs_s=1200.0, stays_s=1200.0, alone=False):
            replays, slow, adapter = what == 2, what == 1, what > 2
            plan.truth(
                case,
                (plan.topology.ports if adapter else plan.topology.gpus)[place.gpu],
                place.onset_s,
                place.onset_s + lasts,
                kind="port" if adapter else None,
                severity="ticket" if replays else "page",
                detect_by_s=600.0
                if replays
                else plan.until_seen(place, BY_S, "train", "eval")
                if slow
                else BY_S,
            )
            per_s = case.magnitude * ALLOWED_PER_MINUTE / 60
            process = (
                partial(_lanes, width=int(plan.rng.choice(LANES))),
                partial(_generation, generation=int(plan.rng.integers(1, 5))),
                partial(storm, per_s=per_s),
                partial(_adapter, what="width", left=float(plan.rng.choice(LANES))),
                partial(_adapter, what="generation", left=float(plan.rng.integers(1, 5))),
            )[what]
            plan.inject(place.onset_s, partial(process, gpu=place.gpu, lasts=lasts))


def _lanes(world: FleetState, *, gpu: int, width: int, lasts: float) -> Process:
    world.gpu_columns.set_gauge("pcie_width_current", float(width), gpu)
    yield lasts
    world.gpu_columns.set_gauge(
        "pcie_width_current", float(world.topology.profile.gpu.pcie_width), gpu
    )


def _generation(world: FleetState, *, gpu: int, generation: int, lasts: float) -> Process:
    full = world.gpus.pcie_generation[gpu]
    world.gpus.pcie_generation[gpu] = generation
    yield lasts
    world.gpus.pcie_generation[gpu] = full


def _adapter(world: FleetState, *, gpu: int, what: str, left: float, lasts: float) -> Process:
    """The adapter on the GPU's rail: its link is read as the kernel states
    it, at rest and under load.
    """
    columns = world.port_columns
    full = float(columns.gauges[columns.schema.gauge_row[f"pcie_{what}_maximum"], gpu])
    columns.set_gauge(f"pcie_{what}_current", left, gpu)
    yield lasts
    columns.set_gauge(f"pcie_{what}_current", full, gpu)


def storm(world: FleetState, *, gpu: int, per_s: float, lasts: float) -> Process:
    """Replays by the Poisson law, and the kernel's AER lines about corrected errors."""
    pci = f"{world.topology.profile.gpu.pci[gpu % GPUS]}.0"
    for line in aer_corrected(pci):
        effects.kernel(world, gpu // GPUS, world.gpu_columns.devices[gpu], line, after_s=1.0)
    effects.rate(world.gpu_rates, "pcie_replays", gpu, per_s)
    effects.rate(world.gpu_rates, "pcie_correctable_errors", gpu, per_s)
    yield lasts
    effects.rate(world.gpu_rates, "pcie_replays", gpu, 0.0)
    effects.rate(world.gpu_rates, "pcie_correctable_errors", gpu, 0.0)
