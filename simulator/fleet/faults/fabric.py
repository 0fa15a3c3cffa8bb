"""What NVML reports of GPUs in the NVLink fabric of their node: registrations that fail or end,
routes that are unhealthy, bandwidth that is degraded, and a Fabric Manager that is dead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from pipeline.finding import Severity
from simulator.fabric_reports import (
    COMPLETED,
    DEGRADED_BANDWIDTH,
    HEALTHY,
    IN_PROGRESS,
    LIMITED_CAPACITY,
    NONE,
    NVML_ERROR_UNKNOWN,
    ROUTE_RECOVERY,
    ROUTE_UNHEALTHY,
    UNHEALTHY,
)
from simulator.fleet.plan import Plan
from simulator.fleet.topology import GPUS
from simulator.fleet.world import FleetState, Process

MINUTE, HOUR = 60.0, 3600.0
READ_S = 20.0  # two readings: the detector looks at what lasts
WELL: Mapping[str, float] = {
    "fabric_state": COMPLETED,
    "fabric_error_code": 0,
    "fabric_health_mask": NONE,
    "fabric_health": HEALTHY,
}


def _mask(shift: int) -> int:
    return NONE & ~(3 << shift) | 1 << shift


@dataclass(frozen=True, slots=True)
class Trouble:
    """``gauges`` of the GPU, or of ``several`` of its node: then it is the node's. It is due
    ``after_s`` from the onset.
    """

    gauges: Mapping[str, float]
    severity: Severity
    after_s: float
    several: bool = False


TROUBLES = (
    Trouble({"fabric_error_code": NVML_ERROR_UNKNOWN}, "page", 30.0),
    Trouble({"fabric_state": IN_PROGRESS}, "page", 120.0),
    Trouble(
        {"fabric_health_mask": _mask(ROUTE_UNHEALTHY), "fabric_health": UNHEALTHY}, "page", 30.0
    ),
    Trouble(
        {"fabric_health_mask": _mask(DEGRADED_BANDWIDTH), "fabric_health": LIMITED_CAPACITY},
        "ticket",
        600.0,
    ),
    Trouble({"fabric_health_mask": _mask(ROUTE_RECOVERY)}, "ticket", 600.0),
    Trouble({"fabric_state": IN_PROGRESS}, "page", 120.0, several=True),
    Trouble({"fabric_error_code": NVML_ERROR_UNKNOWN}, "page", 30.0, several=True),
)


def fabric(plan: Plan) -> None:
    """F44: each case has the next trouble; all other GPUs are registered and healthy."""
    plan.inject(0.0, healthy)
    order = plan.rng.permutation(len(TROUBLES)).tolist()
    for case in plan.cases():
        trouble, lasts = TROUBLES[order[case.number % len(order)]], plan.draw("hours") * HOUR
        busy = plan.rng.random() < plan.draw("busy_share")
        lasts = max(lasts, trouble.after_s + 5 * MINUTE)
        place = plan.place(lasts, needs_s=trouble.after_s + 10 * MINUTE, busy=busy)
        if place is None:
            continue
        first = place.node * GPUS
        count = GPUS if plan.rng.random() < 0.5 else int(plan.rng.integers(GPUS // 2, GPUS))
        rows = [first + slot for slot in plan.rng.permutation(GPUS)[:count].tolist()]
        rows = rows if trouble.several else [place.gpu]
        devices = tuple(plan.topology.gpus[row] for row in rows)
        plan.truth(
            case,
            plan.topology.node_devices[place.node] if trouble.several else devices[0],
            place.onset_s,
            place.onset_s + lasts,
            evident_s=place.onset_s + trouble.after_s,
            kind="node" if trouble.several else "gpu",
            severity=trouble.severity,
            members=devices if trouble.several else (),
        )
        plan.inject(place.onset_s, partial(_lasts, rows=rows, trouble=trouble, lasts=lasts))


def healthy(world: FleetState) -> Process:
    """Every GPU reports that it is registered and well."""
    for name, value in WELL.items():
        world.gpu_columns.set_gauge(name, float(value))
    yield from ()


def _lasts(world: FleetState, *, rows: list[int], trouble: Trouble, lasts: float) -> Process:
    for name, value in trouble.gauges.items():
        world.gpu_columns.set_gauge(name, float(value), rows)
    yield lasts
    for name in trouble.gauges:
        world.gpu_columns.set_gauge(name, float(WELL[name]), rows)
