"""Healthy life of people: they reload drivers, swap parts, reset counters, reboot
switches and service racks.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from simulator.fleet import effects, repair
from simulator.fleet.events import JOBS
from simulator.fleet.plan import Plan
from simulator.fleet.topology import GPUS, RACK
from simulator.fleet.world import OK, UNREADABLE, FleetState, Process
from simulator.kernel_log import INFO, KernelLine

MINUTE, HOUR = 60.0, 3600.0
RELOAD_S, UPGRADE_S = 40.0, 300.0  # of a driver; meanwhile its GPUs are listed and answer nothing


def reconfigured(plan: Plan) -> None:
    """H09: between jobs an administrator locks clocks, changes the ECC mode with
    a reset, or looks at MIG.
    """
    for node, at in _idle_times(plan, "changes"):
        what = int(plan.rng.integers(3))
        plan.inject(at, partial((_lock, _ecc_mode, _mig_mode)[what], node=node))


def reloaded(plan: Plan) -> None:
    """H10: the driver is reloaded between jobs; volatile counters begin again, and the GPUs are
    counted in another order.
    """
    for number, (node, at) in enumerate(_idle_times(plan, "changes")):
        order, lasts = (
            [int(i) for i in plan.rng.permutation(GPUS)],
            RELOAD_S if number % 2 else UPGRADE_S,
        )
        plan.drain(node, at, at + lasts)
        plan.inject(at, partial(reload_driver, node=node, order=order, lasts=lasts))


def swapped(plan: Plan) -> None:
    """H11: a GPU is swapped: the node is off for an hour, another UUID stands in the same slot."""
    for number, (node, at) in enumerate(_idle_times(plan, "changes")):
        slot, off = int(plan.rng.integers(GPUS)), plan.draw("off_hours") * HOUR
        plan.drain(node, at, at + off)
        plan.inject(at, partial(_swap, node=node, slot=slot, off=off, generation=number + 1))


def counters_reset(plan: Plan) -> None:
    """H12: another tool runs ``perfquery -R`` on all ports now and then;
    PCIe byte counters wrap.
    """
    at, every = 2 * HOUR, plan.draw("hours_between") * HOUR
    plan.inject(0.0, _near_the_end)
    while at < plan.end_s:
        plan.inject(plan.on_grid(at), _perfquery_r)
        at += every


def switch_reboot(plan: Plan) -> None:
    """H13: a leaf switch is rebooted as planned: all its links go down and come back, no XIDs."""
    for number in range(plan.pick("changes")):
        at = plan.on_grid(float(plan.rng.uniform(2 * HOUR, plan.end_s - HOUR)))
        plan.inject(
            at,
            partial(
                _switch,
                rail=int(plan.rng.integers(GPUS)),
                down=plan.draw("down_s"),
                announced=number % 2 == 0,
            ),
        )


def peer_reboot(plan: Plan) -> None:
    """H14: what a port is cabled to is rebooted: it counts one link_downed, and so does
    nobody else in its node.
    """
    for _ in range(plan.pick("changes")):
        at = plan.on_grid(float(plan.rng.uniform(2 * HOUR, plan.end_s - HOUR)))
        port = int(plan.rng.integers(plan.topology.nodes * GPUS))
        plan.inject(at, partial(_port_down, port=port, down=plan.draw("down_s")))


def rolling(plan: Plan) -> None:
    """H15: rack after rack is serviced, node after node drained and rebooted, every second rack
    without a word to anybody.
    """
    at, pause = 2 * HOUR, plan.draw("minutes_between") * MINUTE
    for node in range(plan.topology.nodes):
        job = plan.job(node, at)
        if job is not None:
            job.end_s, job.outcome = (
                min(job.end_s, max(at - 2 * MINUTE, job.start_s + 1)),
                "cancelled",
            )
        plan.drain(node, at - 2 * MINUTE, at + HOUR)
        plan.inject(
            plan.on_grid(at), partial(_service, node=node, announced=(node // RACK) % 2 == 0)
        )
        at += pause
        if at > plan.end_s - HOUR:
            break


def benign_remap(plan: Plan) -> None:
    """H25: a row is marked for remapping after repeated correctable errors (XID 63); the
    GPU is reset between jobs.
    """
    for node, at in _idle_times(plan, "changes"):
        plan.inject(at, partial(_remap, gpu=node * GPUS + int(plan.rng.integers(GPUS))))


def _idle_times(plan: Plan, name: str) -> list[tuple[int, float]]:
    """Nodes and times at which no job runs: right after the ends of jobs, where there are any."""
    found: list[tuple[int, float]] = []
    wanted = plan.pick(name)
    jobs = [job for job in plan.topology.jobs if HOUR < job.end_s < plan.end_s - 2 * HOUR]
    for _ in range(wanted):
        if jobs:
            job = jobs[int(plan.rng.integers(len(jobs)))]
            found.append((int(plan.rng.choice(job.nodes)), plan.on_grid(job.end_s + plan.step_s)))
        else:
            at = plan.on_grid(float(plan.rng.uniform(HOUR, plan.end_s - HOUR)))
            found.append((int(plan.rng.integers(plan.topology.nodes)), at))
    return sorted(dict(found).items(), key=lambda place: place[1])


def _lock(world: FleetState, *, node: int) -> Process:
    rows = np.arange(node * GPUS, (node + 1) * GPUS)
    effects.lock_clocks(world, rows, 0.75)
    yield 6 * HOUR
    effects.lock_clocks(world, rows, 1.0)


def _ecc_mode(world: FleetState, *, node: int) -> Process:
    rows = slice(node * GPUS, (node + 1) * GPUS)
    world.gpu_columns.set_gauge("ecc_mode_pending", 0.0, rows)
    yield MINUTE
    for gpu in range(node * GPUS, (node + 1) * GPUS):
        effects.reset(world, gpu)
    world.gpu_columns.set_gauge("ecc_mode_pending", 1.0, rows)
    yield 0.0


def _mig_mode(world: FleetState, *, node: int) -> Process:
    rows = slice(node * GPUS, (node + 1) * GPUS)
    for name in ("mig_mode_pending", "mig_mode_current"):
        world.gpu_columns.set_gauge(name, 1.0, rows)
        yield MINUTE
    for name in ("mig_mode_pending", "mig_mode_current"):
        world.gpu_columns.set_gauge(name, 0.0, rows)
        yield MINUTE


def reload_driver(world: FleetState, *, node: int, order: list[int], lasts: float) -> Process:
    """The driver of a node is loaded again: its GPUs answer nothing, then begin again."""
    driver, host = world.topology.profile.host.driver, world.topology.node_devices[node]
    gpus = range(node * GPUS, (node + 1) * GPUS)
    for gpu in gpus:
        effects.gpu_state(world, gpu, UNREADABLE)
    effects.kernel(world, node, host, KernelLine(INFO, "nvidia-modeset: Unloading"), after_s=0.2)
    yield lasts
    text = f"NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  {driver}  Release Build"
    effects.kernel(world, node, host, KernelLine(INFO, text), after_s=0.2)
    repair.reload_driver(world, node, order)
    for gpu in gpus:
        effects.gpu_state(world, gpu, OK)


def _swap(world: FleetState, *, node: int, slot: int, off: float, generation: int) -> Process:
    repair.power(world, node, on=False)
    yield off
    repair.swap(world, node * GPUS + slot, generation)
    repair.reboot(world, node)
    repair.power(world, node, on=True)


def _near_the_end(world: FleetState) -> Process:
    """PCIe byte counters that wrap within the day."""
    for name in ("pcie_transmit_bytes", "pcie_receive_bytes"):
        world.gpu_columns.set_counter(name, 2**64 - 10**13)
    yield 0.0


def _perfquery_r(world: FleetState) -> Process:
    for port in range(world.ports.count):
        repair.clear_port(world, port)
    yield 0.0


def _switch(world: FleetState, *, rail: int, down: float, announced: bool) -> Process:
    ports = [node * GPUS + rail for node in range(world.topology.nodes)]
    nodes = sorted({port // GPUS for port in ports})
    if announced:
        for node in nodes:
            device = world.port_columns.devices[node * GPUS + rail]
            world.happenings.tell(
                JOBS, device, "maintenance_started", world.when(node), {"reason": "switch firmware"}
            )
        yield MINUTE
    for port in ports:
        effects.link(world, port, up=False)
    yield down
    for port in ports:
        other = world.ports.other(port)
        if other is not None:  # the switch's own counters are gone with its power
            repair.clear_port(world, other)
        effects.link(world, port, up=True)
    if announced:
        yield 10 * MINUTE
        for node in nodes:
            device = world.port_columns.devices[node * GPUS + rail]
            world.happenings.tell(JOBS, device, "maintenance_ended", world.when(node))


def _port_down(world: FleetState, *, port: int, down: float) -> Process:
    effects.link(world, port, up=False)
    other = world.ports.other(port)
    yield down
    if other is not None:
        repair.clear_port(world, other)
    effects.link(world, port, up=True)


def _service(world: FleetState, *, node: int, announced: bool) -> Process:
    if announced:
        world.tell_node(
            JOBS, node, "maintenance_started", {"reason": "kernel update", "seconds": 1800}
        )
        yield MINUTE
    repair.power(world, node, on=False)
    yield repair.BOOT_S
    repair.reboot(world, node)
    repair.power(world, node, on=True)
    if announced:
        yield 10 * MINUTE
        world.tell_node(JOBS, node, "maintenance_ended")


def _remap(world: FleetState, *, gpu: int) -> Process:
    effects.ecc(world, gpu, corrected=True, count=3)
    effects.remap(world, gpu, corrected=True)
    effects.xid(world, gpu, 63, after_s=0.5)
    yield 5 * MINUTE
    effects.reset(world, gpu)
