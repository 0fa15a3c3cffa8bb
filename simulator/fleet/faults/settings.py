"""Nodes and devices that differ from nearly all of their model: older images and firmware, and
modes that somebody left behind.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from pipeline.frame import Device
from simulator.fleet import effects, repair
from simulator.fleet.plan import Plan
from simulator.fleet.topology import GPUS
from simulator.fleet.truth import EntityKind
from simulator.fleet.world import FleetState, Process

HOUR = 3600.0
SHOWN_S = 26 * HOUR  # a repair of that day may take so long
OLDER = (1, 2)  # major versions


def differs(plan: Plan) -> None:
    """F88: each case another fact, in turn; it stays until the run ends."""
    for case in plan.cases():
        kind, change = CHANGES[case.number % len(CHANGES)]
        if place := plan.place(plan.end_s, needs_s=SHOWN_S + 2 * HOUR, busy=False, alone=False):
            by = int(plan.rng.choice(OLDER))
            topology = plan.topology
            device = {
                "node": topology.node_devices[place.node],
                "gpu": topology.gpus[place.gpu],
                "port": topology.ports[place.gpu],
            }[kind]
            plan.truth(case, device, place.onset_s, plan.end_s, kind=kind)
            plan.inject(place.onset_s, partial(change, row=place.gpu, by=by))


def older(version: str, by: int) -> str:
    """A version that is so many major ones older.

    >>> older("580.95.05", 2), older("96.00.A5.00.01", 1)
    ('578.95.05', '95.00.A5.00.01')
    """
    return re.sub(r"\d+", lambda number: str(int(number[0]) - by), version, count=1)


def _image(world: FleetState, *, row: int, by: int, fact: str) -> Process:
    """A node is booted from an older image, or a board with an older BIOS was put in."""
    node = row // GPUS
    repair.reboot(world, node)
    for columns in world.node_columns.values():
        device = columns.devices[node]
        facts = {**device.attributes, fact: older(device.attributes[fact], by)}
        columns.replace(node, Device(device.host, device.kind, device.id, facts))
    yield 0.0


def _driver(world: FleetState, *, row: int, by: int) -> Process:
    first = row // GPUS * GPUS
    for gpu in range(first, first + GPUS):
        before = world.gpu_columns.devices[gpu].attributes["driver_version"]
        effects.describe(world, gpu, driver_version=older(before, by))
    yield 0.0


def _vbios(world: FleetState, *, row: int, by: int) -> Process:
    before = world.gpu_columns.devices[row].attributes["vbios"]
    effects.describe(world, row, vbios=older(before, by))
    yield 0.0


def _ecc_off(world: FleetState, *, row: int, by: int) -> Process:
    world.gpu_columns.set_gauge("ecc_mode_pending", 0.0, row)
    yield 60.0 * by  # until it is reset
    effects.reset(world, row)
    world.gpu_columns.set_gauge("ecc_mode_current", 0.0, row)
    yield 0.0


def _firmware(world: FleetState, *, row: int, by: int) -> Process:
    device = world.port_columns.devices[row]
    facts = {**device.attributes, "firmware": older(device.attributes["firmware"], by)}
    world.port_columns.replace(row, Device(device.host, device.kind, device.id, facts))
    yield 0.0


Change = Callable[..., Process]
CHANGES: tuple[tuple[EntityKind, Change], ...] = (
    ("node", _driver),
    ("gpu", _vbios),
    ("port", _firmware),
    ("node", partial(_image, fact="kernel")),
    ("gpu", _ecc_off),
    ("node", partial(_image, fact="bios_version")),
)
