"""Agents that see nothing, or see the same forever."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from simulator.fleet.events import NVML
from simulator.fleet.plan import Plan
from simulator.fleet.topology import GPUS
from simulator.fleet.world import FleetState, Process


def blind(plan: Plan) -> None:
    """F29: NVML answers nothing on a node, or the collector repeats what it read last,
    while the node works on.
    """
    for case in plan.cases():
        lasts, frozen = plan.draw("minutes") * 60, case.number % 2 == 1
        if place := plan.place(lasts, needs_s=600.0, alone=False):
            node = plan.topology.node_devices[place.node]
            members = tuple(plan.topology.gpus[place.node * GPUS + slot] for slot in range(GPUS))
            plan.truth(case, node, place.onset_s, place.onset_s + lasts, members=members)
            process = (
                partial(_frozen, node=place.node) if frozen else partial(_silent, node=place.node)
            )
            plan.inject(place.onset_s, partial(process, lasts=lasts))


def _silent(world: FleetState, *, node: int, lasts: float) -> Process:
    world.silent[NVML][node] = True
    yield lasts
    world.silent[NVML][node] = False


def _frozen(world: FleetState, *, node: int, lasts: float) -> Process:
    rows = slice(node * GPUS, (node + 1) * GPUS)
    columns = world.gpu_columns
    gauges, counters, observed = (
        block[:, rows].copy() for block in (columns.gauges, columns.counters, columns.observed)
    )

    def overlay(g: NDArray[np.float64], c: NDArray[np.uint64], o: NDArray[np.bool_]) -> None:
        g[:, rows], c[:, rows], o[:, rows] = gauges, counters, observed

    world.overlays[NVML][overlay] = overlay
    yield lasts
    del world.overlays[NVML][overlay]
