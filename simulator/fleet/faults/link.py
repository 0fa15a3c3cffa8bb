"""InfiniBand links: bit errors that rise, links that flap, counters that are full, lanes that are
lost, adapters that die, congestion.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

from simulator.fleet import effects
from simulator.fleet.demand import RUNS
from simulator.fleet.plan import Case, Plan
from simulator.fleet.topology import GPUS, POD
from simulator.fleet.world import FleetState, Process
from simulator.kernel_log import mlx5_health
from simulator.links import HEALTHY_BER

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
WORST_BER, EVIDENT_BER = 1e-11, 1e-13
RAMP_STEP_S = 60.0
FLAPS, WINDOW_S = 3, 6 * HOUR  # a link that went down so often within so long flaps
SLOW_FLAPS, SLOW_WINDOW_S = 5, 7 * DAY
FULL_16, FULL_8 = 65535, 255
NEARLY = 12  # errors before the register is full
Ends = Literal["both", "near", "far"]


def rising_errors(plan: Plan) -> None:
    """F19: the bit error ratio of a link rises by five orders of magnitude;
    both ends receive errors.
    """
    _ramps(plan, ("both",), "link")


def dirty_fibre(plan: Plan) -> None:
    """F21: the same at one end only: the other direction is clean."""
    _ramps(plan, ("near", "far"), "port")


def _ramps(plan: Plan, kinds: tuple[Ends, ...], kind: Literal["link", "port"]) -> None:
    orders, evident_at = math.log10(WORST_BER / HEALTHY_BER), math.log10(EVIDENT_BER / HEALTHY_BER)
    for case in plan.cases():
        ramp = case.magnitude * HOUR
        evident = ramp * evident_at / orders
        lasts = ramp + 4 * HOUR
        if place := plan.place(
            min(lasts, plan.end_s - 2 * HOUR),
            needs_s=min(evident + 1.2 * HOUR, plan.end_s - 2 * HOUR),
            busy=False,
            alone=False,
        ):
            ends = kinds[case.number % len(kinds)]
            near, far = plan.topology.ports[place.gpu], plan.topology.switch_ports[place.gpu]
            plan.truth(
                case,
                far if ends == "far" else near,
                place.onset_s,
                place.onset_s + lasts,
                evident_s=place.onset_s + evident,
                members=(near, far) if ends == "both" else (),
                kind=kind,
            )
            plan.inject(place.onset_s, partial(worsen, port=place.gpu, ends=ends, ramp=ramp))


def flapping(plan: Plan) -> None:
    """F20: a link goes down and comes back so many times a day; both ends count it."""
    for case in plan.cases():
        length = min(plan.end_s - 2 * HOUR, 2 * DAY if case.magnitude >= 4 else 6 * DAY)
        downs, at = list[tuple[float, float]](), 0.0
        while at < length:
            downs.append((at, plan.draw("down_s")))
            at += downs[-1][1] + max(float(plan.rng.exponential(DAY / case.magnitude)), 2 * MINUTE)
        ups = [at + down for at, down in downs]
        counted = _reached(ups, FLAPS, WINDOW_S) or _reached(ups, SLOW_FLAPS, SLOW_WINDOW_S)
        needs = min(length, (counted or length) + HOUR)
        if place := plan.place(length, needs_s=needs, busy=False, alone=False):
            _flapping(
                plan,
                case,
                place.gpu,
                [(plan.on_grid(place.onset_s + at), down) for at, down in downs],
            )


def _flapping(plan: Plan, case: Case, port: int, downs: list[tuple[float, float]]) -> None:
    ups = [at + down for at, down in downs]
    fast = _reached(ups, FLAPS, WINDOW_S)
    slow = _reached(ups, SLOW_FLAPS, SLOW_WINDOW_S)
    link = plan.topology.ports[port]
    members = (link, plan.topology.switch_ports[port])
    if fast is not None:
        plan.truth(case, link, downs[0][0], ups[-1], evident_s=fast, members=members)
    elif slow is not None:
        plan.truth(
            case, link, downs[0][0], ups[-1], evident_s=slow, severity="ticket", members=members
        )
    else:
        plan.truth(
            case,
            link,
            downs[0][0],
            ups[-1],
            detect_by_s=math.inf,
            severity="record",
            members=members,
        )
    for at, down in downs:
        plan.inject(at, partial(_flap, port=port, down=down))


def _reached(times: list[float], wanted: int, window: float) -> float | None:
    """When so many had happened within a window for the first time.

    >>> _reached([0.0, 10.0, 30.0, 35.0], 3, 26.0)
    35.0
    """
    for last in range(wanted - 1, len(times)):
        if times[last] - times[last - wanted + 1] <= window:
            return times[last]
    return None


def full_counter(plan: Plan) -> None:
    """F22: a counter reaches the end of its register and says nothing any more;
    there is no 64-bit twin.
    """
    struck: set[int] = set()  # what is full stays full: a second time there is nothing to tell
    for case in plan.cases():
        if place := plan.place(
            plan.end_s / 2,
            needs_s=HOUR,
            busy=False,
            alone=False,
            fits=lambda place: place.gpu not in struck,
        ):
            struck.add(place.gpu)
            name, full = (("symbol_errors", FULL_16), ("link_downed", FULL_8))[case.number % 2]
            plan.truth(case, plan.topology.ports[place.gpu], place.onset_s, plan.end_s)
            plan.inject(0.0, partial(_nearly, port=place.gpu, name=name, value=full - NEARLY))
            plan.inject(place.onset_s, partial(_fill, port=place.gpu, name=name))


def lost_lanes(plan: Plan) -> None:
    """F23: half the lanes of an InfiniBand link, or an NVLink of a GPU with its XID 74."""
    for case in plan.cases():
        dies, lasts = case.number % 2 == 1, plan.draw("hours") * HOUR
        place = plan.place(
            lasts, needs_s=1.1 * HOUR, busy=dies, alone=False, kills_s=60.0 if dies else None
        )
        if place is None:
            continue
        gpu, end = plan.topology.gpus[place.gpu], place.onset_s + lasts
        if dies:
            plan.truth(case, gpu, place.onset_s, end, fault="nvlink", kind="link", members=(gpu,))
            plan.inject(
                place.onset_s,
                partial(_nvlink, gpu=place.gpu, link=int(plan.rng.integers(18)), lasts=lasts),
            )
            plan.kill(place.job, place.onset_s + 60)
        else:
            ends = plan.topology.ports[place.gpu], plan.topology.switch_ports[place.gpu]
            plan.truth(case, ends[0], place.onset_s, end, fault="ib", members=ends)
            plan.inject(place.onset_s, partial(_half, port=place.gpu, lasts=lasts))


def congestion(plan: Plan) -> None:
    """F24: the ports of one leaf switch wait for credits all the time; no errors."""
    for case in plan.cases():
        lasts = plan.draw("minutes") * MINUTE
        for _ in range(50):
            onset, rail = (
                plan.on_grid(float(plan.rng.uniform(5400, plan.end_s - lasts))),
                int(plan.rng.integers(GPUS)),
            )
            nodes = range(min(POD, plan.topology.nodes))
            if plan.claim(nodes, onset, onset + lasts):
                ports = [node * GPUS + rail for node in nodes]
                members = tuple(plan.topology.ports[port] for port in ports) + tuple(
                    plan.topology.switch_ports[p] for p in ports
                )
                plan.truth(case, plan.topology.leaf(0, rail), onset, onset + lasts, members=members)
                plan.inject(onset, partial(_wait, ports=ports, share=case.magnitude, lasts=lasts))
                break
        else:
            plan.skipped += 1


def adapter_lost(plan: Plan) -> None:
    """F28: an adapter's firmware dies: a line of mlx5_core, the link goes down, in most
    cases the adapter vanishes.
    """
    for case in plan.cases():
        lasts = plan.draw("hours") * HOUR
        if place := plan.place(lasts, needs_s=600.0):
            port, gone = plan.topology.ports[place.gpu], case.number % 3 > 0
            plan.truth(
                case, port, place.onset_s, place.onset_s + lasts, evident_s=place.onset_s + 0.5
            )
            plan.inject(place.onset_s, partial(_dies, port=place.gpu, gone=gone, lasts=lasts))
            plan.kill(place.job, place.onset_s + float(plan.rng.uniform(30, 600)))


def worsen(world: FleetState, *, port: int, ends: Ends, ramp: float) -> Process:
    """Bit errors of what these ends of a link receive rise for ``ramp`` seconds, and stay."""
    other = world.ports.other(port)
    near, far = [port], [] if other is None else [other]
    receive = {"both": near + far, "near": near, "far": far}[ends]
    steps = max(1, round(ramp / RAMP_STEP_S))
    for step in range(1, steps + 1):
        world.ports.ber[receive] = HEALTHY_BER * (WORST_BER / HEALTHY_BER) ** (step / steps)
        yield ramp / steps
    # Every so many symbols a whole packet is lost.
    for end in receive:
        effects.rate(world.ports.rates, "receive_errors", end, 0.01)


def _flap(world: FleetState, *, port: int, down: float) -> Process:
    effects.link(world, port, up=False)
    job = world.job_of(port)
    effects.stall(world, port)
    yield down
    effects.link(world, port, up=True)
    if job is not None and world.job_of(port) is job:
        world.work.mode[list(job.nodes)] = RUNS


def _nearly(world: FleetState, *, port: int, name: str, value: int) -> Process:
    world.port_columns.set_counter(name, value, port)
    yield 0.0


def _fill(world: FleetState, *, port: int, name: str) -> Process:
    if name == "symbol_errors":
        effects.count(world, port, name, NEARLY)
        yield 0.0
        return
    for _ in range(NEARLY):
        effects.count(world, port, name)
    yield 0.0


def _half(world: FleetState, *, port: int, lasts: float) -> Process:
    ends = [end for end in (port, world.ports.other(port)) if end is not None]
    for end in ends:
        effects.show_port(world, end, width=2.0, rate=0.5)
    yield lasts
    for end in ends:
        effects.show_port(world, end)


def _nvlink(world: FleetState, *, gpu: int, link: int, lasts: float) -> Process:
    links = world.topology.profile.nvlink.links
    effects.xid(world, gpu, 74, after_s=0.5, link=link)
    world.gpu_columns.set_gauge("nvlinks_up", links - 1.0, gpu)
    world.gpu_columns.set_gauge("nvlinks_down", 1.0, gpu)
    yield lasts
    world.gpu_columns.set_gauge("nvlinks_up", float(links), gpu)
    world.gpu_columns.set_gauge("nvlinks_down", 0.0, gpu)


def _wait(world: FleetState, *, ports: list[int], share: float, lasts: float) -> Process:
    ends = ports + [end for port in ports if (end := world.ports.other(port)) is not None]
    world.ports.wait[ends] = share * effects.WAIT_TICKS_PER_S
    yield lasts
    world.ports.wait[ends] = 0.0


def _dies(world: FleetState, *, port: int, gone: bool, lasts: float) -> Process:
    model, node, rail = world.topology.profile.ports, port // GPUS, port % GPUS
    effects.kernel(
        world, node, world.port_columns.devices[port], mlx5_health(model.pci[rail]), after_s=0.4
    )
    effects.link(world, port, up=False)
    effects.stall(world, port)
    yield 10.0
    if gone:
        effects.port_present(world, port, present=False)
    yield lasts
    effects.port_present(world, port, present=True)
    effects.link(world, port, up=True)
