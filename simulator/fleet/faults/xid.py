"""The driver speaks: GPUs that fall off the bus, firmware that no longer answers, programs that
fail, bursts in which one code hides another.
"""

from __future__ import annotations

from functools import partial

from simulator.fleet import effects
from simulator.fleet.plan import Case, Plan, TopologyNode
from simulator.fleet.repair import reboot
from simulator.fleet.topology import GPUS
from simulator.fleet.world import HUNG, LOST, OK, FleetState, Process
from simulator.kernel_log import fallen_off_the_bus

HOUR = 3600.0
# codes of one burst are at most so far apart (NVIDIA's advice on reading XIDs;
# facts of the rule under test)
BURST_S = 180.0
WATCHDOG_S = 600.0
# Codes of one trouble in the order the driver printed them, how loud it should be, and
# the action of its XID 154.
MASKED = (
    ((62, 45, 45), "page", 1),
    ((48, 45, 94), "ticket", 0),
    ((119, 45), "page", 1),
    ((79, 45), "page", 2),
    ((95, 45, 43), "page", 1),
)


def lost(plan: Plan) -> None:
    """F06: a GPU falls off the bus; with the kernel log 10 s are enough, without it the
    driver's answers have to do.
    """
    for case in plan.cases():
        repair = plan.draw("repair_hours") * HOUR
        if place := plan.place(repair + HOUR, needs_s=HOUR):
            log = plan.rng.random() < 0.7
            plan.truth(
                case,
                plan.topology.gpus[place.gpu],
                place.onset_s,
                place.onset_s + repair,
                evident_s=place.onset_s + 0.5,
                detect_by_s=None if log else 60.0,
            )
            plan.inject(
                place.onset_s,
                partial(
                    _lost, gpu=place.gpu, log=log, repair=repair, bare=bool(plan.rng.random() < 0.5)
                ),
            )
            plan.kill(place.job, place.onset_s + float(plan.rng.uniform(10, WATCHDOG_S)))
            plan.drain(place.node, place.onset_s, place.onset_s + repair)


def gsp(plan: Plan) -> None:
    """F07: the GPU's system processor no longer answers: XID 119 or 120,
    slow and then hanging calls.
    """
    for case in plan.cases():
        repair = plan.draw("repair_hours") * HOUR
        if place := plan.place(repair + HOUR, needs_s=HOUR):
            plan.truth(
                case,
                plan.topology.gpus[place.gpu],
                place.onset_s,
                place.onset_s + repair,
                evident_s=place.onset_s + 0.5,
            )
            plan.inject(
                place.onset_s,
                partial(_gsp, gpu=place.gpu, code=int(plan.rng.choice((119, 120))), repair=repair),
            )
            plan.kill(place.job, place.onset_s + float(plan.rng.uniform(10, WATCHDOG_S)))
            plan.drain(place.node, place.onset_s, place.onset_s + repair)


def programs(plan: Plan) -> None:
    """F08: the same fault of a program on ever other GPUs (the job is to blame), or on one and the
    same unit of one GPU (it is to blame).
    """
    # a day later a job is still known for it: there is nothing to tell of it
    struck: set[str] = set()
    for case in plan.cases():
        between = plan.draw("hours_between") * HOUR
        code, bursts = int(plan.rng.choice((13, 31))), plan.pick("bursts")
        hardware = case.number % 2 == 0
        lasts = (bursts - 1) * between + BURST_S
        if place := plan.place(
            lasts,
            needs_s=between + 600,
            nodes=2,
            stays_s=between + 600,
            fits=lambda place: place.job is not None and place.job.id not in struck,
        ):
            assert place.job is not None  # noqa: S101 - busy places have one
            struck.add(place.job.id)
            _programs(plan, case, place, (code, bursts, between, hardware))


def _programs(
    plan: Plan, case: Case, place: TopologyNode, what: tuple[int, int, float, bool]
) -> None:
    code, bursts, between, hardware = what
    job = place.job
    assert job is not None  # noqa: S101 - busy places have one
    second, end = place.onset_s + between, place.onset_s + (bursts - 1) * between + BURST_S
    members = tuple(
        plan.topology.gpus[node * GPUS + slot] for node in job.nodes for slot in range(GPUS)
    )
    if hardware:
        plan.truth(
            case,
            plan.topology.gpus[place.gpu],
            place.onset_s,
            end,
            evident_s=second,
            from_evidence=True,
        )
        victims = [[place.gpu]] * bursts
    else:
        plan.truth(case, job.id, place.onset_s, end, evident_s=second, kind="job", members=members)
        rows = [node * GPUS + slot for node in job.nodes for slot in range(GPUS)]
        chosen = plan.rng.permutation(rows).tolist()
        victims = [chosen[3 * burst % len(chosen) :][:3] for burst in range(bursts)]
    plan.inject(
        place.onset_s, partial(_bursts, victims=victims, code=code, between=between, same=hardware)
    )


def masked(plan: Plan) -> None:
    """F09: a burst of codes of which the last is the least; the order is the driver's mood."""
    for case in plan.cases():
        codes, severity, action = MASKED[case.number % len(MASKED)]
        if place := plan.place(2 * HOUR, needs_s=HOUR):
            shuffled = [codes[i] for i in plan.rng.permutation(len(codes))]
            spread = plan.draw("spread_s")
            plan.truth(
                case,
                plan.topology.gpus[place.gpu],
                place.onset_s,
                place.onset_s + HOUR,
                evident_s=place.onset_s + 0.5 + spread,
                severity="page" if severity == "page" else "ticket",
            )
            plan.inject(
                place.onset_s,
                partial(_masked, gpu=place.gpu, codes=shuffled, spread=spread, action=action),
            )
            plan.kill(place.job, place.onset_s + 30)
            plan.drain(place.node, place.onset_s, place.onset_s + HOUR)


def _lost(world: FleetState, *, gpu: int, log: bool, repair: float, bare: bool) -> Process:
    node, device = gpu // GPUS, world.gpu_columns.devices[gpu]
    world.kmsg[node] = log
    if bare:
        effects.kernel(
            world,
            node,
            device,
            fallen_off_the_bus(world.topology.profile.gpu.pci[gpu % GPUS]),
            after_s=0.4,
        )
    effects.xid(world, gpu, 79, after_s=0.5, nvml=log)
    effects.gpu_state(world, gpu, LOST)
    effects.stall(world, gpu)
    effects.recover(world, gpu, 2, after_s=2.5)
    yield 30.0
    for peer in range(node * GPUS, (node + 1) * GPUS):
        if peer != gpu:
            effects.xid(world, peer, 45)
    yield repair - 30.0
    world.kmsg[node] = world.scenario.world.kmsg
    reboot(world, node)
    effects.gpu_state(world, gpu, OK)


def _gsp(world: FleetState, *, gpu: int, code: int, repair: float) -> Process:
    device = world.gpu_columns.devices[gpu]
    effects.xid(world, gpu, code, after_s=0.5)
    world.read_ns += 10 * 45_000_000
    yield 10.0
    effects.xid(world, gpu, 119, after_s=0.5)
    effects.recover(world, gpu, 1, after_s=1.0)
    world.happenings.tell(
        "nvml",
        device,
        "driver_hang",
        world.when(gpu // GPUS),
        {"call": "nvmlDeviceGetPowerUsage", "seconds": 6.0},
    )
    effects.gpu_state(world, gpu, HUNG)
    effects.stall(world, gpu)
    world.read_ns -= 10 * 45_000_000
    yield repair - 10.0
    effects.reset(world, gpu)
    effects.gpu_state(world, gpu, OK)


def _bursts(
    world: FleetState, *, victims: list[list[int]], code: int, between: float, same: bool
) -> Process:
    for gpus in victims:
        for gpu in gpus:
            gpc, tpc = (3, 5) if same else (int(world.rng.integers(8)), int(world.rng.integers(9)))
            effects.xid(
                world,
                gpu,
                code,
                after_s=float(world.rng.uniform(0, 5)),
                gpc=gpc,
                tpc=tpc,
                count=int(world.rng.integers(1, 20)),
            )
            effects.xid(world, gpu, 43, after_s=6.0)
        yield between


def _masked(
    world: FleetState, *, gpu: int, codes: list[int], spread: float, action: int
) -> Process:
    if 48 in codes:
        effects.ecc(world, gpu, corrected=False)
        effects.remap(world, gpu)
    for place, code in enumerate(codes):
        effects.xid(world, gpu, code, after_s=0.5 + spread * place / max(len(codes) - 1, 1))
    if action:
        effects.recover(world, gpu, action, after_s=0.5 + spread)
    if 79 in codes:
        effects.gpu_state(world, gpu, LOST)
    yield HOUR
    effects.reset(world, gpu)
    effects.gpu_state(world, gpu, OK)
